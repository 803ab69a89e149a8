//! Checks of values against the format of their data type.
//!
//! Source: FIX datatypes, FIX 5.0 SP2 volume 1. A value has the format of its type if the type's
//! parser accepts the value. The standard does not limit the number of digits: a number passes even
//! if it exceeds `i64` or [`Decimal`], and so does a UTCTimestamp in the year 9999. A time has at
//! most 12 fraction digits, down to one picosecond.

use transfix_dictionary::DataType;

use crate::precision::DIGITS_MAX;
use crate::{
    Date, Decimal, MonthYear, Tenor, TimeOfDay, Timestamp, TzTimeOnly, TzTimestamp, digits, value,
};

/// The last valid UTCTimestamp without its fraction, as two texts of eight characters.
///
/// The default is a valid time, 2000-01-01 00:00:00.
#[derive(Clone, Debug)]
pub(super) struct LastTime {
    day: [u8; 8],
    second: [u8; 8],
}

impl Default for LastTime {
    fn default() -> Self {
        Self { day: *b"20000101", second: *b"00:00:00" }
    }
}

impl LastTime {
    /// Returns true if a value is a UTCTimestamp; skips parsing if the date and the second equal
    /// the last valid time.
    #[inline]
    pub(super) fn is_timestamp(&mut self, value: &[u8]) -> bool {
        let Some((date, time)) = Timestamp::split(value) else { return false };
        let Some((hms, fraction)) = time.split_first_chunk::<8>() else { return false };
        if *date != self.day {
            if Date::of_digits(date).is_none() {
                return false;
            }
            self.day = *date;
        }
        if *hms != self.second {
            if TimeOfDay::parse(hms).is_none() {
                return false;
            }
            self.second = *hms;
        }
        match fraction {
            [] => true,
            // Most times have a fraction of three digits, milliseconds.
            &[point, first, second, third] => {
                digits::millis([point, first, second, third]).is_some()
            }
            [b'.', digits @ ..] => digits.len() <= DIGITS_MAX && digits::are_all(digits),
            _ => false,
        }
    }
}

/// Returns true if a non-empty value has the format of `data_type`.
#[inline]
pub(super) fn fits(data_type: DataType, value: &[u8]) -> bool {
    use DataType as T;
    // For numbers, the first parser is fast and accepts most values; the second check covers rare
    // long values.
    match data_type {
        // FIX: a String may contain any byte except the delimiter, which an encoded value never
        // contains.
        T::String | T::Data | T::XmlData | T::Pattern | T::Xid | T::XidRef => true,
        T::Int => value::int(value).is_some() || value::is_int(value),
        T::Length | T::TagNum | T::SeqNum | T::NumInGroup => {
            value::uint(value).is_some() || value::is_uint(value)
        }
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
            Decimal::parse(value).is_some() || value::is_float(value)
        }
        T::Char => value::char(value).is_some(),
        T::Boolean => value::boolean(value).is_some(),
        T::UtcTimestamp => Timestamp::parts(value).is_some(),
        T::UtcDateOnly | T::LocalMktDate => Date::parse(value).is_some(),
        T::UtcTimeOnly | T::LocalMktTime => TimeOfDay::parse(value).is_some(),
        T::DayOfMonth => value::day_of_month(value).is_some(),
        T::MultipleCharValue => value::chars(value).is_some(),
        T::MultipleStringValue => value::words(value).is_some(),
        T::Country => value::country(value).is_some(),
        T::Language => value::language(value).is_some(),
        T::Currency => value::currency(value).is_some(),
        T::Exchange => value::exchange(value).is_some(),
        T::MonthYear => MonthYear::parse(value).is_some(),
        T::TzTimeOnly => TzTimeOnly::parse(value).is_some(),
        T::TzTimestamp => TzTimestamp::parse(value).is_some(),
        T::Tenor => Tenor::parse(value).is_some() || is_long_tenor(value),
    }
}

