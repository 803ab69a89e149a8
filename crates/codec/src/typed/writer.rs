//! Typed writer of fields. Fields appear in the order of the calls, but fields of group entries in
//! the dictionary's order.
//!
//! A counterparty may reject an entry whose fields are not in the published order
//! (SessionRejectReason(373) 15). Generated code writes required fields first, so an optional field
//! may have to move between them. A move rotates the few bytes after the new position; calls in the
//! published order need no move.

use super::{CodeSet, ToField, Word};
use crate::{Body, Misuse, SOH, Tag, data, value};

/// Writer for the fields of a message, component or group entry.
pub struct Writer<'w, 'b> {
    body: &'w mut Body<'b>,
    /// The group entry that contains the fields; `None` for fields directly in the message.
    scope: Option<&'w mut Scope>,
}

/// A group entry being written.
struct Scope {
    /// Offset in the buffer of the first byte of the entry.
    begin: usize,
    /// See [`super::Entry::MEMBERS`].
    members: &'static [u32],
    /// Index in `members` of the last written field.
    last: usize,
    /// True if the fields of this entry stay in the order of the calls.
    ///
    /// Fields cannot be moved after a custom data field: its value may contain the delimiter, so
    /// its end cannot be found.
    fixed: bool,
    /// True if `fixed` was true for an earlier entry of the group.
    was_fixed: bool,
}

impl<'w, 'b> Writer<'w, 'b> {
    /// Creates a writer for the body of a message.
    #[must_use]
    #[inline]
    pub const fn new(body: &'w mut Body<'b>) -> Self {
        Self { body, scope: None }
    }

    /// Returns a writer for the fields of a component, which continues at the current position.
    #[must_use]
    #[inline]
    pub fn part(&mut self) -> Writer<'_, 'b> {
        Writer { body: self.body, scope: self.scope.as_deref_mut() }
    }

    /// Returns the underlying body, for fields that the dictionary does not define.
    ///
    /// In a group entry, the fields written to the body and all later fields stay in the order of
    /// the calls.
    #[must_use]
    pub fn body(&mut self) -> &mut Body<'b> {
        self.fix();
        self.body
    }

    /// Writes a field.
    #[inline]
    pub fn put(&mut self, tag: Tag, value: impl ToField) {
        let begin = self.body.tail.end();
        value.write(tag, self.body);
        self.settle(tag, begin);
    }

    /// Writes a data field after its Length field.
    pub fn data(&mut self, length: Tag, tag: Tag, value: &[u8]) {
        let begin = self.body.tail.end();
        self.body.data(length, tag, value);
        self.settle(length, begin);
        if data::length_of(tag) != Some(length) {
            self.fix();
        }
    }

    /// Writes a field whose value is a list of codes separated by blanks.
    pub fn words<'v, C: CodeSet<'v, Code: Word>>(&mut self, tag: Tag, codes: &[C]) {
        let begin = self.body.tail.end();
        if codes.is_empty() {
            self.body.blame(Misuse::EmptyValue(tag));
            return;
        }
        for (n, code) in codes.iter().enumerate() {
            self.body.word(tag, code.code().bytes(), n);
        }
        self.settle(tag, begin);
    }

    /// Writes the NumInGroup field `count` and the entries that `fill` writes.
    ///
    /// Writes nothing if `fill` adds no entry.
    pub fn group(
        &mut self,
        count: Tag,
        members: &'static [u32],
        fill: impl FnOnce(GroupWriter<'_, 'b>),
    ) {
        let begin = self.body.tail.end();
        self.body.uint(count, 0);
        // Offset of the digit `0`, which precedes the delimiter and is replaced by the number of
        // entries.
        let digit = self.body.tail.end() - 2;
        let mut scope = Scope { begin, members, last: 0, fixed: false, was_fixed: false };
        let mut entries = 0;
        fill(GroupWriter { body: self.body, scope: &mut scope, entries: &mut entries });
        match entries {
            0 => return self.body.tail.cut(begin),
            1..10 => self.body.tail.patch(digit, [b'0' + entries as u8]),
            _ => {
                let mut digits = itoa::Buffer::new();
                self.body.tail.replace(digit..digit + 1, digits.format(entries).as_bytes());
            }
        }
        self.settle(count, begin);
        if scope.fixed || scope.was_fixed {
            self.fix();
        }
    }

    /// Keeps later fields of the entry in the order of the calls.
    fn fix(&mut self) {
        if let Some(scope) = self.scope.as_deref_mut() {
            scope.fixed = true;
        }
    }

    /// Moves the field or group that begins at `begin` to its published position within the entry.
    #[inline]
    fn settle(&mut self, tag: Tag, begin: usize) {
        if let Some(scope) = self.scope.as_deref_mut()
            && !scope.is_ahead(tag)
        {
            scope.move_back(tag, begin, self.body.tail.all_written());
        }
    }
}

