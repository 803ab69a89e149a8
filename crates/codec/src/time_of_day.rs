//! Times of day: UTCTimeOnly, LocalMktTime, TZTimeOnly and TZTimestamp.
//!
//! Second 60 is a leap second, the last second of a UTC day, and is kept. Digits below one
//! nanosecond are truncated.

use core::fmt;
use core::num::NonZeroU32;

use crate::date::two;
use crate::precision::{Precision, fraction, usual_fraction};
use crate::{Date, Timestamp, digits};

/// A time of day without a time zone: a UTCTimeOnly or a LocalMktTime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeOfDay {
    /// Second, minute and hour in one byte each, the second lowest, plus the bit [`Self::SET`].
    ///
    /// Because `clock` is never 0, an `Option<TimeOfDay>` has two words, which functions return in
    /// registers.
    clock: NonZeroU32,
    nanos: u32,
}

impl Default for TimeOfDay {
    /// Returns midnight.
    fn default() -> Self {
        Self { clock: Self::SET, nanos: 0 }
    }
}

/// Maximum length of `HH:MM:SS.sssssssss`, in bytes.
const TIME_MAX: usize = 18;
/// Maximum length of a time with an offset, in bytes.
pub(crate) const TZ_TIME_MAX: usize = TIME_MAX + 6;

impl TimeOfDay {
    /// A bit of `clock` that is always set, so that `clock` is never 0.
    const SET: NonZeroU32 = NonZeroU32::MIN.saturating_add((1 << 24) - 1);

    /// Creates a time; `None` if the time does not exist. Second 60 exists only at 23:59.
    #[must_use]
    #[inline]
    pub const fn new(hour: u8, minute: u8, second: u8, nanos: u32) -> Option<Self> {
        let exists = hour < 24
            && minute < 60
            && (second < 60 || second == 60 && hour == 23 && minute == 59)
            && nanos < 1_000_000_000;
        if exists { Some(Self::of([hour, minute, second], nanos)) } else { None }
    }

    /// Creates a time from parts whose ranges the caller has checked.
    #[inline(always)]
    const fn of([hour, minute, second]: [u8; 3], nanos: u32) -> Self {
        let clock = (hour as u32) << 16 | (minute as u32) << 8 | second as u32;
        Self { clock: Self::SET.saturating_add(clock), nanos }
    }

    /// Parses `HH:MM:SS` with an optional fraction; keeps nine fraction digits.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (time, rest) = value.split_first_chunk::<8>()?;
        let Some(nanos) = usual_fraction(rest) else { return Self::with_fraction(time, rest) };
        let [hour, minute, second] = hms(time)?;
        Self::new(hour, minute, second, nanos)
    }

    /// Parses a time whose fraction has neither 0 nor 3 digits.
    #[inline(never)]
    fn with_fraction(time: &[u8; 8], rest: &[u8]) -> Option<Self> {
        let [hour, minute, second] = hms(time)?;
        Self::new(hour, minute, second, fraction(rest)?)
    }

    /// Returns the hour, 0 to 23.
    #[must_use]
    #[inline]
    pub const fn hour(self) -> u8 {
        (self.clock.get() >> 16) as u8
    }

    /// Returns the minute, 0 to 59.
    #[must_use]
    #[inline]
    pub const fn minute(self) -> u8 {
        (self.clock.get() >> 8) as u8
    }

    /// Returns the second, 0 to 60.
    #[must_use]
    #[inline]
    pub const fn second(self) -> u8 {
        self.clock.get() as u8
    }

    /// Returns the nanoseconds within the second, 0 to 999,999,999.
    #[must_use]
    #[inline]
    pub const fn nanos(self) -> u32 {
        self.nanos
    }

    /// Returns the nanoseconds since the start of the day.
    #[must_use]
    #[inline]
    pub const fn since_midnight_ns(self) -> i64 {
        let seconds = self.hour() as i64 * 3600 + self.minute() as i64 * 60 + self.second() as i64;
        seconds * 1_000_000_000 + self.nanos as i64
    }

    /// Writes `HH:MM:SS[.fff]` to the start of `buffer` and returns the length in bytes.
    pub(crate) fn write(self, precision: Precision, buffer: &mut [u8; TZ_TIME_MAX]) -> usize {
        for (at, number) in [(0, self.hour()), (3, self.minute()), (6, self.second())] {
            [buffer[at], buffer[at + 1]] = two(number);
        }
        (buffer[2], buffer[5]) = (b':', b':');
        let places = precision.digits();
        if places == 0 {
            return 8;
        }
        buffer[8] = b'.';
        let mut rest = self.nanos / 10_u32.pow(9 - places as u32);
        for digit in buffer[9..9 + places].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        9 + places
    }

    /// Returns the lowest precision that represents the whole fraction.
    const fn shortest(self) -> Precision {
        if self.nanos == 0 {
            Precision::Seconds
        } else if self.nanos.is_multiple_of(1_000_000) {
            Precision::Millis
        } else if self.nanos.is_multiple_of(1_000) {
            Precision::Micros
        } else {
            Precision::Nanos
        }
    }
}

