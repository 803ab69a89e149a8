//! Calendar days: UTCDateOnly, LocalMktDate and MonthYear.
//!
//! The calendar is proleptic Gregorian with years of four digits. Invariant: a [`Date`] is an
//! existing day of the calendar.

use core::fmt;

use crate::digits;

/// The range of [`civil`]: 0001-01-01 and 9999-12-31 as days since 1970-01-01.
const DAY_MIN: i64 = -719_162;
const DAY_MAX: i64 = 2_932_896;

/// A day of the calendar, 00000101 to 99991231: a UTCDateOnly or a LocalMktDate.
/// ```
/// use transfix_codec::Date;
///
/// let day = Date::parse(b"20261121").expect("a day");
/// assert_eq!((day.year(), day.month(), day.day()), (2026, 11, 21));
/// assert_eq!(Date::parse(b"20260229"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

/// Days from 0000-03-01 to 1970-01-01, plus the days of the 400 years that [`Date::days`] adds.
const EPOCH: u32 = 719_468 + 146_097;

impl Date {
    /// Creates a date; `None` if the day does not exist or the year has more than four digits.
    #[must_use]
    #[inline]
    pub const fn new(year: u16, month: u8, day: u8) -> Option<Self> {
        let exists = year <= 9999
            && month.wrapping_sub(1) < 12
            && day != 0
            && day <= days_in_month(year, month);
        if exists { Some(Self { year, month, day }) } else { None }
    }

    /// Parses `YYYYMMDD`.
    #[must_use]
    #[inline]
    pub fn parse(value: &[u8]) -> Option<Self> {
        Self::of_digits(<&[u8; 8]>::try_from(value).ok()?)
    }

    /// Parses `YYYYMMDD`.
    #[inline]
    pub(crate) fn of_digits(text: &[u8; 8]) -> Option<Self> {
        let word = u64::from_le_bytes(*text);
        if !digits::all(word) {
            return None;
        }
        let [century, _, year, _, month, _, day, _] = digits::pairs(word).to_le_bytes();
        Self::new(u16::from(century).wrapping_mul(100).wrapping_add(u16::from(year)), month, day)
    }

    /// Returns the year, 0 to 9999.
    #[must_use]
    pub const fn year(self) -> u16 {
        self.year
    }

    /// Returns the month, 1 to 12.
    #[must_use]
    pub const fn month(self) -> u8 {
        self.month
    }

    /// Returns the day of the month, 1 to 31.
    #[must_use]
    pub const fn day(self) -> u8 {
        self.day
    }

    /// Returns the days since 1970-01-01, negative for earlier dates.
    #[must_use]
    #[inline]
    pub const fn days(self) -> i32 {
        // The calculation counts years from March, so that the leap day comes last. Adding 400
        // years keeps all numbers non-negative. All numbers stay far below 32 bits.
        let is_early = (self.month <= 2) as u32;
        let year = (self.year as u32 + 400).wrapping_sub(is_early);
        let month = (self.month as u32 + 12 * is_early).wrapping_sub(3);
        let of_year = (month.wrapping_mul(153).wrapping_add(2) / 5)
            .wrapping_add(self.day as u32)
            .wrapping_sub(1);
        let leap_days = (year / 4).wrapping_sub(year / 100).wrapping_add(year / 400);
        let days = year.wrapping_mul(365).wrapping_add(leap_days).wrapping_add(of_year);
        days.wrapping_sub(EPOCH) as i32
    }

    /// Returns the encoded date, `YYYYMMDD`.
    #[must_use]
    pub const fn text(self) -> [u8; 8] {
        let [c, y] = [self.year / 100, self.year % 100];
        let pairs = [two(c as u8), two(y as u8), two(self.month), two(self.day)];
        let mut text = [0; 8];
        let mut n = 0;
        while n < text.len() {
            text[n] = pairs[n / 2][n % 2];
            n += 1;
        }
        text
    }
}

/// Returns the two decimal digits of a number below 100 as ASCII.
pub(crate) const fn two(number: u8) -> [u8; 2] {
    [b'0' + number / 10, b'0' + number % 10]
}

#[inline]
const fn days_in_month(year: u16, month: u8) -> u8 {
    if month == 2 {
        let is_leap = if year.is_multiple_of(100) {
            year.is_multiple_of(400)
        } else {
            year.is_multiple_of(4)
        };
        return 28 + is_leap as u8;
    }
    // Month lengths alternate between 31 and 30 days, and the alternation restarts with 31 in
    // August.
    30 | (month ^ (month >> 3))
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(core::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A MonthYear: a whole month, or one day or week of a month.
/// ```
/// use transfix_codec::{MonthYear, PartOfMonth};
///
/// let maturity = MonthYear::parse(b"202611w3").expect("the third week");
/// assert_eq!((maturity.year(), maturity.month()), (2026, 11));
/// assert_eq!(maturity.part(), PartOfMonth::Week(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonthYear {
    year: u16,
    month: u8,
    part: PartOfMonth,
}

/// The part of the month that a [`MonthYear`] denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartOfMonth {
    /// The whole month: `YYYYMM`.
    Whole,
    /// A day, 1 to 31: `YYYYMMDD`.
    Day(u8),
    /// A week, 1 to 5: `YYYYMMwN`.
    Week(u8),
}

