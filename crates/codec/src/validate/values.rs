//! Whether a value has the form that its data type asks for.
//!
//! Source: FIX datatypes, FIX 5.0 SP2 volume 1. Form only: nothing is converted, so that a date in
//! the year 9999 passes although no [`Timestamp`](crate::Timestamp) holds it.

use transfix_dictionary::DataType;

use crate::{Decimal, Timestamp, value};

/// Digits after the second that are accepted: picoseconds.
const FRACTION_DIGITS_MAX: usize = 12;

/// Whether a value that is not empty has the form of `data_type`.
#[inline]
pub(super) fn fits(data_type: DataType, value: &[u8]) -> bool {
    use DataType as T;
    match data_type {
        // FIX: a String may hold anything but the delimiter, which cannot be here.
        T::String | T::Data | T::XmlData | T::Pattern | T::Xid | T::XidRef => true,
        T::Int => value::int(value).is_some(),
        T::Length | T::TagNum | T::SeqNum | T::NumInGroup => value::uint(value).is_some(),
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
            Decimal::parse(value).is_some()
        }
        T::Char => value::char(value).is_some(),
        T::Boolean => value::boolean(value).is_some(),
        T::UtcTimestamp => utc_timestamp(value),
        T::UtcDateOnly | T::LocalMktDate => date(value),
        T::UtcTimeOnly | T::LocalMktTime => utc_time(value),
        T::DayOfMonth => value::uint(value).is_some_and(|day| (1..=31).contains(&day)),
        T::MultipleCharValue => words(value, |word| word.len() == 1 && is_graphic(word)),
        T::MultipleStringValue => words(value, |word| !word.is_empty()),
        T::Country | T::Language => value.len() == 2 && is_alphabetic(value),
        T::Currency => value.len() == 3 && is_alphabetic(value),
        T::Exchange => is_graphic(value),
        T::MonthYear => month_year(value),
        T::TzTimeOnly => tz_time(value),
        T::TzTimestamp => value
            .split_at_checked(9)
            .is_some_and(|(day, time)| day.strip_suffix(b"-").is_some_and(date) && tz_time(time)),
        T::Tenor => tenor(value),
    }
}

fn words(value: &[u8], fits: impl Fn(&[u8]) -> bool) -> bool {
    value.split(|&b| b == b' ').all(fits)
}

fn is_alphabetic(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_alphabetic)
}

fn is_graphic(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_graphic)
}

/// Two digits as a number; above 99 if they are none.
#[inline]
fn two(value: &[u8], at: usize) -> u32 {
    let digit = |b: u8| if b.is_ascii_digit() { u32::from(b - b'0') } else { 1000 };
    digit(value[at]) * 10 + digit(value[at + 1])
}

