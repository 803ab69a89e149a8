//! Formats times as UTCTimestamp.
//!
//! The text up to the minute is cached, because consecutive times mostly share a minute. The
//! remaining digits are computed eight at a time.

use super::text::{byte_sum, eight, pairs, three, two};
use crate::SOH;
use crate::date::civil;
use crate::precision::Precision;

const MINUTE_NS: i64 = 60_000_000_000;
const DAY_MINUTES: i64 = 24 * 60;

/// A minute and its encoded text `YYYYMMDD-HH:MM:`.
///
/// Other fields separate the two words of the text. Adjacent words would be loaded together right
/// after two separate stores, which stalls the processor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Minute {
    /// The bytes `YYYYMMDD`, first byte lowest.
    date: u64,
    /// Start of the minute in nanoseconds since 1970, modulo 2^64, because the first minute begins
    /// before the `i64` range.
    start: i64,
    /// The bytes `-HH:MM:`, first byte lowest.
    time: u64,
    /// The sum of the bytes of the text.
    sum: u64,
    /// The nanoseconds within the minute that were last formatted, and their text: most times of
    /// one message are equal.
    millis: (u64, u64),
}

impl Minute {
    /// The first minute of 1970-01-01.
    pub(crate) const FIRST: Self =
        Self::new(0, u64::from_le_bytes(*b"19700101"), u64::from_le_bytes(*b"-00:00:\0"));
    /// Length of the text, in bytes.
    pub(crate) const LEN: usize = 15;

    const fn new(start: i64, date: u64, time: u64) -> Self {
        let millis = (0, millis(0));
        Self { start, date, time, sum: byte_sum(date) + byte_sum(time), millis }
    }

    /// Returns the sum of the bytes of the text.
    #[inline]
    pub(crate) const fn sum(&self) -> u64 {
        self.sum
    }

    /// Returns the nanoseconds from the start of the minute to `nanos`, and changes `self` to the
    /// minute of `nanos` if necessary.
    #[inline]
    pub(crate) fn enter(&mut self, nanos: i64) -> u64 {
        let within = nanos.wrapping_sub(self.start) as u64;
        if within < MINUTE_NS as u64 {
            return within;
        }
        *self = Self::of(nanos);
        nanos.wrapping_sub(self.start) as u64
    }

    #[cold]
    #[inline(never)]
    fn of(nanos: i64) -> Self {
        let minute = nanos.div_euclid(MINUTE_NS);
        let (year, month, day) = civil(minute.div_euclid(DAY_MINUTES));
        let date = pairs([year as u32 / 100, year as u32 % 100, month as u32, day as u32]);
        let of_day = minute.rem_euclid(DAY_MINUTES) as u32;
        let digits = pairs([of_day / 60, of_day % 60, 0, 0]);
        let (hour, minute_of_hour) = (digits & 0xFFFF, digits >> 16 & 0xFFFF);
        let time = u64::from_le_bytes(*b"-\0\0:\0\0:\0") | hour << 8 | minute_of_hour << 32;
        Self::new(minute.wrapping_mul(MINUTE_NS), date, time)
    }

    /// Returns the text after the minute, `SS.sss`, for `nanos` nanoseconds within the minute.
    #[inline(always)]
    pub(crate) const fn millis(&mut self, nanos: u64) -> u64 {
        if self.millis.0 != nanos {
            self.millis = (nanos, millis(nanos));
        }
        self.millis.1
    }

    /// Returns the text in two words: the first eight bytes, then seven bytes and one filler byte.
    #[inline]
    pub(crate) const fn text(&self) -> [u64; 2] {
        [self.date, self.time]
    }
}

/// Returns the text after the minute: `SS`, point, fraction and delimiter.
///
/// The second result is the length without the delimiter. Digits beyond `precision` are truncated,
/// not rounded.
#[inline]
pub(crate) fn seconds(nanos: u64, precision: Precision) -> (u128, usize) {
    match precision {
        Precision::Seconds => ((eight(nanos / 1_000_000_000) >> 48) as u128 | delimiter(2), 2),
        Precision::Millis => ((millis(nanos) | (SOH as u64) << 48) as u128, 6),
        Precision::Micros => (with_point(eight(nanos / 1_000) as u128) | delimiter(9), 9),
        Precision::Nanos => {
            let (micros, rest) = (nanos / 1_000, nanos % 1_000);
            let digits = eight(micros) as u128 | ((eight(rest) >> 40) as u128) << 64;
            (with_point(digits) | delimiter(12), 12)
        }
    }
}

/// Returns the text `SS.sss`, the most common form, in a single word.
#[inline]
const fn millis(nanos: u64) -> u64 {
    // A minute has 60,000 milliseconds, so five digits suffice.
    let millis = nanos / 1_000_000;
    let second = millis / 1_000;
    let fraction = three(millis.wrapping_sub(second.wrapping_mul(1_000)));
    two(second) | (b'.' as u64) << 16 | fraction << 24
}

/// Inserts a point after the two digits of the second.
#[inline]
const fn with_point(digits: u128) -> u128 {
    (digits & 0xFFFF) | (b'.' as u128) << 16 | (digits >> 16) << 24
}

#[inline]
const fn delimiter(at: u32) -> u128 {
    (SOH as u128) << (8 * at)
}
