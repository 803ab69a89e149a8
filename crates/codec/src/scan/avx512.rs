//! Index and byte sum with AVX-512.
//!
//! A block of 64 bytes is one register. The code compresses the positions of the delimiters
//! (VBMI2). A permutation of two blocks then selects the bytes after each delimiter, for up to
//! sixteen fields at once (VBMI). Gathering these bytes from memory would take twice the time.

use core::arch::x86_64::*;

use super::Places;
use super::blocks::{self, BLOCK, ROOM};
use crate::data::DATA;
use crate::{SOH, Tag};

/// The numbers 0 to 63 in order.
static IOTA: [u8; BLOCK] = {
    let mut iota = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        iota[n] = n as u8;
        n += 1;
    }
    iota
};

/// For each byte of sixteen 32-bit numbers: the index, within its 16-byte lane, of the lowest byte
/// of the number that contains this byte.
static LOWEST: [u8; BLOCK] = {
    let mut lowest = [0; BLOCK];
    let mut n = 0;
    while n < BLOCK {
        lowest[n] = (n % 16) as u8 & !3;
        n += 1;
    }
    lowest
};

const LANES: usize = 16;

/// Weights of the digits of a tag, the weight of the first digit in the lowest byte.
///
/// The index is the number of bytes before the first `=`, 0 to 4; it is 4 if the four bytes contain
/// no `=`.
static WEIGHTS: [[u8; 4]; LANES] = {
    let mut weights = [[0; 4]; LANES];
    (weights[1], weights[2], weights[3]) = ([1, 0, 0, 0], [10, 1, 0, 0], [100, 10, 1, 0]);
    weights
};

/// The smallest canonical tag with the same number of digits; indexed like [`WEIGHTS`].
static LEAST: [u32; LANES] = {
    let mut least = [u32::MAX; LANES];
    (least[1], least[2], least[3]) = (1, 10, 100);
    least
};

/// A mark in place of a tag that the scalar code must parse. Valid tags have at most nine digits
/// and are smaller.
const ODD: Tag = Tag(u32::MAX);

/// Indexes the frame, whose last byte must be a delimiter, and returns the sum of its bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,avx512vpopcntdq")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
pub(super) fn index(places: &mut Places, frame: &[u8]) -> u8 {
    let (mut sum, mut count, mut odd) = (_mm512_setzero_si512(), 0, 0);
    // The first field begins at the start of the frame.
    let mut carry = 1;
    // SAFETY: AVX-512 is available, because the caller checked the features of this function.
    let mut next = unsafe { load(frame, 0) };
    for base in (0..frame.len()).step_by(BLOCK) {
        let block = next;
        // SAFETY: AVX-512 is available, because the caller checked the features of this function.
        next = unsafe { load(frame, base + BLOCK) };
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(block, _mm512_setzero_si512()));
        let delimiters = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(SOH as i8));
        // Bytes after the last delimiter are not a field, so no field begins beyond the frame.
        let starts = (delimiters << 1 | carry) & valid(frame.len() - base);
        carry = delimiters >> 63;
        places.room(count + ROOM);
        // SAFETY: AVX-512 is available, because the caller checked the features of this function.
        odd |= unsafe { note(places, count, (block, next), (starts, base as i32)) };
        count += starts.count_ones() as usize;
    }
    places.starts[count] = frame.len() as u32;
    places.count = count;
    if odd != 0 {
        look_again(places, frame);
    }
    places.learn(frame);
    _mm512_reduce_add_epi64(sum) as u8
}

/// Returns a mask of the bytes of a block that exist: one set bit for each of the next `len` bytes.
#[inline(always)]
const fn valid(len: usize) -> u64 {
    if len < BLOCK { !(u64::MAX << len) } else { u64::MAX }
}

