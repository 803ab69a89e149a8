//! The full check of a message, which reports errors in their order of precedence.
//!
//! Invariant: each loop and recursion ends, because each step advances in the message or in an
//! acyclic dictionary.

use super::codes::FieldRule;
use super::tables::{Body, Layout, LayoutField, Level, NO_GROUP, Tables};
use super::{Finding, Scratch, Switches, values};
use crate::{Field, Fields, Reject, RejectReason, Tag, tag, value};

/// The sections of a message, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Header,
    Body,
    Trailer,
}

/// The two passes of the check over a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Checks the order and the number of entries and members.
    Structure,
    /// Checks the values.
    Content,
}

/// The state of a full check while it runs.
pub(super) struct Check<'c, 'm> {
    pub(super) tables: &'c Tables,
    pub(super) message: &'c Fields<'m>,
    pub(super) switches: &'c Switches,
    pub(super) scratch: &'c mut Scratch,
    pub(super) body: &'c Body,
    /// Index in the message of the next field to be checked.
    at: usize,
    pass: Pass,
    /// Receives each error with its precedence.
    report: &'c mut dyn FnMut(Rank, Finding),
}

/// The precedence of a finding: errors of the whole message come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Sections out of order, or a required tag missing in the message.
    Message,
    /// An error of a field or a group.
    Field,
}

/// The point at which the full check begins; all earlier fields are valid and marked as seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) section: Section,
    pub(super) at: usize,
    pub(super) epoch: u32,
}

/// The progress of the check within a group.
#[derive(Clone, Copy)]
struct Entries<'c> {
    level: Level<'c>,
    count_tag: Tag,
    delimiter: Tag,
    /// The value of the NumInGroup field; `None` if that value is not a number.
    expected: Option<u64>,
    /// Number of entries that have begun so far.
    begun: u64,
}

impl Entries<'_> {
    /// Returns true if as many entries have begun as NumInGroup announces.
    ///
    /// In that case, a following field that could be a member may belong to an enclosing level.
    fn are_complete(&self) -> bool {
        self.expected.is_none_or(|expected| self.begun >= expected)
    }
}

