//! Blocks in the registers of SSE2 and AVX2.

use core::arch::x86_64::*;

use super::Places;
use super::blocks::{self, BLOCK, Block, TAIL_MASK, short_block};

/// Four registers of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Sse2([__m128i; 4]);

impl Sse2 {
    #[inline(always)]
    fn map(self, with: impl Fn(__m128i, usize) -> __m128i) -> Self {
        let [a, b, c, d] = self.0;
        Self([with(a, 0), with(b, 1), with(c, 2), with(d, 3)])
    }
}

impl Block for Sse2 {
    type Sum = __m128i;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 64 bytes are readable, and SSE2 is there: both promised by the caller.
        unsafe {
            let at = at.cast::<__m128i>();
            Self([
                _mm_loadu_si128(at),
                _mm_loadu_si128(at.add(1)),
                _mm_loadu_si128(at.add(2)),
                _mm_loadu_si128(at.add(3)),
            ])
        }
    }

    #[inline(always)]
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32) {
        // SAFETY: each load is of 64 bytes of an array or slice that has them; SSE2 is there.
        unsafe {
            let Some(last) = frame.last_chunk::<BLOCK>() else {
                return (Self::load(short_block(frame).as_ptr()), 0);
            };
            let mask = Self::load(TAIL_MASK[len..].as_ptr());
            let tail = Self::load(last.as_ptr()).map(|part, n| _mm_and_si128(part, mask.0[n]));
            (tail, (BLOCK - len) as u32)
        }
    }

    #[inline(always)]
    unsafe fn equal(self, byte: u8) -> u64 {
        // SAFETY: SSE2 is there.
        let bits = unsafe {
            let sought = _mm_set1_epi8(byte as i8);
            self.0.map(|part| _mm_movemask_epi8(_mm_cmpeq_epi8(part, sought)) as u16)
        };
        let [a, b, c, d] = bits.map(u64::from);
        a | b << 16 | c << 32 | d << 48
    }

    #[inline(always)]
    unsafe fn no_sum() -> __m128i {
        // SAFETY: SSE2 is there.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m128i) -> __m128i {
        // SAFETY: SSE2 is there.
        unsafe {
            let zero = _mm_setzero_si128();
            let sums = self.0.map(|part| _mm_sad_epu8(part, zero));
            let halves = [_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3])];
            _mm_add_epi64(sum, _mm_add_epi64(halves[0], halves[1]))
        }
    }

    #[inline(always)]
    unsafe fn total(sum: __m128i) -> u8 {
        // SAFETY: SSE2 is there.
        unsafe {
            let high = _mm_unpackhi_epi64(sum, sum);
            _mm_cvtsi128_si64(_mm_add_epi64(sum, high)) as u8
        }
    }
}

/// Two registers of 32 bytes.
#[derive(Clone, Copy)]
struct Avx2([__m256i; 2]);

impl Block for Avx2 {
    type Sum = __m256i;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: 64 bytes are readable, and AVX2 is there: both promised by the caller.
        unsafe {
            let at = at.cast::<__m256i>();
            Self([_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))])
        }
    }

    #[inline(always)]
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32) {
        // SAFETY: each load is of 64 bytes of an array or slice that has them; AVX2 is there.
        unsafe {
            let Some(last) = frame.last_chunk::<BLOCK>() else {
                return (Self::load(short_block(frame).as_ptr()), 0);
            };
            let Self([mask_a, mask_b]) = Self::load(TAIL_MASK[len..].as_ptr());
            let Self([a, b]) = Self::load(last.as_ptr());
            let tail = Self([_mm256_and_si256(a, mask_a), _mm256_and_si256(b, mask_b)]);
            (tail, (BLOCK - len) as u32)
        }
    }

    #[inline(always)]
    unsafe fn equal(self, byte: u8) -> u64 {
        // SAFETY: AVX2 is there.
        let bits = unsafe {
            let sought = _mm256_set1_epi8(byte as i8);
            self.0.map(|part| _mm256_movemask_epi8(_mm256_cmpeq_epi8(part, sought)) as u32)
        };
        let [a, b] = bits.map(u64::from);
        a | b << 32
    }

    #[inline(always)]
    unsafe fn no_sum() -> __m256i {
        // SAFETY: AVX2 is there.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m256i) -> __m256i {
        // SAFETY: AVX2 is there.
        unsafe {
            let zero = _mm256_setzero_si256();
            let [a, b] = self.0.map(|part| _mm256_sad_epu8(part, zero));
            _mm256_add_epi64(sum, _mm256_add_epi64(a, b))
        }
    }

    #[inline(always)]
    unsafe fn total(sum: __m256i) -> u8 {
        // SAFETY: AVX2 is there, and SSE2 with it.
        unsafe {
            let halves = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            Sse2::total(_mm_add_epi64(halves.0, halves.1))
        }
    }
}

/// Indexes the frame, whose last byte is a delimiter, and returns the sum of its bytes.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn index_avx2(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: AVX2 is there, or this function would not have been called.
    unsafe { blocks::index::<Avx2>(places, frame) }
}

/// The sum of `bytes` modulo 256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn sum_avx2(bytes: &[u8]) -> u8 {
    // SAFETY: AVX2 is there, or this function would not have been called.
    unsafe { blocks::sum::<Avx2>(bytes) }
}