/// Loads the 64 bytes from offset `at` on, with zeros for bytes beyond the frame.
///
/// # Safety
/// AVX-512 is available.
#[inline(always)]
unsafe fn load(frame: &[u8], at: usize) -> __m512i {
    if at >= frame.len() {
        // SAFETY: AVX-512 F is available.
        return unsafe { _mm512_setzero_si512() };
    }
    let rest = &frame[at..];
    // SAFETY: AVX-512 BW and VBMI are available; each load reads 64 existing bytes of an array or
    // slice, or is masked to existing bytes. A masked load would suffice for every tail, but takes
    // several times as long if the vector reaches into an untouched page.
    unsafe {
        match (rest.first_chunk::<BLOCK>(), frame.last_chunk::<BLOCK>()) {
            (Some(block), _) => _mm512_loadu_si512(block.as_ptr().cast()),
            (None, Some(last)) => {
                let last = _mm512_loadu_si512(last.as_ptr().cast());
                let before = _mm512_set1_epi8((BLOCK - rest.len()) as i8);
                let iota = _mm512_loadu_si512(IOTA.as_ptr().cast());
                let places = _mm512_add_epi8(iota, before);
                _mm512_maskz_permutexvar_epi8(valid(rest.len()), places, last)
            }
            (None, None) => _mm512_maskz_loadu_epi8(valid(rest.len()), rest.as_ptr().cast()),
        }
    }
}

/// Stores the fields that begin in the first of two blocks; `n` is the index of the first field,
/// and `base` the offset of the block.
///
/// Returns a non-zero value if a field needs the scalar code.
///
/// # Safety
/// AVX-512 is available.
#[inline(always)]
unsafe fn note(
    places: &mut Places,
    mut n: usize,
    blocks: (__m512i, __m512i),
    (starts, base): (u64, i32),
) -> u16 {
    let (mut left, mut odd) = (starts.count_ones() as usize, 0);
    // SAFETY: AVX-512 is available; IOTA has 64 bytes.
    unsafe {
        let iota = _mm512_loadu_si512(IOTA.as_ptr().cast());
        let mut at = _mm512_maskz_compress_epi8(starts, iota);
        loop {
            let sixteen = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(at));
            odd |= note_sixteen(places, n, blocks, (sixteen, base)) & valid(left) as u16;
            if left <= LANES {
                return odd;
            }
            (n, left) = (n + LANES, left - LANES);
            at = _mm512_alignr_epi32::<4>(_mm512_setzero_si512(), at);
        }
    }
}

/// Stores sixteen fields, from index `n` on; `at` contains their positions in the block.
///
/// Returns a bit for each field that needs the scalar code.
///
/// # Safety
/// AVX-512 is available.
#[inline(always)]
unsafe fn note_sixteen(
    places: &mut Places,
    n: usize,
    blocks: (__m512i, __m512i),
    (at, base): (__m512i, i32),
) -> u16 {
    let starts = places.starts[n..].first_chunk_mut::<LANES>();
    let values = places.values[n..].first_chunk_mut::<LANES>();
    let tags = places.tags[n..].first_chunk_mut::<LANES>();
    let (Some(starts), Some(values), Some(tags)) = (starts, values, tags) else {
        unreachable!("there is room");
    };
    // SAFETY: AVX-512 is available; the constants have 64 bytes each; each store writes 16 existing
    // numbers of an array, and a Tag is a u32.
    unsafe {
        let lowest = _mm512_loadu_si512(LOWEST.as_ptr().cast());
        let four = _mm512_shuffle_epi8(at, lowest);
        let four = _mm512_add_epi8(four, _mm512_set1_epi32(0x0302_0100));
        let text = _mm512_permutex2var_epi8(blocks.0, four, blocks.1);
        // The high bit of the first byte that equals `=`; higher bits are undefined.
        let other = _mm512_xor_si512(text, _mm512_set1_epi8(b'=' as i8));
        let less = _mm512_sub_epi32(other, _mm512_set1_epi8(1));
        let highs = _mm512_set1_epi8(0x80_u8 as i8);
        let equals = _mm512_and_si512(_mm512_andnot_si512(other, less), highs);
        // All bits below that high bit: the bytes before `=`, and seven bits of the `=` itself.
        let below = _mm512_andnot_si512(equals, _mm512_sub_epi32(equals, _mm512_set1_epi32(1)));
        let len = _mm512_srli_epi32::<3>(_mm512_popcnt_epi32(below));
        let digits = _mm512_xor_si512(text, _mm512_set1_epi8(b'0' as i8));
        let weights = _mm512_loadu_si512(WEIGHTS.as_ptr().cast());
        let sums = _mm512_maddubs_epi16(digits, _mm512_permutexvar_epi32(len, weights));
        let tag = _mm512_madd_epi16(sums, _mm512_set1_epi16(1));
        // The shift removes the seven bits of the `=`, so that only the digits remain.
        let digits = _mm512_and_si512(digits, _mm512_srli_epi32::<7>(below));
        let over = _mm512_or_si512(_mm512_add_epi8(digits, _mm512_set1_epi8(0x76)), digits);
        let over_nine = _mm512_test_epi32_mask(over, highs);
        let least = _mm512_loadu_si512(LEAST.as_ptr().cast());
        let low = _mm512_cmplt_epu32_mask(tag, _mm512_permutexvar_epi32(len, least));
        let odd = over_nine | low | is_data(tag);
        let start = _mm512_add_epi32(at, _mm512_set1_epi32(base));
        let value = _mm512_add_epi32(_mm512_add_epi32(start, len), _mm512_set1_epi32(1));
        let tag = _mm512_mask_mov_epi32(tag, odd, _mm512_set1_epi32(ODD.0 as i32));
        _mm512_storeu_si512(starts.as_mut_ptr().cast(), start);
        _mm512_storeu_si512(values.as_mut_ptr().cast(), value);
        _mm512_storeu_si512(tags.as_mut_ptr().cast(), tag);
        odd
    }
}