/// Parses the numbers of `HH:MM:SS` without range checks.
#[inline]
pub(crate) fn hms(text: &[u8; 8]) -> Option<[u8; 3]> {
    const fn places(byte: u8) -> u64 {
        u64::from_le_bytes([0, 0, byte, 0, 0, byte, 0, 0])
    }
    let word = u64::from_le_bytes(*text);
    // With `0` in place of the colons, all eight bytes must be digits.
    let filled = word & !places(0xff) | places(b'0');
    if word & places(0xff) != places(b':') || !digits::all(filled) {
        return None;
    }
    let [hour, _, _, minute, _, _, second, _] = digits::pairs(filled).to_le_bytes();
    Some([hour, minute, second])
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; TZ_TIME_MAX];
        let length = self.write(self.shortest(), &mut buffer);
        f.pad(core::str::from_utf8(&buffer[..length]).unwrap_or_default())
    }
}

impl fmt::Debug for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The offset of a local time from UTC, in minutes: -14:59 to +14:59.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset {
    minutes: i16,
}

impl Offset {
    /// UTC itself, written `Z`.
    pub const UTC: Self = Self { minutes: 0 };
    const MINUTES_MAX: i16 = 14 * 60 + 59;

    /// Creates an offset; `None` if it exceeds 14:59 in either direction.
    #[must_use]
    pub const fn new(minutes: i16) -> Option<Self> {
        let exists = -Self::MINUTES_MAX <= minutes && minutes <= Self::MINUTES_MAX;
        if exists { Some(Self { minutes }) } else { None }
    }

    /// Returns the offset in minutes: positive east of UTC, negative west.
    #[must_use]
    pub const fn minutes(self) -> i16 {
        self.minutes
    }

    /// Parses `Z`, `+hh`, `-hh`, `+hh:mm` or `-hh:mm`.
    fn parse(value: &[u8]) -> Option<Self> {
        let (sign, rest) = match value.split_first()? {
            (b'Z', []) => return Some(Self::UTC),
            (b'+', rest) => (1, rest),
            (b'-', rest) => (-1, rest),
            _ => return None,
        };
        let [hours, minutes] = match *rest {
            [_, _] => [digits::short(rest)?, 0],
            [a, b, b':', c, d] => [digits::short(&[a, b])?, digits::short(&[c, d])?],
            _ => return None,
        };
        // Hours and minutes have two digits each, so the sum fits into an `i16`.
        if minutes < 60 { Self::new(sign * (hours * 60 + minutes) as i16) } else { None }
    }

    /// Writes `Z`, `+hh`, `-hh`, `+hh:mm` or `-hh:mm` to the start of `buffer` and returns the
    /// length in bytes.
    pub(crate) fn write(self, buffer: &mut [u8]) -> usize {
        if self.minutes == 0 {
            buffer[0] = b'Z';
            return 1;
        }
        buffer[0] = if self.minutes < 0 { b'-' } else { b'+' };
        // An offset is below 15 hours, so both numbers have at most two digits.
        let [hours, minutes] = [self.minutes.abs() / 60, self.minutes.abs() % 60];
        [buffer[1], buffer[2]] = two(hours as u8);
        if minutes == 0 {
            return 3;
        }
        buffer[3] = b':';
        [buffer[4], buffer[5]] = two(minutes as u8);
        6
    }
}

/// A TZTimeOnly: a time of day with an optional offset from UTC.
/// ```
/// use transfix_codec::TzTimeOnly;
///
/// let time = TzTimeOnly::parse(b"13:09+05:30").expect("a time");
/// assert_eq!(time.offset().map(|offset| offset.minutes()), Some(330));
/// assert_eq!(time.to_string(), "13:09:00+05:30");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TzTimeOnly {
    time: TimeOfDay,
    offset: Option<Offset>,
}

