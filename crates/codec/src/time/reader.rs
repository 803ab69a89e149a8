//! Faster parsing of consecutive UTCTimestamps, many of which share a second.

use core::hint::cold_path;

use super::{NANOS, Timestamp};
use crate::precision::fraction;

/// A parser of UTCTimestamps with the results of [`Timestamp::parse`], but faster if consecutive
/// timestamps share a second.
///
/// If a timestamp has the same second as the previous timestamp, only its fraction is parsed.
/// ```
/// use transfix_codec::{Timestamp, TimestampReader};
///
/// let mut reader = TimestampReader::default();
/// for text in ["20261121-09:28:25.623", "20261121-09:28:25.624", "20261121-09:28:61.000"] {
///     assert_eq!(reader.parse(text.as_bytes()), Timestamp::parse(text.as_bytes()));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct TimestampReader {
    /// The texts `YYYYMMDD` and `HH:MM:SS` of the last parsed second, first byte lowest.
    ///
    /// Invariant: each nanosecond of that second is within the range of [`Timestamp`].
    text: [u64; 2],
    /// Start of the last parsed second, in nanoseconds since 1970-01-01.
    start: i64,
}

impl Default for TimestampReader {
    fn default() -> Self {
        Self { text: [*b"19700101", *b"00:00:00"].map(u64::from_le_bytes), start: 0 }
    }
}

impl TimestampReader {
    /// Parses `YYYYMMDD-HH:MM:SS` with an optional fraction; keeps nine fraction digits.
    ///
    /// Digits below one nanosecond are truncated. Second 60 counts as the first second of the next
    /// minute. Returns `None` if `value` is not a UTCTimestamp, or is before September 1677 or
    /// after April 2262.
    #[inline]
    pub fn parse(&mut self, value: &[u8]) -> Option<Timestamp> {
        let (date, time) = Timestamp::split(value)?;
        let (second, rest) = time.split_first_chunk::<8>()?;
        let text = [*date, *second].map(u64::from_le_bytes);
        if text != self.text {
            cold_path();
            return self.parse_of_another_second(value, text);
        }
        Some(Timestamp(self.start + i64::from(fraction(rest)?)))
    }

    #[cold]
    fn parse_of_another_second(&mut self, value: &[u8], text: [u64; 2]) -> Option<Timestamp> {
        let time = Timestamp::parse(value)?;
        let start = time.0.checked_sub(time.0.rem_euclid(NANOS));
        // A second is cached only if all of it is representable; the first and last representable
        // seconds are incomplete.
        if let Some(start) = start.filter(|start| start.checked_add(NANOS).is_some()) {
            *self = Self { text, start };
        }
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_first_and_the_last_second_are_read_as_others() {
        let mut reader = TimestampReader::default();
        for ns in [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 0, NANOS - 1, -1] {
            let text = Timestamp(ns).to_string();
            for text in [&text, &text[..17], &text, &text[..21]] {
                let expected = Timestamp::parse(text.as_bytes());
                assert_eq!(reader.parse(text.as_bytes()), expected, "{text}");
            }
        }
        let beyond = ["16770921-00:12:43.145224191", "22620411-23:47:16.854775808"];
        for text in beyond {
            assert_eq!(reader.parse(text.as_bytes()), None, "{text}");
        }
    }
}
