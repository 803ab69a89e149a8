//! Counterparty values formatted for one line of a log or a screen.
//!
//! Invariants: the text contains no control characters and no bidirectional formatting characters,
//! so a value cannot imitate another line or part of a line. Two values that differ within the
//! limit have different texts.

use alloc::vec::Vec;
use core::fmt::{self, Write};

use crate::SOH;

/// Maximum length of a value in a log line, in bytes.
pub const SHOWN_BYTES_MAX: usize = 100;

/// Formats bytes as escaped text.
///
/// Escapes are `\n`, `\r`, `\t` and `\\`, `\xNN` for other control characters and non-UTF-8 bytes,
/// and `\u{NNNN}` for bidirectional formatting characters and line separators. A value longer than
/// the limit is truncated, and its full length is appended.
/// ```
/// use transfix_codec::shown::Shown;
///
/// assert_eq!(Shown::new(b"no such\naccount").to_string(), r"no such\naccount");
/// assert_eq!(Shown::cut(b"0123456789", 4).to_string(), "0123... (10 bytes)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    bytes: &'a [u8],
    bytes_max: usize,
}

impl<'a> Shown<'a> {
    /// Creates the text for a log line, which contains at most [`SHOWN_BYTES_MAX`] bytes of the
    /// value.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::cut(bytes, SHOWN_BYTES_MAX)
    }

    /// Creates a text that contains at most `bytes_max` bytes of the value.
    #[must_use]
    pub const fn cut(bytes: &'a [u8], bytes_max: usize) -> Self {
        Self { bytes, bytes_max }
    }

    /// Creates a text that contains the whole value.
    #[must_use]
    pub const fn whole(bytes: &'a [u8]) -> Self {
        Self::cut(bytes, usize::MAX)
    }
}

/// Writes `text` as a JSON string with its quotation marks.
///
/// Escapes the characters that JSON requires, and the characters that a terminal would interpret or
/// hide.
///
/// # Errors
/// The errors of `out`.
pub fn write_json(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    let is_escaped = |c: char| c == '"' || c == '\\' || is_hidden(c);
    while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
        out.write_str(&rest[..at])?;
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            hidden => {
                let mut units = [0; 2];
                let units = hidden.encode_utf16(&mut units);
                units.iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            }
        }
        rest = &rest[at + c.len_utf8()..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}

/// Returns true if a terminal or an editor would interpret or hide this character.
///
/// Hidden characters are control characters, zero-width characters, bidirectional formatting
/// characters and line separators.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
            | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    )
}

/// Writes one escaped character of a value.
fn write_char(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        '\\' => f.write_str("\\\\"),
        '\0'..='\x7f' if is_hidden(c) => write!(f, "\\x{:02X}", u32::from(c)),
        c if is_hidden(c) => write!(f, "\\u{{{:04X}}}", u32::from(c)),
        c => f.write_char(c),
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut end = self.bytes_max.min(self.bytes.len());
        // Truncation must not split a UTF-8 character, which has at most three bytes after its
        // first byte.
        let continues = |at: usize| self.bytes.get(at).is_some_and(|b| b & 0xc0 == 0x80);
        let first = end.saturating_sub(3);
        while end > first && continues(end) {
            end -= 1;
        }
        for chunk in self.bytes[..end].utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| write_char(f, c))?;
            chunk.invalid().iter().try_for_each(|b| write!(f, "\\x{b:02X}"))?;
        }
        if end < self.bytes.len() {
            write!(f, "... ({} bytes)", self.bytes.len())?;
        }
        Ok(())
    }
}

/// Escapes a message for a single line, like [`Shown`], but keeps the delimiters SOH.
///
/// Escaping prevents line breaks in data fields and bidirectional formatting characters from
/// imitating other lines. Non-UTF-8 bytes are kept. [`unescape_line`] restores the message.
pub fn escape_line(message: &mut Vec<u8>) {
    let is_plain = |b: &u8| (*b >= b' ' || *b == SOH) && !matches!(*b, b'\\' | 0x7f..);
    if message.iter().all(is_plain) {
        return;
    }
    let mut line = Vec::with_capacity(message.len() + 16);
    for chunk in message.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '\x01' || !(is_hidden(c) || c == '\\') {
                line.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            } else {
                let escaped = fmt::from_fn(|f| write_char(f, c));
                // Writing to a vector cannot fail.
                let _ = write!(Text(&mut line), "{escaped}");
            }
        }
        line.extend_from_slice(chunk.invalid());
    }
    *message = line;
}

