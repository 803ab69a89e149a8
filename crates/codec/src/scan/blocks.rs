//! The pass over blocks of 64 bytes, the same for all kinds of vectors.
//!
//! For each block, one bit a byte says where delimiters stand; their places go to an array. A
//! second loop looks at the few bytes behind each delimiter: digits up to `=` are a tag.

use super::{Places, scalar};
use crate::Tag;

/// 64 bytes in the registers of one kind of processor.
pub(super) trait Block: Copy {
    /// Sums of bytes, as many as the processor makes at once.
    type Sum: Copy;

    /// # Safety
    /// The processor has what the implementation is named after; 64 bytes from `at` are readable.
    unsafe fn load(at: *const u8) -> Self;

    /// The last `len` bytes of the frame, 1 to 63, and how many bytes are before them in the block;
    /// these are 0.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn load_tail(frame: &[u8], len: usize) -> (Self, u32);

    /// A bit for each byte that is the delimiter.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn delimiters(self) -> u64;

    /// No bytes.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn no_sum() -> Self::Sum;

    /// The sums with these bytes.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn add_to(self, sum: Self::Sum) -> Self::Sum;

    /// All sums as one, modulo 256.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn total(sum: Self::Sum) -> u8;

    /// Writes `base` plus the place of each bit; what stands behind these is undefined.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    #[inline(always)]
    unsafe fn write_places(mut bits: u64, base: u32, out: &mut [u32; 64]) {
        let count = bits.count_ones() as usize;
        let mut write = |range: core::ops::Range<usize>| {
            for place in &mut out[range] {
                *place = base.wrapping_add(bits.trailing_zeros());
                bits &= bits.wrapping_sub(1);
            }
        };
        // A field has some nine bytes: mostly eight or fewer, written without asking.
        write(0..8);
        if count > 8 {
            write(8..16);
        }
        if count > 16 {
            write(16..64);
        }
    }

    /// Reads the tags of all fields from the `from`-th on and notes where the values begin, up to
    /// the first field whose value is to be read by its length; says which that is.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    #[inline(always)]
    unsafe fn read_tags(places: &mut Places, frame: &[u8], from: usize) -> Option<usize> {
        read_tags(places, frame, from, places.count)
    }
}

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;

/// Places for one block, and for the sixteen tags that are read at once behind the last.
pub(super) const ROOM: usize = BLOCK + 16;

/// Indexes the frame, whose last byte is a delimiter, and returns the sum of its bytes.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
pub(super) unsafe fn index<B: Block>(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: as promised by the caller.
    let total = unsafe { find::<B>(places, frame) };
    let mut from = 0;
    // SAFETY: as promised by the caller.
    while let Some(n) = unsafe { B::read_tags(places, frame, from) } {
        if !settle_data(places, frame, n) {
            break;
        }
        from = n + 1;
    }
    total
}

/// Sees to the n-th field, whose value is to be read by its length. If there are delimiters in it,
/// all from there on is indexed anew: then there is no more to do.
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

/// Notes where the fields begin, and returns the sum of all bytes.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
unsafe fn find<B: Block>(places: &mut Places, frame: &[u8]) -> u8 {
    places.count = 0;
    let (blocks, tail) = frame.as_chunks::<BLOCK>();
    // SAFETY: the caller promises what all of these calls need; a block has 64 bytes.
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

/// Notes the delimiters of one block, which begins at `base`.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
unsafe fn note<B: Block>(places: &mut Places, delimiters: u64, base: usize) {
    places.room(places.count + ROOM);
    let next = places.starts[places.count + 1..].first_chunk_mut::<BLOCK>();
    if let Some(starts) = next {
        // SAFETY: as promised by the caller.
        unsafe { B::write_places(delimiters, (base as u32).wrapping_add(1), starts) };
    }
    places.count += delimiters.count_ones() as usize;
}

/// Reads the tags of the fields `from..to`, as [`Block::read_tags`] does, one by one.
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

/// The tag at `at` and where the value begins, if it is a canonical number of 1 to 7 digits and
/// there are as many bytes as that takes.
#[inline(always)]
fn tag_and_value(frame: &[u8], at: usize) -> Option<(Tag, usize)> {
    const EQUALS: u64 = u64::from_le_bytes([b'='; 8]);
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    // The first byte is lowest.
    let word = u64::from_le_bytes(*frame.get(at..)?.first_chunk::<8>()?);
    let other = word ^ EQUALS;
    // The high bit of the first byte that is `=`.
    let equals = other.wrapping_sub(ONES) & !other & HIGHS;
    let len = equals.trailing_zeros() / 8;
    if !(1..=7).contains(&len) {
        return None;
    }
    // The last digit becomes highest; zeros come in from below.
    let digits = (word ^ ZEROS) << (64 - 8 * len);
    let above_nine = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & HIGHS;
    if above_nine != 0 || word & 0xff == u64::from(b'0') {
        return None;
    }
    // Pairs of digits, pairs of pairs, both halves.
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    Some((Tag(number as u32), at + len as usize + 1))
}

/// Reads tags, as [`Block::read_tags`] does, `lanes` at once by `read`.
///
/// `read` is told from which field on. It stores tags and where values begin, and returns a bit for
/// each of the fields that there are and that another look is due at: no number of one to three
/// digits, too near to the end, or perhaps a data field.
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

/// The sum of `bytes` modulo 256.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
pub(super) unsafe fn sum<B: Block>(bytes: &[u8]) -> u8 {
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    // SAFETY: the caller promises what these calls need; a block has 64 bytes.
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

/// The last `len` bytes of `frame`, which is shorter than a block, with zeros behind.
#[cold]
pub(super) fn short_block(frame: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block[..frame.len()].copy_from_slice(frame);
    block
}

/// 64 bytes of which the first `shift` are 0 and the others 255, as a place in this.
pub(super) static TAIL_MASK: [u8; 2 * BLOCK] = {
    let mut mask = [0; 2 * BLOCK];
    let mut n = BLOCK;
    while n < mask.len() {
        mask[n] = 255;
        n += 1;
    }
    mask
};
