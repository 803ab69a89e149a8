//! Exact decimals: mantissa and scale, so that 298.075 stays 298.075 and 100.00 keeps its zeros.
//!
//! Invariant: at most 18 digits stand after the point; whatever makes a [`Decimal`] sees to it.

use core::cmp::Ordering;
use core::fmt::{self, Write};
use core::str::FromStr;

use crate::value;

#[cfg(test)]
mod tests;

/// The float family of FIX: `mantissa / 10^scale`.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Decimal {
    pub(crate) mantissa: i64,
    pub(crate) scale: u8,
}

const SCALE_MAX: usize = 18;
/// Longest text whose digits fit into a mantissa whatever they are.
const SHORT: usize = 18;
/// Sign, 19 digits, point and a leading zero.
const TEXT_MAX: usize = 22;

impl Decimal {
    /// `mantissa / 10^scale`.
    ///
    /// # Panics
    /// If `scale` is above 18; where it is not known before, use [`Decimal::try_new`].
    #[must_use]
    pub const fn new(mantissa: i64, scale: u8) -> Self {
        assert!(scale as usize <= SCALE_MAX, "a Decimal has at most 18 digits after the point");
        Self { mantissa, scale }
    }

    /// `mantissa / 10^scale`.
    ///
    /// # Errors
    /// If `scale` is above 18.
    pub const fn try_new(mantissa: i64, scale: u8) -> Result<Self, OutOfRange> {
        if scale as usize > SCALE_MAX { Err(OutOfRange) } else { Ok(Self { mantissa, scale }) }
    }

    /// All digits, with the sign.
    #[must_use]
    pub const fn mantissa(self) -> i64 {
        self.mantissa
    }

