//! UTC time stamps: nanoseconds since 1970, read and written as UTCTimestamp.
//!
//! The calendar is proleptic Gregorian; FIX has no offset and 23:59:60 for a leap second.

use core::fmt;

use crate::encode::moment::{Minute, seconds};

const NANOS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
/// 0001-01-01 and 9999-12-31 as days since 1970: what four digits of a year can say.
const DAY_MIN: i64 = -719_162;
const DAY_MAX: i64 = 2_932_896;

/// A moment in UTC, as nanoseconds since 1970-01-01; 1678 to 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// Digits after the second that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// `HH:MM:SS`: all that FIX 4.0 and 4.1 allow.
    Seconds,
    /// 3 digits, FIX 4.2 and later.
    #[default]
    Millis,
    /// 6 digits.
    Micros,
    /// 9 digits.
    Nanos,
}

/// `YYYYMMDD-HH:MM:SS.sssssssss`.
pub(crate) const TEXT_MAX: usize = 27;

impl Timestamp {
    /// Reads `YYYYMMDD-HH:MM:SS` with an optional fraction of 1 to 12 digits.
    /// Picoseconds are cut off; second 60 counts as the first of the next minute.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (whole, fraction) = value.split_first_chunk::<17>()?;
        // Constant places in an array: no bounds are checked, and all digits are judged at once.
        let mut wrong = whole[8] != b'-' || whole[11] != b':' || whole[14] != b':';
        let mut two = |at: usize| {
            let (tens, ones) = (whole[at].wrapping_sub(b'0'), whole[at + 1].wrapping_sub(b'0'));
            wrong |= tens > 9 || ones > 9;
            i64::from(tens) * 10 + i64::from(ones)
        };
        let (year, month, day) = (two(0) * 100 + two(2), two(4), two(6));
        let (hour, minute, second) = (two(9), two(12), two(15));
        if wrong {
            return None;
        }
        let in_range = (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && (second < 60 || (second == 60 && hour == 23 && minute == 59));
        if !in_range {
            return None;
        }
        let seconds = days(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second;
        seconds.checked_mul(NANOS)?.checked_add(parse_fraction(fraction)?).map(Self)
    }

    /// Writes `YYYYMMDD-HH:MM:SS[.fff]` into `buffer` and returns it; the rest is cut, not rounded.
    pub(crate) fn text(self, precision: Precision, buffer: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut minute = Minute::FIRST;
        let (rest, len) = seconds(minute.enter(self.0), precision);
        let (begin, end) = buffer.split_at_mut(Minute::LEN);
        begin.copy_from_slice(&minute.text().to_le_bytes()[..Minute::LEN]);
        end.copy_from_slice(&rest.to_le_bytes()[..TEXT_MAX - Minute::LEN]);
        &buffer[..Minute::LEN + len]
    }

    /// Nanoseconds from `earlier` to `self`; negative if `self` is earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; TEXT_MAX];
        let text = self.text(Precision::Nanos, &mut buffer);
        f.pad(core::str::from_utf8(text).unwrap_or_default())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_fraction(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (b'.', digits) = text.split_first()? else { return None };
    if digits.is_empty() || digits.len() > 12 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = digits.iter().take(9).fold(0, |n, &b| n * 10 + i64::from(b - b'0'));
    Some(nanos * 10_i64.pow(9 - digits.len().min(9) as u32))
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01; years are counted from March, so that the leap day is the last.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a day since 1970-01-01, clamped to years of four digits.
pub(crate) const fn civil(day: i64) -> (i64, i64, i64) {
    let day = if day < DAY_MIN { DAY_MIN } else { day };
    let day = if day > DAY_MAX { DAY_MAX } else { day } + 719_468;
    // A century has 36,524 days and a quarter, a year within it 365 and a quarter: counted in
    // quarters, both are divisions of whole numbers, and 32 bits are enough.
    let quarters = 4 * day as u32 + 3;
    let (century, of_century) = (quarters / 146_097, quarters % 146_097 / 4);
    let quarters = 4 * of_century + 3;
    let (year, of_year) = (quarters / 1_461, quarters % 1_461 / 4);
    // From March on, five months in turn have 153 days.
    let fifths = 5 * of_year + 2;
    let (month, of_month) = (fifths / 153, fifths % 153 / 5);
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    ((100 * century + year + next) as i64, month as i64, of_month as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn table() {
        let table: [(&str, Option<&str>); 13] = [
            ("19700101-00:00:00", Some("19700101-00:00:00.000000000")),
            ("20261121-09:28:25.623", Some("20261121-09:28:25.623000000")),
            ("20261121-09:28:25.623118", Some("20261121-09:28:25.623118000")),
            ("20240229-23:59:59.999999999", Some("20240229-23:59:59.999999999")),
            ("20240229-23:59:59.999999999999", Some("20240229-23:59:59.999999999")),
            ("20161231-23:59:60", Some("20170101-00:00:00.000000000")),
            ("20230229-00:00:00", None),
            ("20261121-24:00:00", None),
            ("20261121-09:28:60", None),
            ("20261121-09:28:25.", None),
            ("20261121-09:28:25.1234567890123", None),
            ("20261121 09:28:25", None),
            ("2026112109:28:25", None),
        ];
        for (text, expected) in table {
            let parsed = Timestamp::parse(text.as_bytes()).map(|t| t.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn every_day_of_the_calendar_round_trips() {
        for day in -100_000..100_000 {
            let (y, m, d) = civil(day);
            assert_eq!(days(y, m, d), day);
        }
    }

    #[test]
    fn precision() {
        let time = Timestamp::parse(b"20261121-09:28:25.623118789").unwrap();
        let text = |p| {
            let mut buffer = [0; TEXT_MAX];
            core::str::from_utf8(time.text(p, &mut buffer)).unwrap().to_string()
        };
        assert_eq!(text(Precision::Seconds), "20261121-09:28:25");
        assert_eq!(text(Precision::Millis), "20261121-09:28:25.623");
        assert_eq!(text(Precision::Micros), "20261121-09:28:25.623118");
    }
}
