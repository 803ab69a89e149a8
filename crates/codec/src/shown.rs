//! Values of a counterparty as one line of a log or a screen shows them.
//!
//! Invariants: the text has no control characters and no marks that change the direction of
//! writing, so that no value can look like a line, or a part of one, that it is not; two values
//! that differ within the limit are shown differently.

use core::fmt::{self, Write};

/// Longest value that a line of a log shows, in bytes.
pub const SHOWN_BYTES_MAX: usize = 100;

/// Shows bytes as text: `\n`, `\r`, `\t`, `\\`, `\xNN` for other control characters and for what is
/// not UTF-8, `\u{NNNN}` for marks of direction and line separators. What is longer than the limit
/// is cut, and the whole length is said.
///
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
    /// For a line of a log: at most [`SHOWN_BYTES_MAX`] bytes of the value.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self::cut(bytes, SHOWN_BYTES_MAX)
    }

    /// At most `bytes_max` bytes of the value.
    #[must_use]
    pub const fn cut(bytes: &'a [u8], bytes_max: usize) -> Self {
        Self { bytes, bytes_max }
    }

    /// The whole value.
    #[must_use]
    pub const fn whole(bytes: &'a [u8]) -> Self {
        Self::cut(bytes, usize::MAX)
    }
}

/// Whether a terminal or an editor would not show this character as it stands: a control
/// character, a mark that changes the direction of what follows, a separator of lines.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
            | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

/// Writes one character of a value.
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
        // Not in the middle of a character: one has at most three bytes behind its first.
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
    fn what_is_cut_says_how_long_it_was() {
        let long = [b'x'; 15_000];
        let shown = Shown::new(&long).to_string();
        assert_eq!(shown.len(), SHOWN_BYTES_MAX + "... (15000 bytes)".len());
        assert_eq!(Shown::cut("ab\u{20ac}".as_bytes(), 4).to_string(), "ab... (5 bytes)");
        assert_eq!(Shown::cut(b"abc", 3).to_string(), "abc");
        assert_eq!(Shown::whole(&long).to_string().len(), long.len());
    }
}
