//! Exact decimals of mantissa and scale: 298.075 stays 298.075, and 100.00 keeps its zeros.
//!
//! Invariants: a decimal has at most 18 digits after the point, and zero has no sign. Each
//! constructor of [`Decimal`] guarantees both.

use core::cmp::Ordering;
use core::fmt::{self, Write};
use core::num::NonZeroU8;
use core::str::FromStr;

use crate::encode::text::Short;
use crate::value;

#[cfg(test)]
mod tests;

/// A value of a FIX float type such as Price or Qty: `mantissa / 10^scale`, with 64 bits of
/// mantissa and a sign.
///
/// Equality compares the number and its scale: `1.0` and `1.00` are different.
/// [`Decimal::cmp_value`] compares only the numbers. Sums and products are exact or `None`.
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
    /// Scale and sign, packed into one byte that is never 0.
    ///
    /// Because this byte is never 0, an `Option<Decimal>` has two words, which functions return in
    /// registers. With a third field the value would pass through memory, where a load wider than
    /// the preceding store stalls.
    form: NonZeroU8,
}

/// The sign bit in [`Decimal::form`]. The bits below the sign bit contain the scale plus 1.
const NEGATIVE: u8 = 0x20;

const SCALE_MAX: usize = 18;
/// Maximum length in bytes of a text whose digits always fit into 64 bits.
const SHORT: usize = 19;
/// Maximum length of an encoded decimal in bytes: a sign, 20 digits and a point. At most 18 digits
/// follow a leading zero.
const TEXT_MAX: usize = 22;

impl Decimal {
    /// Creates the decimal `mantissa / 10^scale`.
    ///
    /// # Panics
    /// If `scale` is above 18. Use [`Decimal::try_new`] for an unchecked scale.
    #[must_use]
    pub const fn new(mantissa: i64, scale: u8) -> Self {
        assert!(scale as usize <= SCALE_MAX, "a Decimal has at most 18 digits after the point");
        Self::of(mantissa.unsigned_abs(), scale, mantissa < 0)
    }

    /// Creates the decimal `mantissa / 10^scale`; accepts each result of [`Decimal::mantissa`].
    ///
    /// # Errors
    /// If the mantissa needs more than 64 bits besides its sign, or `scale` is above 18.
    pub const fn try_new(mantissa: i128, scale: u8) -> Result<Self, OutOfRange> {
        Self::signed(mantissa < 0, mantissa.unsigned_abs(), scale)
    }

    /// Creates a decimal from a sign and a magnitude, with the checks of [`Decimal::try_new`].
    const fn signed(negative: bool, magnitude: u128, scale: u8) -> Result<Self, OutOfRange> {
        if magnitude > u64::MAX as u128 || scale as usize > SCALE_MAX {
            return Err(OutOfRange);
        }
        Ok(Self::of(magnitude as u64, scale, negative && magnitude != 0))
    }

    /// Returns the mantissa with its sign.
    #[must_use]
    pub const fn mantissa(self) -> i128 {
        let digits = self.digits as i128;
        if self.is_negative() { -digits } else { digits }
    }

    /// Returns the number of digits after the point, 0 to 18.
    #[must_use]
    #[inline]
    pub const fn scale(self) -> u8 {
        (self.form.get() & (NEGATIVE - 1)).wrapping_sub(1)
    }

    #[inline]
    const fn is_negative(self) -> bool {
        self.form.get() & NEGATIVE != 0
    }

    /// Creates a decimal from its parts; `scale` must be at most 18, and zero must not be negative.
    #[inline(always)]
    const fn of(digits: u64, scale: u8, negative: bool) -> Self {
        let sign = if negative { NEGATIVE } else { 0 };
        // The sum is at most 51, so `saturating_add` never saturates.
        let form = NonZeroU8::MIN.saturating_add(scale | sign);
        Self { digits, form }
    }

    /// Parses a float: optional minus sign, digits, optional point; no exponent, no plus sign.
    ///
    /// Returns `None` if the value is malformed, its digits exceed a `u64`, or more than 18 digits
    /// follow the point. A zero loses its sign.
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
        // Most values have fewer than eight characters, so parsing eight bytes at a time would not
        // be faster.
        let (mut digits, mut point) = (0_u64, None);
        for (at, &b) in text.iter().enumerate() {
            match b {
                // `text` has at most 19 digits, which fit into a `u64`, so the arithmetic never
                // wraps.
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

    /// Returns the nearest `f64`, for display and statistics; the result is too inexact for values
    /// sent on the wire.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        let mut divisor = 1.0;
        for _ in 0..self.scale() {
            divisor *= 10.0;
        }
        let number = self.digits as f64 / divisor;
        if self.is_negative() { -number } else { number }
    }

    /// Compares the numbers regardless of their scales: `1.0` and `1.00` are equal.
    #[must_use]
    pub fn cmp_value(self, other: Self) -> Ordering {
        let scale = self.scale().max(other.scale());
        self.at_scale(scale).cmp(&other.at_scale(scale))
    }

    /// Returns the exact sum; `None` if no scale represents the sum.
    ///
    /// The result has the larger scale of both operands, or the largest smaller scale at which the
    /// sum fits.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let scale = self.scale().max(other.scale());
        exact_sum(self.at_scale(scale) + other.at_scale(scale), scale)
    }

