//! The index built field by field, without vectors; correct for any content of the frame.

use super::Places;
use crate::{SOH, Tag, data, value};

/// Indexes the frame from the field at offset `at` to the end; the last byte must be a delimiter.
#[cold]
pub(super) fn index(places: &mut Places, frame: &[u8], mut at: usize) {
    while at < frame.len() {
        at = push(places, frame, at);
    }
}

/// Indexes the field at offset `at` and returns the offset of the next field.
pub(super) fn push(places: &mut Places, frame: &[u8], at: usize) -> usize {
    let end = soh(frame, at);
    let (tag, value) = tag_and_value(frame, at, end);
    let end = data_end(places, frame, tag, value).unwrap_or(end);
    places.push(tag, value, end + 1);
    end + 1
}

/// Returns the tag of the field from `at` to `end`, and the offset of its value.
pub(super) fn tag_and_value(frame: &[u8], at: usize, end: usize) -> (Tag, usize) {
    match frame[at..end].iter().position(|&b| b == b'=') {
        Some(len) => (tag(&frame[at..at + len]), at + len + 1),
        // A field without `=` has no value.
        None => (Tag(0), end),
    }
}

/// Maximum number of digits of a tag, so that every tag is below 2^32.
const TAG_DIGITS_MAX: usize = 9;

/// Returns the tag that the text before `=` represents; `Tag(0)` if it is not a canonical number.
pub(crate) fn tag(text: &[u8]) -> Tag {
    let is_canonical = (1..=TAG_DIGITS_MAX).contains(&text.len())
        && text[0] != b'0'
        && text.iter().all(u8::is_ascii_digit);
    if !is_canonical {
        return Tag(0);
    }
    Tag(text.iter().fold(0, |number, &b| number * 10 + u32::from(b - b'0')))
}

/// Returns true if field `n` with this tag is a data field: its own Length field must precede it.
#[inline]
pub(super) fn is_data(places: &Places, tag: Tag, n: usize) -> bool {
    let standard = data::length_of(tag).is_some_and(|length| n > 0 && places.tags[n - 1] == length);
    standard
        || !places.more_data.is_empty() && n > 0 && {
            places.more_data.contains(&(places.tags[n - 1], tag))
        }
}

/// Returns the end of a data field as the preceding Length field determines it; `None` if the
/// length is not plausible.
fn data_end(places: &Places, frame: &[u8], tag: Tag, begin: usize) -> Option<usize> {
    if !is_data(places, tag, places.count) {
        return None;
    }
    let before = places.count - 1;
    let digits = &frame[places.values[before] as usize..places.starts[before + 1] as usize - 1];
    let length = usize::try_from(value::uint(digits)?).ok()?;
    let end = begin.checked_add(length)?;
    // A data field must not absorb the trailer, so the field must end before CheckSum(10).
    (end + 1 < frame.len() && frame[end] == SOH).then_some(end)
}

/// Returns the offset of the next delimiter from `from` on; a delimiter must follow.
fn soh(frame: &[u8], from: usize) -> usize {
    frame[from..].iter().position(|&b| b == SOH).map_or(frame.len() - 1, |i| from + i)
}

pub(super) fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, &b| sum.wrapping_add(b))
}
