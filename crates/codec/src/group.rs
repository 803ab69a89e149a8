//! Repeating groups of a received message as iterators over their entries, nested to any depth.
//!
//! [`Fields::entries`] knows the permitted fields of an entry, from the dictionary or the caller,
//! and thus finds the end of each entry. [`Fields::group`] needs only the delimiter; the last entry
//! then extends to the end of the scope, unless [`Groups::members`] lists the members.
//! ```
//! use transfix_codec::{CheckSumPolicy, FieldIndex, Members, Message, MessageLayout, Tag};
//!
//! let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
//! let order = MessageLayout::new(&fix44, &fix44, b"D").expect("a message of FIX 4.4");
//! let bytes = b"8=FIX.4.4\x019=60\x0135=D\x01453=2\x01448=A\x01447=D\x01802=1\x01523=X\x01\
//!     803=4\x01448=B\x0155=EU\x0110=000\x01";
//! let mut index = FieldIndex::default();
//! let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
//! let parties = order.group(Tag(453)).expect("NoPartyIDs(453) is a group");
//! let ids = message.entries(Tag(453), parties).map(|party| party.raw(Tag(448)));
//! assert!(ids.eq([Some(&b"A"[..]), Some(b"B")]));
//! let first = message.entries(Tag(453), parties).next().expect("two entries");
//! let sub_ids = parties.group(Tag(802)).expect("NoPartySubIDs(802) is a group");
//! assert_eq!(first.entries(Tag(802), sub_ids).count(), 1);
//! # Ok::<(), transfix_codec::Garbled>(())
//! ```

use transfix_dictionary::{Dictionary, Layout};

use crate::error::{GroupError, GroupFault};
use crate::fields::Fields;
use crate::{Tag, scan, value};

/// The fields that a message, or an entry of a group, may contain.
///
/// A [`Layout`] of the dictionary implements this trait. Without a dictionary, a list of tags in
/// the expected order serves: the delimiter first, the members of nested groups included.
pub trait Members {
    /// The members of the entries of nested groups.
    type Entry: Members<Entry = Self::Entry> + ?Sized;

    /// Returns the first field of an entry; `None` for a message.
    fn delimiter(&self) -> Option<Tag>;

    /// Returns the position of the field in the published order; `None` if the field is not
    /// permitted here.
    fn position(&self, tag: Tag) -> Option<u32>;

    /// Returns the members of a group's entries; `None` if `count` is not the NumInGroup field of a
    /// group here.
    fn group(&self, count: Tag) -> Option<&Self::Entry>;

    /// Returns the results of [`Members::position`] and [`Members::group`] with one search.
    fn member(&self, tag: Tag) -> Option<(u32, Option<&Self::Entry>)> {
        Some((self.position(tag)?, self.group(tag)))
    }

    /// Returns the NumInGroup field of the first group, nested or not, whose entries may contain
    /// the field.
    fn group_of(&self, tag: Tag) -> Option<Tag>;
}

