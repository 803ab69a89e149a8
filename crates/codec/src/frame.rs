//! Finds the next message in a stream of bytes, by BodyLength(9), and recovers from garbage.
//!
//! Invariants: a split of the stream at any byte gives the same frames; the result never points
//! beyond the input; each call that does not answer [`Frame::Partial`] makes progress.

use crate::{Garbled, SOH};

/// Limits that protect the receiver.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest message accepted, in bytes from `8=` to the end of CheckSum(10). Default 1 MiB.
    pub message_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes_max: 1 << 20 }
    }
}

/// What stands at the start of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One whole message: the first so many bytes. Its CheckSum(10) is not verified yet.
    Whole(usize),
    /// The start of a message; read more and ask again.
    Partial,
    /// Not a message: drop the first `skip` bytes and ask again.
    Garbled {
        /// Bytes to drop; at least 1.
        skip: usize,
        /// What was wrong.
        reason: Garbled,
    },
}

const START: &[u8] = b"8=FIX";
/// `10=ddd` and the delimiter.
const TRAILER_LEN: usize = 7;
/// The longest BeginString(8) in use is `FIXT.1.1`; anything much longer is garbage.
const BEGIN_STRING_MAX: usize = 16;
/// Digits of BodyLength(9); nine cannot overflow a `u32`.
const BODY_LENGTH_DIGITS_MAX: usize = 9;

/// Looks at the start of `bytes`, as far as they have come.
///
/// When BodyLength(9) lies, what it covers is skipped too, up to the next plausible `8=FIX`
/// (FIX Session: a message whose CheckSum(10) is not where BodyLength(9) says is garbled).
#[must_use]
pub fn split(bytes: &[u8], limits: Limits) -> Frame {
    let compared = bytes.len().min(START.len());
    if bytes[..compared] != START[..compared] {
        return garbled(bytes, 0, Garbled::BeginString);
    }
    if bytes.len() < START.len() {
        return Frame::Partial;
    }
    let (body, length) = match preamble(bytes) {
        Preamble::Is { body, length } => (body, length),
        Preamble::Partial => return Frame::Partial,
        Preamble::Not(reason) => return garbled(bytes, 1, reason),
    };
    let end = body + length + TRAILER_LEN;
    if end > limits.message_bytes_max {
        return garbled(bytes, 1, Garbled::TooLong);
    }
    // A wrong length is often seen before all that it covers has come.
    let trailer = body + length;
    if bytes.len() >= trailer && length > 0 && bytes[trailer - 1] != SOH {
        return garbled(bytes, trailer, Garbled::BodyLength);
    }
    let Some(check_sum) = bytes.get(trailer..end) else { return Frame::Partial };
    let sound = check_sum.starts_with(b"10=")
        && check_sum[3..6].iter().all(u8::is_ascii_digit)
        && check_sum[6] == SOH;
    if sound { Frame::Whole(end) } else { garbled(bytes, trailer, Garbled::BodyLength) }
}

enum Preamble {
    Is { body: usize, length: usize },
    Partial,
    Not(Garbled),
}

fn preamble(bytes: &[u8]) -> Preamble {
    let value = &bytes[2..bytes.len().min(2 + BEGIN_STRING_MAX)];
    let Some(soh) = value.iter().position(|&b| b == SOH) else {
        let enough = value.len() == BEGIN_STRING_MAX;
        return if enough { Preamble::Not(Garbled::BeginString) } else { Preamble::Partial };
    };
    let at = 2 + soh + 1;
    let rest = &bytes[at..];
    let compared = rest.len().min(2);
    if rest[..compared] != b"9="[..compared] {
        return Preamble::Not(Garbled::BodyLengthField);
    }
    let mut length = 0;
    for (i, &b) in rest.iter().enumerate().skip(2) {
        match b {
            b'0'..=b'9' if i < 2 + BODY_LENGTH_DIGITS_MAX => {
                length = length * 10 + usize::from(b - b'0');
            }
            SOH if i > 2 => return Preamble::Is { body: at + i + 1, length },
            _ => return Preamble::Not(Garbled::BodyLengthField),
        }
    }
    Preamble::Partial
}

/// Skips at least one byte and at least `from`, up to the next plausible start of a message.
fn garbled(bytes: &[u8], from: usize, reason: Garbled) -> Frame {
    let from = from.max(1);
    let tail = &bytes[from.min(bytes.len())..];
    let found = tail.windows(START.len()).position(|w| w == START);
    let skip = found.map_or_else(
        || {
            // The last bytes may be the first ones of the next message.
            let kept = (1..START.len()).rev().find(|&n| tail.ends_with(&START[..n]));
            bytes.len() - kept.unwrap_or(0)
        },
        |at| from + at,
    );
    Frame::Garbled { skip: skip.max(1), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &[u8] = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";

    fn check(bytes: &[u8], expected: Frame) {
        assert_eq!(split(bytes, Limits::default()), expected, "{}", bytes.escape_ascii());
    }

    fn skip(skip: usize, reason: Garbled) -> Frame {
        Frame::Garbled { skip, reason }
    }

    #[test]
    fn table() {
        check(b"", Frame::Partial);
        check(MESSAGE, Frame::Whole(MESSAGE.len()));
        check(b"8=FIX.4.4\x01", Frame::Partial);
        check(b"junk", skip(4, Garbled::BeginString));
        check(b"junk8=FI", skip(4, Garbled::BeginString));
        check(b"junk8=FIX.4.4", skip(4, Garbled::BeginString));
        check(b"8=FIX.4.4\x0135=0\x01", skip(15, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=\x01", skip(13, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=x\x01", skip(14, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=9999999999\x01", skip(23, Garbled::BodyLengthField));
        check(b"8=FIX.4.4\x019=99999999\x01", skip(21, Garbled::TooLong));
        check(b"8=FIXXXXXXXXXXXXXXXXXXXXXXXX", skip(28, Garbled::BeginString));
        check(b"8=FIX.4.4\x019=4\x0135=0\x0110=163\x01", skip(26, Garbled::BodyLength));
        check(b"8=FIX.4.4\x019=5\x0135=0\x0110=1x3\x01", skip(26, Garbled::BodyLength));
    }

    #[test]
    fn a_length_too_long_takes_what_it_covers() {
        let mut bytes = b"8=FIX.4.4\x019=30\x0135=0\x0110=163\x01".to_vec();
        let lied = bytes.len();
        bytes.extend_from_slice(MESSAGE);
        bytes.extend_from_slice(MESSAGE);
        let third = lied + MESSAGE.len();
        check(&bytes, skip(third, Garbled::BodyLength));
    }

    #[test]
    fn every_prefix_is_partial() {
        for n in 0..MESSAGE.len() {
            check(&MESSAGE[..n], Frame::Partial);
        }
    }
}
