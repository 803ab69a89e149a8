//! Judges whole messages by the dictionary: the content half of the session layer's validation.
//!
//! [`Rules`] are compiled once from the dictionaries of a session; [`Rules::check`] answers with
//! the first [`Reject`] that a message deserves. An unknown MsgType(35) is blamed first, then
//! sections out of order, required tags that are missing, and then the fields in wire order: of
//! one field an empty value, the tag, its place, its format, its code. How a group is built comes
//! before what its entries say.
//!
//! Invariants: no message makes it panic; nothing is allocated once [`Scratch`] has grown; the
//! time is linear in the number of fields.
//!
//! ```
//! use transfix_codec::{FieldIndex, Message, RejectReason, Rules, Scratch, Switches, Tag};
//!
//! let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
//! let rules = Rules::new(&fix44, &fix44);
//! let bytes = b"8=FIX.4.4\x019=61\x0135=0\x0134=2\x0149=TW44\x0156=ISLD\x01\
//!     52=20261121-09:28:25.623\x0155=IBM\x0110=157\x01";
//! let mut index = FieldIndex::default();
//! let message = Message::parse(bytes, &mut index, transfix_codec::CheckSumPolicy::Ignore)?;
//! let reject = rules.check(&message, &Switches::default(), &mut Scratch::default());
//! let reject = reject.expect_err("a Heartbeat(0) has no Symbol(55)");
//! assert_eq!(reject.reason, RejectReason::TagNotDefinedForMessage);
//! assert_eq!(reject.tag, Some(Tag(55)));
//! # Ok::<(), transfix_codec::Garbled>(())
//! ```

mod sound;
mod switches;
mod tables;
mod values;

use alloc::vec::Vec;

use transfix_dictionary::Dictionary;

use crate::{Field, Message, Reject, RejectReason, Tag, data, value};
pub use switches::Switches;
use tables::{Body, FieldRule, Layout, NO_GROUP, Place, Tables};

/// What the messages of one session must look like.
#[derive(Debug)]
pub struct Rules {
    tables: Tables,
}

/// Reusable memory of a check; allocates only while it grows. Any [`Rules`] may share it.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// Epoch in which each position was seen last.
    marks: Vec<u32>,
    epoch: u32,
}

impl Scratch {
    fn begin(&mut self, marks: usize) {
        if self.marks.len() < marks {
            self.marks.resize(marks, 0);
        }
        // One message has fewer entries than half of the epochs: Span counts bytes in a u32.
        if self.epoch > u32::MAX / 2 {
            self.marks.fill(0);
            self.epoch = 0;
        }
    }

    fn next_epoch(&mut self) -> u32 {
        self.epoch += 1;
        self.epoch
    }
}

impl Rules {
    /// Compiles the rules: `session` gives header, trailer and its own messages, `application`
    /// the rest. They are the same dictionary up to FIX 4.4; from FIX 5.0 on, `session` is
    /// FIXT 1.1.
    #[must_use]
    pub fn new(session: &Dictionary, application: &Dictionary) -> Self {
        Self { tables: Tables::new(session, application) }
    }

    /// Judges a message.
    ///
    /// # Errors
    /// The first error. The [`Reject`] names no tag where none can be named: for an unknown
    /// MsgType(35), and for a tag that RefTagID(371) cannot hold, such as -1.
    pub fn check(
        &self,
        message: &Message<'_>,
        switches: &Switches,
        scratch: &mut Scratch,
    ) -> Result<(), Reject> {
        let Some(body) = self.tables.body(message.msg_type()) else {
            return if message.msg_type().is_empty() && switches.empty_values {
                Err(Reject::new(RejectReason::TagWithoutValue, crate::tag::MSG_TYPE))
            } else if switches.msg_types {
                Err(Reject { reason: RejectReason::InvalidMsgType, tag: None })
            } else {
                Ok(())
            };
        };
        scratch.begin(self.tables.marks);
        // Sound messages are walked over once, quickly.
        if (sound::Sound { tables: &self.tables, message, scratch, at: 0 }).holds(body) {
            return Ok(());
        }
        let pass = Pass::Whole;
        let mut check =
            Check { tables: &self.tables, message, switches, scratch, body, at: 0, pass };
        check.run().map_err(|reject| check.first_of_message(reject))
    }
}