impl Scope {
    /// Returns true if the published position of the field is after the previous field, so that the
    /// field need not move.
    #[inline]
    fn is_ahead(&mut self, tag: Tag) -> bool {
        let ahead = self.members[self.last..].iter().position(|member| *member == tag.0);
        self.last += ahead.unwrap_or(0);
        ahead.is_some()
    }

    /// Moves the bytes from `begin` to the end to their published position among the earlier fields
    /// of the entry.
    #[cold]
    fn move_back(&self, tag: Tag, begin: usize, out: &mut [u8]) {
        let place = |tag: u32| self.members.iter().position(|member| *member == tag);
        // A field whose tag is not a member stays where it was written.
        let Some(own) = place(tag.0).filter(|_| !self.fixed) else { return };
        let mut at = self.begin;
        for (tag, len) in (Spans { rest: &out[self.begin..begin], before: (0, 0) }) {
            if place(tag).is_some_and(|place| place > own) {
                break;
            }
            at += len;
        }
        let len = out.len() - begin;
        out[at..].rotate_right(len);
    }
}

/// Writer for the entries of a group.
pub struct GroupWriter<'w, 'b> {
    body: &'w mut Body<'b>,
    scope: &'w mut Scope,
    entries: &'w mut u64,
}

impl<'b> GroupWriter<'_, 'b> {
    /// Begins the next entry and returns the writer for its fields.
    #[must_use]
    #[inline]
    pub fn entry(&mut self) -> Writer<'_, 'b> {
        *self.entries += 1;
        self.scope.begin = self.body.tail.end();
        self.scope.last = 0;
        self.scope.was_fixed |= self.scope.fixed;
        self.scope.fixed = false;
        Writer { body: self.body, scope: Some(self.scope) }
    }
}

/// Iterator over encoded fields, each as its tag and its length in bytes. The iterator ends at
/// bytes that are not a field.
struct Spans<'o> {
    rest: &'o [u8],
    /// Tag and numeric value of the previous field, which may be the Length field of the next
    /// field.
    before: (u32, usize),
}

impl Iterator for Spans<'_> {
    type Item = (u32, usize);

    fn next(&mut self) -> Option<(u32, usize)> {
        let begin = self.rest.iter().position(|&b| b == b'=')? + 1;
        let tag = u32::try_from(value::uint(&self.rest[..begin - 1])?).ok()?;
        let (length, len) = self.before;
        let is_data = data::length_of(Tag(tag)) == Some(Tag(length));
        let skipped = if is_data { begin.checked_add(len)? } else { begin };
        let end = skipped + self.rest.get(skipped..)?.iter().position(|&b| b == SOH)?;
        let number = value::uint(&self.rest[begin..end]).and_then(|n| usize::try_from(n).ok());
        self.before = (tag, number.unwrap_or(0));
        self.rest = &self.rest[end + 1..];
        Some((tag, end + 1))
    }
}
