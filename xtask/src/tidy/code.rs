//! Finds the code and the functions in Rust source, ignoring comments and literals.
//!
//! This is not a parser: it knows just enough syntax to count lines and find words.

/// Returns the text with comments, string literals and character literals replaced by blanks. Line
/// breaks are kept.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => line_end(&chars, at),
            ('/', Some('*')) => comment_end(&chars, at),
            ('"', _) => string_end(&chars, at),
            ('r', Some('"' | '#')) if !is_word(&chars, at) => raw_string_end(&chars, at),
            ('\'', _) => char_end(&chars, at),
            _ => at,
        };
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

fn line_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|&c| c == '\n').map_or(chars.len(), |length| at + length)
}

fn comment_end(chars: &[char], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], start: usize) -> usize {
    let hashes = chars[start + 1..].iter().take_while(|&&c| c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        // `r#` without a quote begins a raw identifier, not a string.
        return start;
    }
    let mut at = open + 1;
    while at < chars.len() {
        let closing = chars[at + 1..].iter().take_while(|&&c| c == '#').take(hashes).count();
        if chars[at] == '"' && closing == hashes {
            return at + 1 + hashes;
        }
        at += 1;
    }
    chars.len()
}

/// Returns the end of a character literal; returns `at` if the quote begins a lifetime.
fn char_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => {
            let close = chars[at + 3..].iter().position(|&c| c == '\'');
            close.map_or(chars.len(), |length| at + 3 + length + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// Returns true if the character before `at` belongs to a word. A single `b` or `c` is the prefix
/// of a literal and does not count.
fn is_word(chars: &[char], at: usize) -> bool {
    let ident = |at: usize| chars[at].is_alphanumeric() || chars[at] == '_';
    match at.checked_sub(1) {
        Some(before) if ident(before) => {
            !matches!(chars[before], 'b' | 'c') || before.checked_sub(1).is_some_and(ident)
        }
        _ => false,
    }
}

/// A function in a source file: its name, its first line, and its number of code lines.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'c> {
    pub(crate) name: &'c str,
    pub(crate) line: usize,
    pub(crate) code_lines: usize,
}

/// Returns the functions that have a body; `code` must be free of comments and literals.
pub(crate) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    for (start, _) in words(code, "fn") {
        let rest = code[start + 2..].trim_start();
        let name_length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
        // `fn(` without a name is a function pointer type.
        if let Some(end) = (name_length > 0).then(|| body_end(code, start)).flatten() {
            let lines = code[start..end].lines().filter(|line| !line.trim().is_empty());
            functions.push(Function {
                name: &rest[..name_length],
                line: line_of(code, start),
                code_lines: lines.count(),
            });
        }
    }
    functions
}

/// Returns the end of the body of the function at `start`, or `None` without a body.
fn body_end(code: &str, start: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => braces += 1,
            b'}' => braces -= 1,
            b';' if brackets == 0 && braces == 0 => return None,
            _ => continue,
        }
        if byte == b'}' && braces <= 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the offset and line of each occurrence of `word` as a whole word.
pub(crate) fn words<'c>(
    code: &'c str,
    word: &'c str,
) -> impl Iterator<Item = (usize, usize)> + use<'c> {
    let ident = |c: char| c.is_alphanumeric() || c == '_';
    let whole = move |&(at, _): &(usize, &str)| {
        !code[..at].ends_with(ident) && !code[at + word.len()..].starts_with(ident)
    };
    code.match_indices(word).filter(whole).map(|(at, _)| (at, line_of(code, at)))
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("{ \" }")"#, "f(        )"),
            ("r#\"fn \" x\"# y", "            y"),
            ("br\"{\" y", "b     y"),
            ("'{' 'a '\\'' '\\u{1F}' &'static", "    'a               &'static"),
            ("r#type bar\"{\"", "r#type bar   "),
            ("\"open", "     "),
        ];
        for (text, expected) in cases {
            assert_eq!(code_of(text), expected, "{text}");
        }
    }

    #[test]
    fn functions_are_found_and_measured() {
        let text = "fn a() {}\ntrait T { fn b(&self, n: [u8; 4]); }\ntype F = fn(u8);\n\
                    pub fn c<const N: usize>() -> [u8; N] {\n    if x { y }\n\n\
                    \x20   // why\n    z\n}\n";
        let code = code_of(text);
        let found: Vec<_> =
            functions(&code).iter().map(|f| (f.name, f.line, f.code_lines)).collect();
        assert_eq!(found, [("a", 1, 1), ("c", 4, 4)]);
    }

    #[test]
    fn words_are_whole() {
        let code = "unsafe_code unsafe { } not_unsafe\nunsafe";
        let lines: Vec<usize> = words(code, "unsafe").map(|(_, line)| line).collect();
        assert_eq!(lines, [1, 2]);
    }
}
