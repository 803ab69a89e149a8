//! Indexing of a frame in one pass: the offset of each field, and the sum for CheckSum(10).
//!
//! The pass reads 64 bytes at a time with the widest vectors of the processor. AVX2 replaces
//! AVX-512 while most messages have a known layout. `blocks` contains the pass; `x86`, `avx512` and
//! `neon` contain the code for each kind of processor. `scalar` builds the same index field by
//! field: this code handles malformed fields, and the tests compare the vector code with its
//! results. `layout` caches the tags of earlier messages.
//!
//! Invariants: fields lie inside the frame, in wire order, and do not overlap. A tag that is not a
//! canonical positive number becomes [`Tag`]`(0)`, which validation rejects. No byte outside the
//! frame is read. Within this crate, only this module contains unsafe code: vector loads, and calls
//! of functions that need the features found by [`Simd::is_available`].

mod blocks;
mod layout;
mod scalar;
mod simd;

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "aarch64", test))]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use crate::encode::text;
use crate::fields::Fields;
use crate::{Garbled, Tag, tag};
pub(crate) use layout::Layout;
use layout::Layouts;
pub(crate) use scalar::tag as read_tag;
pub use simd::Simd;

/// The treatment of CheckSum(10) in [`Message::parse`](crate::Message::parse).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckSumPolicy {
    /// A wrong CheckSum(10) makes the frame garbled.
    #[default]
    Verify,
    /// CheckSum(10) may have any value.
    Ignore,
}

/// Reusable memory for the index of one message; allocates only while it grows.
#[derive(Debug, Default)]
pub struct FieldIndex {
    places: Places,
    simd: Simd,
}

/// The tags and offsets of all fields of a message.
///
/// Each array has spare room after the last field, so that vectors are stored whole.
#[derive(Debug)]
struct Places {
    tags: Vec<Tag>,
    /// Offset of the first byte of each value.
    values: Vec<u32>,
    /// Offset of the first byte of each field, followed by the end offset of the last field.
    starts: Vec<u32>,
    /// Number of fields.
    count: usize,
    /// Custom data fields in addition to the standard data fields, each after its Length field.
    more_data: Vec<(Tag, Tag)>,
    layouts: Layouts,
}

impl Default for Places {
    fn default() -> Self {
        let (tags, values, starts) = (Vec::new(), Vec::new(), vec![0]);
        let (more_data, layouts) = (Vec::new(), Layouts::default());
        Self { tags, values, starts, count: 0, more_data, layouts }
    }
}

impl Places {
    /// Makes all arrays longer than `len` elements.
    #[inline]
    fn room(&mut self, len: usize) {
        if self.tags.len() <= len {
            self.grow(len);
        }
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let len = (len + 1).next_power_of_two().max(256);
        self.tags.resize(len, Tag(0));
        self.values.resize(len, 0);
        self.starts.resize(len, 0);
        self.layouts.grow();
    }

    /// Learns the layout of the frame just indexed, if the frame's layout is unknown and a new
    /// layout is due.
    #[inline(always)]
    fn learn(&mut self, frame: &[u8]) {
        if self.layouts.wants() {
            let tags = &self.tags[..self.count];
            self.layouts.learn(tags, (&self.starts, &self.values), frame);
        }
    }

    /// Appends a field; `value` and `next` are the offsets of its value and of the next field.
    fn push(&mut self, tag: Tag, value: usize, next: usize) {
        let n = self.count;
        self.room(n + 1);
        (self.tags[n], self.values[n], self.starts[n + 1]) = (tag, value as u32, next as u32);
        self.count = n + 1;
    }
}

/// Number of fields above which the memory of an index counts as bulky.
const BULKY_FIELDS: usize = 8_192;

/// The last eight bytes of a message as a number: a delimiter and CheckSum(10), with zeros for its
/// digits.
const TRAILER: u64 = u64::from_le_bytes(*b"\x0110=\0\0\0\x01");
const TRAILER_MASK: u64 = 0xff00_0000_ffff_ffff;

impl FieldIndex {
    /// Creates an index that uses `simd`, for performance comparisons; [`FieldIndex::default`] uses
    /// the fastest kind.
    ///
    /// If the processor does not support `simd`, the index uses [`Simd::Scalar`].
    #[must_use]
    pub fn with(simd: Simd) -> Self {
        let simd = if simd.is_available() { simd } else { Simd::Scalar };
        Self { places: Places::default(), simd }
    }

    /// Defines custom pairs of Length field and data field, in addition to the standard pairs.
    ///
    /// In each pair, the Length field comes first; see [`crate::data`]. A data tag below 1000 makes
    /// this index work byte by byte, about three times slower.
    /// ```
    /// use transfix_codec::{CheckSumPolicy, FieldIndex, Message, Tag};
    ///
    /// let bytes = b"8=FIX.4.4\x019=21\x0135=U1\x015001=3\x015002=a\x01b\x0110=000\x01";
    /// let mut index = FieldIndex::default();
    /// index.set_data_fields([(Tag(5001), Tag(5002))]);
    /// let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
    /// assert_eq!(message.raw(Tag(5002)), Some(&b"a\x01b"[..]));
    /// # Ok::<(), transfix_codec::Garbled>(())
    /// ```
    pub fn set_data_fields(&mut self, pairs: impl IntoIterator<Item = (Tag, Tag)>) {
        self.places.more_data = pairs.into_iter().collect();
        // Below tag 1000, the vector code knows only the data fields of the standard.
        if self.places.more_data.iter().any(|(_, data)| data.0 < 1000) {
            self.simd = Simd::Scalar;
        }
    }