/// Returns the result of [`Members::group_of`] for the given groups and their nested groups.
fn owner<'m, M: Members + ?Sized + 'm>(
    mut groups: impl Iterator<Item = (Tag, &'m M)>,
    tag: Tag,
) -> Option<Tag> {
    groups.find_map(|(count, members)| {
        if members.position(tag).is_some() { Some(count) } else { members.group_of(tag) }
    })
}

impl Members for Layout {
    type Entry = Self;

    fn delimiter(&self) -> Option<Tag> {
        self.first().map(Tag)
    }

    fn position(&self, tag: Tag) -> Option<u32> {
        self.place(tag.0).map(|place| place.position)
    }

    fn group(&self, count: Tag) -> Option<&Self> {
        self.place(count.0)?.group.as_ref()
    }

    #[inline]
    fn member(&self, tag: Tag) -> Option<(u32, Option<&Self>)> {
        self.place(tag.0).map(|place| (place.position, place.group.as_ref()))
    }

    fn group_of(&self, tag: Tag) -> Option<Tag> {
        let groups = self.places().iter();
        owner(groups.filter_map(|place| Some((Tag(place.tag), place.group.as_ref()?))), tag)
    }
}

impl Members for [Tag] {
    type Entry = Self;

    fn delimiter(&self) -> Option<Tag> {
        self.first().copied()
    }

    fn position(&self, tag: Tag) -> Option<u32> {
        self.iter().zip(0..).find(|(member, _)| **member == tag).map(|(_, at)| at)
    }

    fn group(&self, _: Tag) -> Option<&Self> {
        None
    }

    fn group_of(&self, _: Tag) -> Option<Tag> {
        None
    }
}

/// The groups of a message without a dictionary: each NumInGroup field with the members of its
/// entries.
impl Members for [(Tag, &[Tag])] {
    type Entry = [Tag];

    fn delimiter(&self) -> Option<Tag> {
        None
    }

    fn position(&self, _: Tag) -> Option<u32> {
        None
    }

    fn group(&self, count: Tag) -> Option<&[Tag]> {
        self.iter().find(|(group, _)| *group == count).map(|(_, members)| *members)
    }

    fn group_of(&self, tag: Tag) -> Option<Tag> {
        owner(self.iter().copied(), tag)
    }
}

/// The layout of one message type: the permitted fields of header, body and trailer.
#[derive(Clone, Debug)]
pub struct MessageLayout {
    header: Layout,
    body: Layout,
    trailer: Layout,
}

/// The first position in the body. Positions in the trailer begin at `TRAILER`; unknown fields have
/// the position `UNKNOWN` in between.
const BODY: u32 = 1 << 28;
pub(crate) const UNKNOWN: u32 = 2 << 28;
const TRAILER: u32 = 3 << 28;

impl MessageLayout {
    /// Returns the layout of messages of type `msg_type`; `None` if neither dictionary defines the
    /// type.
    ///
    /// `session` defines the header, the trailer and the session messages; see
    /// [`Rules::new`](crate::Rules::new).
    #[must_use]
    pub fn new(
        session: &Dictionary,
        application: &Dictionary,
        msg_type: impl AsRef<[u8]>,
    ) -> Option<Self> {
        let msg_type = msg_type.as_ref();
        let message = session.message(msg_type).or_else(|| application.message(msg_type))?;
        let [header, trailer] = [session.header(), session.trailer()].map(Layout::of);
        Some(Self { header, body: Layout::of(&message.members), trailer })
    }

    fn sections(&self) -> [(&Layout, u32); 3] {
        [(&self.body, BODY), (&self.header, 0), (&self.trailer, TRAILER)]
    }
}

impl Members for MessageLayout {
    type Entry = Layout;

    fn delimiter(&self) -> Option<Tag> {
        None
    }

    fn position(&self, tag: Tag) -> Option<u32> {
        let found = |(layout, begin): (&Layout, u32)| Some(begin + layout.position(tag)?);
        self.sections().into_iter().find_map(found)
    }

    fn group(&self, count: Tag) -> Option<&Layout> {
        self.sections().into_iter().find_map(|(layout, _)| Members::group(layout, count))
    }

    fn group_of(&self, tag: Tag) -> Option<Tag> {
        self.sections().into_iter().find_map(|(layout, _)| layout.group_of(tag))
    }
}

/// Returns the index in `tags` at which the group entry that begins at `begin` ends.
///
/// The entry ends before the next delimiter or before the first tag that is not a member.
pub fn entry_end<M: Members + ?Sized>(tags: &[Tag], begin: usize, members: &M) -> usize {
    let delimiter = members.delimiter();
    let mut at = begin;
    while let Some(&tag) = tags.get(at)
        && (at == begin || Some(tag) != delimiter)
        && let Some((_, nested)) = members.member(tag)
    {
        at += 1;
        if let Some(nested) = nested {
            at = group_end(tags, at, nested);
        }
    }
    at
}

/// Returns the index in `tags` at which the group ends whose first entry begins at `begin`.
pub fn group_end<M: Members + ?Sized>(tags: &[Tag], begin: usize, members: &M) -> usize {
    let mut at = begin;
    while at < tags.len() && Some(tags[at]) == members.delimiter() {
        at = entry_end(tags, at, members);
    }
    at
}

/// Iterator over the entries of one repeating group with known members.
pub struct Entries<'a, 'm, M: ?Sized> {
    rest: Fields<'a>,
    left: usize,
    members: &'m M,
    /// The tags of the previous entry. Most entries have the same tags as their predecessor.
    before: &'a [Tag],
}

impl<'a, 'm, M: Members + ?Sized> Entries<'a, 'm, M> {
    pub(crate) fn new(scope: Fields<'a>, count: Tag, members: &'m M) -> Self {
        let Groups { rest, left, .. } = Groups::new(scope, count, count);
        Self { rest, left, members, before: &[] }
    }
}

impl<M: ?Sized> Clone for Entries<'_, '_, M> {
    fn clone(&self) -> Self {
        let Self { rest, left, members, before } = *self;
        Self { rest, left, members, before }
    }
}

impl<'a, M: Members + ?Sized> Iterator for Entries<'a, '_, M> {
    type Item = Fields<'a>;

    fn next(&mut self) -> Option<Fields<'a>> {
        let tags = self.rest.tags();
        if self.left == 0 || tags.first().copied() != self.members.delimiter() || tags.is_empty() {
            return None;
        }
        self.left -= 1;
        let end = match same_entry(tags, self.before) {
            Some(end) => end,
            None => entry_end(tags, 0, self.members),
        };
        self.before = &tags[..end];
        let (entry, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(entry)
    }
}

