//! Editors for the parts of a draft: the message, its groups and their entries.
//!
//! Invariant: an editor stores only the beginning of its part and recomputes the end at each use.
//! Changes inside the part thus leave no stale offset.

use core::ops::Range;

use super::{MessageDraft, NOTHING, arrange};
use crate::group::{Members, entry_end, group_end};
use crate::{Body, Fields, Misuse, Tag};

/// An editor for the message, or for one entry of a group.
///
/// Fields of nested groups are edited only by the editors of these groups.
pub struct DraftEntry<'d, M: ?Sized> {
    draft: &'d mut MessageDraft,
    members: &'d M,
    begin: usize,
    part: Part,
}

/// The part of a draft that a [`DraftEntry`] edits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The message. Permits any field except fields of group entries; new fields come last.
    Message,
    /// An entry of a group. Permits only members, in the published order, the delimiter first.
    Entry,
}

impl<'d, M: Members + ?Sized> DraftEntry<'d, M> {
    pub(super) const fn whole(draft: &'d mut MessageDraft, members: &'d M) -> Self {
        Self { draft, members, begin: 0, part: Part::Message }
    }

    fn end(&self) -> usize {
        match self.part {
            Part::Message => self.draft.run.tags.len(),
            Part::Entry => entry_end(&self.draft.run.tags, self.begin, self.members),
        }
    }

