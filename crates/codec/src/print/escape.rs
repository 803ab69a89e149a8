//! Values as text that cannot be mistaken for anything else.
//!
//! Invariant: the bytes can be read back: `\\` is a backslash, `\xNN` a byte, all else itself.

use core::fmt::{self, Write};

/// Bytes as text on one line: UTF-8 is kept; control characters, marks that cannot be seen or that
/// turn the direction of the text, and bytes that are no UTF-8 become `\xNN`, a backslash `\\`.
///
/// ```
/// use transfix_codec::print::escaped;
///
/// assert_eq!(escaped("né".as_bytes()).to_string(), "né");
/// assert_eq!(escaped(b"a\nb").to_string(), r"a\x0ab");
/// assert_eq!(escaped(br"a\x0ab").to_string(), r"a\\x0ab");
/// assert_eq!(escaped("1\u{202e}2".as_bytes()).to_string(), r"1\xe2\x80\xae2");
/// ```
pub fn escaped(bytes: &[u8]) -> impl fmt::Display + use<'_> {
    fmt::from_fn(move |f| write_value(bytes, f))
}

pub(super) fn write_value(value: &[u8], out: &mut dyn Write) -> fmt::Result {
    for chunk in value.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| !is_plain(*c)) {
            out.write_str(&rest[..at])?;
            let end = at + c.len_utf8();
            match c {
                '\\' => out.write_str("\\\\")?,
                _ => write_bytes(&rest.as_bytes()[at..end], out)?,
            }
            rest = &rest[end..];
        }
        out.write_str(rest)?;
        write_bytes(chunk.invalid(), out)?;
    }
    Ok(())
}

/// Whether a reader sees the character, and nothing else changes by it.
fn is_plain(c: char) -> bool {
    // Unicode: line and paragraph separators, marks of direction (UAX 9), characters without width,
    // and the tags that are never shown.
    let is_hidden = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}');
    c != '\\' && !c.is_control() && !is_hidden
}

fn write_bytes(bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}