impl<'c, 'm> Check<'c, 'm> {
    pub(super) fn new(
        rules: (&'c Tables, &'c Body, &'c Switches),
        message: &'c Fields<'m>,
        scratch: &'c mut Scratch,
        report: &'c mut dyn FnMut(Rank, Finding),
    ) -> Self {
        let (tables, body, switches) = rules;
        let pass = Pass::Content;
        Self { tables, message, switches, scratch, body, at: 0, pass, report }
    }

    /// Runs the check from `stop` on and reports all errors.
    pub(super) fn run(mut self, stop: Stop) {
        let Stop { mut section, at, epoch } = stop;
        self.at = at;
        while let Some(field) = self.message.at(self.at) {
            let Some((found, place)) = self.find(section, field.tag) else {
                self.unplaced(field);
                self.at += 1;
                continue;
            };
            let is_empty = field.value.is_empty() && self.switches.empty_values;
            if found < section && self.switches.section_order && !is_empty {
                let reject = Reject::new(RejectReason::TagOutOfOrder, field.tag);
                (self.report)(Rank::Message, Finding { reject, at: Some(self.at) });
            }
            section = section.max(found);
            self.not_empty(field);
            let mark = &mut self.scratch.marks[place.mark as usize];
            if core::mem::replace(mark, epoch) == epoch && self.switches.repeated_tags {
                self.found(RejectReason::TagAppearsMoreThanOnce, field.tag, self.at);
            }
            self.value(field, place);
            self.at += 1;
            if place.group != NO_GROUP {
                self.top_group(field, place);
            }
        }
        self.lacks(epoch);
    }

    /// Reports required fields that are missing in the message outside groups.
    fn lacks(&mut self, epoch: u32) {
        let tables = self.tables;
        for layout in [tables.header, self.body.layout, tables.trailer] {
            let layout = &tables.layouts[layout];
            if self.switches.required_tags {
                self.required(layout, epoch, None);
            }
            if self.switches.conditional_tags {
                let (marks, message) = (&self.scratch.marks, self.message);
                let is_there = |mark: u32, _| marks[mark as usize] == epoch;
                for tag in layout.lacking(is_there, |tag| message.raw(Tag(tag))) {
                    let reject = Reject::new(RejectReason::RequiredTagMissing, tag);
                    (self.report)(Rank::Message, Finding { reject, at: None });
                }
            }
        }
        if self.switches.conditions {
            self.conditions(epoch);
        }
    }

    /// Reports missing fields that the standard's descriptions require under a fulfilled condition.
    ///
    /// A field that is not a direct member of the message belongs to a group and is ignored here.
    fn conditions(&mut self, epoch: u32) {
        let (tables, message, body) = (self.tables, self.message, self.body);
        for rule in body.conditions.iter().filter(|rule| rule.group == NO_GROUP) {
            let marks = &self.scratch.marks;
            let is_there = |tag| {
                let place = tables.layouts[body.layout].place(tag);
                place.map(|place| marks[place.mark as usize] == epoch)
            };
            // A dictionary overlay may have removed the field, which is then not missing.
            let is_absent = is_there(rule.tag) == Some(false);
            let value = |tag| message.raw(Tag(tag)).filter(|_| is_there(tag) != Some(false));
            if is_absent && rule.condition.holds(&value) {
                let reject = Reject::new(RejectReason::RequiredTagMissing, Tag(rule.tag));
                (self.report)(Rank::Message, Finding { reject, at: None });
            }
        }
    }

    /// Reports missing fields of a group entry that the standard's descriptions require under a
    /// fulfilled condition.
    fn conditions_in(&mut self, count_tag: Tag, level: Level<'_>) {
        let entry = self.message.slice(level.begin, self.at);
        for rule in self.body.conditions.iter().filter(|rule| rule.group == count_tag.0) {
            let is_absent =
                level.layout.place(rule.tag).is_some() && entry.position(Tag(rule.tag)).is_none();
            let values = level.values(self.at, self.message, &self.scratch.around);
            if is_absent && rule.condition.holds(&values) {
                let reject = Reject::new(RejectReason::RequiredTagMissing, Tag(rule.tag));
                (self.report)(Rank::Field, Finding { reject, at: Some(level.begin) });
            }
        }
    }

    /// Checks a group that is not nested: first its structure, then the values of its entries.
    fn top_group(&mut self, count: Field<'m>, place: &LayoutField) {
        let begin = self.at;
        for pass in [Pass::Structure, Pass::Content] {
            (self.at, self.pass) = (begin, pass);
            self.group(count, place, None);
        }
        self.pass = Pass::Content;
    }

    fn found(&mut self, reason: RejectReason, tag: Tag, at: usize) {
        let reject = Reject::new(reason, tag);
        (self.report)(Rank::Field, Finding { reject, at: Some(at) });
    }

    /// Returns the section that defines the tag, and the definition; searches the current section
    /// first.
    #[inline(always)]
    fn find(&self, section: Section, tag: Tag) -> Option<(Section, &'c LayoutField)> {
        use Section::{Body, Header, Trailer};
        // Nearly every field belongs to the current section, so one look-up suffices.
        if let Some(place) = self.place(section, tag) {
            return Some((section, place));
        }
        let others = match section {
            Header => [Body, Trailer],
            Body => [Trailer, Header],
            Trailer => [Body, Header],
        };
        others.into_iter().find_map(|other| Some((other, self.place(other, tag)?)))
    }

    #[inline(always)]
    fn place(&self, section: Section, tag: Tag) -> Option<&'c LayoutField> {
        let layout = match section {
            Section::Header => self.tables.header,
            Section::Body => self.body.layout,
            Section::Trailer => self.tables.trailer,
        };
        self.tables.layouts[layout].place(tag.0)
    }

