//! Digits to numbers, eight bytes at once.
//!
//! A text is loaded into a word whose lowest byte is the first character; a shorter one is filled
//! up with zeros before it, so that it means the same number.

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH_HALVES: u64 = 0xf0f0_f0f0_f0f0_f0f0;
const LOW_HALVES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Longest text that [`word`] takes.
pub(crate) const WORD: usize = 8;

/// The text as a word; `text` has at most 8 bytes, of a longer one the rest is lost.
#[inline(always)]
pub(crate) fn word(text: &[u8]) -> u64 {
    if let Some(whole) = text.first_chunk::<WORD>() {
        return u64::from_le_bytes(*whole);
    }
    let n = text.len();
    let unused = 64 - 8 * n as u32;
    let filled = match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        // Two halves that overlap.
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << unused
                | u64::from(u32::from_le_bytes(*last)) << 32
        }
        _ if n == 0 => return ZEROS,
        _ => {
            let middle = n / 2;
            u64::from(text[0]) << unused
                | u64::from(text[middle]) << (unused + 8 * middle as u32)
                | u64::from(text[n - 1]) << 56
        }
    };
    filled | ZEROS >> (64 - unused)
}

/// Whether all bytes of the word are digits.
#[inline(always)]
pub(crate) const fn all(word: u64) -> bool {
    let above_nine = word.wrapping_add(0x0606_0606_0606_0606);
    (word & HIGH_HALVES) | ((above_nine & HIGH_HALVES) >> 4) == 0x3333_3333_3333_3333
}

/// Two digits from each byte on: byte n is ten times digit n plus digit n + 1.
#[inline(always)]
pub(crate) const fn pairs(word: u64) -> u64 {
    let digits = word & LOW_HALVES;
    digits.wrapping_mul(10).wrapping_add(digits >> 8)
}

/// The number that a word of digits means.
#[inline(always)]
pub(crate) const fn number(word: u64) -> u64 {
    let pairs = pairs(word) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

/// The number that 1 to 8 digits mean; `None` if there is another byte.
#[inline(always)]
pub(crate) fn short(text: &[u8]) -> Option<u64> {
    let word = word(text);
    all(word).then(|| number(word))
}

/// The place of the first `byte` in the word, counted from 0.
#[inline(always)]
pub(crate) const fn position(word: u64, byte: u8) -> Option<u32> {
    // The byte becomes 0; the lowest byte whose high bit is then set was 0.
    let differing = word ^ ONES.wrapping_mul(byte as u64);
    let zeros = differing.wrapping_sub(ONES) & !differing & HIGH_BITS;
    if zeros == 0 { None } else { Some(zeros.trailing_zeros() / 8) }
}

/// The word without its byte at `at`: what stood before it moves up, and a zero comes first.
#[inline(always)]
pub(crate) const fn without(word: u64, at: u32) -> u64 {
    let before = (1_u64 << (8 * at)).wrapping_sub(1);
    // At most 7 bytes stand before.
    let after = !(before << 8 | 0xff);
    (word & after) | (word & before) << 8 | 0x30
}

/// `10^n`; `n` is at most 19.
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
        }

        #[test]
        fn a_byte_is_found_and_taken_out(text in "[0-9]{0,7}", at in any::<prop::sample::Index>()) {
            let at = at.index(text.len() + 1);
            let mut pointed = text.clone();
            pointed.insert(at, '.');
            let pointed = word(pointed.as_bytes());
            let place = position(pointed, b'.').unwrap();
            prop_assert_eq!(place as usize, WORD - 1 - text.len() + at);
            prop_assert_eq!(without(pointed, place), word(text.as_bytes()));
        }
    }
}
