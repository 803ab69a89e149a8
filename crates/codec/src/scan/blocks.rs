//! The pass over blocks of 64 bytes, the same for all kinds of vectors.
//!
//! For each block, one bit a byte says where delimiters stand and where `=`. A field starts behind
//! each delimiter; adding the starts to the bytes that are no `=` carries each of them up to the
//! first `=` behind it, all fields of the block at once. The places of both kinds of bits go to
//! their arrays, and a second loop reads the tags, now that their places are known.

use super::{Places, scalar};
use crate::{SOH, Tag};

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

    /// A bit for each byte that is `byte`.
    ///
    /// # Safety
    /// The processor has what the implementation is named after.
    unsafe fn equal(self, byte: u8) -> u64;

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

    /// Reads the tags of all fields from the `from`-th on, up to the first one whose value is to be
    /// read by its length; says which that is.
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
const ROOM: usize = BLOCK + 16;

/// Indexes the frame, whose last byte is a delimiter, and returns the sum of its bytes.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
pub(super) unsafe fn index<B: Block>(places: &mut Places, frame: &[u8]) -> u8 {
    // SAFETY: as promised by the caller.
    let Some(total) = (unsafe { find::<B>(places, frame) }) else {
        places.count = 0;
        scalar::index(places, frame, 0);
        return scalar::sum(frame);
    };
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
fn settle_data(places: &mut Places, frame: &[u8], n: usize) -> bool {
    let (begin, end, count) = (places.values[n], places.ends[n], places.count);
    places.count = n;
    let at = places.ends[n - 1] as usize + 1;
    let next = scalar::push(places, frame, at);
    if next == end as usize + 1 {
        debug_assert_eq!(places.values[n], begin, "both find the same `=`");
        places.count = count;
        return true;
    }
    scalar::index(places, frame, next);
    false
}

/// Writes where the values begin and end, and returns the sum of all bytes; nothing if there is a
/// field without `=`.
///
/// # Safety
/// The processor has what `B` is named after.
#[inline(always)]
unsafe fn find<B: Block>(places: &mut Places, frame: &[u8]) -> Option<u8> {
    let mut state = State { values: 0, ends: 0, seeking: 1 };
    let (blocks, tail) = frame.as_chunks::<BLOCK>();
    // SAFETY: the caller promises what all of these calls need; a block has 64 bytes.
    unsafe {
        let mut sum = B::no_sum();
        for (n, bytes) in blocks.iter().enumerate() {
            let block = B::load(bytes.as_ptr());
            sum = block.add_to(sum);
            state.take::<B>(places, (n * BLOCK) as u32, block, 0)?;
        }
        if !tail.is_empty() {
            let (block, shift) = B::load_tail(frame, tail.len());
            sum = block.add_to(sum);
            state.take::<B>(places, (blocks.len() * BLOCK) as u32, block, shift)?;
        }
        // The frame ends with a delimiter: as many values as ends.
        places.count = state.ends;
        Some(B::total(sum))
    }
}

/// How far the pass has come.
struct State {
    /// Values begun.
    values: usize,
    /// Values ended.
    ends: usize,
    /// 1 if the block begins in a tag, else 0.
    seeking: u64,
}

impl State {
    /// Takes the places of one block, which begins at `base`; nothing if a field has no `=`.
    ///
    /// # Safety
    /// The processor has what `B` is named after.
    #[inline(always)]
    unsafe fn take<B: Block>(
        &mut self,
        places: &mut Places,
        base: u32,
        block: B,
        shift: u32,
    ) -> Option<()> {
        // SAFETY: as promised by the caller.
        let (delimiters, equals) =
            unsafe { (block.equal(SOH) >> shift, block.equal(b'=') >> shift) };
        let starts = delimiters << 1 | self.seeking;
        // Each start runs through what is no `=` and stops at the first one behind it.
        let (carried, open) = (!equals).overflowing_add(starts);
        let first = carried & equals;
        // A delimiter at the very end starts a tag in the next block.
        let next = delimiters >> 63;
        // Two starts that stop at the same `=`, or run out together: a field without one.
        let found = u64::from(first.count_ones() + u32::from(open));
        if found != u64::from(starts.count_ones()) || next & u64::from(open) != 0 {
            return None;
        }
        self.seeking = next | u64::from(open);
        places.room(self.values.max(self.ends) + ROOM);
        let values = places.values[self.values..].first_chunk_mut::<BLOCK>()?;
        // SAFETY: as promised by the caller.
        unsafe { B::write_places(first, base.wrapping_add(1), values) };
        let ends = places.ends[self.ends..].first_chunk_mut::<BLOCK>()?;
        // SAFETY: as promised by the caller.
        unsafe { B::write_places(delimiters, base, ends) };
        self.values += first.count_ones() as usize;
        self.ends += delimiters.count_ones() as usize;
        Some(())
    }
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
        let begin = if n == 0 { 0 } else { places.ends[n - 1] as usize + 1 };
        let tag = tag(frame, begin, places.values[n] as usize - 1);
        places.tags[n] = tag;
        if scalar::is_data(places, tag, n) {
            return Some(n);
        }
    }
    None
}

/// The tag whose digits stand from `begin` to the `=` at `equals`.
#[inline(always)]
fn tag(frame: &[u8], begin: usize, equals: usize) -> Tag {
    const ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);
    let len = equals - begin;
    // The eight bytes before the `=`; the first one is lowest, the last digit highest.
    let word = match frame[..equals].last_chunk::<8>() {
        Some(bytes) if (1..=8).contains(&len) => u64::from_le_bytes(*bytes),
        _ => return scalar::tag(&frame[begin..equals]),
    };
    // What stands before the tag goes out as zeros come in from below.
    let before = 64 - 8 * len as u32;
    let digits = ((word >> before) << before) ^ (ZEROS >> before << before);
    let first = (word >> before) & 0xff;
    let above_nine = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    if above_nine != 0 || first == u64::from(b'0') {
        return Tag(0);
    }
    // Pairs of digits, pairs of pairs, both halves.
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    Tag(number as u32)
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
#[inline(always)]
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
