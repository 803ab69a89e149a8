//! Index of a frame in one pass: where each field stands, and the sum for CheckSum(10).
//!
//! Invariants: fields lie inside the frame, in wire order, and do not overlap; a tag that is not a
//! canonical positive number becomes [`Tag`]`(0)`, for the validation to reject.

use alloc::vec::Vec;

use crate::fields::Fields;
use crate::{Garbled, SOH, Tag, data, tag};

/// Whether CheckSum(10) is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckSumPolicy {
    /// A wrong CheckSum(10) makes the frame garbled.
    #[default]
    Verify,
    /// CheckSum(10) may be anything.
    Ignore,
}

/// Reusable memory for the index of one message; allocates only while it grows.
#[derive(Debug, Default)]
pub struct FieldIndex {
    tags: Vec<Tag>,
    /// First byte of each value.
    values: Vec<u32>,
    /// The delimiter after each value.
    ends: Vec<u32>,
}

impl FieldIndex {
    /// Fills the index for `frame`, which must be a [`crate::Frame::Whole`].
    pub(crate) fn fill<'a>(
        &'a mut self,
        frame: &'a [u8],
        check_sum: CheckSumPolicy,
    ) -> Result<Fields<'a>, Garbled> {
        self.tags.clear();
        self.values.clear();
        self.ends.clear();
        let mut at = 0;
        while at < frame.len() {
            at = self.push(frame, at);
        }
        if self.tags.get(2) != Some(&tag::MSG_TYPE) {
            return Err(Garbled::MsgType);
        }
        if self.tags.last() != Some(&tag::CHECK_SUM) {
            return Err(Garbled::BodyLength);
        }
        if check_sum == CheckSumPolicy::Verify && !check_sum_holds(frame) {
            return Err(Garbled::CheckSum);
        }
        Ok(Fields::new(frame, 0, (&self.tags, &self.values, &self.ends)))
    }

    fn add(&mut self, tag: Tag, begin: usize, end: usize) {
        self.tags.push(tag);
        self.values.push(begin as u32);
        self.ends.push(end as u32);
    }

    /// Indexes the field at `at` and returns where the next one begins.
    fn push(&mut self, frame: &[u8], at: usize) -> usize {
        let rest = &frame[at..];
        let mut number = 0_u32;
        let mut digits = 0;
        while let Some(&b) = rest.get(digits)
            && b.is_ascii_digit()
            && digits < 9
        {
            number = number * 10 + u32::from(b - b'0');
            digits += 1;
        }
        let canonical = digits > 0 && rest[0] != b'0' && rest.get(digits) == Some(&b'=');
        if !canonical {
            return self.push_bad(frame, at);
        }
        let begin = at + digits + 1;
        let end = self.data_end(frame, Tag(number), begin).unwrap_or_else(|| soh(frame, begin));
        self.add(Tag(number), begin, end);
        end + 1
    }

    /// A field without a valid tag: its value is what follows the `=`, if there is one.
    #[cold]
    fn push_bad(&mut self, frame: &[u8], at: usize) -> usize {
        let end = soh(frame, at);
        let equals = frame[at..end].iter().position(|&b| b == b'=');
        let begin = equals.map_or(end, |i| at + i + 1);
        self.add(Tag(0), begin, end);
        end + 1
    }

    /// The end of a data field by the Length field just before it, if that is credible.
    fn data_end(&self, frame: &[u8], tag: Tag, begin: usize) -> Option<usize> {
        let length_tag = data::length_of(tag)?;
        let before = self.tags.len().checked_sub(1).filter(|&n| self.tags[n] == length_tag)?;
        let digits = &frame[self.values[before] as usize..self.ends[before] as usize];
        let length: usize = core::str::from_utf8(digits).ok()?.parse().ok()?;
        let end = begin.checked_add(length)?;
        // The trailer may not be swallowed: the data field ends before CheckSum(10).
        (end + 1 < frame.len() && frame[end] == SOH).then_some(end)
    }
}

/// Where the next delimiter stands: eight bytes a step.
fn soh(frame: &[u8], from: usize) -> usize {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let mut at = from;
    while let Some((bytes, _)) = frame[at..].split_first_chunk::<8>() {
        // The delimiter's byte becomes 0; the lowest byte whose high bit is then set was 0.
        let word = u64::from_le_bytes(*bytes) ^ (ONES * SOH as u64);
        let zeros = word.wrapping_sub(ONES) & !word & HIGHS;
        if zeros != 0 {
            return at + zeros.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    // A whole frame ends with the delimiter, so that the fallback is never taken for one.
    frame[at..].iter().position(|&b| b == SOH).map_or(frame.len() - 1, |i| at + i)
}

/// The sum of `bytes` modulo 256: CheckSum(10) covers all bytes up to the delimiter before `10=`.
#[must_use]
pub fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, &b| sum.wrapping_add(b))
}

fn check_sum_holds(frame: &[u8]) -> bool {
    let (covered, trailer) = frame.split_at(frame.len() - 7);
    let sum = sum(covered);
    trailer[3..6] == [b'0' + sum / 100, b'0' + sum / 10 % 10, b'0' + sum % 10]
}
