//! The parts of a draft that are changed: the message, its groups, their entries.
//!
//! Invariant: a part knows where it begins, and finds its end anew each time, so that a change
//! inside leaves nothing stale.

use core::ops::Range;

use super::{MessageDraft, NOTHING, arrange};
use crate::group::{Members, entry_end, group_end};
use crate::{Body, Fields, Misuse, Tag};

/// The message, or one entry of a group, to be changed. Fields of nested groups are not its own.
pub struct DraftEntry<'d, M: ?Sized> {
    draft: &'d mut MessageDraft,
    members: &'d M,
    begin: usize,
    part: Part,
}

/// Which part of a draft a [`DraftEntry`] is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The message: any field may stand in it but those of its groups' entries, new ones come last.
    Message,
    /// An entry of a group: members only, in the published order, the delimiter first.
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

    /// The fields, nested groups included; read them by the getters of [`Fields`].
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.draft.run.fields().slice(self.begin, self.end())
    }

    /// Sets a field to a String value, or to any value already in its wire form.
    ///
    /// # Errors
    /// As [`DraftEntry::put`].
    pub fn set(&mut self, tag: Tag, value: &[u8]) -> Result<(), Misuse> {
        self.put(|fields| _ = fields.bytes(tag, value))
    }

    /// Sets the fields that `write` writes. Those that are there keep their places; new ones come
    /// last in a message, and to their published place in an entry. A data field gets its Length
    /// field, which is right whatever is written for it.
    ///
    /// # Errors
    /// As [`Body`]; or a field counts the entries of a group, belongs to the entries of a group of
    /// the message, or is no member of the entry. The draft is then as before.
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

    /// Refuses fields that have no place at this level. In a message may stand what no dictionary
    /// knows.
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

    /// Removes a field, of a Length and a data field both, or a group with its entries; whether it
    /// was there.
    ///
    /// # Errors
    /// If the field delimits the entry; if it is not there, but belongs to the entries of a group
    /// of the message.
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
        if is_half && let Some(other) = self.find_half(tag) {
            self.draft.run.splice(other, &NOTHING);
        }
        Ok(true)
    }

    /// The group that the NumInGroup field `count` opens, whether it has entries or not; `None` if
    /// it is no group of this message or entry.
    pub fn group(&mut self, count: Tag) -> Option<DraftGroup<'_, M::Entry>> {
        let members = self.members.group(count)?;
        let place = self.find(count).unwrap_or_else(|| self.place_of(count));
        Some(DraftGroup { draft: self.draft, members, count, at: place.start })
    }

    /// Takes over those fields of `source` that have a place here by the dictionary, groups with
    /// their entries. The entry that was here is replaced. `known` says what belongs to the groups
    /// of `source`.
    ///
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

    /// As [`copy_from`](Self::copy_from); what was taken over is removed from `source`.
    pub fn move_from<S: Members + ?Sized>(&mut self, source: &mut MessageDraft, known: &S) {
        self.copy_from(&source.fields(), known);
        let spare = &self.draft.spare;
        let mut at = 0;
        while let Some(&tag) = spare.tags.get(at) {
            // A message has no delimiter that could not be removed.
            let _ = source.edit(known).remove(tag);
            at = spare.unit(at, self.members).end;
        }
    }

    /// Puts what was encoded where it belongs.
    fn place_spare(&mut self) {
        let mut at = 0;
        while at < self.draft.spare.tags.len() {
            let unit = self.draft.spare.unit(at, self.members);
            let tag = self.draft.spare.tags[unit.start];
            let mut place = self.find(tag);
            if unit.len() == 2 && place.as_ref().is_none_or(|place| place.len() == 1) {
                // Halves that stand alone give way to the pair.
                let half = self.find_half(tag);
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
                // One of a Length and a data field, which need each other: the other stays.
                let at = place.start + usize::from(run.tags[place.start] != tag);
                place = at..at + 1;
            }
            run.splice(place, &spare.fields().slice(unit.start, unit.end));
            at = unit.end;
        }
    }

    /// Where the fields stand at this level, each with what belongs to it.
    fn units(&self) -> impl Iterator<Item = Range<usize>> {
        let run = &self.draft.run;
        let (mut at, end) = (self.begin, self.end());
        core::iter::from_fn(move || {
            let unit = (at < end).then(|| run.unit(at, self.members))?;
            at = unit.end;
            Some(unit)
        })
    }

    /// Where the field stands at this level, with what belongs to it.
    fn find(&self, tag: Tag) -> Option<Range<usize>> {
        let tags = &self.draft.run.tags;
        self.units().find(|unit| {
            let is_group = self.members.group(tags[unit.start]).is_some();
            tags[unit.start] == tag || !is_group && tags[unit.end - 1] == tag
        })
    }

    /// Where the other half of a Length and a data field stands alone at this level.
    fn find_half(&self, tag: Tag) -> Option<Range<usize>> {
        let run = &self.draft.run;
        let is_half =
            |place: &Range<usize>| place.len() == 1 && run.are_pair(run.tags[place.start], tag);
        self.units().find(is_half)
    }

    /// Where the field comes that is not there yet.
    fn place_of(&self, tag: Tag) -> Range<usize> {
        let tags = &self.draft.run.tags;
        let position = self.members.position(tag);
        let at = match self.part {
            Part::Entry => {
                let mut units = self.units();
                let later = units.find(|unit| self.members.position(tags[unit.start]) >= position);
                later.map_or(self.end(), |unit| unit.start)
            }
            // Not behind a group whose last entry would take it for its own.
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

/// A repeating group of a draft.
pub struct DraftGroup<'d, M: ?Sized> {
    draft: &'d mut MessageDraft,
    members: &'d M,
    count: Tag,
    /// Where the NumInGroup field stands, or would.
    at: usize,
}

impl<M: Members + ?Sized> DraftGroup<'_, M> {
    fn is_there(&self) -> bool {
        self.draft.run.tags.get(self.at) == Some(&self.count)
    }

    /// Where the entries begin and end.
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

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places().count()
    }

    /// Returns true if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The n-th entry, counted from 0.
    pub fn entry(&mut self, n: usize) -> Option<DraftEntry<'_, M>> {
        let begin = self.places().nth(n)?.start;
        Some(DraftEntry { draft: self.draft, members: self.members, begin, part: Part::Entry })
    }

    /// Adds an entry behind the others; `value` is that of the delimiter.
    ///
    /// # Errors
    /// As [`Body::bytes`].
    pub fn add(&mut self, value: &[u8]) -> Result<DraftEntry<'_, M>, Misuse> {
        let Some(delimiter) = self.members.delimiter() else {
            return Err(Misuse::NotInEntry(self.count));
        };
        self.draft.encode(|fields| _ = fields.bytes(delimiter, value))?;
        Ok(self.insert_spare())
    }

    /// Adds a copy of an entry, such as one of another message; what has no place here is left
    /// out. `known` are the members of its group.
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

    /// Adds a copy of the n-th entry; `None` if there is none.
    pub fn duplicate(&mut self, n: usize) -> Option<DraftEntry<'_, M>> {
        let place = self.places().nth(n)?;
        let MessageDraft { run, spare, .. } = &mut *self.draft;
        spare.clear();
        spare.append(&run.fields().slice(place.start, place.end));
        Some(self.insert_spare())
    }

    /// Removes the n-th entry, and with the last one the group; whether it was there.
    pub fn remove(&mut self, n: usize) -> bool {
        let Some(place) = self.places().nth(n) else { return false };
        self.draft.run.splice(place, &NOTHING);
        self.recount();
        true
    }

    /// Removes the group.
    pub fn clear(&mut self) {
        if self.is_there() {
            let end = group_end(&self.draft.run.tags, self.at + 1, self.members);
            self.draft.run.splice(self.at..end, &NOTHING);
        }
    }

    /// Puts what was encoded behind the last entry.
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
