//! The indexing pass over blocks of 64 bytes, shared by all kinds of vectors except AVX-512.
//!
//! In each block, one bit per byte marks the delimiters, whose positions are stored in an array. A
//! second loop reads the few bytes after each delimiter: the digits before `=` are a tag.

use super::{Places, scalar};
use crate::Tag;

/// A block of 64 bytes in the registers of one kind of processor.
pub(super) trait Block: Copy {
    /// Partial sums of bytes, in as many parts as the processor adds at once.
    type Sum: Copy;

    /// Loads the 64 bytes at address `at`.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation; 64 bytes from `at` are
    /// readable.
    unsafe fn load(at: *const u8) -> Self;

    /// Loads the last `len` bytes of the frame, 1 to 63.
    ///
    /// Also returns the number of zero bytes that precede the loaded bytes in the block.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32);

    /// Returns one bit per byte, set for delimiters.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    unsafe fn delimiters(self) -> u64;

    /// Returns sums of 0, to begin with.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    unsafe fn no_sum() -> Self::Sum;

    /// Adds the bytes of this block to the sums.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    unsafe fn add_to(self, sum: Self::Sum) -> Self::Sum;

    /// Returns the total of all sums, modulo 256.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    unsafe fn total(sum: Self::Sum) -> u8;

    /// Writes `base` plus the position of each set bit to `out`; later elements of `out` are
    /// undefined.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    #[inline(always)]
    unsafe fn write_places(mut bits: u64, base: u32, out: &mut [u32; 64]) {
        let count = bits.count_ones() as usize;
        let mut write = |range: core::ops::Range<usize>| {
            for place in &mut out[range] {
                *place = base.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
            }
        };
        // A field has about nine bytes, so most blocks have at most eight fields, which are written
        // without a branch.
        write(0..8);
        if count > 8 {
            write(8..16);
        }
        if count > 16 {
            write(16..64);
        }
    }

    /// Reads the tags and value offsets of all fields from index `from` on.
    ///
    /// Stops at the first data field and returns its index; the preceding Length field determines
    /// where this field ends.
    ///
    /// # Safety
    /// The processor supports the vectors that name the implementation.
    #[inline(always)]
    unsafe fn read_tags(places: &mut Places, frame: &[u8], from: usize) -> Option<usize> {
        read_tags(places, frame, from, places.count)
    }
}

/// Size of a block, in bytes.
pub(super) const BLOCK: usize = 64;

/// Spare room in each array: one block, plus the sixteen tags that are read at once after the last
/// field.
pub(super) const ROOM: usize = BLOCK + 16;

/// Indexes the frame, whose last byte must be a delimiter, and returns the sum of its bytes.
///
/// # Safety
/// The processor supports the vectors that name `B`.
#[inline(always)]
pub(super) unsafe fn index<B: Block>(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: the caller guarantees that the processor supports the vectors of `B`.
    let total = unsafe { find::<B>(places, frame) };
    let mut from = 0;
    // SAFETY: the caller guarantees that the processor supports the vectors of `B`.
    while let Some(n) = unsafe { B::read_tags(places, frame, from) } {
        if !settle_data(places, frame, n) {
            break;
        }
        from = n + 1;
    }
    total
}

/// Corrects the end of the n-th field, a data field whose end the preceding Length field
/// determines.
///
/// Returns true if the end was right. Otherwise the value contains delimiters: the rest of the
/// frame is indexed again, and the index is complete.
#[cold]
pub(super) fn settle_data(places: &mut Places, frame: &[u8], n: usize) -> bool {
    let (found, count) = (places.starts[n + 1], places.count);
    places.count = n;
    let next = scalar::push(places, frame, places.starts[n] as usize);
    if next == found as usize {
        places.count = count;
        return true;
    }
    scalar::index(places, frame, next);
    false
}

/// Stores the offset of each field and returns the sum of all bytes.
///
/// # Safety
/// The processor supports the vectors that name `B`.
#[inline(always)]
unsafe fn find<B: Block>(places: &mut Places, frame: &[u8]) -> u8 {
    places.count = 0;
    let (blocks, tail) = frame.as_chunks::<BLOCK>();
    // SAFETY: the caller guarantees the requirements of all these calls; a block has 64 bytes.
    unsafe {
        let mut sum = B::no_sum();
        for (n, bytes) in blocks.iter().enumerate() {
            let block = B::load(bytes.as_ptr());
            sum = block.add_to(sum);
            note::<B>(places, block.delimiters(), n * BLOCK);
        }
        if !tail.is_empty() {
            let (block, before) = B::load_tail(frame, tail.len());
            sum = block.add_to(sum);
            note::<B>(places, block.delimiters() >> before, blocks.len() * BLOCK);
        }
        B::total(sum)
    }
}