    /// Digits after the point, 0 to 18.
    #[must_use]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Reads a float: optional minus sign, digits, optional point; no exponent, no plus sign.
    /// `None` if malformed, if the digits exceed an `i64`, or if more than 18 follow the point.
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
        // Most have less than eight characters: measured faster than a word at a time.
        let (mut mantissa, mut point) = (0_i64, None);
        for (at, &b) in text.iter().enumerate() {
            match b {
                // Eighteen digits fit.
                b'0'..=b'9' => {
                    mantissa = mantissa.wrapping_mul(10).wrapping_add(i64::from(b & 0x0f));
                }
                b'.' if point.is_none() => point = Some(at),
                _ => return None,
            }
        }
        let scale = point.map_or(0, |at| text.len().wrapping_sub(at).wrapping_sub(1));
        if text.len() == usize::from(point.is_some()) {
            return None;
        }
        let mantissa = if negative { mantissa.wrapping_neg() } else { mantissa };
        Some(Self { mantissa, scale: scale as u8 })
    }

    /// The nearest `f64`, for display and statistics; never for what goes back on the wire.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        let mut divisor = 1.0;
        for _ in 0..self.scale {
            divisor *= 10.0;
        }
        self.mantissa as f64 / divisor
    }

    /// Compares the numbers, whatever their scales: `1.0` and `1.00` are equal here.
    #[must_use]
    pub fn cmp_value(self, other: Self) -> Ordering {
        let scale = self.scale.max(other.scale);
        self.at_scale(scale).cmp(&other.at_scale(scale))
    }

    /// The exact sum, with the greater scale of both, or a smaller one if it fits only then; `None`
    /// if no scale lets it fit.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        exact(self.at_scale(scale) + other.at_scale(scale), scale)
    }

    /// The exact difference; see [`Decimal::checked_add`].
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        exact(self.at_scale(scale) - other.at_scale(scale), scale)
    }

    /// The exact product, with the scales of both together, or a smaller one if it fits only then;
    /// `None` if no scale lets it fit.
    #[must_use]
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        exact(i128::from(self.mantissa) * i128::from(other.mantissa), self.scale + other.scale)
    }

    /// The mantissa for a scale that is not smaller. 63 bits and 18 digits more are 123 bits.
    fn at_scale(self, scale: u8) -> i128 {
        i128::from(self.mantissa) * 10_i128.pow(u32::from(scale - self.scale))
    }

    /// With at most that many digits after the point, rounded half to even.
    fn rounded(self, scale: u8) -> Self {
        if scale >= self.scale {
            return self;
        }
        let unit = 10_u64.pow(u32::from(self.scale - scale));
        let digits = self.mantissa.unsigned_abs();
        let (whole, rest) = (digits / unit, digits % unit);
        // Of a half, an odd number is rounded up.
        let up = rest * 2 + whole % 2 > unit;
        // A tenth of 63 bits at most.
        let digits = (whole + u64::from(up)) as i64;
        Self { mantissa: if self.mantissa < 0 { -digits } else { digits }, scale }
    }

    /// Writes the text into `buffer` and returns it.
    pub(crate) fn text(self, buffer: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut rest = self.mantissa.unsigned_abs();
        let mut at = TEXT_MAX;
        let mut written = 0;
        while written <= usize::from(self.scale) || rest > 0 {
            if written == usize::from(self.scale) && written > 0 {
                at -= 1;
                buffer[at] = b'.';
            }
            at -= 1;
            buffer[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            written += 1;
        }
        if self.mantissa < 0 {
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
    let number =
        read(whole)?.checked_mul(10_u64.pow(part.len() as u32))?.checked_add(read(part)?)?;
    let mantissa =
        if negative { 0_i64.checked_sub_unsigned(number)? } else { i64::try_from(number).ok()? };
    Some(Decimal { mantissa, scale: part.len() as u8 })
}

/// `mantissa / 10^scale` with the greatest scale that fits.
fn exact(mut mantissa: i128, mut scale: u8) -> Option<Decimal> {
    loop {
        let fitting = i64::try_from(mantissa).ok();
        if let Some(Ok(decimal)) = fitting.map(|mantissa| Decimal::try_new(mantissa, scale)) {
            return Some(decimal);
        }
        if scale == 0 || mantissa % 10 != 0 {
            return None;
        }
        (mantissa, scale) = (mantissa / 10, scale - 1);
    }
}

impl From<i64> for Decimal {
    fn from(mantissa: i64) -> Self {
        Self { mantissa, scale: 0 }
    }
}

/// Whole numbers that always fit.
macro_rules! from_whole {
    ($($whole:ty)*) => {$(
        impl From<$whole> for Decimal {
            fn from(mantissa: $whole) -> Self {
                Self::from(i64::from(mantissa))
            }
        }
    )*};
}

from_whole!(i8 i16 i32 u8 u16 u32);

/// Whole numbers that fit if they are not beyond 63 bits.
macro_rules! try_from_whole {
    ($($whole:ty)*) => {$(
        impl TryFrom<$whole> for Decimal {
            type Error = OutOfRange;

            fn try_from(mantissa: $whole) -> Result<Self, OutOfRange> {
                i64::try_from(mantissa).map(Self::from).map_err(|_| OutOfRange)
            }
        }
    )*};
}

try_from_whole!(u64 usize isize i128 u128);

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

/// A number that no [`Decimal`] can say: more than 63 bits, or more than 18 digits after the point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number needs more than 63 bits, or 18 digits after the point; round it")
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
            "not a decimal: write a minus sign if any, digits that fit into 63 bits and a point \
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
        Self::new(decimal.mantissa, u32::from(decimal.scale))
    }
}

/// The same number with the same scale.
#[cfg(feature = "rust_decimal")]
impl TryFrom<rust_decimal::Decimal> for Decimal {
    type Error = OutOfRange;

    fn try_from(number: rust_decimal::Decimal) -> Result<Self, OutOfRange> {
        let mantissa = i64::try_from(number.mantissa()).map_err(|_| OutOfRange)?;
        let scale = u8::try_from(number.scale()).map_err(|_| OutOfRange)?;
        Self::try_new(mantissa, scale)
    }
}

/// The text that goes onto the wire. As with other numbers, a width fills on the left, and a
/// precision rounds, half to even, or appends zeros; above 18 it counts as 18.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().map_or(self.scale, |places| places.min(SCALE_MAX) as u8);
        let number = self.rounded(places);
        let zeros = usize::from(places - number.scale);
        let mut text = Text { bytes: [0; 64], length: 0 };
        let mut buffer = Self::text_buffer();
        let digits = number.text(&mut buffer);
        let digits = core::str::from_utf8(digits).unwrap_or_default();
        text.write_str(digits.trim_start_matches('-'))?;
        if number.scale == 0 && zeros > 0 {
            text.write_char('.')?;
        }
        text.write_str(&"000000000000000000"[..zeros])?;
        let text = core::str::from_utf8(&text.bytes[..text.length]).unwrap_or_default();
        f.pad_integral(number.mantissa >= 0, "", text)
    }
}
