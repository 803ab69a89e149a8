//! Fractions of a second: their parsing, and the precision of encoded times.

use crate::{digits, value};

/// The number of fraction digits of encoded times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// `HH:MM:SS` without fraction: the only format of FIX 4.0 and 4.1.
    Seconds,
    /// 3 digits: milliseconds, FIX 4.2 and later.
    #[default]
    Millis,
    /// 6 digits: microseconds.
    Micros,
    /// 9 digits: nanoseconds.
    Nanos,
}

impl Precision {
    pub(crate) const fn digits(self) -> usize {
        match self {
            Self::Seconds => 0,
            Self::Millis => 3,
            Self::Micros => 6,
            Self::Nanos => 9,
        }
    }
}

/// Maximum number of fraction digits that are accepted.
///
/// FIX datatypes: a fraction has 3, 6, 9 or 12 digits, or another number by agreement, down to one
/// picosecond.
pub(crate) const DIGITS_MAX: usize = 12;

/// Parses a common fraction into nanoseconds: an empty text, or a point and three digits.
///
/// Returns `None` for any other text.
#[inline(always)]
pub(crate) fn usual_fraction(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    digits::millis(*text.as_array()?).map(|millis| millis.wrapping_mul(1_000_000))
}

/// Parses a fraction into nanoseconds: an empty text, or a point and up to [`DIGITS_MAX`] digits.
///
/// Digits below one nanosecond are truncated.
#[inline]
pub(crate) fn fraction(text: &[u8]) -> Option<u32> {
    let Some((point, digits)) = text.split_first() else { return Some(0) };
    if *point != b'.' || digits.is_empty() {
        return None;
    }
    if digits.len() > 9 {
        return long_fraction(digits);
    }
    // The multiplication scales the value to nine digits.
    Some(value::uint(digits)?.wrapping_mul(digits::power_of_ten(9 - digits.len())) as u32)
}

/// Parses a fraction of more than nine digits into nanoseconds.
#[cold]
fn long_fraction(digits: &[u8]) -> Option<u32> {
    let (kept, rest) = digits.split_at_checked(9)?;
    if digits.len() > DIGITS_MAX {
        return None;
    }
    u32::try_from(value::uint(kept)?).ok().filter(|_| rest.iter().all(u8::is_ascii_digit))
}