/// Returns true for a valid Tenor whose number exceeds the range of [`Tenor`].
fn is_long_tenor(value: &[u8]) -> bool {
    let [b'D' | b'W' | b'M' | b'Y', count @ ..] = value else { return false };
    value::is_uint(count) && count.iter().any(|&b| b != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType as T;

    #[test]
    fn milliseconds_are_a_point_and_digits() {
        for at in 0..4 {
            for byte in 0..=u8::MAX {
                let mut fraction = *b".059";
                fraction[at] = byte;
                let expected = if at == 0 { byte == b'.' } else { byte.is_ascii_digit() };
                assert_eq!(digits::millis(fraction).is_some(), expected, "{fraction:?}");
            }
        }
        for fraction in [*b".:/~", *b"/000", [0xff; 4]] {
            assert_eq!(digits::millis(fraction), None);
        }
    }

    #[test]
    fn what_was_seen_before_changes_no_timestamp() {
        let (_, good, bad) = TABLE.iter().find(|(of, ..)| *of == T::UtcTimestamp).unwrap();
        let mut last = LastTime::default();
        let nothing = ["\0\0\0\0\0\0\0\0-\0\0\0\0\0\0\0\0", "", "-", "20261121-"];
        let all = || good.iter().chain(*bad).chain(&nothing);
        for value in all().flat_map(|one| all().flat_map(move |other| [one, other])) {
            let expected = fits(T::UtcTimestamp, value.as_bytes());
            assert_eq!(last.is_timestamp(value.as_bytes()), expected, "{value}");
        }
    }

    /// For each data type, some valid values and some invalid values.
    const TABLE: &[(DataType, &[&str], &[&str])] = &[
        (
            T::Int,
            &["0", "-1", "0023", "-0", "9223372036854775808", "-99999999999999999999"],
            &["+1", "1.0", "-", "1a", " 1", "--1"],
        ),
        (T::Length, &["0", "17", "99999999999999999999"], &["-1", "+1", "1.", "x"]),
        (T::SeqNum, &["0", "01", "18446744073709551615", "18446744073709551616"], &["-1", "1x"]),
        (T::NumInGroup, &["0", "2"], &["-2", "two"]),
        (T::TagNum, &["55"], &["-1"]),
        (T::DayOfMonth, &["1", "09", "31"], &["0", "32", "-1", "x"]),
        (T::Qty, &["002000.00", "-5", "0.5", ".5", "5."], &["+200.00", "1e3", "1,000", "."]),
        (
            T::Float,
            &["0.1234567890123456789", "123456789012345678901234567890.5", "-.0000000000000000000"],
            &["1234567890123456789.1.2", "-", "-.", "123456789012345678901x", "--1"],
        ),
        (T::Price, &["-0.25"], &["1.2.3", "abc", "1 "]),
        (T::Char, &["1", "~", " "], &["12", "\x02", "é"]),
        (T::Boolean, &["Y", "N"], &["y", "1", "YES"]),
        (T::String, &["x", " ", "\u{e9}"], &[]),
        (T::MultipleCharValue, &["1", "1 2 W"], &["12", "1  2", " 1", "1 "]),
        (T::MultipleStringValue, &["AA", "AA B"], &["AA  B", " AA", "AA "]),
        (T::Country, &["US"], &["USA", "U", "U1"]),
        (T::Language, &["en"], &["eng", "e"]),
        (T::Currency, &["USD"], &["US", "USDT", "U D"]),
        (T::Exchange, &["N", "XNYS"], &["X NYS", "\x07"]),
        (
            T::MonthYear,
            &["202611", "20261121", "202611w1", "202611w5"],
            &["202613", "202600", "20261131", "202611w0", "202611w6", "2026", "2026x1", "x02611"],
        ),
        (
            T::UtcTimestamp,
            &[
                "20261121-09:28:25",
                "20261121-09:28:25.1",
                "20261121-09:28:25.123456789012",
                "20240229-00:00:00",
                "20000229-00:00:00",
                "99991231-23:59:59.999",
                "20161231-23:59:60",
            ],
            &[
                "20261121-09:28:25.1234567890123",
                "20261121-09:28:25.123456789012x",
                "20261121-09:28:25.",
                "20261121-09:28:25,1",
                "20261121-9:28:25",
                "20261121-24:00:00",
                "20261121-23:60:00",
                "20261121-12:00:60",
                "20260229-00:00:00",
                "19000229-00:00:00",
                "20261121 09:28:25",
                "20261121",
                "20261121-09:28:25Z",
            ],
        ),
        (
            T::UtcTimeOnly,
            &["00:00:00", "23:59:59.123", "23:59:59.123456789012"],
            &["24:00:00", "1:00:00", "00:00", "0000", "23:59:59.1234567890123"],
        ),
        (T::LocalMktTime, &["12:30:00"], &["12:30", "12:30:00.1234567890123"]),
        (
            T::UtcDateOnly,
            &["20261121", "20261231"],
            &["20261301", "20260931", "20260100", "2026112", "202611211", "2026-1-1", "abcdefgh"],
        ),
        (T::LocalMktDate, &["00010101"], &["20261132"]),
        (
            T::TzTimeOnly,
            &["07:39", "07:39Z", "02:39-05", "15:39+08", "13:09:10.123+05:30", "07:39:00"],
            &[
                "07:39:00.1234567890123Z",
                "7:39",
                "07:39+5",
                "07:39+05:3",
                "07:39z",
                "07:39+15",
                "07:39+05:60",
                "Z",
                "",
            ],
        ),
        (
            T::TzTimestamp,
            &["20060901-07:39Z", "20060901-02:39:00.5-05", "20060901-13:09+05:30"],
            &[
                "20060901-07:39:00.1234567890123Z",
                "20060931-07:39Z",
                "20060901",
                "20060901-",
                "20060901T07:39Z",
                "0",
            ],
        ),
        (T::Data, &["\x01\x02"], &[]),
        (
            T::Tenor,
            &["D5", "M3", "W13", "Y1", "D4294967296"],
            &["M", "M0", "M00", "5M", "Mx", "m3"],
        ),
    ];

    #[test]
    fn each_type_at_its_edges() {
        for (data_type, good, bad) in TABLE {
            for text in *good {
                assert!(fits(*data_type, text.as_bytes()), "{data_type}: {text:?} is good");
            }
            for text in *bad {
                assert!(!fits(*data_type, text.as_bytes()), "{data_type}: {text:?} is bad");
            }
        }
    }

    #[test]
    fn no_value_makes_it_panic() {
        for data_type in DataType::ALL {
            for text in ["20261121-09:28:25.123Z", "99999999w9+99:99", "\u{0}\u{fffd}é"] {
                for end in 0..=text.len() {
                    let _ = fits(data_type, &text.as_bytes()[..end]);
                }
            }
        }
    }
}