/// Stores the positions after the delimiters of one block, which begins at offset `base`.
///
/// # Safety
/// The processor supports the vectors that name `B`.
#[inline(always)]
unsafe fn note<B: Block>(places: &mut Places, delimiters: u64, base: usize) {
    places.room(places.count + ROOM);
    let next = places.starts[places.count + 1..].first_chunk_mut::<BLOCK>();
    if let Some(starts) = next {
        // SAFETY: the caller guarantees that the processor supports the vectors of `B`.
        unsafe { B::write_places(delimiters, (base as u32).wrapping_add(1), starts) };
    }
    places.count += delimiters.count_ones() as usize;
}

/// Does the work of [`Block::read_tags`] for the fields `from..to`, one field at a time.
#[inline(always)]
pub(super) fn read_tags(
    places: &mut Places,
    frame: &[u8],
    from: usize,
    to: usize,
) -> Option<usize> {
    for n in from..to {
        let (at, end) = (places.starts[n] as usize, places.starts[n + 1] as usize - 1);
        let (tag, value) =
            tag_and_value(frame, at).unwrap_or_else(|| scalar::tag_and_value(frame, at, end));
        (places.tags[n], places.values[n]) = (tag, value as u32);
        if scalar::is_data(places, tag, n) {
            return Some(n);
        }
    }
    None
}

/// Returns the tag of the field at offset `at`, and the offset of its value.
///
/// Returns `None` if the tag is not a canonical number of 1 to 7 digits, or if fewer than eight
/// bytes remain.
#[inline(always)]
fn tag_and_value(frame: &[u8], at: usize) -> Option<(Tag, usize)> {
    const EQUALS: u64 = u64::from_le_bytes([b'='; 8]);
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    // The first byte of the field is the lowest byte of `word`.
    let word = u64::from_le_bytes(*frame.get(at..)?.first_chunk::<8>()?);
    let other = word ^ EQUALS;
    // The high bit of the first byte that equals `=`.
    let equals = other.wrapping_sub(ONES) & !other & HIGHS;
    let len = equals.trailing_zeros() / 8;
    if !(1..=7).contains(&len) {
        return None;
    }
    // The last digit moves to the highest byte, and zeros fill the bytes below the first digit.
    let digits = (word ^ ZEROS) << (64 - 8 * len);
    let above_nine = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & HIGHS;
    if above_nine != 0 || word & 0xff == u64::from(b'0') {
        return None;
    }
    // The multiplications combine digits into pairs, pairs into fours, and both halves into one
    // number.
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    Some((Tag(number as u32), at + len as usize + 1))
}

/// Does the work of [`Block::read_tags`] with `read`, which reads `lanes` fields at once.
///
/// `read` receives the index of the first field, and stores tags and value offsets. The result has
/// a bit for each existing field that needs the scalar code: a possible data field, a field too
/// close to the end, or a tag that is not a number of one to three digits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn read_tags_by(
    lanes: usize,
    places: &mut Places,
    frame: &[u8],
    mut from: usize,
    read: impl Fn(&mut Places, usize) -> u32,
) -> Option<usize> {
    while from < places.count {
        let mut odd = read(places, from);
        while odd != 0 {
            let n = from + odd.trailing_zeros() as usize;
            if let Some(data) = read_tags(places, frame, n, n + 1) {
                return Some(data);
            }
            odd &= odd - 1;
        }
        from += lanes;
    }
    None
}

/// Returns the sum of `bytes` modulo 256.
///
/// # Safety
/// The processor supports the vectors that name `B`.
#[inline(always)]
pub(super) unsafe fn sum<B: Block>(bytes: &[u8]) -> u8 {
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    // SAFETY: the caller guarantees the requirements of these calls; a block has 64 bytes.
    unsafe {
        let mut sum = B::no_sum();
        for block in blocks {
            sum = B::load(block.as_ptr()).add_to(sum);
        }
        if !tail.is_empty() {
            sum = B::load_tail(bytes, tail.len()).0.add_to(sum);
        }
        B::total(sum)
    }
}

/// Returns a frame shorter than a block, padded with zeros.
#[cold]
pub(super) fn short_block(frame: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..frame.len()].copy_from_slice(frame);
    block
}

/// A source of masks: 64 bytes of 0, then 64 bytes of 255.
///
/// A slice of 64 bytes from this array is a mask whose first bytes are 0 and whose other bytes are
/// 255.
pub(super) static TAIL_MASK: [u8; 2 * BLOCK] = {
    let mut mask = [0; 2 * BLOCK];
    let mut n = BLOCK;
    while n < mask.len() {
        mask[n] = 255;
        n += 1;
    }
    mask
};
