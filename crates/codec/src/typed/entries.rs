//! Typed iteration over the entries of a repeating group.

use core::marker::PhantomData;

use super::View;
use crate::group::same_entry;
use crate::{Fields, Tag, scan, value};

/// A typed view over a group entry.
pub trait Entry<'a>: View<'a> {
    /// The tags of all members in the dictionary's order, including the members of nested groups.
    ///
    /// The first of these tags begins each entry.
    const MEMBERS: &'static [u32];
}

/// Iterator over the entries of one repeating group, in wire order.
#[derive(Clone, Copy)]
pub struct Entries<'a, E> {
    /// The fields from the next entry to the end of the scope.
    rest: Fields<'a>,
    count: usize,
    left: usize,
    /// The tags of the previous entry. Most entries have the same tags as their predecessor.
    before: &'a [Tag],
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: Entry<'a>> Entries<'a, E> {
    /// Creates an iterator over the entries of a group; `count` is its NumInGroup field. The
    /// iterator is empty if that field is absent.
    #[must_use]
    pub fn of(scope: Fields<'a>, count: Tag) -> Self {
        let at = scope.position(count);
        let entries = at.and_then(|at| value::uint(scope.value(at))).unwrap_or(0);
        let count = usize::try_from(entries).unwrap_or(usize::MAX);
        let rest = scope.slice(at.map_or(scope.len(), |at| at + 1), scope.len());
        let left = count.min(scope.len());
        Self { rest, count, left, before: &[], entry: PhantomData }
    }

    /// Returns the value of the NumInGroup field, 0 if absent; the message may contain fewer
    /// entries.
    #[must_use]
    pub const fn announced(&self) -> usize {
        self.count
    }
}

impl<'a, E: Entry<'a>> Entries<'a, E> {
    /// Returns the length in fields of the entry at the beginning of `tags`.
    fn end(&self, tags: &[Tag], delimiter: Tag) -> usize {
        // All fields up to the next delimiter belong to the entry, including unknown fields. The
        // last entry ends after its last member.
        let next = if self.left > 0 { scan::position(&tags[1..], delimiter) } else { None };
        next.map_or_else(|| end(tags, E::MEMBERS), |at| at + 1)
    }
}

impl<'a, E: Entry<'a>> Iterator for Entries<'a, E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        let tags = self.rest.tags();
        let delimiter = E::MEMBERS.first()?;
        if self.left == 0 || tags.first()?.0 != *delimiter {
            return None;
        }
        self.left -= 1;
        let end = match same_entry(tags, self.before).filter(|_| self.left > 0) {
            Some(end) => end,
            None => self.end(tags, Tag(*delimiter)),
        };
        self.before = &tags[..end];
        let (entry, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(E::of(entry))
    }
}

/// Returns the length in fields of the last entry, which begins at the beginning of `tags`.
///
/// The entry ends before the next delimiter or the first tag that is not a member. Fields usually
/// follow the order of the members, so each search starts at the position of the previous field.
fn end(tags: &[Tag], members: &[u32]) -> usize {
    let mut place = 0;
    for (at, tag) in tags.iter().enumerate().skip(1) {
        let is_sought = |member: &u32| *member == tag.0;
        let after = members[place..].iter().position(is_sought).map(|found| place + found);
        // The first member would begin another entry.
        place = match after.or_else(|| members[..place].iter().position(is_sought)) {
            None | Some(0) => return at,
            Some(found) => found,
        };
    }
    tags.len()
}