/// Returns one bit for each tag of at most three digits that is the tag of a data field.
///
/// # Safety
/// AVX-512 F is available.
#[inline(always)]
unsafe fn is_data(tags: __m512i) -> u16 {
    // SAFETY: AVX-512 F is available; DATA has more than 128 bytes.
    unsafe {
        let words = DATA.as_ptr().cast::<__m512i>();
        let words = (_mm512_loadu_si512(words), _mm512_loadu_si512(words.add(1)));
        let word = _mm512_permutex2var_epi32(words.0, _mm512_srli_epi32::<5>(tags), words.1);
        let bit = _mm512_and_si512(tags, _mm512_set1_epi32(31));
        _mm512_test_epi32_mask(word, _mm512_sllv_epi32(_mm512_set1_epi32(1), bit))
    }
}

/// Parses the tags that need the scalar code, and corrects the ends of data fields.
#[cold]
fn look_again(places: &mut Places, frame: &[u8]) {
    let mut n = 0;
    while n < places.count {
        if places.tags[n] == ODD
            && let Some(data) = blocks::read_tags(places, frame, n, n + 1)
            && !blocks::settle_data(places, frame, data)
        {
            return;
        }
        n += 1;
    }
}

/// Returns the sum of `bytes` modulo 256.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn sum(bytes: &[u8]) -> u8 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let mut sum = _mm512_setzero_si512();
    let mut add =
        |block| sum = _mm512_add_epi64(sum, _mm512_sad_epu8(block, _mm512_setzero_si512()));
    for block in blocks {
        // SAFETY: a block has 64 bytes; AVX-512 is available, because the caller checked the
        // features of this function.
        add(unsafe { _mm512_loadu_si512(block.as_ptr().cast()) });
    }
    // SAFETY: AVX-512 is available; only existing bytes of the tail are read.
    add(unsafe {
        match bytes.last_chunk::<BLOCK>() {
            // The mask zeros the bytes that the loop over whole blocks has already added.
            Some(last) => _mm512_maskz_mov_epi8(
                !(u64::MAX >> rest.len()),
                _mm512_loadu_si512(last.as_ptr().cast()),
            ),
            None => _mm512_maskz_loadu_epi8(valid(rest.len()), rest.as_ptr().cast()),
        }
    });
    _mm512_reduce_add_epi64(sum) as u8
}
