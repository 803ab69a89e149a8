//! Exact decimals: mantissa and scale, so that 298.075 stays 298.075 and 100.00 keeps its zeros.
//!
//! Invariants: at most 18 digits stand after the point, and zero has no sign; whatever makes a
//! [`Decimal`] sees to it.

use core::cmp::Ordering;
use core::fmt::{self, Write};
use core::num::NonZeroU8;
use core::str::FromStr;

use crate::encode::text::Short;
use crate::value;

#[cfg(test)]
mod tests;

/// The float family of FIX: `mantissa / 10^scale`, where the mantissa has 64 bits and a sign.
///
/// Equality compares the number and its scale: `1.0` and `1.00` differ as text and here. The
/// numbers alone are compared by [`Decimal::cmp_value`]. Sums and products are exact or `None`.
///
/// ```
/// use std::cmp::Ordering;
/// use transfix_codec::Decimal;
///
/// let [price, quantity] = [Decimal::new(10_550, 3), Decimal::from(300)];
/// assert_eq!(price.cmp_value("10.55".parse()?), Ordering::Equal);
/// assert_ne!(price, "10.55".parse()?);
/// assert_eq!(price.checked_mul(quantity), Some(Decimal::new(3_165_000, 3)));
/// assert_eq!(format!("{price:6.1}"), "  10.6");
/// # Ok::<(), transfix_codec::NotADecimal>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// The mantissa without its sign.
    digits: u64,
    /// Scale and sign in one byte that is never 0: a decimal that may be absent is two words, which
    /// functions return in registers. With a third field it would go through memory, and be read
    /// again by a wider load than it was stored, for which a processor waits.
    form: NonZeroU8,
}

/// The sign in [`Decimal::form`]; below it is the scale, and one more.
const NEGATIVE: u8 = 0x20;

const SCALE_MAX: usize = 18;
/// Longest text whose digits fit into 64 bits whatever they are.
const SHORT: usize = 19;
/// Sign, 20 digits and point. A leading zero stands before at most 18 digits.
const TEXT_MAX: usize = 22;

impl Decimal {
    /// `mantissa / 10^scale`.
    ///
    /// # Panics
    /// If `scale` is above 18; where it is not known before, use [`Decimal::try_new`].
    #[must_use]
    pub const fn new(mantissa: i64, scale: u8) -> Self {
        assert!(scale as usize <= SCALE_MAX, "a Decimal has at most 18 digits after the point");
        Self::of(mantissa.unsigned_abs(), scale, mantissa < 0)
    }

    /// `mantissa / 10^scale`; takes what [`Decimal::mantissa`] returns.
    ///
    /// # Errors
    /// If the mantissa needs more than 64 bits beside its sign, or `scale` is above 18.
    pub const fn try_new(mantissa: i128, scale: u8) -> Result<Self, OutOfRange> {
        Self::signed(mantissa < 0, mantissa.unsigned_abs(), scale)
    }

    /// As [`Decimal::try_new`], from a sign and a magnitude.
    const fn signed(negative: bool, magnitude: u128, scale: u8) -> Result<Self, OutOfRange> {
        if magnitude > u64::MAX as u128 || scale as usize > SCALE_MAX {
            return Err(OutOfRange);
        }
        Ok(Self::of(magnitude as u64, scale, negative && magnitude != 0))
    }

    /// All digits, with the sign.
    #[must_use]
    pub const fn mantissa(self) -> i128 {
        let digits = self.digits as i128;
        if self.is_negative() { -digits } else { digits }
    }

    /// Digits after the point, 0 to 18.
    #[must_use]
    #[inline]
    pub const fn scale(self) -> u8 {
        (self.form.get() & (NEGATIVE - 1)).wrapping_sub(1)
    }

    #[inline]
    const fn is_negative(self) -> bool {
        self.form.get() & NEGATIVE != 0
    }

    /// Its parts: `scale` is at most 18, and zero is not negative.
    #[inline(always)]
    const fn of(digits: u64, scale: u8, negative: bool) -> Self {
        let sign = if negative { NEGATIVE } else { 0 };
        // One more than that: nothing is saturated.
        let form = NonZeroU8::MIN.saturating_add(scale | sign);
        Self { digits, form }
    }

