//! Keys and values of our settings, as they are written into a file.

use std::path::Path;

use super::Dialect;

/// A text between quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A list of texts.
pub(super) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

/// `key = value` without its value.
pub(super) fn without_value(text: &str) -> &str {
    text.split_once(" = ").map_or(text, |(key, _)| key)
}

/// The whole file: what all sessions say alike stands in `[defaults]`.
pub(super) fn file(path: &Path, dialect: Dialect, sessions: &[Vec<(String, String)>]) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().escape_debug().to_string());
    let mut text = format!("# From {}, a file of {dialect}.\n", name.unwrap_or_default());
    let first = sessions.first().map_or(&[][..], |first| first);
    let is_common = |key: &(String, String)| {
        sessions.len() > 1 && sessions.iter().all(|session| session.contains(key))
    };
    let line = |(key, value): &(String, String)| format!("{key} = {value}\n");
    let common: String = first.iter().filter(|key| is_common(key)).map(line).collect();
    if !common.is_empty() {
        text += &format!("\n[defaults]\n{common}");
    }
    for session in sessions {
        text += "\n[[session]]\n";
        text.extend(session.iter().filter(|key| !is_common(key)).map(line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_read_back() {
        for text in ["a", "a\"b\\c", "# [x] = 'y'", "\u{7}\t\u{85}", "\u{e9}\u{20ac}"] {
            let read: toml::Table = toml::from_str(&format!("a = {}", quoted(text))).unwrap();
            assert_eq!(read["a"].as_str(), Some(text));
        }
    }
}