impl MonthYear {
    /// Creates a MonthYear; `None` if the month, day or week does not exist.
    #[must_use]
    pub const fn new(year: u16, month: u8, part: PartOfMonth) -> Option<Self> {
        let exists = match part {
            PartOfMonth::Whole => Date::new(year, month, 1).is_some(),
            PartOfMonth::Day(day) => Date::new(year, month, day).is_some(),
            PartOfMonth::Week(week) => {
                Date::new(year, month, 1).is_some() && week >= 1 && week <= 5
            }
        };
        if exists { Some(Self { year, month, part }) } else { None }
    }

    /// Parses `YYYYMM`, `YYYYMMDD`, or `YYYYMMw1` to `YYYYMMw5`.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (head, rest) = value.split_first_chunk::<6>()?;
        let number = digits::short(head)?;
        let part = match *rest {
            [] => PartOfMonth::Whole,
            [b'w', week @ b'1'..=b'5'] => PartOfMonth::Week(week - b'0'),
            [_, _] => PartOfMonth::Day(u8::try_from(digits::short(rest)?).ok()?),
            _ => return None,
        };
        // `number` has at most six digits, so year and month fit their types.
        Self::new((number / 100) as u16, (number % 100) as u8, part)
    }

    /// Returns the year, 0 to 9999.
    #[must_use]
    pub const fn year(self) -> u16 {
        self.year
    }

    /// Returns the month, 1 to 12.
    #[must_use]
    pub const fn month(self) -> u8 {
        self.month
    }

    /// Returns the denoted part of the month.
    #[must_use]
    pub const fn part(self) -> PartOfMonth {
        self.part
    }

    /// Writes the encoded MonthYear into `buffer` and returns the written bytes.
    pub(crate) fn text(self, buffer: &mut [u8; 8]) -> &[u8] {
        let day = if let PartOfMonth::Day(day) = self.part { day } else { 1 };
        *buffer = Date { year: self.year, month: self.month, day }.text();
        match self.part {
            PartOfMonth::Whole => &buffer[..6],
            PartOfMonth::Day(_) => &buffer[..],
            PartOfMonth::Week(week) => {
                (buffer[6], buffer[7]) = (b'w', b'0' + week);
                &buffer[..]
            }
        }
    }
}

impl fmt::Display for MonthYear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(core::str::from_utf8(self.text(&mut [0; 8])).unwrap_or_default())
    }
}

/// Converts days since 1970-01-01 into year, month and day, clamped to 0001-01-01 to 9999-12-31.
pub(crate) const fn civil(day: i64) -> (i64, i64, i64) {
    let day = if day < DAY_MIN { DAY_MIN } else { day };
    let day = if day > DAY_MAX { DAY_MAX } else { day } + 719_468;
    // A century has 36,524.25 days, and a year 365.25. Counted in quarter days, both divisions are
    // exact and fit into 32 bits.
    let quarters = 4 * day as u32 + 3;
    let (century, of_century) = (quarters / 146_097, quarters % 146_097 / 4);
    let quarters = 4 * of_century + 3;
    let (year, of_year) = (quarters / 1_461, quarters % 1_461 / 4);
    // From March on, each run of five months has 153 days.
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
    fn dates() {
        for text in ["19700101", "20240229", "20000229", "00000101", "00010101", "99991231"] {
            assert_eq!(Date::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        let wrong = [
            "20261301",
            "20260931",
            "20260100",
            "20260001",
            "2026112",
            "202611211",
            "2026-1-1",
            "abcdefgh",
            "20260229",
            "19000229",
            "",
        ];
        for text in wrong {
            assert_eq!(Date::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Date::new(10_000, 1, 1), None);
    }

    #[test]
    fn days_follow_each_other() {
        // The range covers six 400-year cycles of the calendar; the last day is checked separately.
        let mut expected = -719_528;
        for year in 0..=2_400 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let Some(date) = Date::new(year, month, day) else { continue };
                    assert_eq!(date.days(), expected, "{date}");
                    expected += 1;
                }
            }
        }
        assert_eq!(Date::new(1970, 1, 1).unwrap().days(), 0);
        assert_eq!(Date::new(9999, 12, 31).unwrap().days(), 2_932_896);
    }

    #[test]
    fn months() {
        for text in ["202611", "20261121", "202611w1", "202611w5", "000001"] {
            assert_eq!(MonthYear::parse(text.as_bytes()).unwrap().to_string(), text);
        }
        let wrong = [
            "", "202613", "202600", "20261131", "202611w0", "202611w6", "2026", "2026x1", "x02611",
            "2026111", "202611w", "20261100", "202611W1",
        ];
        for text in wrong {
            assert_eq!(MonthYear::parse(text.as_bytes()), None, "{text}");
        }
    }
}
