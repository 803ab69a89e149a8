//! Blocks in the registers of AVX-512: one of 64 bytes, with places compressed (VBMI2) and sixteen
//! tags read at once.

use core::arch::x86_64::*;

use super::Places;
use super::blocks::{self, BLOCK, Block};
use crate::data::DATA;

#[derive(Clone, Copy)]
struct Avx512(__m512i);

/// 0, 1, 2 … 63.
static IOTA: [u8; BLOCK] = {
    let mut iota = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        iota[n] = n as u8;
        n += 1;
    }
    iota
};

impl Block for Avx512 {
    type Sum = __m512i;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 64 bytes are readable, and AVX-512 is there: both promised by the caller.
        unsafe { Self(_mm512_loadu_si512(at.cast())) }
    }

    #[inline(always)]
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32) {
        let tail = frame[frame.len() - len..].as_ptr();
        let mask = u64::MAX >> (BLOCK - len);
        // SAFETY: bytes that are masked out are not read; AVX-512 BW is there.
        unsafe { (Self(_mm512_maskz_loadu_epi8(mask, tail.cast())), 0) }
    }

    #[inline(always)]
    unsafe fn equal(self, byte: u8) -> u64 {
        // SAFETY: AVX-512 BW is there.
        unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    unsafe fn no_sum() -> __m512i {
        // SAFETY: AVX-512 F is there.
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m512i) -> __m512i {
        // SAFETY: AVX-512 BW is there.
        unsafe { _mm512_add_epi64(sum, _mm512_sad_epu8(self.0, _mm512_setzero_si512())) }
    }

    #[inline(always)]
    unsafe fn total(sum: __m512i) -> u8 {
        // SAFETY: AVX-512 F is there.
        unsafe { _mm512_reduce_add_epi64(sum) as u8 }
    }

    #[inline(always)]
    unsafe fn write_places(bits: u64, base: u32, out: &mut [u32; BLOCK]) {
        // SAFETY: AVX-512 VBMI2 is there; each store is of 16 numbers of `out`, which has 64.
        unsafe {
            let iota = _mm512_loadu_si512(IOTA.as_ptr().cast());
            let places = _mm512_maskz_compress_epi8(bits, iota);
            let base = _mm512_set1_epi32(base as i32);
            let out = out.as_mut_ptr().cast::<__m512i>();
            let wide = |part| _mm512_add_epi32(_mm512_cvtepu8_epi32(part), base);
            _mm512_storeu_si512(out, wide(_mm512_castsi512_si128(places)));
            if bits.count_ones() > 16 {
                _mm512_storeu_si512(out.add(1), wide(_mm512_extracti32x4_epi32::<1>(places)));
                _mm512_storeu_si512(out.add(2), wide(_mm512_extracti32x4_epi32::<2>(places)));
                _mm512_storeu_si512(out.add(3), wide(_mm512_extracti32x4_epi32::<3>(places)));
            }
        }
    }

    #[inline(always)]
    unsafe fn read_tags(places: &mut Places, frame: &[u8], from: usize) -> Option<usize> {
        let count = places.count;
        let mut from = from;
        if from < FIRST {
            // Before these tags there may be no four bytes.
            if let Some(data) = blocks::read_tags(places, frame, from, count.min(FIRST)) {
                return Some(data);
            }
            from = FIRST;
        }
        while from < count {
            // SAFETY: AVX-512 is there.
            let mut odd = unsafe { read_sixteen(places, frame, from) };
            while odd != 0 {
                let n = from + odd.trailing_zeros() as usize;
                if let Some(data) = blocks::read_tags(places, frame, n, n + 1) {
                    return Some(data);
                }
                odd &= odd - 1;
            }
            from += LANES;
        }
        None
    }
}

const LANES: usize = 16;
/// The first field with four bytes before its `=`: each field has a `=` and a delimiter at least.
const FIRST: usize = 2;
/// Tags below have a bit in [`DATA`].
const DATA_TAGS: i32 = 2048;

/// The least number of that many digits; of none, or of more than four, there is none.
static LEAST: [u32; LANES] = {
    let mut least = [u32::MAX; LANES];
    (least[1], least[2], least[3], least[4]) = (1, 10, 100, 1000);
    least
};

