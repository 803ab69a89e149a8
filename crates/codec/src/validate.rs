//! Validation of whole messages against the dictionary, as part of session-layer validation.
//!
//! [`Rules`] are compiled once from the dictionaries of a session. [`Rules::check`] returns the
//! first [`Reject`] of a message. The order is: an unknown MsgType(35), sections out of order,
//! missing required tags, then the fields in wire order. The checks of one field are: an empty
//! value, the tag, its position, its format, its code. The structure of a group is checked before
//! the values of its entries.
//!
//! Invariants: no message causes a panic; nothing is allocated once [`Scratch`] has grown; the time
//! is linear in the number of fields.
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

mod check;
mod codes;
mod reasons;
mod shapes;
mod sound;
mod switches;
mod tables;
mod values;

use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::Range;

use transfix_dictionary::Dictionary;

use crate::{Fields, Message, Reject, RejectReason, Tag, value};
use check::{Check, Rank, Section, Stop};
pub use reasons::{REASONS, Reason};
use shapes::Shapes;
use sound::Sound;
pub use switches::Switches;
use tables::{Body, Tables};
use values::LastTime;

/// Compiled validation rules for the messages of one session.
#[derive(Debug)]
pub struct Rules {
    tables: Tables,
}

/// Reusable memory of a check; allocates only while it grows.
///
/// Several [`Rules`] may share one `Scratch`.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    /// For each position of a layout, the epoch in which a field was last seen there.
    marks: Vec<u32>,
    epoch: u32,
    around: OuterFields,
    last_time: LastTime,
    shapes: Shapes,
}

/// A cache of the fields outside a group entry to which the entry's conditions refer.
///
/// With the cache, each field is searched only once for all entries.
#[derive(Clone, Debug, Default)]
struct OuterFields(RefCell<Vec<Known>>);

/// The first field with a given tag in a part of the message, as far as this part has been
/// searched.
#[derive(Clone, Debug)]
struct Known {
    tag: u32,
    /// The index range of the fields searched so far.
    seen: Range<usize>,
    place: Option<usize>,
}

impl Scratch {
    fn begin(&mut self, marks: usize) {
        if self.marks.len() < marks {
            self.marks.resize(marks, 0);
        }
        self.around.0.get_mut().clear();
        // Each entry takes one epoch, and a message has fewer entries than half of the epochs,
        // because `Span` counts bytes in a `u32`.
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

impl OuterFields {
    /// Returns the value of the first field with tag `tag` within the range `fields`.
    ///
    /// `fields` is the whole message, or the range from the beginning of an enclosing entry to the
    /// end of the current entry.
    fn value<'m>(&self, message: &Fields<'m>, tag: u32, fields: Range<usize>) -> Option<&'m [u8]> {
        let mut all = self.0.borrow_mut();
        // An entry and the message may both contain the tag, so the cache keeps a result for each
        // of the two.
        let is_same =
            |known: &Known| known.tag == tag && (known.seen.start == 0) == (fields.start == 0);
        let found = all.iter().position(is_same).unwrap_or_else(|| {
            all.push(Known { tag, seen: fields.start..fields.start, place: None });
            all.len() - 1
        });
        let known = &mut all[found];
        if known.seen.start != fields.start {
            (known.seen, known.place) = (fields.start..fields.start, None);
        }
        if known.place.is_none() && known.seen.end < fields.end {
            let rest = message.slice(known.seen.end, fields.end);
            known.place = rest.position(Tag(tag)).map(|n| known.seen.end + n);
            known.seen.end = fields.end;
        }
        known.place.filter(|n| *n < fields.end).map(|n| message.value(n))
    }
}

impl Rules {
    /// Compiles the rules from two dictionaries.
    ///
    /// `session` defines the header, the trailer and the session messages; `application` defines
    /// the other messages. Up to FIX 4.4, pass the same dictionary twice. From FIX 5.0 on,
    /// `session` is FIXT 1.1.
    #[must_use]
    pub fn new(session: &Dictionary, application: &Dictionary) -> Self {
        Self { tables: Tables::new(session, application) }
    }

    /// Returns the custom pairs of Length field and data field that the dictionaries define, Length
    /// field first.
    ///
    /// Pass the pairs to [`FieldIndex::set_data_fields`](crate::FieldIndex::set_data_fields).
    #[must_use]
    pub fn data_fields(&self) -> &[(Tag, Tag)] {
        &self.tables.data_fields
    }

    /// Returns true if the standard header may contain the field.
    #[must_use]
    pub fn is_header_field(&self, tag: Tag) -> bool {
        self.tables.layouts[self.tables.header].place(tag.0).is_some()
    }

    /// Returns true if the body of any application message may contain the field outside groups.
    #[must_use]
    pub fn has_body_field(&self, tag: Tag) -> bool {
        self.tables.application_layouts().any(|layout| layout.place(tag.0).is_some())
    }

    /// Returns true if the body of this message may contain the field outside groups.
    #[must_use]
    pub fn is_body_field(&self, msg_type: impl AsRef<[u8]>, tag: Tag) -> bool {
        let body = self.tables.body(msg_type.as_ref());
        body.is_some_and(|body| self.tables.layouts[body.layout].place(tag.0).is_some())
    }