    /// Returns the exact difference; see [`Decimal::checked_add`].
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let scale = self.scale().max(other.scale());
        exact_sum(self.at_scale(scale) - other.at_scale(scale), scale)
    }

    /// Returns the exact product; `None` if no scale represents the product.
    ///
    /// The result has the sum of both scales as its scale, or the largest smaller scale at which
    /// the product fits.
    #[must_use]
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        // The product of two magnitudes has up to 128 bits, more than an `i128` holds.
        let magnitude = u128::from(self.digits) * u128::from(other.digits);
        exact(self.is_negative() != other.is_negative(), magnitude, self.scale() + other.scale())
    }

    /// Returns the mantissa at `scale`, which must not be below the scale of `self`.
    ///
    /// A 64-bit mantissa with 18 more digits needs 124 bits, so the sum of two results fits into an
    /// `i128`.
    fn at_scale(self, scale: u8) -> i128 {
        self.mantissa() * 10_i128.pow(u32::from(scale - self.scale()))
    }

    /// Rounds to at most `scale` digits after the point, half to even.
    fn rounded(self, scale: u8) -> Self {
        if scale >= self.scale() {
            return self;
        }
        // `unit` is at most 10^18, so twice the remainder fits into a `u64`.
        let unit = 10_u64.pow(u32::from(self.scale() - scale));
        let (whole, rest) = (self.digits / unit, self.digits % unit);
        // With a remainder of exactly half, only an odd number rounds up.
        let up = rest * 2 + whole % 2 > unit;
        // The quotient is at most a tenth of `u64::MAX`, so adding 1 cannot overflow.
        let digits = whole + u64::from(up);
        Self::of(digits, scale, self.is_negative() && digits != 0)
    }

    /// Returns the encoded decimal if the text fits into [`Short`], as most decimals do.
    #[inline(always)]
    pub(crate) fn short(self) -> Option<Short> {
        // A single comparison in `Short::decimal` checks scale and sign: the sign bit exceeds every
        // short scale.
        Short::decimal(self.digits, usize::from(self.form.get() - 1))
    }

    /// Writes the encoded decimal into `buffer` and returns the written bytes.
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

/// Parses a text of more than 19 bytes, without its sign, by splitting the digits at the point.
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

/// Creates the decimal `mantissa / 10^scale`; drops trailing zeros until the mantissa and the scale
/// fit.
fn exact_sum(mantissa: i128, scale: u8) -> Option<Decimal> {
    exact(mantissa < 0, mantissa.unsigned_abs(), scale)
}

/// Does the work of [`exact_sum`] for a sign and a magnitude.
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

/// Implements the conversions from integer types of at most 64 bits other than `u64` and `i64`.
///
/// The conversions include `usize` and `isize`, which have at most 64 bits on every Rust target.
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
    /// Returns the decimal `0`, which has scale 0.
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

/// Parses a text with [`Decimal::parse`].
impl FromStr for Decimal {
    type Err = NotADecimal;

    fn from_str(text: &str) -> Result<Self, NotADecimal> {
        Self::parse(text.as_bytes()).ok_or(NotADecimal)
    }
}

/// Converts to the nearest `f64`; see [`Decimal::to_f64`].
impl From<Decimal> for f64 {
    fn from(decimal: Decimal) -> Self {
        decimal.to_f64()
    }
}

/// Converts to the shortest decimal that equals the `f64`: 0.1 becomes exactly 0.1.
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

/// A text buffer on the stack.
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

/// A number outside the range of [`Decimal`], or a time outside [`Timestamp`](crate::Timestamp).
///
/// The mantissa of a [`Decimal`] has at most 64 bits besides the sign, and its scale is at most 18.
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

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for OutOfRange {}

/// A text that is not a [`Decimal`]; see [`Decimal::parse`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NotADecimal;

impl fmt::Display for NotADecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a decimal: write an optional minus sign, digits that fit into 64 bits, and a \
             point with at most 18 digits behind it",
        )
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for NotADecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for NotADecimal {}

/// Converts to the same number with the same scale, without loss.
#[cfg(feature = "rust_decimal")]
impl From<Decimal> for rust_decimal::Decimal {
    fn from(decimal: Decimal) -> Self {
        // A `rust_decimal::Decimal` holds 96 bits and 28 digits after the point, so every `Decimal`
        // fits.
        Self::from_i128_with_scale(decimal.mantissa(), u32::from(decimal.scale()))
    }
}

/// Converts to the same number with the same scale, or fails if the number does not fit.
#[cfg(feature = "rust_decimal")]
impl TryFrom<rust_decimal::Decimal> for Decimal {
    type Error = OutOfRange;

    fn try_from(number: rust_decimal::Decimal) -> Result<Self, OutOfRange> {
        let scale = u8::try_from(number.scale()).map_err(|_| OutOfRange)?;
        Self::try_new(number.mantissa(), scale)
    }
}

/// Formats the decimal as encoded on the wire.
///
/// A width pads on the left, as for other numbers. A precision rounds half to even or appends
/// zeros; a precision above 18 counts as 18.
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