/// The first tag that is a number but no [`Tag`], such as `-1`, as the sender wrote it: what
/// RefTagID(371) says where a [`Reject`] of reason 0 names no tag.
#[must_use]
pub fn malformed_tag<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let malformed = message.fields().enumerate().filter(|(_, field)| field.tag == Tag(0));
    let mut texts = malformed.map(|(n, _)| message.tag_text(n));
    texts.find(|text| value::int(text).is_some())
}

/// The parts of a message, in their order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Header,
    Body,
    Trailer,
}

/// What a walk over a group looks at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Everything.
    Whole,
    /// Order and number of entries and members, without what they say.
    Structure,
}

/// A check under way.
struct Check<'c, 'm> {
    tables: &'c Tables,
    message: &'c Message<'m>,
    switches: &'c Switches,
    scratch: &'c mut Scratch,
    body: &'c Body,
    /// The next field.
    at: usize,
    pass: Pass,
}

/// The group entry that is being read, and those around it.
#[derive(Clone, Copy)]
struct Level<'c> {
    layout: &'c Layout,
    outer: Option<&'c Self>,
}

/// One group as it is read.
#[derive(Clone, Copy)]
struct Entries<'c> {
    level: Level<'c>,
    delimiter: Tag,
    /// The value of the NumInGroup field, if it is a number.
    expected: Option<u64>,
    /// The entries begun so far.
    begun: u64,
}

impl Entries<'_> {
    /// Whether the entries that were announced are there: what else could be a member may belong
    /// to a level around.
    fn are_complete(&self) -> bool {
        self.expected.is_none_or(|expected| self.begun >= expected)
    }
}

