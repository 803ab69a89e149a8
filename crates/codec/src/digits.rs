//! Conversion of digits to numbers, eight bytes at a time.
//!
//! `word` loads a text into a word whose lowest byte is the first character. Leading zeros pad a
//! shorter text, so the number stays the same.

use crate::value;

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
const LOW_HALVES: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// Loads a text of at most 8 bytes into a word; ignores bytes after the eighth.
#[inline(always)]
fn word(text: &[u8]) -> u64 {
    if let Some(whole) = text.first_chunk() {
        return u64::from_le_bytes(*whole);
    }
    // `used` is below 64, because `text` has fewer than 8 bytes here.
    let used = (text.len() as u32).wrapping_mul(8);
    let filled = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // Two overlapping loads of four bytes cover a text of 4 to 7 bytes.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        u64::from(first).wrapping_shl(64_u32.wrapping_sub(used)) | u64::from(last) << 32
    } else {
        match *text {
            [a, b, c] => u64::from_le_bytes([0, 0, 0, 0, 0, a, b, c]),
            [a, b] => u64::from_le_bytes([0, 0, 0, 0, 0, 0, a, b]),
            [a] => u64::from(a) << 56,
            _ => 0,
        }
    };
    filled | ZEROS.wrapping_shr(used)
}

/// Returns true if all bytes of the word are digits.
#[inline(always)]
pub(crate) const fn all(word: u64) -> bool {
    let above_nine = word.wrapping_add(0x0606_0606_0606_0606);
    (word & HIGH_HALVES) | ((above_nine & HIGH_HALVES) >> 4) == 0x3333_3333_3333_3333
}

/// Combines adjacent digits: byte n of the result is ten times digit n plus digit n + 1.
#[inline(always)]
pub(crate) const fn pairs(word: u64) -> u64 {
    let digits = word & LOW_HALVES;
    digits.wrapping_mul(10).wrapping_add(digits >> 8)
}

/// Returns the number that a word of digits represents.
#[inline(always)]
pub(crate) const fn number(word: u64) -> u64 {
    let pairs = pairs(word) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// Parses a point and three digits; returns `None` if any of these bytes is wrong.
#[inline(always)]
pub(crate) fn millis([point, a, b, c]: [u8; 4]) -> Option<u32> {
    let [a, b, c] = [a, b, c].map(|digit| u32::from(digit.wrapping_sub(b'0')));
    let is_sound = point == b'.' && a.max(b).max(c) <= 9;
    is_sound.then(|| a.wrapping_mul(100).wrapping_add(b.wrapping_mul(10)).wrapping_add(c))
}

/// Parses 1 to 8 digits; returns `None` for any other text.
#[inline(always)]
pub(crate) fn short(text: &[u8]) -> Option<u64> {
    let word = word(text);
    all(word).then(|| number(word))
}

/// Returns true if a value consists of digits only, with any number of digits.
#[inline]
pub(crate) fn are_all(text: &[u8]) -> bool {
    match text.len() {
        1..=8 => all(word(text)),
        _ => value::is_uint(text),
    }
}

/// Returns true if a value has the form of a FIX int, with any number of digits.
#[inline]
pub(crate) fn are_int(text: &[u8]) -> bool {
    are_all(text.strip_prefix(b"-").unwrap_or(text))
}

/// Returns `10^n`; `n` must be at most 19.
#[inline(always)]
pub(crate) fn power_of_ten(n: usize) -> u64 {
    POWERS[n]
}

static POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut n = 1;
    while n < powers.len() {
        powers[n] = powers[n - 1] * 10;
        n += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_is_parse(text in "[0-9]{1,8}") {
            prop_assert_eq!(short(text.as_bytes()), text.parse().ok());
        }

        #[test]
        fn other_bytes_are_none(text in prop::collection::vec(any::<u8>(), 1..=8)) {
            let expected = text.iter().all(u8::is_ascii_digit);
            prop_assert_eq!(short(&text).is_some(), expected);
            prop_assert_eq!(are_all(&text), expected);
        }

        #[test]
        fn any_number_of_digits(text in "[0-9]{0,20}", at in 0..20_usize, other in any::<u8>()) {
            let mut text = text.into_bytes();
            prop_assert_eq!(are_all(&text), !text.is_empty());
            if let Some(digit) = text.get_mut(at) {
                *digit = other;
                prop_assert_eq!(are_all(&text), other.is_ascii_digit());
            }
        }
    }
}