    /// Validates a message.
    ///
    /// # Errors
    /// The first error. The [`Reject`] has no tag for an unknown MsgType(35), and for a tag that
    /// RefTagID(371) cannot represent, such as -1.
    pub fn check(
        &self,
        message: &Message<'_>,
        switches: &Switches,
        scratch: &mut Scratch,
    ) -> Result<(), Reject> {
        if *switches == Switches::NONE {
            return Ok(());
        }
        let Some(body) = self.tables.body(message.msg_type().as_bytes()) else {
            return unknown_type(message, switches).map_or(Ok(()), Err);
        };
        // The fast checks ignore these conditions, so a message that passes them may still lack a
        // conditionally required field.
        if switches.conditions && !body.conditions.is_empty() {
            scratch.begin(self.tables.marks);
            let start = Stop { section: Section::Header, at: 0, epoch: scratch.next_epoch() };
            return self.first(message, (body, switches), scratch, start);
        }
        if scratch.shapes.is_sound((&self.tables, body), message, &mut scratch.last_time) {
            return Ok(());
        }
        self.walk(message, (body, switches), scratch)
    }

    /// Checks a message that matches no known shape: first with the fast walk, then, if that fails,
    /// with the full check.
    fn walk(
        &self,
        message: &Message<'_>,
        (body, switches): (&Body, &Switches),
        scratch: &mut Scratch,
    ) -> Result<(), Reject> {
        scratch.begin(self.tables.marks);
        let epoch = scratch.next_epoch();
        let Scratch { marks, around, last_time, shapes, .. } = &mut *scratch;
        let (tables, at) = (&self.tables, 0);
        let sound = Sound { tables, body, message, marks, around, last_time, epoch, at };
        match sound.check() {
            Ok(()) => {
                shapes.note((tables, body), message);
                Ok(())
            }
            Err(stop) => self.first(message, (body, switches), scratch, stop),
        }
    }

    /// Runs the full check from `stop` on and returns the first error.
    #[cold]
    fn first(
        &self,
        message: &Message<'_>,
        (body, switches): (&Body, &Switches),
        scratch: &mut Scratch,
        stop: Stop,
    ) -> Result<(), Reject> {
        let (mut of_message, mut of_field) = (None, None);
        let mut report = |rank, finding: Finding| {
            let first = if rank == Rank::Message { &mut of_message } else { &mut of_field };
            first.get_or_insert(finding.reject);
        };
        let rules = (&self.tables, body, switches);
        Check::new(rules, message, scratch, &mut report).run(stop);
        of_message.or(of_field).map_or(Ok(()), Err)
    }

    /// Reports all errors of a message; the first is the error of [`Rules::check`].
    ///
    /// Later errors may be consequences of the first error: after a wrong NumInGroup, the fields of
    /// further entries have no valid position.
    pub fn check_all(
        &self,
        message: &Message<'_>,
        switches: &Switches,
        scratch: &mut Scratch,
        mut report: impl FnMut(Finding),
    ) {
        let Some(body) = self.tables.body(message.msg_type().as_bytes()) else {
            let reject = unknown_type(message, switches);
            return reject.into_iter().for_each(|reject| report(Finding { reject, at: Some(2) }));
        };
        scratch.begin(self.tables.marks);
        for reported in [Rank::Message, Rank::Field] {
            let start = Stop { section: Section::Header, at: 0, epoch: scratch.next_epoch() };
            let rules = (&self.tables, body, switches);
            let mut report = |rank, finding| {
                if rank == reported {
                    report(finding);
                }
            };
            Check::new(rules, message, scratch, &mut report).run(start);
        }
    }
}

/// An error of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The reason and tag of the error.
    pub reject: Reject,
    /// Index of the field at fault, counted from 0.
    ///
    /// If a tag is missing in a group entry, the first field of the entry. If a tag is missing in
    /// the message, `None`.
    pub at: Option<usize>,
}

/// Returns the error of a MsgType(35) that the dictionary does not define.
#[cold]
fn unknown_type(message: &Message<'_>, switches: &Switches) -> Option<Reject> {
    if message.msg_type().is_empty() && switches.empty_values {
        return Some(Reject::new(RejectReason::TagWithoutValue, crate::tag::MSG_TYPE));
    }
    let reject = Reject { reason: RejectReason::InvalidMsgType, tag: None };
    switches.msg_types.then_some(reject)
}

/// Returns the text of the first tag that is a number but not a [`Tag`], such as `-1`.
///
/// If a [`Reject`] with SessionRejectReason(373) 0 has no tag, RefTagID(371) contains this text.
#[must_use]
pub fn malformed_tag<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let malformed = message.fields().enumerate().filter(|(_, field)| field.tag == Tag(0));
    let mut texts = malformed.map(|(n, _)| message.tag_text(n));
    texts.find(|text| value::int(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckSumPolicy, FieldIndex};

    #[test]
    fn each_field_around_an_entry_is_looked_at_once() {
        let mut bytes = b"8=FIX.4.4\x019=00\x0135=D\x01".to_vec();
        for tag in [58, 7, 8, 7, 9, 58, 7, 8] {
            bytes.extend_from_slice(alloc::format!("{tag}={}\x01", bytes.len()).as_bytes());
        }
        bytes.extend_from_slice(b"10=000\x01");
        let mut index = FieldIndex::default();
        let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
        let (around, len) = (OuterFields::default(), message.len());
        // The ranges include an entry that grows, an entry that is read again with an earlier end,
        // and a following entry.
        for fields in [3..5, 3..8, 3..6, 0..len, 8..9, 8..10, 0..len, 8..len, 3..4] {
            for tag in [7, 8, 9, 58, 1000] {
                let part = message.slice(fields.start, fields.end);
                let found = around.value(&message, tag, fields.clone());
                assert_eq!(found, part.raw(Tag(tag)), "{tag} in {fields:?}");
                let known = around.0.borrow();
                let is_same = |known: &&Known| {
                    known.tag == tag && (known.seen.start == 0) == (fields.start == 0)
                };
                let known = known.iter().find(is_same).unwrap();
                assert!(known.place.is_some() || known.seen.end >= fields.end, "not again");
            }
        }
    }
}
