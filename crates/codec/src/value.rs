//! Parsers of field values of simple types: int, SeqNum, char, Boolean, codes and lists.
//!
//! Each function returns `None` for a value that does not match its data type. FIX datatypes: an
//! int may have leading zeros and a minus sign, never a plus sign. Dates and times have types of
//! their own ([`Date`](crate::Date), [`TimeOfDay`](crate::TimeOfDay),
//! [`Timestamp`](crate::Timestamp) …); so do [`Decimal`](crate::Decimal) and [`Tenor`].

use core::fmt;

use crate::{digits, scan};

/// Parses an int: an optional minus sign and digits. Returns `None` if the value is malformed or
/// exceeds 64 bits.
#[must_use]
#[inline]
pub fn int(value: &[u8]) -> Option<i64> {
    match value {
        [b'-', digits @ ..] => 0_i64.checked_sub_unsigned(uint(digits)?),
        digits => i64::try_from(uint(digits)?).ok(),
    }
}

/// Parses a SeqNum, Length, TagNum or NumInGroup: digits only, leading zeros allowed.
///
/// Returns `None` if the value is malformed or exceeds 64 bits.
/// ```
/// use transfix_codec::value::uint;
///
/// assert_eq!(uint(b"000123"), Some(123));
/// assert_eq!(uint(b"+1"), None);
/// ```
#[must_use]
#[inline]
pub fn uint(value: &[u8]) -> Option<u64> {
    match value.len() {
        1..=8 => digits::short(value),
        9..=16 => {
            let (head, tail) = value.split_at(value.len() - 8);
            // The result has at most sixteen digits, so the arithmetic cannot wrap.
            let head = digits::short(head)?.wrapping_mul(100_000_000);
            Some(head.wrapping_add(digits::short(tail)?))
        }
        _ => long_uint(value),
    }
}

#[cold]
fn long_uint(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |n, &b| {
        if !b.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(b - b'0'))
    })
}

/// Returns true if a value has the form of a FIX int, with any number of digits.
#[cold]
#[inline(never)]
pub(crate) fn is_int(value: &[u8]) -> bool {
    is_uint(value.strip_prefix(b"-").unwrap_or(value))
}

/// Returns true if a value consists of digits only, with any number of digits.
#[cold]
#[inline(never)]
pub(crate) fn is_uint(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

/// Returns true if a value has the form of a float, with any number of digits.
///
/// FIX does not limit the number of digits, whereas a [`Decimal`](crate::Decimal) has a mantissa of
/// 64 bits.
#[cold]
#[inline(never)]
pub(crate) fn is_float(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let points = digits.iter().filter(|&&b| b == b'.').count();
    digits.len() > points && points <= 1 && digits.iter().all(|&b| b == b'.' || b.is_ascii_digit())
}

/// Parses a DayOfMonth: 1 to 31.
#[must_use]
pub fn day_of_month(value: &[u8]) -> Option<u8> {
    let day = uint(value).filter(|day| (1..=31).contains(day))?;
    u8::try_from(day).ok()
}

/// Parses a char: one printable ASCII byte.
#[must_use]
pub fn char(value: &[u8]) -> Option<u8> {
    match value {
        [c] if (b' '..=b'~').contains(c) => Some(*c),
        _ => None,
    }
}

/// Parses a Boolean: `Y` or `N`.
#[must_use]
pub fn boolean(value: &[u8]) -> Option<bool> {
    match value {
        b"Y" => Some(true),
        b"N" => Some(false),
        _ => None,
    }
}

/// Parses a Country, ISO 3166: two letters.
#[must_use]
pub fn country(value: &[u8]) -> Option<&str> {
    letters(value, 2)
}

/// Parses a Currency, ISO 4217: three letters.
#[must_use]
pub fn currency(value: &[u8]) -> Option<&str> {
    letters(value, 3)
}

/// Parses a Language, ISO 639-1: two letters.
#[must_use]
pub fn language(value: &[u8]) -> Option<&str> {
    letters(value, 2)
}

/// Parses an Exchange: an ISO 10383 market identifier code, or a code of older FIX versions.
///
/// Accepts any non-empty value of printable ASCII characters without blanks.
#[must_use]
pub fn exchange(value: &[u8]) -> Option<&str> {
    let is_graphic = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
    scan::text(value).filter(|_| is_graphic)
}

fn letters(value: &[u8], count: usize) -> Option<&str> {
    let is_alphabetic = value.len() == count && value.iter().all(u8::is_ascii_alphabetic);
    scan::text(value).filter(|_| is_alphabetic)
}

/// Parses a MultipleCharValue: printable characters separated by single blanks.
#[must_use]
pub fn chars(value: &[u8]) -> Option<impl ExactSizeIterator<Item = u8> + Clone> {
    let well_formed = value.len() % 2 == 1
        && value.iter().step_by(2).all(u8::is_ascii_graphic)
        && value.iter().skip(1).step_by(2).all(|&b| b == b' ');
    well_formed.then(|| value.iter().step_by(2).copied())
}

/// Parses a MultipleStringValue: strings separated by single blanks.
#[must_use]
pub fn words(value: &[u8]) -> Option<impl Iterator<Item = &[u8]> + Clone> {
    let words = value.split(|&b| b == b' ');
    words.clone().all(|word| !word.is_empty()).then_some(words)
}

/// A Tenor: a number of days, weeks, months or years, such as `D5` or `M3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenor {
    unit: TenorUnit,
    count: u32,
}

