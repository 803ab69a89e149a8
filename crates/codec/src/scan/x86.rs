//! Blocks of 64 bytes in SSE2 and AVX2 registers.

use core::arch::x86_64::*;

use super::Places;
use super::blocks::{self, BLOCK, Block, TAIL_MASK, short_block};
use super::layout::FIELDS_MAX;
use crate::data::DATA;
use crate::{SOH, Tag};

/// A block of 64 bytes: four registers of 16 bytes.
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
        // SAFETY: the caller guarantees that 64 bytes are readable and SSE2 is available.
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
        // SAFETY: each load reads 64 existing bytes of an array or slice; SSE2 is available.
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
    unsafe fn delimiters(self) -> u64 {
        // SAFETY: SSE2 is available.
        let bits = unsafe {
            let sought = _mm_set1_epi8(SOH as i8);
            self.0.map(|part| _mm_movemask_epi8(_mm_cmpeq_epi8(part, sought)) as u16)
        };
        let [a, b, c, d] = bits.map(u64::from);
        a | b << 16 | c << 32 | d << 48
    }

    #[inline(always)]
    unsafe fn no_sum() -> __m128i {
        // SAFETY: SSE2 is available.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m128i) -> __m128i {
        // SAFETY: SSE2 is available.
        unsafe {
            let zero = _mm_setzero_si128();
            let sums = self.0.map(|part| _mm_sad_epu8(part, zero));
            let halves = [_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3])];
            _mm_add_epi64(sum, _mm_add_epi64(halves[0], halves[1]))
        }
    }

    #[inline(always)]
    unsafe fn total(sum: __m128i) -> u8 {
        // SAFETY: SSE2 is available.
        unsafe {
            let high = _mm_unpackhi_epi64(sum, sum);
            _mm_cvtsi128_si64(_mm_add_epi64(sum, high)) as u8
        }
    }
}

/// A block of 64 bytes: two registers of 32 bytes.
#[derive(Clone, Copy)]
struct Avx2([__m256i; 2]);

