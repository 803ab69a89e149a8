//! Exact decimals: mantissa and scale, so that 298.075 stays 298.075 and 100.00 keeps its zeros.

use core::fmt;

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
    /// `None` if malformed or if it has more than 18 significant digits.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (negative, digits) = match value {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut mantissa = 0_i64;
        let mut point = None;
        for (i, &b) in digits.iter().enumerate() {
            match b {
                b'0'..=b'9' => {
                    mantissa = mantissa.checked_mul(10)?.checked_add(i64::from(b - b'0'))?;
                }
                b'.' if point.is_none() => point = Some(i),
                _ => return None,
            }
        }
        let scale = point.map_or(0, |i| digits.len() - i - 1);
        let count = digits.len() - usize::from(point.is_some());
        if count == 0 || scale > SCALE_MAX {
            return None;
        }
        Some(Self { mantissa: if negative { -mantissa } else { mantissa }, scale: scale as u8 })
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

impl From<i64> for Decimal {
    fn from(mantissa: i64) -> Self {
        Self { mantissa, scale: 0 }
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
