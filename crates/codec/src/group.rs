//! Repeating groups of a received message, read as iterators, nested to any depth.
//!
//! Without a dictionary the end of the last entry is unknown: it runs to the end of the scope.
//! [`Groups::members`] gives the member tags and thereby the exact end.

use crate::fields::Fields;
use crate::{Tag, value};

/// The entries of one repeating group.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    /// From the first entry's delimiter to the end of the scope.
    rest: Fields<'a>,
    count: usize,
    left: usize,
    delimiter: Tag,
    members: Option<&'a [Tag]>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(scope: Fields<'a>, count: Tag, delimiter: Tag) -> Self {
        let at = scope.position(count);
        let n = at.and_then(|at| value::uint(scope.value(at))).unwrap_or(0);
        let n = usize::try_from(n).unwrap_or(0).min(scope.len());
        let rest = scope.slice(at.map_or(scope.len(), |at| at + 1), scope.len());
        Self { rest, count: n, left: n, delimiter, members: None }
    }

    /// Ends each entry at the first field that is not one of `tags` (members of nested groups too).
    #[must_use]
    pub const fn members(mut self, tags: &'a [Tag]) -> Self {
        self.members = Some(tags);
        self
    }

    /// The value of the NumInGroup field; the entries that really follow may be fewer.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }
}

impl<'a> Iterator for Groups<'a> {
    type Item = Fields<'a>;

    fn next(&mut self) -> Option<Fields<'a>> {
        let tags = self.rest.tags();
        if self.left == 0 || *tags.first()? != self.delimiter {
            return None;
        }
        self.left -= 1;
        let ends = |tag: &Tag| {
            *tag == self.delimiter || self.members.is_some_and(|tags| !tags.contains(tag))
        };
        let end = tags[1..].iter().position(ends).map_or(tags.len(), |i| i + 1);
        let entry = self.rest.slice(0, end);
        self.rest = self.rest.slice(end, tags.len());
        Some(entry)
    }
}
