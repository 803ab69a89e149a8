//! The index made field by field: plain, and right for whatever stands in the frame.

use super::Places;
use crate::{SOH, Tag, data, value};

/// Indexes the frame from `at`, where a field begins, to its end, which is a delimiter.
#[cold]
pub(super) fn index(places: &mut Places, frame: &[u8], mut at: usize) {
    while at < frame.len() {
        at = push(places, frame, at);
    }
}

/// Indexes the field at `at` and returns where the next one begins.
pub(super) fn push(places: &mut Places, frame: &[u8], at: usize) -> usize {
    let end = soh(frame, at);
    let (tag, value) = tag_and_value(frame, at, end);
    let end = data_end(places, frame, tag, value).unwrap_or(end);
    places.push(tag, value, end + 1);
    end + 1
}

/// The tag of the field that begins at `at` and ends at `end`, and where its value begins.
pub(super) fn tag_and_value(frame: &[u8], at: usize, end: usize) -> (Tag, usize) {
    match frame[at..end].iter().position(|&b| b == b'=') {
        Some(len) => (tag(&frame[at..at + len]), at + len + 1),
        // There is no value.
        None => (Tag(0), end),
    }
}

/// Most digits of a tag: any such number is below 2^32.
const TAG_DIGITS_MAX: usize = 9;

/// The tag that the text before a `=` says: `Tag(0)` unless it is a canonical number.
pub(crate) fn tag(text: &[u8]) -> Tag {
    let is_canonical = (1..=TAG_DIGITS_MAX).contains(&text.len())
        && text[0] != b'0'
        && text.iter().all(u8::is_ascii_digit);
    if !is_canonical {
        return Tag(0);
    }
    Tag(text.iter().fold(0, |number, &b| number * 10 + u32::from(b - b'0')))
}

/// Returns true if the value of `tag`, which follows the fields in `places`, is read by its length.
#[inline]
pub(super) fn is_data(places: &Places, tag: Tag, n: usize) -> bool {
    let standard = data::length_of(tag).is_some_and(|length| n > 0 && places.tags[n - 1] == length);
    standard
        || !places.more_data.is_empty() && n > 0 && {
            places.more_data.contains(&(places.tags[n - 1], tag))
        }
}

/// The end of a data field by the Length field just before it, if that is credible.
fn data_end(places: &Places, frame: &[u8], tag: Tag, begin: usize) -> Option<usize> {
    if !is_data(places, tag, places.count) {
        return None;
    }
    let before = places.count - 1;
    let digits = &frame[places.values[before] as usize..places.starts[before + 1] as usize - 1];
    let length = usize::try_from(value::uint(digits)?).ok()?;
    let end = begin.checked_add(length)?;
    // The trailer may not be swallowed: the data field ends before CheckSum(10).
    (end + 1 < frame.len() && frame[end] == SOH).then_some(end)
}

/// Where the next delimiter stands; there is one.
fn soh(frame: &[u8], from: usize) -> usize {
    frame[from..].iter().position(|&b| b == SOH).map_or(frame.len() - 1, |i| from + i)
}

pub(super) fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, &b| sum.wrapping_add(b))
}
