//! The entries of a repeating group, typed.

use core::marker::PhantomData;

use super::View;
use crate::group::same_entry;
use crate::{Fields, Tag, scan, value};

/// A view over one entry of a group.
pub trait Entry<'a>: View<'a> {
    /// The tags of all members in the dictionary's order, those of nested groups among them. The
    /// first one begins each entry.
    const MEMBERS: &'static [u32];
}

/// The entries of one repeating group, in wire order.
#[derive(Clone, Copy)]
pub struct Entries<'a, E> {
    /// From the first entry on to the end of the scope.
    rest: Fields<'a>,
    count: usize,
    left: usize,
    /// The tags of the entry before: mostly the next one has the same.
    before: &'a [Tag],
    entry: PhantomData<fn() -> E>,
}

impl<'a, E: Entry<'a>> Entries<'a, E> {
    /// The entries that the NumInGroup field `count` opens; none if it is absent.
    #[must_use]
    pub fn of(scope: Fields<'a>, count: Tag) -> Self {
        let at = scope.position(count);
        let entries = at.and_then(|at| value::uint(scope.value(at))).unwrap_or(0);
        let count = usize::try_from(entries).unwrap_or(usize::MAX);
        let rest = scope.slice(at.map_or(scope.len(), |at| at + 1), scope.len());
        let left = count.min(scope.len());
        Self { rest, count, left, before: &[], entry: PhantomData }
    }

    /// The value of the NumInGroup field, 0 if it is absent; the entries that really follow may be
    /// fewer.
    #[must_use]
    pub const fn announced(&self) -> usize {
        self.count
    }
}

impl<'a, E: Entry<'a>> Entries<'a, E> {
    /// Where the entry at the beginning of `tags` ends.
    fn end(&self, tags: &[Tag], delimiter: Tag) -> usize {
        // Between two delimiters all belongs to the entry, also what the dictionary lacks.
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

/// How many of the tags belong to the last entry: up to the next one that begins an entry or is no
/// member.
///
/// Fields come in the order of the members as a rule, so that each is sought from where the one
/// before was found.
fn end(tags: &[Tag], members: &[u32]) -> usize {
    let mut place = 0;
    for (at, tag) in tags.iter().enumerate().skip(1) {
        let is_sought = |member: &u32| *member == tag.0;
        let after = members[place..].iter().position(is_sought).map(|found| place + found);
        // The first member begins the next entry.
        place = match after.or_else(|| members[..place].iter().position(is_sought)) {
            None | Some(0) => return at,
            Some(found) => found,
        };
    }
    tags.len()
}