    /// Reads a float: optional minus sign, digits, optional point; no exponent, no plus sign.
    /// `None` if malformed, if the digits exceed a `u64`, or if more than 18 follow the point.
    /// A zero loses its sign.
    #[must_use]
    #[inline]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (negative, text) = match value {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        if text.len() > SHORT {
            return long(negative, text);
        }
        // Most have less than eight characters: a word at a time is not faster.
        let (mut digits, mut point) = (0_u64, None);
        for (at, &b) in text.iter().enumerate() {
            match b {
                // Nineteen digits fit.
                b'0'..=b'9' => digits = digits.wrapping_mul(10).wrapping_add(u64::from(b & 0x0f)),
                b'.' if point.is_none() => point = Some(at),
                _ => return None,
            }
        }
        let scale = point.map_or(0, |at| text.len().wrapping_sub(at).wrapping_sub(1));
        if text.len() == usize::from(point.is_some()) {
            return None;
        }
        Some(Self::of(digits, scale as u8, negative & (digits != 0)))
    }

    /// The nearest `f64`, for display and statistics; never for what goes back on the wire.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        let mut divisor = 1.0;
        for _ in 0..self.scale() {
            divisor *= 10.0;
        }
        let number = self.digits as f64 / divisor;
        if self.is_negative() { -number } else { number }
    }

    /// Compares the numbers, whatever their scales: `1.0` and `1.00` are equal here.
    #[must_use]
    pub fn cmp_value(self, other: Self) -> Ordering {
        let scale = self.scale().max(other.scale());
        self.at_scale(scale).cmp(&other.at_scale(scale))
    }

    /// The exact sum, with the greater scale of both, or a smaller one if it fits only then; `None`
    /// if no scale lets it fit.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let scale = self.scale().max(other.scale());
        exact_sum(self.at_scale(scale) + other.at_scale(scale), scale)
    }

    /// The exact difference; see [`Decimal::checked_add`].
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let scale = self.scale().max(other.scale());
        exact_sum(self.at_scale(scale) - other.at_scale(scale), scale)
    }

    /// The exact product, with the scales of both together, or a smaller one if it fits only then;
    /// `None` if no scale lets it fit.
    #[must_use]
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        // The product of two magnitudes has up to 128 bits: an i128 has no room for them.
        let magnitude = u128::from(self.digits) * u128::from(other.digits);
        exact(self.is_negative() != other.is_negative(), magnitude, self.scale() + other.scale())
    }

    /// The mantissa for a scale that is not smaller. 64 bits and 18 digits more are 124 bits, so
    /// that the sum of two fits as well.
    fn at_scale(self, scale: u8) -> i128 {
        self.mantissa() * 10_i128.pow(u32::from(scale - self.scale()))
    }

    /// With at most that many digits after the point, rounded half to even.
    fn rounded(self, scale: u8) -> Self {
        if scale >= self.scale() {
            return self;
        }
        // At most 10^18, so that twice the rest fits.
        let unit = 10_u64.pow(u32::from(self.scale() - scale));
        let (whole, rest) = (self.digits / unit, self.digits % unit);
        // A half rounds an odd number up.
        let up = rest * 2 + whole % 2 > unit;
        // A tenth of 64 bits at most.
        let digits = whole + u64::from(up);
        Self::of(digits, scale, self.is_negative() && digits != 0)
    }

    /// The text, if it is no longer than most are.
    #[inline(always)]
    pub(crate) fn short(self) -> Option<Short> {
        // One comparison for the scale and the sign: with the sign, no scale is short.
        Short::decimal(self.digits, usize::from(self.form.get() - 1))
    }

    /// Writes the text into `buffer` and returns it.
    pub(crate) fn text(self, buffer: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut rest = self.digits;
        let mut at = TEXT_MAX;
        let mut written = 0;
        while written <= usize::from(self.scale()) || rest > 0 {
            if written == usize::from(self.scale()) && written > 0 {
                at -= 1;
                buffer[at] = b'.';
            }
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            written += 1;
        }
        if self.is_negative() {
            at -= 1;
            buffer[at] = b'-';
        }
        &buffer[at..]
    }

    pub(crate) const fn text_buffer() -> [u8; TEXT_MAX] {
        [0; TEXT_MAX]
    }
}

/// A longer text: what stands before and behind the point.
#[cold]
fn long(negative: bool, text: &[u8]) -> Option<Decimal> {
    let point = text.iter().position(|&b| b == b'.').unwrap_or(text.len());
    let (whole, rest) = text.split_at(point);
    let part = rest.get(1..).unwrap_or_default();
    if part.len() > SCALE_MAX {
        return None;
    }
    let read = |digits: &[u8]| if digits.is_empty() { Some(0) } else { value::uint(digits) };
    let digits =
        read(whole)?.checked_mul(10_u64.pow(part.len() as u32))?.checked_add(read(part)?)?;
    Some(Decimal::of(digits, part.len() as u8, negative && digits != 0))
}

/// `mantissa / 10^scale` with the greatest scale that fits.
fn exact_sum(mantissa: i128, scale: u8) -> Option<Decimal> {
    exact(mantissa < 0, mantissa.unsigned_abs(), scale)
}

/// The same from a sign and a magnitude.
fn exact(negative: bool, mut magnitude: u128, mut scale: u8) -> Option<Decimal> {
    loop {
        if let Ok(decimal) = Decimal::signed(negative, magnitude, scale) {
            return Some(decimal);
        }
        if scale == 0 || !magnitude.is_multiple_of(10) {
            return None;
        }
        (magnitude, scale) = (magnitude / 10, scale - 1);
    }
}

impl From<i64> for Decimal {
    #[inline]
    fn from(mantissa: i64) -> Self {
        Self::new(mantissa, 0)
    }
}

