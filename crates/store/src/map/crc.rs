//! The checksum of a record: CRC-32C.

/// Length in bytes from which the library is faster, because it computes the checksum of three
/// parts at a time.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 768;

/// Returns the checksum of a word and the bytes that follow it.
#[inline]
pub(crate) fn crc_of(word: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the preceding check has found the instruction on this processor.
        return unsafe { short(word, bytes) };
    }
    crc32c::crc32c_append(crc32c::crc32c(&word.to_le_bytes()), bytes)
}

/// Computes the checksum of a short record. For a message of typical length, this takes half as
/// many instructions as the library.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(word: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    let (words, rest) = bytes.as_chunks();
    let mut crc = u64::from(_mm_crc32_u32(!0, word));
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let add = |crc, byte: &u8| _mm_crc32_u8(crc, *byte);
    !rest.iter().fold(crc as u32, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_library() {
        let bytes: Vec<u8> = (0..2_000_u32).map(|n| (n * 7) as u8).collect();
        for word in [0, 1, 24, 0xFF, 0x100, 0xDEAD_BEEF, u32::MAX] {
            for len in (0..100).chain([760, 767, 768, 769, 2_000]) {
                for start in 0..8.min(bytes.len() - len + 1) {
                    let bytes = &bytes[start..start + len];
                    let expected = [&word.to_le_bytes(), bytes].concat();
                    assert_eq!(crc_of(word, bytes), crc32c::crc32c(&expected), "{word} {len}");
                }
            }
        }
    }
}
