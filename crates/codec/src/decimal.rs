//! Exact decimals: mantissa and scale, so that 298.075 stays 298.075 and 100.00 keeps its zeros.

use core::fmt::{self, Write};

use crate::{digits, value};

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
        let (mantissa, scale) = if (1..=digits::WORD).contains(&text.len()) {
            let word = digits::word(text);
            match digits::position(word, b'.') {
                None if digits::all(word) => (digits::number(word) as i64, 0),
                Some(at) if text.len() > 1 => {
                    let word = digits::without(word, at);
                    if !digits::all(word) {
                        return None;
                    }
                    (digits::number(word) as i64, 7_u8.wrapping_sub(at as u8))
                }
                _ => return None,
            }
        } else {
            long(text)?
        };
        Some(Self { mantissa: if negative { mantissa.wrapping_neg() } else { mantissa }, scale })
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

/// Digits and scale of a text of more than 8 bytes: what stands before and behind the point.
fn long(text: &[u8]) -> Option<(i64, u8)> {
    let point = point(text).unwrap_or(text.len());
    let (whole, rest) = text.split_at(point);
    let part = rest.get(1..).unwrap_or_default();
    if part.len() > SCALE_MAX || whole.is_empty() && part.is_empty() {
        return None;
    }
    let read = |digits: &[u8]| if digits.is_empty() { Some(0) } else { value::uint(digits) };
    let mantissa =
        read(whole)?.checked_mul(digits::power_of_ten(part.len()))?.checked_add(read(part)?)?;
    // At most 18 digits follow the point.
    Some((i64::try_from(mantissa).ok()?, part.len() as u8))
}

/// Where the point stands, looked for eight bytes at once.
fn point(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    for chunk in text.chunks(digits::WORD) {
        // A shorter chunk is filled up before its first byte.
        let filled = digits::WORD - chunk.len();
        if let Some(found) = digits::position(digits::word(chunk), b'.') {
            return Some(at + found as usize - filled);
        }
        at += chunk.len();
    }
    None
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