    /// Reports a field whose tag the message does not permit.
    #[cold]
    fn unplaced(&mut self, field: Field<'m>) {
        if field.tag != Tag(0) {
            self.not_empty(field);
        }
        if !self.tables.defines(field.tag.0, self.body.owner) {
            self.undefined(field);
        } else if self.switches.tags_of_message {
            self.found(RejectReason::TagNotDefinedForMessage, field.tag, self.at);
        }
    }

    #[cold]
    fn undefined(&mut self, field: Field<'m>) {
        let is_user_defined = field.tag.0 >= tag::USER_DEFINED;
        if !self.switches.undefined_tags || is_user_defined && !self.switches.user_defined_tags {
            return;
        }
        let tag = if field.tag == Tag(0) {
            // RefTagID(371) contains the received tag text if that text is a number.
            let text = self.message.tag_text(self.at);
            value::uint(text).and_then(|tag| u32::try_from(tag).ok()).map(Tag)
        } else {
            Some(field.tag)
        };
        let reject = Reject { reason: RejectReason::InvalidTagNumber, tag };
        (self.report)(Rank::Field, Finding { reject, at: Some(self.at) });
    }

    #[inline]
    fn not_empty(&mut self, field: Field<'m>) {
        if field.value.is_empty() && self.switches.empty_values {
            self.found(RejectReason::TagWithoutValue, field.tag, self.at);
        }
    }

    /// Checks format and code of a value.
    fn value(&mut self, field: Field<'m>, place: &LayoutField) {
        if field.value.is_empty() {
            return;
        }
        let rule = &self.tables.fields[place.field as usize];
        if self.switches.formats {
            if !values::fits(rule.data_type, field.value) {
                self.found(RejectReason::IncorrectDataFormat, field.tag, self.at);
                return;
            }
            if rule.data_type.is_data() {
                self.length(field, rule);
            }
        }
        if self.switches.codes && !rule.admits(field.value) {
            self.found(RejectReason::ValueOutOfRange, field.tag, self.at);
        }
    }

    /// Checks that the value of the Length field equals the length of the data field.
    fn length(&mut self, field: Field<'m>, rule: &FieldRule) {
        let before = self.at.checked_sub(1).and_then(|n| self.message.at(n));
        let said = before.filter(|before| rule.length_tag == before.tag.0);
        match said {
            Some(said) if rule.length_in(before) != Some(field.value.len() as u64) => {
                self.found(RejectReason::IncorrectDataFormat, said.tag, self.at - 1)
            }
            _ => {}
        }
    }

    /// Reports missing required fields; `at` is the first field of the entry, or `None` for the
    /// message itself.
    fn required(&mut self, layout: &Layout, epoch: u32, at: Option<usize>) {
        let rank = if at.is_some() { Rank::Field } else { Rank::Message };
        for &(mark, tag) in &layout.required {
            if self.scratch.marks[mark as usize] != epoch {
                let reject = Reject::new(RejectReason::RequiredTagMissing, Tag(tag));
                (self.report)(rank, Finding { reject, at });
            }
        }
    }

    /// Checks the NumInGroup field `count` and the entries that follow.
    ///
    /// The depth of recursion is bounded by the dictionary, whatever the message contains.
    fn group(&mut self, count: Field<'m>, place: &LayoutField, outer: Option<&Level<'_>>) {
        let layout = &self.tables.layouts[place.group as usize];
        let level = Level { layout, begin: self.at, outer };
        let delimiter = self.delimiter(layout);
        // A count beyond 64 bits exceeds the number of entries of any message, so it is replaced by
        // the maximum.
        let beyond_all = || value::is_uint(count.value).then_some(u64::MAX);
        let expected = value::uint(count.value).or_else(beyond_all);
        let mut entries = Entries { level, count_tag: count.tag, delimiter, expected, begun: 0 };
        let begin = self.at;
        while let Some(field) = self.message.at(self.at)
            && field.tag == delimiter
            && !(entries.are_complete() && self.belongs_outside(field.tag, outer))
        {
            entries.begun += 1;
            self.entry(&entries);
        }
        if self.pass == Pass::Content {
            return;
        }
        let begun = entries.begun;
        if let Some(field) = self.message.at(begin)
            && begun == 0
            && expected != Some(0)
            && self.switches.group_order
            && layout.place(field.tag.0).is_some()
        {
            self.found(RejectReason::GroupFieldsOutOfOrder, field.tag, begin);
            return;
        }
        // Up to FIX 4.2, NumInGroup fields are of type int, so a negative count has a valid format.
        // -0 is not negative.
        let is_negative =
            |digits: &[u8]| value::is_uint(digits) && digits.iter().any(|&b| b != b'0');
        let negative = count.value.strip_prefix(b"-").is_some_and(is_negative);
        let miscounted =
            self.switches.group_counts && (negative || expected.is_some_and(|n| n != begun));
        if miscounted || self.switches.empty_groups && expected == Some(0) {
            self.found(RejectReason::IncorrectNumInGroup, count.tag, begin - 1);
        }
    }

