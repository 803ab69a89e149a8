//! Bytes as base64, RFC 4648 section 4: the standard alphabet, with padding.

use std::fmt::{self, Write};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes `bytes`.
pub(crate) fn write(bytes: &[u8], out: &mut dyn Write) -> fmt::Result {
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for n in 0..4 {
            // One byte needs two characters, two bytes need three.
            let digit = ALPHABET[(bits >> (18 - 6 * n)) as usize & 63];
            let character = if n <= chunk.len() { digit } else { b'=' };
            out.write_char(char::from(character))?;
        }
    }
    Ok(())
}

/// Appends the bytes that `text` means to `out`; `None` if it is not what [`write`] writes.
pub(super) fn read(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (chunks, rest) = text.as_chunks::<4>();
    for (n, chunk) in chunks.iter().enumerate() {
        let length = match chunk {
            [_, _, b'=', b'='] => 1,
            [_, _, _, b'='] => 2,
            _ => 3,
        };
        if length < 3 && n + 1 < chunks.len() {
            return None;
        }
        let mut bits = 0;
        for character in &chunk[..=length] {
            let found = ALPHABET.iter().zip(0_u32..).find(|(known, _)| *known == character)?;
            bits = bits << 6 | found.1;
        }
        let bytes = (bits << (6 * (3 - length))).to_be_bytes();
        // Bits that no byte takes are zero: one text for each value.
        if bytes[1 + length..].iter().any(|&b| b != 0) {
            return None;
        }
        out.extend_from_slice(&bytes[1..=length]);
    }
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, expected) in table {
            let mut text = String::new();
            write(bytes.as_bytes(), &mut text).unwrap();
            assert_eq!(text, expected);
            let mut again = Vec::new();
            assert_eq!(read(text.as_bytes(), &mut again), Some(()));
            assert_eq!(again, bytes.as_bytes());
        }
        for wrong in ["Zg=", "Zg", "Zh==", "Zg==Zg==", "Z===", "====", "Zm9?"] {
            assert_eq!(read(wrong.as_bytes(), &mut Vec::new()), None, "{wrong}");
        }
    }
}