    /// Returns the fields, nested groups included; the getters of [`Fields`] read them.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.draft.run.fields().slice(self.begin, self.end())
    }

    /// Sets a field to a String value, or to any encoded value.
    ///
    /// # Errors
    /// The errors of [`DraftEntry::put`].
    pub fn set(&mut self, tag: Tag, value: &[u8]) -> Result<(), Misuse> {
        self.put(|fields| _ = fields.bytes(tag, value))
    }

    /// Sets all fields that the closure `write` adds.
    ///
    /// Existing fields keep their positions. New fields come last in a message, and at their
    /// published position in an entry. A data field gets a Length field with the correct length,
    /// regardless of the written length.
    ///
    /// # Errors
    /// The errors of [`Body`]. Also an error for a NumInGroup field, for a member of a group of the
    /// message, and for a field outside the entry's members. The draft is then unchanged.
    pub fn put(&mut self, write: impl FnOnce(&mut Body<'_>)) -> Result<(), Misuse> {
        self.draft.encode(write)?;
        for &tag in &self.draft.spare.tags {
            if self.members.group(tag).is_some() {
                return Err(Misuse::NumInGroup(tag));
            }
            self.check_own(tag)?;
        }
        self.place_spare();
        Ok(())
    }

    /// Rejects a field that the message or the entry does not permit.
    ///
    /// A message permits fields that the dictionary does not define; an entry does not.
    fn check_own(&self, tag: Tag) -> Result<(), Misuse> {
        if self.members.position(tag).is_some() {
            return Ok(());
        }
        match (self.part, self.members.group_of(tag)) {
            (Part::Entry, _) => Err(Misuse::NotInEntry(tag)),
            (Part::Message, Some(group)) => Err(Misuse::GroupMember { tag, group }),
            (Part::Message, None) => Ok(()),
        }
    }

    /// Removes a field, or a group with its entries; returns true if the field was present.
    ///
    /// A Length field and its data field are both removed.
    ///
    /// # Errors
    /// If the field is the delimiter of the entry. Also if the field is absent but belongs to the
    /// entries of a group of the message.
    pub fn remove(&mut self, tag: Tag) -> Result<bool, Misuse> {
        if self.part == Part::Entry && self.members.delimiter() == Some(tag) {
            return Err(Misuse::EntryDelimiter(tag));
        }
        let Some(place) = self.find(tag) else {
            let is_here = self.part == Part::Entry || self.members.group(tag).is_some();
            return if is_here { Ok(false) } else { self.check_own(tag).map(|()| false) };
        };
        let is_half = place.len() == 1;
        self.draft.run.splice(place, &NOTHING);
        if is_half && let Some(other) = self.find_lone_field(tag) {
            self.draft.run.splice(other, &NOTHING);
        }
        Ok(true)
    }

    /// Returns an editor for the group of the NumInGroup field `count`; an empty or absent group
    /// can be filled.
    ///
    /// Returns `None` if `count` is not a group of this message or entry.
    pub fn group(&mut self, count: Tag) -> Option<DraftGroup<'_, M::Entry>> {
        let members = self.members.group(count)?;
        let place = self.find(count).unwrap_or_else(|| self.place_of(count));
        Some(DraftGroup { draft: self.draft, members, count, at: place.start })
    }

    /// Copies the fields of `source` that the dictionary permits here; a group is copied with its
    /// entries.
    ///
    /// A copied field or group replaces an existing one. `known` defines the members of the groups
    /// of `source`.
    /// ```
    /// use transfix_codec::{MessageDraft, MessageLayout, tag};
    ///
    /// let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
    /// let layout = |msg_type: &[u8]| MessageLayout::new(&fix44, &fix44, msg_type);
    /// let order = layout(b"D").expect("NewOrderSingle(D)");
    /// let cancel = layout(b"F").expect("OrderCancelRequest(F)");
    /// let mut sent = MessageDraft::default();
    /// sent.clear(b"D");
    /// for (tag, value) in [(tag::CL_ORD_ID, "1"), (tag::SIDE, "1"), (tag::PRICE, "9")] {
    ///     sent.set(tag, value.as_bytes())?;
    /// }
    /// let mut draft = MessageDraft::default();
    /// draft.clear(b"F");
    /// draft.edit(&cancel).copy_from(&sent.fields(), &order);
    /// assert!(draft.fields().tags().iter().eq(&[tag::CL_ORD_ID, tag::SIDE]));
    /// # Ok::<(), transfix_codec::Misuse>(())
    /// ```
    pub fn copy_from<S: Members + ?Sized>(&mut self, source: &Fields<'_>, known: &S) {
        self.draft.spare.clear();
        arrange::legal(source, known, self.members, &mut self.draft.spare);
        self.place_spare();
    }

    /// Copies as [`copy_from`](Self::copy_from) does, and removes the copied fields from `source`.
    pub fn move_from<S: Members + ?Sized>(&mut self, source: &mut MessageDraft, known: &S) {
        self.copy_from(&source.fields(), known);
        let spare = &self.draft.spare;
        let mut at = 0;
        while let Some(&tag) = spare.tags.get(at) {
            // Only removing an entry's delimiter fails, and a whole message has no delimiter.
            let _ = source.edit(known).remove(tag);
            at = spare.unit(at, self.members).end;
        }
    }

    /// Inserts the fields encoded in `spare` at their positions in the draft.
    fn place_spare(&mut self) {
        let mut at = 0;
        while at < self.draft.spare.tags.len() {
            let unit = self.draft.spare.unit(at, self.members);
            let tag = self.draft.spare.tags[unit.start];
            let mut place = self.find(tag);
            if unit.len() == 2 && place.as_ref().is_none_or(|place| place.len() == 1) {
                // A complete pair replaces a lone Length field or a lone data field.
                let half = self.find_lone_field(tag);
                if let (Some(_), Some(half)) = (&place, &half) {
                    self.draft.run.splice(half.clone(), &NOTHING);
                    place = self.find(tag);
                } else {
                    place = place.or(half);
                }
            }
            let mut place = place.unwrap_or_else(|| self.place_of(tag));
            let MessageDraft { run, spare, .. } = &mut *self.draft;
            if unit.len() == 1 && place.len() == 2 {
                // A lone Length or data field replaces only its counterpart with the same tag: both
                // fields of a pair must remain.
                let at = place.start + usize::from(run.tags[place.start] != tag);
                place = at..at + 1;
            }
            run.splice(place, &spare.fields().slice(unit.start, unit.end));
            at = unit.end;
        }
    }

    /// Iterates over the units of this message or entry; a unit is a field, a Length–data pair or a
    /// group, as an index range.
    fn units(&self) -> impl Iterator<Item = Range<usize>> {
        let run = &self.draft.run;
        let (mut at, end) = (self.begin, self.end());
        core::iter::from_fn(move || {
            let unit = (at < end).then(|| run.unit(at, self.members))?;
            at = unit.end;
            Some(unit)
        })
    }

    /// Returns the index range of the unit that contains the field at this level, nested groups
    /// excluded.
    fn find(&self, tag: Tag) -> Option<Range<usize>> {
        let tags = &self.draft.run.tags;
        self.units().find(|unit| {
            let is_group = self.members.group(tags[unit.start]).is_some();
            tags[unit.start] == tag || !is_group && tags[unit.end - 1] == tag
        })
    }

    /// Returns the index of the lone Length or data field that pairs with `tag` at this level.
    fn find_lone_field(&self, tag: Tag) -> Option<Range<usize>> {
        let run = &self.draft.run;
        let is_half =
            |place: &Range<usize>| place.len() == 1 && run.are_pair(run.tags[place.start], tag);
        self.units().find(is_half)
    }

    /// Returns the empty index range at which a new field is inserted.
    fn place_of(&self, tag: Tag) -> Range<usize> {
        let tags = &self.draft.run.tags;
        let position = self.members.position(tag);
        let at = match self.part {
            Part::Entry => {
                let mut units = self.units();
                let later = units.find(|unit| self.members.position(tags[unit.start]) >= position);
                later.map_or(self.end(), |unit| unit.start)
            }
            // The last entry of a group absorbs a field that may be its member, so such a field is
            // inserted before the group.
            Part::Message => {
                let takes = |members: &M::Entry| {
                    members.position(tag).is_some() || members.group_of(tag).is_some()
                };
                let ends = self
                    .units()
                    .filter(|unit| !self.members.group(tags[unit.start]).is_some_and(takes));
                ends.last().map_or(self.begin, |unit| unit.end)
            }
        };
        at..at
    }
}

