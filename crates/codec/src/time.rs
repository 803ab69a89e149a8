//! UTC timestamps: nanoseconds since 1970, parsed and written as UTCTimestamp.
//!
//! The calendar is proleptic Gregorian. FIX timestamps carry no UTC offset. A leap second is
//! 23:59:60.

mod reader;

use core::fmt;

use crate::date::civil;
use crate::encode::moment::{Minute, seconds};
use crate::precision::Precision;
use crate::{Date, TimeOfDay};

pub use reader::TimestampReader;

const NANOS: i64 = 1_000_000_000;
const DAY_S: i64 = 86_400;
/// A moment in UTC as nanoseconds since 1970-01-01, from September 1677 to April 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// Maximum length of `YYYYMMDD-HH:MM:SS.sssssssss`, in bytes.
pub(crate) const TEXT_MAX: usize = 27;

/// ```
/// use std::time::{Duration, SystemTime};
/// use transfix_codec::Timestamp;
///
/// let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(43_200);
/// assert_eq!(Timestamp::try_from(noon), Ok(Timestamp(43_200_000_000_000)));
/// ```
#[cfg(feature = "std")]
impl TryFrom<std::time::SystemTime> for Timestamp {
    type Error = crate::OutOfRange;

    fn try_from(time: std::time::SystemTime) -> Result<Self, Self::Error> {
        let nanos = match time.duration_since(std::time::SystemTime::UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).ok(),
            Err(before) => i64::try_from(before.duration().as_nanos()).ok().map(|n| -n),
        };
        nanos.map(Self).ok_or(crate::OutOfRange)
    }
}

impl Timestamp {
    /// Parses `YYYYMMDD-HH:MM:SS` with an optional fraction; keeps nine fraction digits.
    ///
    /// Digits below one nanosecond are truncated. Second 60 counts as the first second of the next
    /// minute.
    #[must_use]
    #[inline]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (date, time) = Self::parts(value)?;
        Self::from_parts(date, time)
    }

    /// Parses the date and the time of a UTCTimestamp of any year.
    #[inline]
    pub(crate) fn parts(value: &[u8]) -> Option<(Date, TimeOfDay)> {
        let (date, time) = Self::split(value)?;
        let time = TimeOfDay::parse(time)?;
        Some((Date::of_digits(date)?, time))
    }

    /// Splits a UTCTimestamp at its hyphen into the texts of date and time.
    #[inline]
    pub(crate) fn split(value: &[u8]) -> Option<(&[u8; 8], &[u8])> {
        let (date, rest) = value.split_first_chunk::<8>()?;
        let (b'-', time) = rest.split_first()? else { return None };
        Some((date, time))
    }

    /// Creates a timestamp from a date and a time in UTC; `None` before September 1677 or after
    /// April 2262.
    #[must_use]
    #[inline]
    pub fn from_parts(date: Date, time: TimeOfDay) -> Option<Self> {
        let (mut day, mut of_day) = (i64::from(date.days()), time.since_midnight_ns());
        if day < 0 {
            // Midnight of the first representable day is out of range, so the time is counted back
            // from the next midnight.
            day += 1;
            of_day -= DAY_S * NANOS;
        }
        day.checked_mul(DAY_S * NANOS)?.checked_add(of_day).map(Self)
    }

    /// Returns the date in UTC.
    /// ```
    /// use transfix_codec::{Date, TimeOfDay, Timestamp};
    ///
    /// let time = Timestamp::parse(b"20261121-09:28:25.623").expect("a time");
    /// assert_eq!(time.date(), Date::new(2026, 11, 21).expect("a day"));
    /// assert_eq!(Timestamp::from_parts(time.date(), time.time_of_day()), Some(time));
    /// ```
    #[must_use]
    pub const fn date(self) -> Date {
        let (year, month, day) = civil(self.0.div_euclid(DAY_S * NANOS));
        match Date::new(year as u16, month as u8, day as u8) {
            Some(date) => date,
            None => panic!("a day of the calendar"),
        }
    }

    /// Returns the time of day in UTC.
    #[must_use]
    pub const fn time_of_day(self) -> TimeOfDay {
        let of_day = self.0.rem_euclid(DAY_S * NANOS);
        let (seconds, nanos) = (of_day / NANOS, (of_day % NANOS) as u32);
        let (hour, minute) = ((seconds / 3600) as u8, (seconds / 60 % 60) as u8);
        match TimeOfDay::new(hour, minute, (seconds % 60) as u8, nanos) {
            Some(time) => time,
            None => panic!("a time of a day"),
        }
    }

    /// Writes `YYYYMMDD-HH:MM:SS[.fff]` into `buffer` and returns the written bytes. Digits beyond
    /// `precision` are truncated, not rounded.
    pub(crate) fn text(self, precision: Precision, buffer: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut minute = Minute::FIRST;
        let (rest, len) = seconds(minute.enter(self.0), precision);
        let (begin, end) = buffer.split_at_mut(Minute::LEN);
        let [date, time] = minute.text().map(u64::to_le_bytes);
        begin[..8].copy_from_slice(&date);
        begin[8..].copy_from_slice(&time[..Minute::LEN - 8]);
        end.copy_from_slice(&rest.to_le_bytes()[..TEXT_MAX - Minute::LEN]);
        &buffer[..Minute::LEN + len]
    }

    /// Returns the nanoseconds from `earlier` to `self`, negative if `self` is earlier.
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn table() {
        let table: [(&str, Option<&str>); 14] = [
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
            ("20261121-09:28:25.123456789012", Some("20261121-09:28:25.123456789")),
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
            let date = Date::new(y as u16, m as u8, d as u8).unwrap();
            assert_eq!(i64::from(date.days()), day);
        }
    }

    #[test]
    fn the_first_and_the_last_moment() {
        for time in [Timestamp(i64::MIN), Timestamp(i64::MAX)] {
            assert_eq!(Timestamp::parse(time.to_string().as_bytes()), Some(time));
            assert_eq!(Timestamp::from_parts(time.date(), time.time_of_day()), Some(time));
        }
        for text in ["16770921-00:12:43.145224191", "22620411-23:47:16.854775808"] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
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