impl From<u64> for Decimal {
    #[inline]
    fn from(mantissa: u64) -> Self {
        Self::of(mantissa, 0, false)
    }
}

/// The other whole numbers that fit into one of these two. Rust has no `usize` and `isize` of more
/// than 64 bits.
macro_rules! from_whole {
    ($of:ty: $($whole:ty)*) => {$(
        impl From<$whole> for Decimal {
            #[inline]
            fn from(mantissa: $whole) -> Self {
                const { assert!(<$whole>::BITS <= 64) };
                Self::from(mantissa as $of)
            }
        }
    )*};
}

from_whole!(i64: i8 i16 i32 isize);
from_whole!(u64: u8 u16 u32 usize);

impl TryFrom<i128> for Decimal {
    type Error = OutOfRange;

    fn try_from(mantissa: i128) -> Result<Self, OutOfRange> {
        Self::try_new(mantissa, 0)
    }
}

impl TryFrom<u128> for Decimal {
    type Error = OutOfRange;

    fn try_from(mantissa: u128) -> Result<Self, OutOfRange> {
        Self::signed(false, mantissa, 0)
    }
}

impl Default for Decimal {
    /// Zero, without digits after the point.
    #[inline]
    fn default() -> Self {
        Self::of(0, 0, false)
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Decimal");
        shown.field("digits", &self.digits).field("scale", &self.scale());
        shown.field("negative", &self.is_negative()).finish()
    }
}

/// Reads what [`Decimal::parse`] reads.
impl FromStr for Decimal {
    type Err = NotADecimal;

    fn from_str(text: &str) -> Result<Self, NotADecimal> {
        Self::parse(text.as_bytes()).ok_or(NotADecimal)
    }
}

/// The nearest `f64`; see [`Decimal::to_f64`].
impl From<Decimal> for f64 {
    fn from(decimal: Decimal) -> Self {
        decimal.to_f64()
    }
}

/// The shortest decimal that means the same `f64`: 0.1 becomes exactly 0.1.
///
/// ```
/// use transfix_codec::Decimal;
///
/// assert_eq!(Decimal::try_from(298.075), Ok(Decimal::new(298_075, 3)));
/// assert!(Decimal::try_from(f64::NAN).is_err());
/// ```
impl TryFrom<f64> for Decimal {
    type Error = OutOfRange;

    fn try_from(number: f64) -> Result<Self, OutOfRange> {
        let mut text = Text { bytes: [0; 64], length: 0 };
        write!(text, "{number}").map_err(|_| OutOfRange)?;
        Self::parse(&text.bytes[..text.length]).ok_or(OutOfRange)
    }
}

/// Text on the stack.
struct Text {
    bytes: [u8; 64],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        let place = self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// A number that no [`Decimal`] can say (more than 64 bits beside the sign, or more than 18 digits
/// after the point), or a time that no [`Timestamp`](crate::Timestamp) can say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "out of range: a Decimal has at most 64 bits and 18 digits after the point (round it), \
             a Timestamp is in the years 1677 to 2262",
        )
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for OutOfRange {}

/// A text that is no [`Decimal`]; see [`Decimal::parse`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotADecimal;

impl fmt::Display for NotADecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a decimal: write a minus sign if any, digits that fit into 64 bits and a point \
             with at most 18 of them behind it",
        )
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for NotADecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for NotADecimal {}

/// The same number with the same scale.
#[cfg(feature = "rust_decimal")]
impl From<Decimal> for rust_decimal::Decimal {
    fn from(decimal: Decimal) -> Self {
        // It holds 96 bits and 28 digits after the point.
        Self::from_i128_with_scale(decimal.mantissa(), u32::from(decimal.scale()))
    }
}

/// The same number with the same scale.
#[cfg(feature = "rust_decimal")]
impl TryFrom<rust_decimal::Decimal> for Decimal {
    type Error = OutOfRange;

    fn try_from(number: rust_decimal::Decimal) -> Result<Self, OutOfRange> {
        let scale = u8::try_from(number.scale()).map_err(|_| OutOfRange)?;
        Self::try_new(number.mantissa(), scale)
    }
}

/// The text that goes onto the wire. As with other numbers, a width fills on the left, and a
/// precision rounds, half to even, or appends zeros; above 18 it counts as 18.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().map_or(self.scale(), |places| places.min(SCALE_MAX) as u8);
        let number = self.rounded(places);
        let zeros = usize::from(places - number.scale());
        let mut text = Text { bytes: [0; 64], length: 0 };
        let mut buffer = Self::text_buffer();
        let digits = number.text(&mut buffer);
        let digits = core::str::from_utf8(digits).unwrap_or_default();
        text.write_str(digits.trim_start_matches('-'))?;
        if number.scale() == 0 && zeros > 0 {
            text.write_char('.')?;
        }
        text.write_str(&"000000000000000000"[..zeros])?;
        let text = core::str::from_utf8(&text.bytes[..text.length]).unwrap_or_default();
        f.pad_integral(!number.is_negative(), "", text)
    }
}