/// An editor for a repeating group of a draft.
pub struct DraftGroup<'d, M: ?Sized> {
    draft: &'d mut MessageDraft,
    members: &'d M,
    count: Tag,
    /// Index of the NumInGroup field; if the group is absent, the index at which the field is
    /// inserted.
    at: usize,
}

impl<M: Members + ?Sized> DraftGroup<'_, M> {
    fn is_there(&self) -> bool {
        self.draft.run.tags.get(self.at) == Some(&self.count)
    }

    /// Iterates over the index ranges of the entries.
    fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let tags = &self.draft.run.tags;
        let mut at = self.at + 1;
        let end = if self.is_there() { group_end(tags, at, self.members) } else { at };
        core::iter::from_fn(move || {
            let begin = (at < end).then_some(at)?;
            at = entry_end(tags, begin, self.members);
            Some(begin..at)
        })
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places().count()
    }

    /// Returns true if the group has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns an editor for the n-th entry, counted from 0.
    pub fn entry(&mut self, n: usize) -> Option<DraftEntry<'_, M>> {
        let begin = self.places().nth(n)?.start;
        Some(DraftEntry { draft: self.draft, members: self.members, begin, part: Part::Entry })
    }

    /// Appends an entry; `value` is the value of the entry's delimiter, the first field.
    ///
    /// # Errors
    /// The errors of [`Body::bytes`].
    pub fn add(&mut self, value: &[u8]) -> Result<DraftEntry<'_, M>, Misuse> {
        let Some(delimiter) = self.members.delimiter() else {
            return Err(Misuse::NotInEntry(self.count));
        };
        self.draft.encode(|fields| _ = fields.bytes(delimiter, value))?;
        Ok(self.insert_spare())
    }

    /// Appends a copy of an entry, such as an entry of another message.
    ///
    /// Fields that this group does not permit are skipped. `known` defines the groups nested in the
    /// copied entry.
    ///
    /// # Errors
    /// If the entry does not begin with the delimiter of this group.
    pub fn add_copy<S: Members + ?Sized>(
        &mut self,
        entry: &Fields<'_>,
        known: &S,
    ) -> Result<DraftEntry<'_, M>, Misuse> {
        self.draft.spare.clear();
        arrange::legal(entry, known, self.members, &mut self.draft.spare);
        let first = self.draft.spare.tags.first().copied();
        if first != self.members.delimiter() || first.is_none() {
            return Err(Misuse::NotInEntry(first.unwrap_or(self.count)));
        }
        Ok(self.insert_spare())
    }

    /// Appends a copy of the n-th entry; `None` if that entry does not exist.
    pub fn duplicate(&mut self, n: usize) -> Option<DraftEntry<'_, M>> {
        let place = self.places().nth(n)?;
        let MessageDraft { run, spare, .. } = &mut *self.draft;
        spare.clear();
        spare.append(&run.fields().slice(place.start, place.end));
        Some(self.insert_spare())
    }

    /// Removes the n-th entry; returns true if the entry existed.
    ///
    /// Removing the last remaining entry removes the group.
    pub fn remove(&mut self, n: usize) -> bool {
        let Some(place) = self.places().nth(n) else { return false };
        self.draft.run.splice(place, &NOTHING);
        self.recount();
        true
    }

    /// Removes the group with all of its entries.
    pub fn clear(&mut self) {
        if self.is_there() {
            let end = group_end(&self.draft.run.tags, self.at + 1, self.members);
            self.draft.run.splice(self.at..end, &NOTHING);
        }
    }

    /// Inserts the entry encoded in `spare` after the last entry of the group.
    fn insert_spare(&mut self) -> DraftEntry<'_, M> {
        let MessageDraft { run, spare, .. } = &mut *self.draft;
        if run.tags.get(self.at) != Some(&self.count) {
            run.insert_number(self.at, self.count);
        }
        let end = group_end(&run.tags, self.at + 1, self.members);
        run.splice(end..end, &spare.fields());
        self.recount();
        DraftEntry { draft: self.draft, members: self.members, begin: end, part: Part::Entry }
    }

    fn recount(&mut self) {
        let count = self.len();
        if count == 0 {
            self.clear();
        } else {
            self.draft.run.set_count(self.at, count as u64);
        }
    }
}
