//! Blocks in the registers of AVX-512: one of 64 bytes, with places compressed (VBMI2) and sixteen
//! tags read at once.

use core::arch::x86_64::*;

use super::Places;
use super::blocks::{self, BLOCK, Block};
use crate::SOH;
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
    unsafe fn delimiters(self) -> u64 {
        // SAFETY: AVX-512 BW is there.
        unsafe { _mm512_cmpeq_epi8_mask(self.0, _mm512_set1_epi8(SOH as i8)) }
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
        // SAFETY: AVX-512 is there.
        let read = |places: &mut Places, from| unsafe { read_sixteen(places, frame, from) };
        blocks::read_tags_by(LANES, places, frame, from, read)
    }
}

const LANES: usize = 16;

/// By how many bytes of 0 to 4 are before the first `=`; 4 if there is none. What the digits of a
/// tag count, lowest digit byte lowest.
static WEIGHTS: [[u8; 4]; LANES] = {
    let mut weights = [[0; 4]; LANES];
    (weights[1], weights[2], weights[3]) = ([1, 0, 0, 0], [10, 1, 0, 0], [100, 10, 1, 0]);
    weights
};

/// By the same: the least canonical tag.
static LEAST: [u32; LANES] = {
    let mut least = [u32::MAX; LANES];
    (least[1], least[2], least[3]) = (1, 10, 100);
    least
};

/// Reads the tags of sixteen fields, as [`blocks::read_tags_by`] asks for.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn read_sixteen(places: &mut Places, frame: &[u8], from: usize) -> u32 {
    let left = places.count - from;
    let active = if left < LANES { (1_u16 << left) - 1 } else { u16::MAX };
    let starts = places.starts[from..].first_chunk::<LANES>();
    let values = places.values[from..].first_chunk_mut::<LANES>();
    let tags = places.tags[from..].first_chunk_mut::<LANES>();
    let (Some(starts), Some(values), Some(tags)) = (starts, values, tags) else {
        return u32::from(active);
    };
    // SAFETY: AVX-512 is there; loads and stores are of 16 numbers of arrays that have them; the
    // gather reads four bytes where so many are left in the frame; DATA has 256 bytes.
    unsafe {
        let starts = _mm512_loadu_si512(starts.as_ptr().cast());
        let last = _mm512_set1_epi32(frame.len() as i32 - 4);
        let read = _mm512_mask_cmple_epi32_mask(active, starts, last);
        let none = _mm512_setzero_si512();
        let text = _mm512_mask_i32gather_epi32::<1>(none, read, starts, frame.as_ptr().cast());
        // The high bit of the first byte that is `=`; higher ones mean nothing.
        let other = _mm512_xor_si512(text, _mm512_set1_epi8(b'=' as i8));
        let less = _mm512_sub_epi32(other, _mm512_set1_epi8(1));
        let highs = _mm512_set1_epi8(0x80_u8 as i8);
        let equals = _mm512_and_si512(_mm512_andnot_si512(other, less), highs);
        // All bits below it, and so the bytes before.
        let below = _mm512_andnot_si512(equals, _mm512_sub_epi32(equals, _mm512_set1_epi32(1)));
        let len = _mm512_srli_epi32::<3>(_mm512_popcnt_epi32(below));
        let digits = _mm512_xor_si512(text, _mm512_set1_epi8(b'0' as i8));
        let weights = _mm512_loadu_si512(WEIGHTS.as_ptr().cast());
        let sums = _mm512_maddubs_epi16(digits, _mm512_permutexvar_epi32(len, weights));
        let tag = _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
        let value = _mm512_add_epi32(_mm512_add_epi32(starts, len), _mm512_set1_epi32(1));
        _mm512_storeu_si512(tags.as_mut_ptr().cast(), tag);
        _mm512_storeu_si512(values.as_mut_ptr().cast(), value);
        // The seven bits below the high one belong to the `=`.
        let digits = _mm512_and_si512(digits, _mm512_srli_epi32::<7>(below));
        let over = _mm512_or_si512(_mm512_add_epi8(digits, _mm512_set1_epi8(0x76)), digits);
        let over_nine = _mm512_test_epi32_mask(over, highs);
        let least = _mm512_permutexvar_epi32(len, _mm512_loadu_si512(LEAST.as_ptr().cast()));
        let low = _mm512_cmplt_epu32_mask(tag, least);
        // A bit for each data field, here of three digits at most.
        let words = DATA.as_ptr().cast::<__m512i>();
        let words = (_mm512_loadu_si512(words), _mm512_loadu_si512(words.add(1)));
        let word = _mm512_permutex2var_epi32(words.0, _mm512_srli_epi32::<5>(tag), words.1);
        let bit = _mm512_and_si512(tag, _mm512_set1_epi32(31));
        let data = _mm512_test_epi32_mask(word, _mm512_sllv_epi32(_mm512_set1_epi32(1), bit));
        u32::from(active & (!read | over_nine | low | data))
    }
}

/// Indexes the frame, whose last byte is a delimiter, and returns the sum of its bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,avx512vpopcntdq")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn index(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: AVX-512 is there, or this function would not have been called.
    unsafe { blocks::index::<Avx512>(places, frame) }
}

/// The sum of `bytes` modulo 256.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,avx512vpopcntdq")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn sum(bytes: &[u8]) -> u8 {
    // SAFETY: AVX-512 is there, or this function would not have been called.
    unsafe { blocks::sum::<Avx512>(bytes) }
}