impl TzTimeOnly {
    /// Creates a local time with its offset from UTC.
    #[must_use]
    pub const fn new(time: TimeOfDay, offset: Option<Offset>) -> Self {
        Self { time, offset }
    }

    /// Parses `HH:MM[:SS[.fraction]]` and an optional `Z`, `+hh[:mm]` or `-hh[:mm]`.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let zone = value.iter().position(|b| matches!(b, b'Z' | b'+' | b'-'));
        let (time, zone) = value.split_at(zone.unwrap_or(value.len()));
        let offset = if zone.is_empty() { None } else { Some(Offset::parse(zone)?) };
        if let Some(minutes) = time.first_chunk::<5>()
            && time.len() == 5
        {
            let [a, b, c, d, e] = *minutes;
            let [hour, minute, _] = hms(&[a, b, c, d, e, b':', b'0', b'0'])?;
            return Some(Self { time: TimeOfDay::new(hour, minute, 0, 0)?, offset });
        }
        let (text, rest) = time.split_first_chunk::<8>()?;
        let [hour, minute, second] = hms(text)?;
        let nanos = fraction(rest)?;
        let regular = TimeOfDay::new(hour, minute, second.min(59), nanos)?;
        if second > 59 {
            // FIX: a leap second is the last second of a UTC day, at whatever local time that is.
            let ahead = offset.unwrap_or_default().minutes;
            let local = i16::from(hour) * 60 + i16::from(minute);
            let of_day = (local - ahead).rem_euclid(24 * 60);
            if second != 60 || of_day != 24 * 60 - 1 {
                return None;
            }
        }
        Some(Self { time: TimeOfDay::of([hour, minute, second], regular.nanos), offset })
    }

    /// Returns the local time.
    #[must_use]
    pub const fn time(self) -> TimeOfDay {
        self.time
    }

    /// Returns the offset from UTC; `None` if the value has no offset.
    #[must_use]
    pub const fn offset(self) -> Option<Offset> {
        self.offset
    }

    pub(crate) fn write(self, precision: Precision, buffer: &mut [u8; TZ_TIME_MAX]) -> usize {
        let length = self.time.write(precision, buffer);
        length + self.offset.map_or(0, |offset| offset.write(&mut buffer[length..]))
    }
}

impl fmt::Display for TzTimeOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; TZ_TIME_MAX];
        let length = self.write(self.time.shortest(), &mut buffer);
        f.pad(core::str::from_utf8(&buffer[..length]).unwrap_or_default())
    }
}

/// A TZTimestamp: a local date and time with an optional offset from UTC.
/// ```
/// use transfix_codec::TzTimestamp;
///
/// let time = TzTimestamp::parse(b"20060901-02:39:00.5-05").expect("a time");
/// let utc = time.utc().expect("a time with an offset");
/// assert_eq!(utc.to_string(), "20060901-07:39:00.500000000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TzTimestamp {
    date: Date,
    time: TzTimeOnly,
}

impl TzTimestamp {
    /// Creates a timestamp from a local date and a local time with its offset.
    #[must_use]
    pub const fn new(date: Date, time: TzTimeOnly) -> Self {
        Self { date, time }
    }

    /// Parses `YYYYMMDD-` followed by a TZTimeOnly.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (date, rest) = value.split_first_chunk::<8>()?;
        let time = TzTimeOnly::parse(rest.strip_prefix(b"-")?)?;
        Some(Self { date: Date::of_digits(date)?, time })
    }

    /// Returns the local date.
    #[must_use]
    pub const fn date(self) -> Date {
        self.date
    }

    /// Returns the local time with its offset.
    #[must_use]
    pub const fn time(self) -> TzTimeOnly {
        self.time
    }

    /// Returns the time in UTC; `None` without an offset or outside the range of [`Timestamp`].
    ///
    /// A leap second counts as the first second of the next day.
    #[must_use]
    pub fn utc(self) -> Option<Timestamp> {
        let ahead_ns = i64::from(self.time.offset?.minutes) * 60_000_000_000;
        let local = Timestamp::from_parts(self.date, self.time.time)?;
        local.0.checked_sub(ahead_ns).map(Timestamp)
    }
}