impl Block for Avx2 {
    type Sum = __m256i;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: the caller guarantees that 64 bytes are readable and AVX2 is available.
        unsafe {
            let at = at.cast::<__m256i>();
            Self([_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))])
        }
    }

    #[inline(always)]
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32) {
        // SAFETY: each load reads 64 existing bytes of an array or slice; AVX2 is available.
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
    unsafe fn delimiters(self) -> u64 {
        // SAFETY: AVX2 is available.
        let bits = unsafe {
            let sought = _mm256_set1_epi8(SOH as i8);
            self.0.map(|part| _mm256_movemask_epi8(_mm256_cmpeq_epi8(part, sought)) as u32)
        };
        let [a, b] = bits.map(u64::from);
        a | b << 32
    }

    #[inline(always)]
    unsafe fn no_sum() -> __m256i {
        // SAFETY: AVX2 is available.
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn add_to(self, sum: __m256i) -> __m256i {
        // SAFETY: AVX2 is available.
        unsafe {
            let zero = _mm256_setzero_si256();
            let [a, b] = self.0.map(|part| _mm256_sad_epu8(part, zero));
            _mm256_add_epi64(sum, _mm256_add_epi64(a, b))
        }
    }

    #[inline(always)]
    unsafe fn total(sum: __m256i) -> u8 {
        // SAFETY: AVX2 is available, which implies SSE2.
        unsafe {
            let halves = (_mm256_castsi256_si128(sum), _mm256_extracti128_si256::<1>(sum));
            Sse2::total(_mm_add_epi64(halves.0, halves.1))
        }
    }

    #[inline(always)]
    unsafe fn read_tags(places: &mut Places, frame: &[u8], from: usize) -> Option<usize> {
        if from == 0 {
            // SAFETY: AVX2 is available.
            let has_layout = unsafe { has_layout(places, frame) };
            if has_layout.is_some_and(|has| places.layouts.note(places.count, has)) {
                return None;
            }
        }
        // SAFETY: AVX2 is available.
        let read = |places: &mut Places, from| unsafe { read_eight(places, frame, from) };
        let data = blocks::read_tags_by(LANES, places, frame, from, read);
        if data.is_none() {
            places.learn(frame);
        }
        data
    }
}

const LANES: usize = 8;

/// Weights of the digits of a tag, the weight of the first digit in the lowest byte.
///
/// The indexes 1, 2 and 4 are used for tags of 1, 2 and 3 digits.
static WEIGHTS: [[u8; 4]; LANES] = {
    let mut weights = [[0; 4]; LANES];
    (weights[1], weights[2], weights[4]) = ([1, 0, 0, 0], [10, 1, 0, 0], [100, 10, 1, 0]);
    weights
};

/// Length of `tag=`; indexed like [`WEIGHTS`].
static LENGTHS: [i32; LANES] = [0, 2, 3, 0, 4, 0, 0, 0];

/// A canonical tag with this number of digits exceeds this bound; indexed like [`WEIGHTS`].
static ABOVE: [i32; LANES] = [i32::MAX, 0, 9, 0, 99, 0, 0, 0];

/// Reads the tags of eight fields; serves as `read` of [`blocks::read_tags_by`].
///
/// # Safety
/// AVX2 is available.
#[inline(always)]
unsafe fn read_eight(places: &mut Places, frame: &[u8], from: usize) -> u32 {
    let left = (places.count - from).min(LANES);
    let starts = places.starts[from..].first_chunk::<LANES>();
    let values = places.values[from..].first_chunk_mut::<LANES>();
    let tags = places.tags[from..].first_chunk_mut::<LANES>();
    let (Some(starts), Some(values), Some(tags)) = (starts, values, tags) else {
        return (1 << left) - 1;
    };
    // SAFETY: AVX2 is available; loads and stores access 8 existing numbers of an array. The first
    // gather reads four bytes only where four are left in the frame. The second gather reads words
    // of DATA, which has 64 words of 32 bits.
    unsafe {
        let starts = _mm256_loadu_si256(starts.as_ptr().cast());
        let lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
        let active = _mm256_cmpgt_epi32(_mm256_set1_epi32(left as i32), lanes);
        let readable = _mm256_cmpgt_epi32(_mm256_set1_epi32(frame.len() as i32 - 3), starts);
        let zero = _mm256_setzero_si256();
        let read = _mm256_and_si256(active, readable);
        let text = _mm256_mask_i32gather_epi32::<1>(zero, frame.as_ptr().cast(), starts, read);
        // The high bit of the first byte that equals `=`; higher bits are undefined.
        let other = _mm256_xor_si256(text, _mm256_set1_epi8(b'=' as i8));
        let less = _mm256_sub_epi32(other, _mm256_set1_epi8(1));
        let equals =
            _mm256_and_si256(_mm256_andnot_si256(other, less), _mm256_set1_epi8(0x80_u8 as i8));
        let below = _mm256_sub_epi32(equals, _mm256_set1_epi32(1));
        let first = _mm256_andnot_si256(below, equals);
        // The index into the tables: 1, 2 or 4 for one, two or three digits, in the three bits that
        // a permutation reads.
        let length = _mm256_or_si256(
            _mm256_srli_epi32::<15>(first),
            _mm256_or_si256(_mm256_srli_epi32::<22>(first), _mm256_srli_epi32::<29>(first)),
        );
        let digits = _mm256_xor_si256(text, _mm256_set1_epi8(b'0' as i8));
        let weights = _mm256_loadu_si256(WEIGHTS.as_ptr().cast());
        let weights = _mm256_permutevar8x32_epi32(weights, length);
        let sums = _mm256_maddubs_epi16(digits, weights);
        let tag = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
        _mm256_storeu_si256(tags.as_mut_ptr().cast(), tag);
        let lengths = _mm256_loadu_si256(LENGTHS.as_ptr().cast());
        let behind = _mm256_add_epi32(starts, _mm256_permutevar8x32_epi32(lengths, length));
        _mm256_storeu_si256(values.as_mut_ptr().cast(), behind);
        // The mask keeps only the digits before `=`.
        let mask = _mm256_sub_epi32(_mm256_srli_epi32::<7>(first), _mm256_set1_epi32(1));
        let digits = _mm256_and_si256(digits, mask);
        let over = _mm256_or_si256(_mm256_add_epi8(digits, _mm256_set1_epi8(0x76)), digits);
        let over_nine = _mm256_and_si256(over, _mm256_set1_epi8(0x80_u8 as i8));
        let above = _mm256_loadu_si256(ABOVE.as_ptr().cast());
        let is_canonical = _mm256_and_si256(
            _mm256_cmpgt_epi32(tag, _mm256_permutevar8x32_epi32(above, length)),
            _mm256_cmpeq_epi32(over_nine, zero),
        );
        let plain = _mm256_and_si256(is_canonical, read);
        // `DATA` has one bit per tag, set for data fields; the tags here have at most three digits.
        let word = _mm256_and_si256(_mm256_srli_epi32::<5>(tag), _mm256_set1_epi32(31));
        let words = _mm256_i32gather_epi32::<4>(DATA.as_ptr().cast(), word);
        let bit =
            _mm256_sub_epi32(_mm256_set1_epi32(31), _mm256_and_si256(tag, _mm256_set1_epi32(31)));
        // Only the highest bit of each 32-bit number is used.
        let odd = _mm256_or_si256(
            _mm256_sllv_epi32(words, bit),
            _mm256_xor_si256(plain, _mm256_set1_epi32(-1)),
        );
        _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_and_si256(active, odd))) as u32
    }
}

