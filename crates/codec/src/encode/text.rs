//! Texts of at most eight bytes, held in one integer with the first byte lowest.
//!
//! Arithmetic creates, shifts and joins the digits of a value. A single store then writes the whole
//! field to the buffer.
//!
//! Invariant: bytes above the length are 0. No computation here can overflow; wrapping operations
//! avoid the overflow checks.

use crate::SOH;

const ASCII_ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
const ONES: u64 = u64::from_le_bytes([1; 8]);
const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
/// Numbers below this limit have at most eight digits.
pub(crate) const EIGHT_DIGITS: u64 = 100_000_000;

/// A text of 1 to 8 bytes in one integer, first byte lowest.
#[derive(Clone, Copy)]
pub(crate) struct Short {
    pub(crate) word: u64,
    pub(crate) len: usize,
}

impl Short {
    /// Returns the text of `value`, which must be below [`EIGHT_DIGITS`], with at least
    /// `digits_min` digits, 1 to 8.
    #[inline]
    pub(crate) fn digits(value: u64, digits_min: usize) -> Self {
        let digits = eight_digits(value);
        let leading = (digits.trailing_zeros() as usize / 8).min(8_usize.wrapping_sub(digits_min));
        // At most 7 leading zeros are shifted out, so the shift stays below 64 bits.
        let word = (digits | ASCII_ZEROS) >> (8 * leading as u32 % 64);
        Self { word, len: 8_usize.wrapping_sub(leading) }
    }

    /// Returns `mantissa / 10^scale` as text if it has at most seven digits.
    #[inline]
    pub(crate) fn decimal(mantissa: u64, scale: usize) -> Option<Self> {
        if mantissa >= EIGHT_DIGITS / 10 || scale >= 7 {
            return None;
        }
        let text = Self::digits(mantissa, scale.wrapping_add(1));
        if scale == 0 {
            return Some(text);
        }
        let whole = text.len.wrapping_sub(scale).wrapping_mul(8) as u32 % 64;
        let below = (1_u64 << whole).wrapping_sub(1);
        let point = u64::from(b'.') << whole;
        let word = (text.word & below) | point | ((text.word & !below) << 8);
        Some(Self { word, len: text.len.wrapping_add(1) })
    }
}

/// Loads 1 to 8 bytes into one integer with overlapping loads, which avoids a variable-length copy.
#[inline]
pub(crate) fn load_short(bytes: &[u8]) -> Option<Short> {
    let n = bytes.len();
    let shift = |kept: usize| 8 * n.wrapping_sub(kept) as u32 % 64;
    let word = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        if n > 8 {
            return None;
        }
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u64::from(first) | u64::from(last) << shift(4)
    } else {
        let (first, last) = (bytes.first()?, bytes.last()?);
        let middle = u64::from(bytes[n / 2]) << (8 * (n / 2) as u32 % 64);
        u64::from(*first) | middle | u64::from(*last) << shift(1)
    };
    Some(Short { word, len: n })
}

/// Loads 9 to 16 bytes as two words: the first eight bytes and the rest.
#[inline]
pub(crate) fn load_more(bytes: &[u8]) -> Option<[u64; 2]> {
    let (first, last) = (bytes.first_chunk()?, bytes.last_chunk()?);
    if !(9..=16).contains(&bytes.len()) {
        return None;
    }
    // Shifts out the bytes that overlap with `first`.
    let known = 8 * 16_usize.wrapping_sub(bytes.len()) as u32 % 64;
    Some([u64::from_le_bytes(*first), u64::from_le_bytes(*last) >> known])
}

/// Returns true if one of the bytes is the delimiter.
#[inline]
pub(crate) const fn has_delimiter(word: u64) -> bool {
    // XOR turns each delimiter into a 0 byte. The next expression sets the high bit of the lowest 0
    // byte, and is 0 if no byte is 0.
    let word = word ^ (ONES * SOH as u64);
    word.wrapping_sub(ONES) & !word & HIGHS != 0
}

/// Returns the sum of the eight bytes.
#[inline]
pub(crate) const fn byte_sum(word: u64) -> u64 {
    const EVEN: u64 = u64::from_le_bytes([0xFF, 0, 0xFF, 0, 0xFF, 0, 0xFF, 0]);
    // Adds four sums of two bytes each; the highest 16 bits then contain the total.
    let twos = (word & EVEN).wrapping_add(word >> 8 & EVEN);
    twos.wrapping_mul(u64::from_le_bytes([1, 0, 1, 0, 1, 0, 1, 0])) >> 48
}