/// `YYYYMMDD` of the calendar.
fn date(value: &[u8]) -> bool {
    if value.len() != 8 {
        return false;
    }
    let (century, year, month, day) = (two(value, 0), two(value, 2), two(value, 4), two(value, 6));
    if century > 99 || year > 99 {
        return false;
    }
    let is_leap = year % 4 == 0 && (year != 0 || century % 4 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// `HH:MM`, the start of every time of day.
fn hour_minute(value: &[u8]) -> bool {
    value.len() >= 5 && two(value, 0) < 24 && value[2] == b':' && two(value, 3) < 60
}

/// `HH:MM:SS` and what follows it. FIX: second 60 is the leap second, at the end of a UTC day.
fn split_second(value: &[u8]) -> Option<&[u8]> {
    let (time, rest) = value.split_at_checked(8)?;
    if !hour_minute(time) || time[5] != b':' {
        return None;
    }
    match two(time, 6) {
        0..60 => Some(rest),
        60 if time.starts_with(b"23:59") => Some(rest),
        _ => None,
    }
}

/// Nothing, or a point and 1 to 12 digits.
fn fraction(value: &[u8]) -> bool {
    match value {
        [] => true,
        [b'.', digits @ ..] => {
            (1..=FRACTION_DIGITS_MAX).contains(&digits.len())
                && digits.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// `HH:MM:SS` with an optional fraction.
fn utc_time(value: &[u8]) -> bool {
    split_second(value).is_some_and(fraction)
}

/// `YYYYMMDD-HH:MM:SS` with an optional fraction.
fn utc_timestamp(value: &[u8]) -> bool {
    // The usual one in one pass; what no Timestamp holds is looked at by its parts.
    Timestamp::parse(value).is_some() || utc_timestamp_parts(value)
}

#[cold]
fn utc_timestamp_parts(value: &[u8]) -> bool {
    value.len() >= 17 && date(&value[..8]) && value[8] == b'-' && utc_time(&value[9..])
}

/// `YYYYMM`, `YYYYMMDD` or `YYYYMMw1` to `YYYYMMw5`.
fn month_year(value: &[u8]) -> bool {
    let is_month = |value: &[u8]| {
        value[..4].iter().all(u8::is_ascii_digit) && (1..=12).contains(&two(value, 4))
    };
    match value.len() {
        6 => is_month(value),
        8 if value[6] == b'w' => is_month(value) && (b'1'..=b'5').contains(&value[7]),
        _ => date(value),
    }
}

/// `HH:MM[:SS[.fraction]]` with an optional `Z`, `+hh[:mm]` or `-hh[:mm]`.
fn tz_time(value: &[u8]) -> bool {
    let zone = value.iter().position(|b| matches!(b, b'Z' | b'+' | b'-'));
    let (time, zone) = value.split_at(zone.unwrap_or(value.len()));
    let is_time = if time.len() == 5 { hour_minute(time) } else { utc_time(time) };
    is_time
        && match zone {
            [] | b"Z" => true,
            [_, hours @ ..] if hours.len() == 2 => two(hours, 0) <= 14,
            [_, offset @ ..] => offset.len() == 5 && hour_minute(offset) && two(offset, 0) <= 14,
        }
}

/// `D`, `W`, `M` or `Y` and a number above 0.
fn tenor(value: &[u8]) -> bool {
    match value {
        [b'D' | b'W' | b'M' | b'Y', count @ ..] => value::uint(count).is_some_and(|n| n > 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType as T;

    /// Good values and bad ones.
    const TABLE: &[(DataType, &[&str], &[&str])] = &[
        (T::Int, &["0", "-1", "0023", "-0"], &["+1", "1.0", "-", "1a", " 1", "--1"]),
        (T::Length, &["0", "17"], &["-1", "+1", "1.", "x"]),
        (T::SeqNum, &["0", "01", "18446744073709551615"], &["-1", "18446744073709551616"]),
        (T::NumInGroup, &["0", "2"], &["-2", "two"]),
        (T::TagNum, &["55"], &["-1"]),
        (T::DayOfMonth, &["1", "09", "31"], &["0", "32", "-1", "x"]),
        (T::Qty, &["002000.00", "-5", "0.5", ".5", "5."], &["+200.00", "1e3", "1,000", "."]),
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
        (T::UtcTimeOnly, &["00:00:00", "23:59:59.123"], &["24:00:00", "1:00:00", "00:00", "0000"]),
        (T::LocalMktTime, &["12:30:00"], &["12:30"]),
        (
            T::UtcDateOnly,
            &["20261121", "20261231"],
            &["20261301", "20260931", "20260100", "2026112", "202611211", "2026-1-1", "abcdefgh"],
        ),
        (T::LocalMktDate, &["00010101"], &["20261132"]),
        (
            T::TzTimeOnly,
            &["07:39", "07:39Z", "02:39-05", "15:39+08", "13:09:10.123+05:30", "07:39:00"],
            &["7:39", "07:39+5", "07:39+05:3", "07:39z", "07:39+15", "07:39+05:60", "Z", ""],
        ),
        (
            T::TzTimestamp,
            &["20060901-07:39Z", "20060901-02:39:00.5-05", "20060901-13:09+05:30"],
            &["20060931-07:39Z", "20060901", "20060901-", "20060901T07:39Z", "0"],
        ),
        (T::Data, &["\x01\x02"], &[]),
        (T::Tenor, &["D5", "M3", "W13", "Y1"], &["M", "M0", "5M", "Mx", "m3"]),
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