/// Reads the tags of the fields `from..from + 16`, as far as there are such, and returns those that
/// another look is due at, by bits: no number of one to four digits, or perhaps a data field.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn read_sixteen(places: &mut Places, frame: &[u8], from: usize) -> u16 {
    let left = places.count - from;
    let active = if left < LANES { (1_u16 << left) - 1 } else { u16::MAX };
    let values = places.values[from..].first_chunk::<LANES>();
    let ends = places.ends[from - 1..].first_chunk::<LANES>();
    let tags = places.tags[from..].first_chunk_mut::<LANES>();
    let (Some(values), Some(ends), Some(tags)) = (values, ends, tags) else {
        return active;
    };
    // SAFETY: AVX-512 is there; loads and the store are of 16 numbers of arrays that have them; the
    // gather reads, for fields that exist, the four bytes before the `=`, which lie in the frame,
    // as `from` is FIRST or more.
    unsafe {
        let values = _mm512_loadu_si512(values.as_ptr().cast());
        let ends = _mm512_loadu_si512(ends.as_ptr().cast());
        let len = _mm512_sub_epi32(_mm512_sub_epi32(values, ends), _mm512_set1_epi32(2));
        let at = _mm512_sub_epi32(values, _mm512_set1_epi32(5));
        let zero = _mm512_setzero_si512();
        let text = _mm512_mask_i32gather_epi32::<1>(zero, active, at, frame.as_ptr().cast());
        // The last digit is in the highest byte; what stands before the tag goes out.
        let unused = _mm512_sub_epi32(_mm512_set1_epi32(32), _mm512_slli_epi32::<3>(len));
        let digit_bytes = _mm512_sllv_epi32(_mm512_set1_epi32(-1), unused);
        let zeros = _mm512_set1_epi8(b'0' as i8);
        let digits = _mm512_and_si512(_mm512_xor_si512(text, zeros), digit_bytes);
        let above = _mm512_or_si512(_mm512_add_epi8(digits, _mm512_set1_epi8(0x76)), digits);
        let above_nine = _mm512_test_epi32_mask(above, _mm512_set1_epi8(0x80_u8 as i8));
        let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
        let numbers = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
        let least = _mm512_loadu_si512(LEAST.as_ptr().cast());
        let least = _mm512_permutexvar_epi32(_mm512_min_epu32(len, _mm512_set1_epi32(5)), least);
        let low = _mm512_cmplt_epu32_mask(numbers, least);
        _mm512_storeu_si512(tags.as_mut_ptr().cast(), numbers);
        active & (above_nine | low | perhaps_data(numbers))
    }
}

/// Which tags may be those of data fields, by bits: all that are, and those of [`DATA_TAGS`] and
/// above.
///
/// # Safety
/// AVX-512 F is there.
#[inline(always)]
unsafe fn perhaps_data(tags: __m512i) -> u16 {
    // SAFETY: AVX-512 F is there; DATA has 256 bytes.
    unsafe {
        let words = DATA.as_ptr().cast::<__m512i>();
        let word = _mm512_srli_epi32::<5>(tags);
        let low = (_mm512_loadu_si512(words), _mm512_loadu_si512(words.add(1)));
        let high = (_mm512_loadu_si512(words.add(2)), _mm512_loadu_si512(words.add(3)));
        let in_low = _mm512_permutex2var_epi32(low.0, word, low.1);
        let in_high = _mm512_permutex2var_epi32(high.0, word, high.1);
        let is_high = _mm512_test_epi32_mask(word, _mm512_set1_epi32(32));
        let bits = _mm512_mask_blend_epi32(is_high, in_low, in_high);
        let bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), {
            _mm512_and_si512(tags, _mm512_set1_epi32(31))
        });
        let beyond = _mm512_cmpge_epu32_mask(tags, _mm512_set1_epi32(DATA_TAGS));
        _mm512_test_epi32_mask(bits, bit) | beyond
    }
}

/// Indexes the frame, whose last byte is a delimiter, and returns the sum of its bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn index(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: AVX-512 is there, or this function would not have been called.
    unsafe { blocks::index::<Avx512>(places, frame) }
}

/// The sum of `bytes` modulo 256.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn sum(bytes: &[u8]) -> u8 {
    // SAFETY: AVX-512 is there, or this function would not have been called.
    unsafe { blocks::sum::<Avx512>(bytes) }
}