/// The value -1 [`FIELDS_MAX`] times, then 0 [`FIELDS_MAX`] times. A slice of [`FIELDS_MAX`]
/// elements is a mask that selects the existing fields.
static ACTIVE: [i32; 2 * FIELDS_MAX] = {
    let mut active = [0; 2 * FIELDS_MAX];
    let mut n = 0;
    while n < FIELDS_MAX {
        active[n] = -1;
        n += 1;
    }
    active
};

/// Returns true if the frame has the likely layout and no value is empty.
///
/// The function stores tags and value offsets, which are undefined unless the result is true.
///
/// # Safety
/// AVX2 is available.
#[inline(always)]
unsafe fn has_layout(places: &mut Places, frame: &[u8]) -> Option<bool> {
    const ROOM: usize = FIELDS_MAX + 1;
    let Places { tags, values, starts, count, layouts, .. } = places;
    let count = *count;
    let layout = layouts.likely(count)?;
    let starts = starts.first_chunk::<ROOM>()?;
    let values = values.first_chunk_mut::<FIELDS_MAX>()?;
    let tags = tags.first_chunk_mut::<FIELDS_MAX>()?;
    let active = ACTIVE[FIELDS_MAX - count % (FIELDS_MAX + 1)..].first_chunk::<FIELDS_MAX>()?;
    // The last field has the highest offset: if its first four bytes lie in the frame, so do the
    // first four bytes of all fields.
    if frame.len() < starts[(count - 1) % ROOM] as usize + 4 {
        return Some(false);
    }
    // SAFETY: AVX2 is available. Loads and stores access 8 existing numbers of an array, because
    // the number of fields equals the layout's number. The gather reads four bytes of each existing
    // field.
    unsafe {
        let zero = _mm256_setzero_si256();
        let mut differ = zero;
        let mut from = 0;
        while from < count {
            let load = |numbers: *const u32| _mm256_loadu_si256(numbers.add(from).cast());
            let at = load(starts.as_ptr());
            let next = load(starts.as_ptr().add(1));
            let active = load(active.as_ptr().cast());
            let text = _mm256_mask_i32gather_epi32::<1>(zero, frame.as_ptr().cast(), at, active);
            let head = _mm256_and_si256(text, load(layout.masks.as_ptr()));
            differ = _mm256_or_si256(differ, _mm256_xor_si256(head, load(layout.heads.as_ptr())));
            let lens = _mm_loadl_epi64(layout.lens.as_ptr().add(from).cast());
            let value = _mm256_add_epi32(at, _mm256_cvtepu8_epi32(lens));
            let behind = _mm256_sub_epi32(value, _mm256_set1_epi32(-1));
            let is_empty = _mm256_and_si256(_mm256_cmpeq_epi32(behind, next), active);
            differ = _mm256_or_si256(differ, is_empty);
            _mm256_storeu_si256(values.as_mut_ptr().add(from).cast(), value);
            let tag = load(layout.tags.as_ptr().cast());
            _mm256_storeu_si256(tags.as_mut_ptr().add(from).cast(), tag);
            from += LANES;
        }
        Some(_mm256_testz_si256(differ, differ) == 1)
    }
}