    /// Frees the memory that an earlier message with very many fields needed.
    ///
    /// Call this method between two messages, because it may discard the index of the last message.
    pub fn trim(&mut self) {
        if self.is_bulky() {
            let more_data = core::mem::take(&mut self.places.more_data);
            self.places = Places { more_data, ..Places::default() };
        }
    }

    /// Returns true if the index has memory for far more fields than most messages have.
    #[must_use]
    pub fn is_bulky(&self) -> bool {
        self.places.tags.len() > BULKY_FIELDS
    }

    /// Builds the index of `frame`, which must be a [`crate::Frame::Whole`].
    pub(crate) fn fill(&mut self, frame: &[u8], check_sum: CheckSumPolicy) -> Result<(), Garbled> {
        // The rest of the function relies on a delimiter as the last byte.
        let end = frame.last_chunk().map_or(0, |end| u64::from_le_bytes(*end));
        if end & TRAILER_MASK != TRAILER {
            return Err(Garbled::BodyLength);
        }
        // Offsets have 32 bits, and the AVX2 gather instruction reads offsets as signed numbers.
        if i32::try_from(frame.len()).is_err() {
            return Err(Garbled::TooLong);
        }
        self.places.layouts.forget_current();
        let sum_of_all = self.simd.index(&mut self.places, frame);
        let tags = &self.places.tags[..self.places.count];
        if tags.get(2) != Some(&tag::MSG_TYPE) {
            return Err(Garbled::MsgType);
        }
        if tags.last() != Some(&tag::CHECK_SUM) {
            return Err(Garbled::BodyLength);
        }
        if check_sum == CheckSumPolicy::Verify {
            // The sum excludes CheckSum(10), whose seven bytes are the upper bytes of `end`.
            let sum = u64::from(sum_of_all).wrapping_sub(text::byte_sum(end >> 8)) & 0xff;
            if end >> 32 & 0xff_ffff != text::three(sum) {
                return Err(Garbled::CheckSum);
            }
        }
        Ok(())
    }

    /// Returns the fields of the last indexed frame.
    #[inline]
    pub(crate) fn fields<'a>(&'a self, frame: &'a [u8]) -> Fields<'a> {
        let Places { tags, values, starts, count, layouts, .. } = &self.places;
        let fields = Fields::new(frame, &tags[..*count], &values[..*count], &starts[..=*count]);
        fields.with_layout(layouts.current())
    }
}

/// Returns the sum of `bytes` modulo 256; the sum of all bytes before `10=` is CheckSum(10).
/// ```
/// assert_eq!(transfix_codec::scan::sum(b"8=FIX.4.4\x019=5\x0135=0\x01"), 163);
/// ```
#[must_use]
#[inline]
pub fn sum(bytes: &[u8]) -> u8 {
    // The bytes of a message without a body are often summed already, so `bytes` is often empty.
    if bytes.is_empty() { 0 } else { Simd::default().sum(bytes) }
}

/// Prefetches the bytes after the first cache line of a typical message, which the caller reads
/// next.
///
/// All cache lines are then loaded from memory in parallel.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for at in [64, 128, 192] {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let line = bytes.as_ptr().wrapping_add(at);
        // SAFETY: every x86-64 has the prefetch instruction, which reads nothing and cannot fault
        // for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
    }
}

/// Returns the index of the first occurrence of `tag` in `tags`.
#[inline(always)]
pub(crate) fn position(tags: &[Tag], tag: Tag) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    return x86::position(tags, tag);
    #[cfg(not(target_arch = "x86_64"))]
    return tags.iter().position(|&other| other == tag);
}

/// Returns true if `tags` begins with the tags in `those`.
#[inline(always)]
pub(crate) fn begin_with(tags: &[Tag], those: &[Tag]) -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::begin_with(tags, those);
    #[cfg(not(target_arch = "x86_64"))]
    return tags.starts_with(those);
}

/// Returns true if both lists, which must have equal length, contain the same tags.
#[inline]
pub(crate) fn are_same(tags: &[Tag], others: &[Tag]) -> bool {
    // The loop has no branch per tag, so that the compiler can vectorize it.
    tags.iter().zip(others).fold(0, |differ, (tag, other)| differ | (tag.0 ^ other.0)) == 0
}

/// Returns the value as text; `None` if the value is not UTF-8.
#[inline]
pub(crate) fn text(value: &[u8]) -> Option<&str> {
    if is_ascii(value) {
        // SAFETY: ASCII is UTF-8.
        return Some(unsafe { core::str::from_utf8_unchecked(value) });
    }
    core::str::from_utf8(value).ok()
}

/// Returns true if all bytes are ASCII.
///
/// Most values have 1 to 16 bytes, which two overlapping loads cover.
#[inline]
fn is_ascii(value: &[u8]) -> bool {
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let (chunks, _) = value.as_chunks::<8>();
    let seen = match (value.first_chunk::<4>(), value.last_chunk::<4>(), value.last_chunk::<8>()) {
        (_, _, Some(last)) => chunks
            .iter()
            .fold(u64::from_le_bytes(*last), |seen, chunk| seen | u64::from_le_bytes(*chunk)),
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first) | u32::from_le_bytes(*last))
        }
        _ => value.iter().fold(0, |seen, byte| seen | u64::from(*byte)),
    };
    seen & HIGHS == 0
}