/// Returns the end of the entry at the beginning of `tags` if the entry has the tags of the
/// previous entry, `before`.
///
/// Returns `None` if the tags differ, or if no further entry follows.
#[inline]
pub(crate) fn same_entry(tags: &[Tag], before: &[Tag]) -> Option<usize> {
    let next = *tags.get(before.len())?;
    (next == *before.first()? && scan::begin_with(tags, before)).then_some(before.len())
}

/// Checks the structure of a group and its nested groups; `count` is the tag of its NumInGroup
/// field.
pub(crate) fn check<M: Members + ?Sized>(
    scope: &Fields<'_>,
    count: Tag,
    members: &M,
) -> Result<(), GroupError> {
    let Some(at) = scope.position(count) else { return Ok(()) };
    let blame = |entry, fault| GroupError { group: count, entry, fault };
    let number = value::uint(scope.value(at)).and_then(|number| usize::try_from(number).ok());
    let expected = number.ok_or(blame(1, GroupFault::NotANumber))?;
    let Some(delimiter) = members.delimiter() else { return Ok(()) };
    let tags = scope.tags();
    let mut begin = at + 1;
    for entry in 1..=expected {
        let found = tags.get(begin).copied();
        if found != Some(delimiter) {
            return Err(blame(entry, GroupFault::Delimiter { expected: delimiter, found }));
        }
        let end = entry_end(tags, begin, members);
        let fields = scope.slice(begin, end);
        check_entry(&fields, members).map_err(|fault| blame(entry, fault))?;
        for nested in fields.tags() {
            if let Some(members) = members.group(*nested) {
                check(&fields, *nested, members)?;
            }
        }
        begin = end;
    }
    match tags.get(begin) {
        Some(tag) if *tag == delimiter => Err(blame(expected + 1, GroupFault::TooMany)),
        _ => Ok(()),
    }
}

/// Checks that each member of an entry occurs once and in the published order.
fn check_entry<M: Members + ?Sized>(entry: &Fields<'_>, members: &M) -> Result<(), GroupFault> {
    let tags = entry.tags();
    let mut before: Option<(u32, Tag)> = None;
    let mut at = 0;
    while let Some(&tag) = tags.get(at) {
        let (position, nested) = members.member(tag).unwrap_or((UNKNOWN, None));
        if let Some((_, after)) = before.filter(|(last, _)| *last >= position) {
            return Err(GroupFault::Order { tag, after });
        }
        before = Some((position, tag));
        at += 1;
        if let Some(nested) = nested {
            at = group_end(tags, at, nested);
        }
    }
    Ok(())
}

/// Iterator over the entries of one repeating group, of which only the delimiter need be known.
#[derive(Clone, Copy)]
pub struct Groups<'a> {
    /// The fields from the delimiter of the next entry to the end of the scope.
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

    /// Declares the members of an entry: each entry then ends before the first field that is not in
    /// `tags`.
    ///
    /// `tags` must include the members of nested groups.
    #[must_use]
    pub const fn members(mut self, tags: &'a [Tag]) -> Self {
        self.members = Some(tags);
        self
    }

    /// Returns the value of the NumInGroup field; the message may contain fewer entries.
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
        let (entry, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(entry)
    }
}