/// A text writer that appends to a byte vector.
struct Text<'v>(&'v mut Vec<u8>);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Restores the message from a line that [`escape_line`] wrote.
///
/// Returns `None` if the line contains no escape, or an escape that [`escape_line`] never writes.
#[must_use]
pub fn unescape_line(line: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.iter().position(|b| *b == b'\\') {
        message.extend_from_slice(&rest[..at]);
        let (kind, behind) = rest[at + 1..].split_first()?;
        let (c, taken) = match kind {
            b'n' => ('\n', 0),
            b'r' => ('\r', 0),
            b't' => ('\t', 0),
            b'\\' => ('\\', 0),
            b'x' => (char_of(behind.get(..2)?)?, 2),
            b'u' if behind.first() == Some(&b'{') => {
                // `escape_line` writes at least four hexadecimal digits, and more only if the
                // character needs them.
                let digits = behind[1..].iter().take(7).position(|b| *b == b'}')?;
                let digits = Some(digits).filter(|count| *count >= 4)?;
                (char_of(&behind[1..=digits])?, digits + 2)
            }
            _ => return None,
        };
        message.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &behind[taken..];
    }
    message.extend_from_slice(rest);
    (message.len() < line.len()).then_some(message)
}

/// Returns the character whose code point these hexadecimal digits give.
fn char_of(digits: &[u8]) -> Option<char> {
    let digits = core::str::from_utf8(digits).ok()?;
    let digits = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
    char::from_u32(u32::from_str_radix(digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn no_value_can_look_like_another_line() {
        for (value, expected) in [
            (&b"plain"[..], "plain"),
            (b"a\nb\rc\td\\n", r"a\nb\rc\td\\n"),
            (b"\x1b[31m\x01\x7f", r"\x1B[31m\x01\x7F"),
            ("\u{202e}txt.exe\u{2028}\u{85}".as_bytes(), r"\u{202E}txt.exe\u{2028}\u{0085}"),
            ("\u{fc}\u{20ac}".as_bytes(), "\u{fc}\u{20ac}"),
            (b"\xff\xc3", r"\xFF\xC3"),
            (b"", ""),
        ] {
            assert_eq!(Shown::new(value).to_string(), expected);
        }
    }

    #[test]
    fn a_message_is_one_line_and_comes_back() {
        for (message, expected) in [
            (&b"8=FIX.4.4\x0158=plain\x01"[..], &b"8=FIX.4.4\x0158=plain\x01"[..]),
            (b"58=two\nlines\x01", b"58=two\\nlines\x01"),
            (b"58=C:\\new\x01", b"58=C:\\\\new\x01"),
            (b"96=\x00\x7f\x1b\xff\r\x01", b"96=\\x00\\x7F\\x1B\xff\\r\x01"),
            ("58=\u{202e}\u{fc}\x01".as_bytes(), "58=\\u{202E}\u{fc}\x01".as_bytes()),
        ] {
            let mut line = message.to_vec();
            escape_line(&mut line);
            assert_eq!(line, expected, "{}", message.escape_ascii());
            let back = unescape_line(&line);
            assert_eq!(back.is_some(), line != message);
            assert_eq!(back.unwrap_or(line), message);
        }
        for c in ('\0'..=char::MAX).filter(|c| is_hidden(*c) && *c != '\x01') {
            let message = ["a", c.encode_utf8(&mut [0; 4]), "b"].concat().into_bytes();
            let mut line = message.clone();
            escape_line(&mut line);
            assert!(line.iter().all(|b| (b' '..0x7f).contains(b)), "{c:?}");
            assert_eq!(unescape_line(&line), Some(message), "{c:?}");
        }
        for line in
            [&b"58=\\x+1"[..], b"58=\\", b"58=\\q", b"58=\\x4", b"58=\\u{12}", b"58=\\u{D800}"]
        {
            assert_eq!(unescape_line(line), None, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn what_is_cut_says_how_long_it_was() {
        let long = [b'x'; 15_000];
        let shown = Shown::new(&long).to_string();
        assert_eq!(shown.len(), SHOWN_BYTES_MAX + "... (15000 bytes)".len());
        assert_eq!(Shown::cut("ab\u{20ac}".as_bytes(), 4).to_string(), "ab... (5 bytes)");
        assert_eq!(Shown::cut(b"abc", 3).to_string(), "abc");
        assert_eq!(Shown::whole(&long).to_string().len(), long.len());
    }
}