/// Indexes the frame, whose last byte must be a delimiter, and returns the sum of its bytes.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn index_avx2(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: AVX2 is available, because the caller checked the features of this function.
    unsafe { blocks::index::<Avx2>(places, frame) }
}

/// Returns the sum of `bytes` modulo 256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn sum_avx2(bytes: &[u8]) -> u8 {
    // SAFETY: AVX2 is available, because the caller checked the features of this function.
    unsafe { blocks::sum::<Avx2>(bytes) }
}

/// Returns the index of the first occurrence of `tag` in `tags`.
///
/// This function itself handles lists of 4 to 8 tags, which are typical of group entries.
#[inline(always)]
pub(super) fn position(tags: &[Tag], tag: Tag) -> Option<usize> {
    if !(4..=8).contains(&tags.len()) {
        return position_among(tags, tag);
    }
    let last = tags.len() - 4;
    // SAFETY: every x86-64 has SSE2; each load begins at least four tags before the end.
    let found = unsafe { four(tags, 0, tag) | four(tags, last, tag) << last };
    (found != 0).then(|| found.trailing_zeros() as usize)
}

/// Searches a list of any length, sixteen tags at once; returns the index of the first occurrence.
///
/// The last load overlaps the previous load, so no remainder needs separate code.
#[inline(always)]
fn position_among(tags: &[Tag], tag: Tag) -> Option<usize> {
    let Some(last) = tags.len().checked_sub(16) else {
        let Some(last) = tags.len().checked_sub(4) else {
            return tags.iter().position(|&other| other == tag);
        };
        // SAFETY: every x86-64 has SSE2; the first two loads end at the eighth tag or the last tag,
        // and the other two within the list.
        let found = unsafe {
            let second = last.min(4);
            let third = last.saturating_sub(4);
            four(tags, 0, tag)
                | four(tags, second, tag) << second
                | four(tags, third, tag) << third
                | four(tags, last, tag) << last
        };
        return (found != 0).then(|| found.trailing_zeros() as usize);
    };
    let mut at = 0;
    loop {
        // SAFETY: every x86-64 has SSE2; `at` is at least sixteen tags before the end.
        let found = unsafe {
            let low = _mm_packs_epi32(equal(tags, at, tag), equal(tags, at + 4, tag));
            let high = _mm_packs_epi32(equal(tags, at + 8, tag), equal(tags, at + 12, tag));
            _mm_movemask_epi8(_mm_packs_epi16(low, high))
        };
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        if at == last {
            return None;
        }
        at = (at + 16).min(last);
    }
}

/// Compares the four tags from index `at` on with `tag`; equal tags become all ones, others 0.
///
/// # Safety
/// `tags` has four tags from `at` on.
#[inline(always)]
unsafe fn equal(tags: &[Tag], at: usize, tag: Tag) -> __m128i {
    // SAFETY: a Tag is a u32, and the caller guarantees four tags.
    unsafe {
        let four = _mm_loadu_si128(tags.as_ptr().add(at).cast());
        _mm_cmpeq_epi32(four, _mm_set1_epi32(tag.0 as i32))
    }
}

/// Returns the result of [`equal`] as one bit for each tag.
///
/// # Safety
/// The requirements of [`equal`].
#[inline(always)]
unsafe fn four(tags: &[Tag], at: usize, tag: Tag) -> u32 {
    // SAFETY: the caller guarantees four tags from index `at` on.
    unsafe { _mm_movemask_ps(_mm_castsi128_ps(equal(tags, at, tag))) as u32 }
}

/// Returns true if `tags` begins with the tags in `those`.
///
/// For 4 to 8 tags, the vector comparison is faster than a call of `memcmp`.
#[inline(always)]
pub(super) fn begin_with(tags: &[Tag], those: &[Tag]) -> bool {
    let count = those.len();
    if !(4..=8).contains(&count) || tags.len() < count {
        return tags.starts_with(those);
    }
    // SAFETY: every x86-64 has SSE2; a Tag is a u32; both lists have four tags from each offset on.
    let differ = unsafe {
        let four = |tags: &[Tag], at: usize| _mm_loadu_si128(tags.as_ptr().add(at).cast());
        let differ = |at| _mm_xor_si128(four(tags, at), four(those, at));
        let differ = _mm_or_si128(differ(0), differ(count - 4));
        _mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) != 0xffff
    };
    !differ
}