/// The unit of a [`Tenor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TenorUnit {
    /// Days, written `D`.
    Days,
    /// Weeks, written `W`.
    Weeks,
    /// Months, written `M`.
    Months,
    /// Years, written `Y`.
    Years,
}

impl Tenor {
    /// Creates a tenor of `count` units; `None` if `count` is 0.
    #[must_use]
    pub const fn new(unit: TenorUnit, count: u32) -> Option<Self> {
        if count == 0 { None } else { Some(Self { unit, count }) }
    }

    /// Parses a unit letter followed by a number above 0.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (letter, count) = value.split_first()?;
        let unit = match letter {
            b'D' => TenorUnit::Days,
            b'W' => TenorUnit::Weeks,
            b'M' => TenorUnit::Months,
            b'Y' => TenorUnit::Years,
            _ => return None,
        };
        Self::new(unit, u32::try_from(uint(count)?).ok()?)
    }

    /// Returns the unit.
    #[must_use]
    pub const fn unit(self) -> TenorUnit {
        self.unit
    }

    /// Returns the number of units; at least 1.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    pub(crate) const fn letter(self) -> u8 {
        match self.unit {
            TenorUnit::Days => b'D',
            TenorUnit::Weeks => b'W',
            TenorUnit::Months => b'M',
            TenorUnit::Years => b'Y',
        }
    }
}

impl fmt::Display for Tenor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(self.letter()), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn ints() {
        let table: [(&[u8], Option<i64>); 16] = [
            (b"0", Some(0)),
            (b"-0", Some(0)),
            (b"00023", Some(23)),
            (b"-7", Some(-7)),
            (b"+7", None),
            (b"", None),
            (b"-", None),
            (b"--1", None),
            (b"1a", None),
            (b"12345678", Some(12_345_678)),
            (b"123456789", Some(123_456_789)),
            (b"9999999999999999", Some(9_999_999_999_999_999)),
            (b"0000000000000000000000000000017", Some(17)),
            (b"9223372036854775807", Some(i64::MAX)),
            (b"9223372036854775808", None),
            (b"-9223372036854775808", Some(i64::MIN)),
        ];
        for (text, expected) in table {
            assert_eq!(int(text), expected, "{}", text.escape_ascii());
        }
        assert_eq!(uint(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(uint(b"18446744073709551616"), None);
    }

    #[test]
    fn chars_and_booleans() {
        assert_eq!(char(b"1"), Some(b'1'));
        assert_eq!(char(b"12"), None);
        assert_eq!(char(b"\x02"), None);
        assert_eq!(boolean(b"Y"), Some(true));
        assert_eq!(boolean(b"y"), None);
        assert_eq!([b"1", b"0"].map(|day| day_of_month(day)), [Some(1), None]);
        assert_eq!([b"31", b"32"].map(|day| day_of_month(day)), [Some(31), None]);
    }

    #[test]
    fn codes() {
        assert_eq!(currency(b"EUR"), Some("EUR"));
        assert_eq!(country(b"U1"), None);
        assert_eq!(language(b""), None);
        assert_eq!(exchange(b"XNYS"), Some("XNYS"));
        assert_eq!(exchange(b"X Y"), None);
        assert_eq!(exchange(b""), None);
    }

    #[test]
    fn lists() {
        for (text, expected) in [(&b"1"[..], 1), (b"1 2 W", 3)] {
            assert_eq!(chars(text).map(|all| all.len()), Some(expected));
        }
        for text in [&b""[..], b"12", b"1  2", b" 1", b"1 ", b"1 2 "] {
            assert!(chars(text).is_none(), "{}", text.escape_ascii());
        }
        for text in [&b""[..], b" AA", b"AA ", b"AA  B"] {
            assert!(words(text).is_none(), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn tenors() {
        for text in ["D5", "M3", "W13", "Y1"] {
            assert_eq!(Tenor::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        for text in ["", "M", "M0", "5M", "Mx", "m3", "D4294967296"] {
            assert_eq!(Tenor::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_has_the_form(text in "-?[0-9.+]{0,20}") {
            let text = text.as_bytes();
            // The parsers accept every number of up to 18 digits; longer numbers may exceed 64
            // bits.
            let is_short = text.len() <= 18;
            for (is_read, has_form) in [
                (int(text).is_some(), is_int(text)),
                (uint(text).is_some(), is_uint(text)),
                (crate::Decimal::parse(text).is_some(), is_float(text)),
            ] {
                prop_assert!(has_form || !is_read);
                prop_assert!(is_read || !has_form || !is_short);
            }
        }

        #[test]
        fn the_fast_way_is_the_plain_way(text in "[0-9]{1,24}", bytes in any::<[u8; 12]>()) {
            prop_assert_eq!(uint(text.as_bytes()), long_uint(text.as_bytes()));
            for n in 1..bytes.len() {
                prop_assert_eq!(uint(&bytes[..n]), long_uint(&bytes[..n]));
            }
        }
    }
}