    /// Returns the tag that begins each entry.
    fn delimiter(&self, layout: &Layout) -> Tag {
        match self.message.at(self.at) {
            Some(field) if !self.switches.group_order && layout.place(field.tag.0).is_some() => {
                field.tag
            }
            _ => Tag(layout.first),
        }
    }

    fn entry(&mut self, entries: &Entries<'_>) {
        let epoch = self.scratch.next_epoch();
        let begin = self.at;
        let level = Level { begin, ..entries.level };
        let Level { layout, outer, .. } = level;
        let mut next = 0;
        while let Some(field) = self.message.at(self.at) {
            if field.tag == entries.delimiter && self.at > begin {
                break;
            }
            let Some(place) = layout.place(field.tag.0) else {
                if self.tables.defines(field.tag.0, self.body.owner) {
                    break;
                }
                if self.pass == Pass::Content {
                    self.unplaced(field);
                }
                self.at += 1;
                continue;
            };
            let is_repeated = self.scratch.marks[place.mark as usize] == epoch;
            if is_repeated || place.mark_max < next {
                if entries.are_complete() && self.belongs_outside(field.tag, outer) {
                    break;
                }
                if self.pass == Pass::Structure {
                    self.misplaced(field, is_repeated);
                }
            }
            self.scratch.marks[place.mark as usize] = epoch;
            next = next.max(place.mark + 1);
            if self.pass == Pass::Content {
                self.not_empty(field);
                self.value(field, place);
            }
            self.at += 1;
            if place.group != NO_GROUP {
                self.group(field, place, Some(&level));
            }
        }
        if self.pass == Pass::Content && self.switches.required_in_groups {
            self.required(layout, epoch, Some(begin));
            if self.switches.conditional_tags {
                for tag in layout.lacking_in(level, self.at, self.message, &self.scratch.around) {
                    let reject = Reject::new(RejectReason::RequiredTagMissing, tag);
                    (self.report)(Rank::Field, Finding { reject, at: Some(begin) });
                }
            }
            if self.switches.conditions {
                self.conditions_in(entries.count_tag, level);
            }
        }
    }

    #[cold]
    fn misplaced(&mut self, field: Field<'m>, is_repeated: bool) {
        // A field with an empty value is reported only as empty, not also as misplaced.
        if field.value.is_empty() && self.switches.empty_values {
            return;
        }
        if self.switches.group_order {
            self.found(RejectReason::GroupFieldsOutOfOrder, field.tag, self.at);
        } else if is_repeated && self.switches.repeated_tags {
            self.found(RejectReason::TagAppearsMoreThanOnce, field.tag, self.at);
        }
    }

    /// Returns true if an enclosing level also permits the tag.
    #[cold]
    fn belongs_outside(&self, tag: Tag, outer: Option<&Level<'_>>) -> bool {
        let levels = core::iter::successors(outer, |level| level.outer);
        levels.into_iter().any(|level| level.layout.place(tag.0).is_some())
            || self.find(Section::Body, tag).is_some()
    }
}
