//! Repeating groups of a received message, read as iterators, nested to any depth.
//!
//! Without a dictionary the end of the last entry is unknown: it runs to the end of the scope.
//! [`Groups::members`] gives the member tags and thereby the exact end.

use crate::message::field;
use crate::scan::Span;
use crate::{Field, Tag, value};

/// The entries of one repeating group.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    bytes: &'a [u8],
    /// From the first entry's delimiter to the end of the scope.
    spans: &'a [Span],
    count: usize,
    left: usize,
    delimiter: Tag,
    members: Option<&'a [Tag]>,
}

/// One entry of a repeating group: a part of the message.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Groups<'a> {
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span], count: Tag, delimiter: Tag) -> Self {
        let at = spans.iter().position(|s| s.tag == count);
        let n = at.and_then(|i| value::uint(field(bytes, spans[i]).value)).unwrap_or(0);
        let n = usize::try_from(n).unwrap_or(0).min(spans.len());
        let spans = at.map_or(&[][..], |i| &spans[i + 1..]);
        Self { bytes, spans, count: n, left: n, delimiter, members: None }
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
    type Item = Group<'a>;

    fn next(&mut self) -> Option<Group<'a>> {
        if self.left == 0 || self.spans.first()?.tag != self.delimiter {
            return None;
        }
        self.left -= 1;
        let ends = |s: &Span| {
            s.tag == self.delimiter || self.members.is_some_and(|tags| !tags.contains(&s.tag))
        };
        let end = self.spans[1..].iter().position(ends).map_or(self.spans.len(), |i| i + 1);
        let (entry, rest) = self.spans.split_at(end);
        self.spans = rest;
        Some(Group { bytes: self.bytes, spans: entry })
    }
}

impl<'a> Group<'a> {
    /// The fields of the entry in wire order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| field(bytes, *span))
    }

    /// The value of the first occurrence of `tag` in the entry.
    #[must_use]
    pub fn raw(&self, tag: Tag) -> Option<&'a [u8]> {
        self.spans.iter().find(|s| s.tag == tag).map(|s| field(self.bytes, *s).value)
    }

    /// A group nested in the entry.
    #[must_use]
    pub fn group(&self, count: Tag, delimiter: Tag) -> Groups<'a> {
        Groups::new(self.bytes, self.spans, count, delimiter)
    }
}
