//! Sorts fields into the order of the dictionary, and selects the fields that another message
//! permits.

use alloc::vec::Vec;
use core::ops::Range;

use super::Run;
use crate::group::{Members, UNKNOWN, entry_end, group_end};
use crate::tag::is_session_owned;
use crate::{Fields, Tag};

/// Appends the fields of `source` in `range` to `out`, sorted into the order of `members`.
pub(super) fn level<M: Members + ?Sized>(
    source: &Run,
    range: Range<usize>,
    members: &M,
    order: &mut Vec<(u32, u32, u32)>,
    out: &mut Run,
) {
    let base = order.len();
    let mut at = range.start;
    while at < range.end {
        // A data field unknown to `members` may follow the entry although its Length field is a
        // member; `min` keeps the pair within `range`.
        let end = source.unit(at, members).end.min(range.end);
        let position = members.position(source.tags[at]).unwrap_or(UNKNOWN);
        // Indices of fields fit into 32 bits, because messages are shorter than 4 GiB.
        order.push((position, at as u32, end as u32));
        at = end;
    }
    // The field index is the second sort key, so fields of equal position keep their order.
    order[base..].sort_unstable();
    for n in base..order.len() {
        let (_, begin, end) = order[n];
        let unit = begin as usize..end as usize;
        let tag = source.tags[unit.start];
        let Some(nested) = members.group(tag) else {
            out.append(&source.fields().slice(unit.start, unit.end));
            continue;
        };
        out.append(&source.fields().slice(unit.start, unit.start + 1));
        entries(source, unit.start + 1..unit.end, nested, order, out);
    }
    order.truncate(base);
}

fn entries<M: Members + ?Sized>(
    source: &Run,
    range: Range<usize>,
    members: &M,
    order: &mut Vec<(u32, u32, u32)>,
    out: &mut Run,
) {
    let mut at = range.start;
    while at < range.end {
        let end = entry_end(&source.tags, at, members);
        level(source, at..end, members, order, out);
        at = end;
    }
}

/// Appends the fields of `source` that `target` permits to `out`.
///
/// A permitted group is appended with the permitted fields of all its entries, unless the group is
/// empty.
pub(super) fn legal<S: Members + ?Sized, T: Members + ?Sized>(
    source: &Fields<'_>,
    known: &S,
    target: &T,
    out: &mut Run,
) {
    let tags = source.tags();
    let mut at = 0;
    while let Some(&tag) = tags.get(at) {
        let begin = at;
        at += 1;
        let Some(nested) = known.group(tag) else {
            if is_legal(tag, target) {
                out.append(&source.slice(begin, at));
            }
            continue;
        };
        at = group_end(tags, at, nested);
        let Some(wanted) = target.group(tag) else { continue };
        if nested.delimiter() != wanted.delimiter() || at == begin + 1 {
            continue;
        }
        let count_at = out.tags.len();
        out.append(&source.slice(begin, begin + 1));
        let mut entry = begin + 1;
        let mut count = 0_u64;
        while entry < at {
            let end = entry_end(tags, entry, nested);
            legal(&source.slice(entry, end), nested, wanted, out);
            entry = end;
            count += 1;
        }
        out.set_count(count_at, count);
    }
}

fn is_legal<T: Members + ?Sized>(tag: Tag, target: &T) -> bool {
    target.position(tag).is_some() && target.group(tag).is_none() && !is_session_owned(tag)
}
