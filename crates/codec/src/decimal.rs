//! Exact decimals: mantissa and scale, so that 298.075 stays 298.075 and 100.00 keeps its zeros.

use core::fmt::{self, Write};

use crate::value;

/// The float family of FIX: `mantissa / 10^scale`.
///
/// Equality compares the number and its scale: `1.0` and `1.00` differ as text and here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Decimal {
    /// All digits, with the sign.
    pub mantissa: i64,
    /// Digits after the point, 0 to 18.
    pub scale: u8,
}

const SCALE_MAX: usize = 18;
/// Longest text whose digits fit into a mantissa whatever they are.
const SHORT: usize = 18;
/// Sign, 19 digits, point and a leading zero.
const TEXT_MAX: usize = 22;

impl Decimal {
    /// `mantissa / 10^scale`; `scale` is at most 18.
    #[must_use]
    pub const fn new(mantissa: i64, scale: u8) -> Self {
        assert!(scale as usize <= SCALE_MAX, "a Decimal has at most 18 digits after the point");
        Self { mantissa, scale }
    }

    /// Reads a float: optional minus sign, digits, optional point; no exponent, no plus sign.
    /// `None` if malformed, if the digits exceed 63 bits, or if more than 18 follow the point.
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
    let mantissa = i64::try_from(number).ok()?;
    Some(Decimal { mantissa: if negative { -mantissa } else { mantissa }, scale: part.len() as u8 })
}

impl From<i64> for Decimal {
    fn from(mantissa: i64) -> Self {
        Self { mantissa, scale: 0 }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number needs more than 63 bits, or 18 digits after the point; round it")
    }
}

impl core::error::Error for OutOfRange {}

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
        if usize::from(scale) > SCALE_MAX {
            return Err(OutOfRange);
        }
        Ok(Self { mantissa, scale })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = Self::text_buffer();
        f.pad(core::str::from_utf8(self.text(&mut buffer)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn binary_numbers() {
        let table = [
            (0.1, Some("0.1")),
            (-298.075, Some("-298.075")),
            (1e15, Some("1000000000000000")),
            (1.0, Some("1")),
            (-0.0, Some("0")),
            (1e19, None),
            (1e-19, None),
            (f64::NAN, None),
            (f64::INFINITY, None),
            (f64::MIN_POSITIVE, None),
            (f64::MAX, None),
        ];
        for (number, expected) in table {
            let decimal = Decimal::try_from(number).map(|decimal| decimal.to_string());
            assert_eq!(decimal.as_deref().ok(), expected, "{number}");
        }
        assert_eq!(f64::from(Decimal::new(298_075, 3)), 298.075);
    }

    #[cfg(feature = "rust_decimal")]
    #[test]
    fn the_decimal_crate() {
        for (text, fits) in [
            ("298.0750", true),
            ("-9223372036854775808", true),
            ("9223372036854775808", false),
            ("0.000000000000000001", true),
            ("0.0000000000000000001", false),
        ] {
            let theirs: rust_decimal::Decimal = text.parse().unwrap();
            let ours = Decimal::try_from(theirs);
            assert_eq!(ours.is_ok(), fits, "{text}");
            if let Ok(ours) = ours {
                assert_eq!(
                    (ours.to_string(), rust_decimal::Decimal::from(ours)),
                    (text.into(), theirs)
                );
            }
        }
    }

    #[test]
    fn table() {
        type Row = (&'static str, Option<(i64, u8)>, &'static str);
        let table: [Row; 14] = [
            ("298.075", Some((298_075, 3)), "298.075"),
            ("400.5", Some((4_005, 1)), "400.5"),
            ("100.00", Some((10_000, 2)), "100.00"),
            ("0.01", Some((1, 2)), "0.01"),
            ("-0.5", Some((-5, 1)), "-0.5"),
            (".5", Some((5, 1)), "0.5"),
            ("5.", Some((5, 0)), "5"),
            ("002000.00", Some((200_000, 2)), "2000.00"),
            ("0", Some((0, 0)), "0"),
            ("+1", None, ""),
            ("1e5", None, ""),
            ("", None, ""),
            (".", None, ""),
            ("1.2.3", None, ""),
        ];
        for (text, parsed, written) in table {
            let decimal = Decimal::parse(text.as_bytes());
            assert_eq!(decimal.map(|d| (d.mantissa, d.scale)), parsed, "{text}");
            if let Some(decimal) = decimal {
                assert_eq!(decimal.to_string(), written, "{text}");
            }
        }
        assert_eq!(Decimal::new(i64::MIN, 18).to_string(), "-9.223372036854775808");
    }
}