/// Returns the eight digits of a number below [`EIGHT_DIGITS`] as bytes 0 to 9; the highest digit
/// is in the lowest byte.
#[inline]
pub(crate) const fn eight_digits(value: u64) -> u64 {
    // The number is split into halves of four digits, then into pairs, then into single digits,
    // side by side in one integer. The factors are 2^n / divisor rounded up, which is exact for
    // numbers of this size.
    let high = value.wrapping_mul(109_951_163) >> 40;
    let fours = high | value.wrapping_sub(high.wrapping_mul(10_000)) << 32;
    let high = (fours.wrapping_mul(10_486) >> 20) & 0x7F_0000_007F;
    let twos = high | fours.wrapping_sub(high.wrapping_mul(100)) << 16;
    single(twos)
}

/// Splits four numbers below 100, of 16 bits each, into two digits each.
#[inline]
const fn single(twos: u64) -> u64 {
    let high = (twos.wrapping_mul(103) >> 10) & 0x000F_000F_000F_000F;
    high | twos.wrapping_sub(high.wrapping_mul(10)) << 8
}

/// Returns the text of four numbers below 100, two digits each.
#[inline]
pub(crate) const fn pairs(numbers: [u32; 4]) -> u64 {
    let [a, b, c, d] = numbers;
    single(a as u64 | (b as u64) << 16 | (c as u64) << 32 | (d as u64) << 48) | ASCII_ZEROS
}

/// Returns the text of a number below 100, with two digits.
#[inline]
pub(crate) const fn two(value: u64) -> u64 {
    let tens = value.wrapping_mul(103) >> 10;
    let ones = value.wrapping_sub(tens.wrapping_mul(10));
    (tens | ones << 8) | 0x3030
}

/// Returns the text of a number below 1000, with three digits.
#[inline]
pub(crate) const fn three(value: u64) -> u64 {
    let hundreds = value.wrapping_mul(41) >> 12;
    let rest = value.wrapping_sub(hundreds.wrapping_mul(100));
    let tens = rest.wrapping_mul(103) >> 10;
    let ones = rest.wrapping_sub(tens.wrapping_mul(10));
    (hundreds | tens << 8 | ones << 16) | 0x30_3030
}

/// Returns the text of a number below [`EIGHT_DIGITS`], with eight digits.
#[inline]
pub(crate) const fn eight(value: u64) -> u64 {
    eight_digits(value) | ASCII_ZEROS
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn text(short: Short) -> String {
        let bytes = short.word.to_le_bytes();
        assert!(bytes[short.len..].iter().all(|&b| b == 0));
        String::from_utf8(bytes[..short.len].to_vec()).unwrap()
    }

    #[test]
    fn numbers_of_eight_digits() {
        let steps = (0..EIGHT_DIGITS).step_by(9_973).chain(0..20_000);
        for value in steps.chain([EIGHT_DIGITS - 1, EIGHT_DIGITS - 10_000]) {
            assert_eq!(eight(value).to_le_bytes()[..], *format!("{value:08}").as_bytes());
            assert_eq!(text(Short::digits(value, 1)), format!("{value}"));
            assert_eq!(text(Short::digits(value, 6)), format!("{value:06}"));
        }
    }

    #[test]
    fn every_number_of_three_digits() {
        for n in 0..1000 {
            assert_eq!(three(n).to_le_bytes()[..3], *format!("{n:03}").as_bytes());
        }
    }

    #[test]
    fn every_pair() {
        for n in 0..100 {
            assert_eq!(two(n.into()).to_le_bytes()[..2], *format!("{n:02}").as_bytes());
            let expected = format!("{n:02}00{:02}{n:02}", 99 - n);
            assert_eq!(pairs([n, 0, 99 - n, n]).to_le_bytes()[..], *expected.as_bytes());
        }
    }

    #[test]
    fn sums() {
        assert_eq!(byte_sum(u64::MAX), 8 * 255);
        let bytes = [0, 1, 2, 3, 50, 100, 200, 255];
        assert_eq!(byte_sum(u64::from_le_bytes(bytes)), bytes.iter().map(|b| u64::from(*b)).sum());
    }

    #[test]
    fn loads_of_each_length() {
        let bytes: [u8; 20] = core::array::from_fn(|i| i as u8 + 2);
        for n in 0..=20 {
            let mut expected = [0; 16];
            let kept = n.min(16);
            expected[..kept].copy_from_slice(&bytes[..kept]);
            let expected = u128::from_le_bytes(expected);
            let short = load_short(&bytes[..n]).map(|s| (u128::from(s.word), s.len));
            assert_eq!(short, (1..=8).contains(&n).then_some((expected, n)), "{n}");
            let more = load_more(&bytes[..n]);
            let words = [expected as u64, (expected >> 64) as u64];
            assert_eq!(more, (9..=16).contains(&n).then_some(words), "{n}");
        }
    }

    #[test]
    fn the_delimiter_at_each_place() {
        for at in 0..8 {
            let mut bytes = [2, 0, 0x81, 255, 3, 0, 2, 0x80];
            assert!(!has_delimiter(u64::from_le_bytes(bytes)));
            bytes[at] = SOH;
            assert!(has_delimiter(u64::from_le_bytes(bytes)), "{at}");
        }
    }
}