impl fmt::Display for TzTimestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.date, self.time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn times_of_day() {
        let table = [
            ("00:00:00", Some("00:00:00")),
            ("23:59:59.123", Some("23:59:59.123")),
            ("23:59:60", Some("23:59:60")),
            ("23:59:60.5", Some("23:59:60.500")),
            ("12:00:00.123456", Some("12:00:00.123456")),
            ("12:00:00.000000001", Some("12:00:00.000000001")),
            ("12:00:00.123456789012", Some("12:00:00.123456789")),
            ("12:00:00.1234567890123", None),
            ("12:00:00.123456789012x", None),
            ("12:00:60", None),
            ("23:59:61", None),
            ("24:00:00", None),
            ("12:60:00", None),
            ("1:00:00", None),
            ("00:00", None),
            ("00:00:00.", None),
            ("00:00:00Z", None),
            ("00-00-00", None),
            ("", None),
        ];
        for (text, expected) in table {
            let parsed = TimeOfDay::parse(text.as_bytes()).map(|time| time.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
        let time = TimeOfDay::parse(b"23:59:60.5").unwrap();
        assert_eq!(time.since_midnight_ns(), 86_400_500_000_000);
    }

    proptest! {
        #[test]
        fn a_time_keeps_its_parts(
            a in (0_u8..24, 0_u8..60, 0_u8..60, 0_u32..1_000_000_000),
            b in (0_u8..24, 0_u8..60, 0_u8..60, 0_u32..1_000_000_000),
        ) {
            let time = |(hour, minute, second, nanos)| TimeOfDay::new(hour, minute, second, nanos);
            let [first, second] = [a, b].map(|parts| time(parts).unwrap());
            prop_assert_eq!((first.hour(), first.minute(), first.second(), first.nanos()), a);
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
            prop_assert_eq!(TimeOfDay::parse(first.to_string().as_bytes()), Some(first));
        }

        #[test]
        fn a_usual_fraction_is_as_any(text in "[.:]?[0-9./:]{0,4}") {
            let text = text.as_bytes();
            let (any, usual) = (fraction(text), usual_fraction(text));
            prop_assert_eq!(usual, any.filter(|_| [0, 4].contains(&text.len())));
        }
    }

    #[test]
    fn local_times() {
        let table = [
            ("07:39", Some("07:39:00")),
            ("07:39Z", Some("07:39:00Z")),
            ("02:39-05", Some("02:39:00-05")),
            ("15:39+08:00", Some("15:39:00+08")),
            ("13:09:10.123+05:30", Some("13:09:10.123+05:30")),
            ("00:00-00:30", Some("00:00:00-00:30")),
            ("23:59:60Z", Some("23:59:60Z")),
            ("05:29:60+05:30", Some("05:29:60+05:30")),
            ("18:59:60-05", Some("18:59:60-05")),
            ("23:59:60", Some("23:59:60")),
            ("23:59:60-05", None),
            ("23:59:61Z", None),
            ("7:39", None),
            ("07:39+5", None),
            ("07:39+05:3", None),
            ("07:39z", None),
            ("07:39+15", None),
            ("07:39+05:60", None),
            ("07:39Z0", None),
            ("07:39:1Z", None),
            ("Z", None),
            ("", None),
        ];
        for (text, expected) in table {
            let parsed = TzTimeOnly::parse(text.as_bytes()).map(|time| time.to_string());
            assert_eq!(parsed.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn local_timestamps() {
        let table = [
            ("20060901-07:39Z", Some("20060901-07:39:00.000000000")),
            ("20060901-02:39-05", Some("20060901-07:39:00.000000000")),
            ("20060901-13:09+05:30", Some("20060901-07:39:00.000000000")),
            ("20161231-18:59:60.5-05", Some("20170101-00:00:00.500000000")),
            ("20060101-00:10+00:30", Some("20051231-23:40:00.000000000")),
            ("20060901-07:39", None),
            ("15000901-07:39Z", None),
        ];
        for (text, expected) in table {
            let time = TzTimestamp::parse(text.as_bytes()).expect(text);
            assert_eq!(time.utc().map(|utc| utc.to_string()).as_deref(), expected, "{text}");
        }
        for text in ["20060931-07:39Z", "20060901", "20060901-", "20060901T07:39Z", "0"] {
            assert_eq!(TzTimestamp::parse(text.as_bytes()), None, "{text}");
        }
    }
}