impl<'c> Check<'c, '_> {
    fn run(&mut self) -> Result<(), Reject> {
        let epoch = self.scratch.next_epoch();
        let mut section = Section::Header;
        while let Some(field) = self.message.at(self.at) {
            let Some((found, place)) = self.find(section, field.tag) else {
                self.unplaced(field)?;
                self.at += 1;
                continue;
            };
            self.not_empty(field)?;
            if found < section && self.switches.section_order {
                return Err(Reject::new(RejectReason::TagOutOfOrder, field.tag));
            }
            section = section.max(found);
            let mark = &mut self.scratch.marks[place.mark as usize];
            if *mark == epoch && self.switches.repeated_tags {
                return Err(Reject::new(RejectReason::TagAppearsMoreThanOnce, field.tag));
            }
            *mark = epoch;
            self.value(field, place)?;
            self.at += 1;
            if place.group != NO_GROUP {
                let begin = self.at;
                self.group(field, place, None)
                    .map_err(|reject| self.first_of_group(reject, begin, field, place))?;
            }
        }
        let tables = self.tables;
        for layout in [tables.header, self.body.layout, tables.trailer] {
            self.required(&tables.layouts[layout], epoch)?;
        }
        Ok(())
    }

    /// The error to answer with: of the whole message before that of a field. Sound messages never
    /// come here, so that they are walked over once.
    #[cold]
    fn first_of_message(&mut self, reject: Reject) -> Reject {
        let epoch = self.scratch.next_epoch();
        let mut section = Section::Header;
        for field in self.message.fields() {
            let Some((found, place)) = self.find(section, field.tag) else { continue };
            let is_late = found < section && self.switches.section_order;
            if is_late && !(field.value.is_empty() && self.switches.empty_values) {
                return Reject::new(RejectReason::TagOutOfOrder, field.tag);
            }
            section = section.max(found);
            self.scratch.marks[place.mark as usize] = epoch;
        }
        let tables = self.tables;
        for layout in [tables.header, self.body.layout, tables.trailer] {
            if let Err(missing) = self.required(&tables.layouts[layout], epoch) {
                return missing;
            }
        }
        reject
    }

    /// The error to answer with: of the structure of the group that begins at `begin`, if that is
    /// wrong too.
    #[cold]
    fn first_of_group(
        &mut self,
        reject: Reject,
        begin: usize,
        count: Field<'_>,
        place: &Place,
    ) -> Reject {
        (self.at, self.pass) = (begin, Pass::Structure);
        self.group(count, place, None).err().unwrap_or(reject)
    }

    /// Where the tag belongs, beginning with the section at hand.
    #[inline(always)]
    fn find(&self, section: Section, tag: Tag) -> Option<(Section, &'c Place)> {
        use Section::{Body, Header, Trailer};
        // Nearly every field belongs to the section at hand: one look-up.
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
    fn place(&self, section: Section, tag: Tag) -> Option<&'c Place> {
        let layout = match section {
            Section::Header => self.tables.header,
            Section::Body => self.body.layout,
            Section::Trailer => self.tables.trailer,
        };
        self.tables.layouts[layout].place(tag.0)
    }

    /// A field that has no place in the message.
    #[cold]
    fn unplaced(&self, field: Field<'_>) -> Result<(), Reject> {
        if field.tag != Tag(0) {
            self.not_empty(field)?;
        }
        if !self.tables.defines(field.tag.0, self.body.owner) {
            return self.undefined(field);
        }
        if self.switches.tags_of_message {
            return Err(Reject::new(RejectReason::TagNotDefinedForMessage, field.tag));
        }
        Ok(())
    }

    #[cold]
    fn undefined(&self, field: Field<'_>) -> Result<(), Reject> {
        let is_user_defined = field.tag.0 >= USER_DEFINED;
        if !self.switches.undefined_tags || is_user_defined && !self.switches.user_defined_tags {
            return Ok(());
        }
        let tag = if field.tag == Tag(0) {
            // RefTagID(371) names what the sender wrote, as far as that is a number.
            let text = self.message.tag_text(self.at);
            value::uint(text).and_then(|tag| u32::try_from(tag).ok()).map(Tag)
        } else {
            Some(field.tag)
        };
        Err(Reject { reason: RejectReason::InvalidTagNumber, tag })
    }

    #[inline]
    fn not_empty(&self, field: Field<'_>) -> Result<(), Reject> {
        if field.value.is_empty() && self.switches.empty_values {
            return Err(Reject::new(RejectReason::TagWithoutValue, field.tag));
        }
        Ok(())
    }

    /// Format and code of a value.
    #[inline]
    fn value(&self, field: Field<'_>, place: &Place) -> Result<(), Reject> {
        if field.value.is_empty() {
            return Ok(());
        }
        let rule = &self.tables.fields[place.field as usize];
        if self.switches.formats {
            if !values::fits(rule.data_type, field.value) {
                return Err(Reject::new(RejectReason::IncorrectDataFormat, field.tag));
            }
            if rule.data_type.is_data() {
                self.length(field)?;
            }
        }
        self.code(field, rule)
    }

    #[inline]
    fn code(&self, field: Field<'_>, rule: &FieldRule) -> Result<(), Reject> {
        if self.switches.codes && !rule.admits(field.value) {
            return Err(Reject::new(RejectReason::ValueOutOfRange, field.tag));
        }
        Ok(())
    }

    /// A data field is as long as the Length field before it says.
    fn length(&self, field: Field<'_>) -> Result<(), Reject> {
        let Some(before) = self.at.checked_sub(1).and_then(|n| self.message.at(n)) else {
            return Ok(());
        };
        let is_length = data::length_of(field.tag) == Some(before.tag);
        if is_length && value::uint(before.value) != Some(field.value.len() as u64) {
            return Err(Reject::new(RejectReason::IncorrectDataFormat, before.tag));
        }
        Ok(())
    }

    fn required(&self, layout: &Layout, epoch: u32) -> Result<(), Reject> {
        if !self.switches.required_tags {
            return Ok(());
        }
        for &(mark, tag) in &layout.required {
            if self.scratch.marks[mark as usize] != epoch {
                return Err(Reject::new(RejectReason::RequiredTagMissing, Tag(tag)));
            }
        }
        Ok(())
    }

    /// The entries that follow the NumInGroup field `count`. Groups nest as deep as the dictionary
    /// says, not as the message says.
    fn group(
        &mut self,
        count: Field<'_>,
        place: &Place,
        outer: Option<&Level<'_>>,
    ) -> Result<(), Reject> {
        let layout = &self.tables.layouts[place.group as usize];
        let level = Level { layout, outer };
        let delimiter = self.delimiter(layout);
        let expected = value::uint(count.value);
        let mut entries = Entries { level, delimiter, expected, begun: 0 };
        while let Some(field) = self.message.at(self.at)
            && field.tag == delimiter
            && !(entries.are_complete() && self.belongs_outside(field.tag, outer))
        {
            entries.begun += 1;
            self.entry(&entries)?;
        }
        if let Some(field) = self.message.at(self.at)
            && entries.begun == 0
            && expected != Some(0)
            && self.switches.group_order
            && layout.place(field.tag.0).is_some()
        {
            return Err(Reject::new(RejectReason::GroupFieldsOutOfOrder, field.tag));
        }
        if self.switches.group_counts && expected.is_some_and(|n| n != entries.begun) {
            return Err(Reject::new(RejectReason::IncorrectNumInGroup, count.tag));
        }
        Ok(())
    }

    /// What each entry begins with.
    fn delimiter(&self, layout: &Layout) -> Tag {
        match self.message.at(self.at) {
            Some(field) if !self.switches.group_order && layout.place(field.tag.0).is_some() => {
                field.tag
            }
            _ => Tag(layout.first),
        }
    }

    fn entry(&mut self, entries: &Entries<'_>) -> Result<(), Reject> {
        let epoch = self.scratch.next_epoch();
        let Level { layout, outer } = entries.level;
        let begin = self.at;
        let mut next = 0;
        while let Some(field) = self.message.at(self.at) {
            if field.tag == entries.delimiter && self.at > begin {
                break;
            }
            let Some(place) = layout.place(field.tag.0) else {
                if self.tables.defines(field.tag.0, self.body.owner) {
                    break;
                }
                if self.pass == Pass::Whole {
                    self.unplaced(field)?;
                }
                self.at += 1;
                continue;
            };
            let is_repeated = self.scratch.marks[place.mark as usize] == epoch;
            if is_repeated || place.mark_max < next {
                if entries.are_complete() && self.belongs_outside(field.tag, outer) {
                    break;
                }
                self.misplaced(field, is_repeated)?;
            }
            self.scratch.marks[place.mark as usize] = epoch;
            next = next.max(place.mark + 1);
            if self.pass == Pass::Whole {
                self.not_empty(field)?;
                self.value(field, place)?;
            }
            self.at += 1;
            if place.group != NO_GROUP {
                self.group(field, place, Some(&entries.level))?;
            }
        }
        if self.pass == Pass::Whole { self.required(layout, epoch) } else { Ok(()) }
    }

    #[cold]
    fn misplaced(&self, field: Field<'_>, is_repeated: bool) -> Result<(), Reject> {
        self.not_empty(field)?;
        if self.switches.group_order {
            return Err(Reject::new(RejectReason::GroupFieldsOutOfOrder, field.tag));
        }
        if is_repeated && self.switches.repeated_tags {
            return Err(Reject::new(RejectReason::TagAppearsMoreThanOnce, field.tag));
        }
        Ok(())
    }

    /// Whether a level around the group has a place for the tag too.
    #[cold]
    fn belongs_outside(&self, tag: Tag, outer: Option<&Level<'_>>) -> bool {
        let levels = core::iter::successors(outer, |level| level.outer);
        levels.into_iter().any(|level| level.layout.place(tag.0).is_some())
            || self.find(Section::Body, tag).is_some()
    }
}

/// Tags from here on are left to venues and their counterparties.
const USER_DEFINED: u32 = 5000;
