//! The dictionaries compiled into dense tables without names, for use by the checks.
//!
//! Invariants: a group that several messages share is compiled once. Each [`Layout`] has its own
//! range of marks in [`Scratch`](super::Scratch); only the bodies of different messages share one
//! range.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::OuterFields;
use super::codes::{FieldRule, ValueCheck};
use crate::{Fields, MsgType, Tag};
use transfix_dictionary::{Condition, DataType, Dictionary, Flat, Member, Message};

/// All look-up tables of a check.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) fields: Vec<FieldRule>,
    pub(super) layouts: Vec<Layout>,
    pub(super) header: usize,
    pub(super) trailer: usize,
    /// Index in `bodies` for each one-byte message type.
    short_types: [Option<u16>; 128],
    bodies: Vec<Body>,
    session_tags: TagSet,
    all_tags: TagSet,
    /// Custom data fields in addition to the standard data fields, each after its Length field.
    pub(super) data_fields: Vec<(Tag, Tag)>,
    /// Number of marks that a check needs.
    pub(super) marks: usize,
    /// Unique address that identifies these tables, so that learned shapes apply to no other
    /// tables.
    pub(super) token: Arc<()>,
}

/// The body of one message type.
#[derive(Debug)]
pub(super) struct Body {
    msg_type: Box<[u8]>,
    pub(super) layout: usize,
    pub(super) owner: DefinedBy,
    /// Conditional requirements from the standard's descriptions.
    pub(super) conditions: Box<[Conditional]>,
}

/// A tag that a message, or each entry of one of its groups, must contain under a condition.
#[derive(Debug)]
pub(super) struct Conditional {
    pub(super) tag: u32,
    /// The NumInGroup field of the group; [`NO_GROUP`] if the requirement concerns the message
    /// itself.
    pub(super) group: u32,
    pub(super) condition: Arc<Condition>,
}

/// The dictionary that defines a message: session or application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefinedBy {
    Session,
    Application,
}

/// The members of a message, header, trailer or group entry, as a hash table by tag.
#[derive(Debug)]
pub(super) struct Layout {
    slots: Box<[LayoutField]>,
    shift: u32,
    /// The delimiter, if this is the layout of a group entry.
    pub(super) first: u32,
    /// Index of the mark, and tag, of each required field.
    pub(super) required: Box<[(u32, u32)]>,
    /// Index of the mark, tag and condition of each conditionally required field.
    pub(super) conditional: Box<[(u32, u32, Arc<Condition>)]>,
}

/// A group entry under examination, with its enclosing entries.
#[derive(Clone, Copy)]
pub(super) struct Level<'c> {
    pub(super) layout: &'c Layout,
    /// Index of the first field of the entry.
    pub(super) begin: usize,
    pub(super) outer: Option<&'c Self>,
}

impl<'v> Level<'v> {
    /// Returns a function that finds the values to which a condition of this entry refers; the
    /// entry ends at `end`.
    pub(super) fn values(
        self,
        end: usize,
        message: &'v Fields<'v>,
        around: &'v OuterFields,
    ) -> impl Fn(u32) -> Option<&'v [u8]> {
        move |tag| {
            let mut levels = core::iter::successors(Some(self), |level| level.outer.copied());
            match levels.find(|level| level.layout.place(tag).is_some()) {
                Some(level) if level.begin == self.begin => {
                    message.slice(self.begin, end).raw(Tag(tag))
                }
                // The enclosing entry may contain very many nested entries, so the result is
                // cached.
                Some(level) => around.value(message, tag, level.begin..end),
                None => around.value(message, tag, 0..message.len()),
            }
        }
    }
}

/// The definition of one tag in a [`Layout`].
#[derive(Clone, Copy, Debug)]
pub(super) struct LayoutField {
    /// [`FieldRule::common_codes`], copied here to avoid loading the rule.
    pub(super) codes: u64,
    tag: u32,
    /// Index into `Tables::fields`.
    pub(super) field: u32,
    /// Index into `Tables::layouts` of the entries' layout if this is a NumInGroup field; otherwise
    /// [`NO_GROUP`].
    pub(super) group: u32,
    /// Index of the field's mark; marks ascend in the published order.
    pub(super) mark: u32,
    /// Mark of the field's last published position, which differs from `mark` if the field is
    /// published twice.
    pub(super) mark_max: u32,
    /// The check that the value needs.
    pub(super) look: ValueCheck,
    /// [`FieldRule::data_type`], copied here to avoid loading the rule.
    pub(super) data_type: DataType,
    /// True if the field is required.
    pub(super) required: bool,
}

/// The value of [`LayoutField::group`] for a field that is not a NumInGroup field.
pub(super) const NO_GROUP: u32 = u32::MAX;
/// The tag of a free slot. No message contains this tag, because tags have at most nine digits.
const FREE: u32 = u32::MAX;
const EMPTY: LayoutField = LayoutField {
    codes: 0,
    tag: FREE,
    field: 0,
    group: NO_GROUP,
    mark: 0,
    mark_max: 0,
    look: ValueCheck::Text,
    data_type: DataType::String,
    required: false,
};

/// Returns true if the value is one of the codes in `codes`; see [`FieldRule::common_codes`].
#[inline(always)]
pub(super) const fn is_common_code(codes: u64, value: &[u8]) -> bool {
    match *value {
        [byte] => {
            let bit = byte.wrapping_sub(b'0');
            bit < 64 && codes >> bit & 1 == 1
        }
        _ => false,
    }
}

impl Tables {
    pub(super) fn new(session: &Dictionary, application: &Dictionary) -> Self {
        let mut build = Build::default();
        let of_session = Source { dictionary: session, fields: build.fields_of(session) };
        let of_application =
            Source { dictionary: application, fields: build.fields_of(application) };
        let header = build.owned(session.header(), of_session, of_session);
        let trailer = build.owned(session.trailer(), of_session, of_session);
        let mut messages: Vec<(&Message, DefinedBy)> =
            session.messages().iter().map(|message| (message, DefinedBy::Session)).collect();
        for message in application.messages() {
            // The session dictionary, FIXT 1.1, defines the session messages, even if an
            // application version repeats them.
            if session.message(&message.msg_type).is_none() {
                messages.push((message, DefinedBy::Application));
            }
        }
        messages.sort_by_key(|(message, _)| message.msg_type.as_bytes());
        let bodies: Vec<(&Message, DefinedBy, Vec<Flattened<'_>>)> = messages
            .into_iter()
            .map(|(message, owner)| {
                let first = if owner == DefinedBy::Session { of_session } else { of_application };
                (message, owner, build.flatten(&message.members, first, of_session))
            })
            .collect();
        // At this point, all groups have marks; the bodies of all messages share the range that
        // follows.
        let base = build.marks;
        let mut short_types = [None; 128];
        let mut compiled = Vec::new();
        for (message, owner, places) in bodies {
            build.marks = build.marks.max(base + places.len());
            build.layouts.push(Layout::of(&places, base));
            let msg_type: Box<[u8]> = message.msg_type.as_bytes().into();
            if let [byte] = *msg_type
                && byte.is_ascii()
            {
                short_types[usize::from(byte)] = u16::try_from(compiled.len()).ok();
            }
            let conditions = message.conditions.iter().map(|rule| Conditional {
                tag: rule.tag,
                group: rule.group.unwrap_or(NO_GROUP),
                condition: Arc::clone(&rule.condition),
            });
            let conditions = conditions.collect();
            compiled.push(Body { msg_type, layout: build.layouts.len() - 1, owner, conditions });
        }
        let mut all_tags = TagSet::default();
        all_tags.add(session);
        let session_tags = all_tags.clone();
        all_tags.add(application);
        let pairs = session.length_tags().iter().chain(application.length_tags());
        let pairs = pairs.map(|(data, length)| (Tag(*length), Tag(*data)));
        let is_own = |pair: &(Tag, Tag)| crate::data::length_of(pair.1) != Some(pair.0);
        let mut data_fields: Vec<(Tag, Tag)> = pairs.filter(is_own).collect();
        data_fields.sort_unstable();
        data_fields.dedup();
        let Build { fields, layouts, marks, .. } = build;
        let bodies = compiled;
        Self {
            fields,
            layouts,
            header,
            trailer,
            short_types,
            bodies,
            session_tags,
            all_tags,
            data_fields,
            marks,
            token: Arc::new(()),
        }
    }

    /// Returns the layouts of header, body and trailer.
    pub(super) fn sections(&self, body: &Body) -> [&Layout; 3] {
        [self.header, body.layout, self.trailer].map(|layout| &self.layouts[layout])
    }

    /// Returns true if the message has no conditionally required field outside groups.
    pub(super) fn has_no_conditional(&self, body: &Body) -> bool {
        self.sections(body).iter().all(|layout| layout.conditional.is_empty())
    }

    /// Returns the body of messages with this MsgType(35); `None` if no dictionary defines the
    /// type.
    #[inline]
    pub(super) fn body(&self, msg_type: &[u8]) -> Option<&Body> {
        if let [byte] = *msg_type {
            let place = (*self.short_types.get(usize::from(byte))?)?;
            return self.bodies.get(usize::from(place));
        }
        let found = self.bodies.binary_search_by(|body| (*body.msg_type).cmp(msg_type));
        found.ok().map(|place| &self.bodies[place])
    }

    /// Iterates over the body layouts of all application messages.
    pub(super) fn application_layouts(&self) -> impl Iterator<Item = &Layout> {
        let of_application = |body: &&Body| MsgType::of(&body.msg_type).is_application();
        self.bodies.iter().filter(of_application).map(|body| &self.layouts[body.layout])
    }

    /// Returns true if the FIX version of the dictionary `owner` defines the tag.
    pub(super) fn defines(&self, tag: u32, owner: DefinedBy) -> bool {
        match owner {
            DefinedBy::Session => self.session_tags.contains(tag),
            DefinedBy::Application => self.all_tags.contains(tag),
        }
    }
}

impl Layout {
    fn of(places: &[Flattened<'_>], base: usize) -> Self {
        let size = (places.len() * 2).next_power_of_two().max(2);
        let shift = 32 - size.trailing_zeros();
        let mut layout = Self {
            slots: vec![EMPTY; size].into(),
            shift,
            first: places.first().map_or(0, |place| place.tag),
            required: Box::default(),
            conditional: Box::default(),
        };
        let (mut required, mut conditional) = (Vec::new(), Vec::new());
        for (flat, mark) in places.iter().zip(base as u32..) {
            let tag = flat.tag;
            let slot = layout.slot(tag);
            let place = &mut layout.slots[slot];
            // FIX 4.3 and 5.0 publish some fields twice in one message; such a field has one slot.
            if place.tag == tag {
                place.mark_max = mark;
                continue;
            }
            let Flattened { codes, field, group, look, data_type, .. } = *flat;
            *place = LayoutField {
                codes,
                tag,
                field,
                group,
                mark,
                mark_max: mark,
                look,
                data_type,
                required: flat.required,
            };
            if flat.required {
                required.push((mark, tag));
            } else if let Some(condition) = flat.required_if {
                conditional.push((mark, tag, Arc::clone(condition)));
            }
        }
        layout.required = required.into();
        layout.conditional = conditional.into();
        layout
    }

    /// Iterates over the conditionally required fields that are absent although their condition
    /// holds.
    ///
    /// `is_there` tests by mark and tag whether a field is present; `value` returns the value of a
    /// tag.
    #[inline]
    pub(super) fn lacking<'v>(
        &self,
        is_there: impl Fn(u32, u32) -> bool,
        value: impl Fn(u32) -> Option<&'v [u8]>,
    ) -> impl Iterator<Item = Tag> {
        let absent = self.conditional.iter().filter(move |(mark, tag, _)| !is_there(*mark, *tag));
        absent.filter(move |(.., condition)| condition.holds(&value)).map(|(_, tag, _)| Tag(*tag))
    }

    /// Does the work of [`Layout::lacking`] for a group entry that extends from `level.begin` to
    /// `end`.
    ///
    /// Conditions read fields that are not members of the entry from the enclosing entries, then
    /// from the message.
    pub(super) fn lacking_in<'v>(
        &'v self,
        level: Level<'v>,
        end: usize,
        message: &'v Fields<'v>,
        around: &'v OuterFields,
    ) -> impl Iterator<Item = Tag> + 'v {
        let entry = message.slice(level.begin, end);
        let is_there = move |_, tag| entry.position(Tag(tag)).is_some();
        self.lacking(is_there, level.values(end, message, around))
    }

    /// Returns the slot of the tag; if there is none, the free slot for inserting it. Half of the
    /// slots are free.
    fn slot(&self, tag: u32) -> usize {
        let mut at = self.first_slot(tag);
        while self.slots[at].tag != tag && self.slots[at].tag != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    #[inline(always)]
    const fn first_slot(&self, tag: u32) -> usize {
        (tag.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }

    /// Returns the definition of the tag; `None` if the tag is not permitted here.
    #[inline(always)]
    pub(super) fn place(&self, tag: u32) -> Option<&LayoutField> {
        let mut at = self.first_slot(tag);
        loop {
            let place = self.slots.get(at)?;
            if place.tag == tag {
                return Some(place);
            }
            if place.tag == FREE {
                return None;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }
}

/// A dictionary, and the position of its fields in the tables.
#[derive(Clone, Copy)]
struct Source<'d> {
    dictionary: &'d Dictionary,
    /// Index into `Tables::fields` of the dictionary's first field.
    fields: usize,
}

impl Source<'_> {
    fn place(&self, tag: u32) -> Option<usize> {
        let found = self.dictionary.fields().binary_search_by_key(&tag, |field| field.tag);
        found.ok().map(|at| self.fields + at)
    }
}

struct Flattened<'d> {
    codes: u64,
    tag: u32,
    field: u32,
    group: u32,
    look: ValueCheck,
    data_type: DataType,
    required: bool,
    required_if: Option<&'d Arc<Condition>>,
}

#[derive(Default)]
struct Build {
    fields: Vec<FieldRule>,
    layouts: Vec<Layout>,
    /// For each compiled group, the index of its layout; the key is the address of its members.
    groups: BTreeMap<usize, u32>,
    marks: usize,
}

impl Build {
    fn fields_of(&mut self, dictionary: &Dictionary) -> usize {
        let first = self.fields.len();
        let rules = dictionary.fields().iter().map(|field| FieldRule::of(field, dictionary));
        self.fields.extend(rules);
        first
    }

    /// Adds a layout with marks of its own; returns the layout's index.
    fn owned(&mut self, members: &[Member], first: Source<'_>, second: Source<'_>) -> usize {
        let places = self.flatten(members, first, second);
        self.layouts.push(Layout::of(&places, self.marks));
        self.marks += places.len();
        self.layouts.len() - 1
    }

    fn flatten<'d>(
        &mut self,
        members: &'d [Member],
        first: Source<'_>,
        second: Source<'_>,
    ) -> Vec<Flattened<'d>> {
        let mut places = Vec::new();
        for flat in Flat::of(members) {
            let Some(field) = first.place(flat.tag).or_else(|| second.place(flat.tag)) else {
                // This line is never reached: a dictionary defines each tag that it lists, as
                // `Draft::resolve` ensures.
                continue;
            };
            let group = flat.group.map_or(NO_GROUP, |entry| {
                let key = entry.as_ptr() as usize;
                if let Some(&known) = self.groups.get(&key) {
                    return known;
                }
                let layout = self.owned(entry, first, second) as u32;
                self.groups.insert(key, layout);
                layout
            });
            let rule = &self.fields[field];
            places.push(Flattened {
                codes: rule.common_codes(),
                tag: flat.tag,
                field: field as u32,
                group,
                look: rule.look(),
                data_type: rule.data_type,
                required: flat.required,
                required_if: flat.required_if,
            });
        }
        places
    }
}

/// The set of tags that a version defines.
#[derive(Clone, Debug, Default)]
struct TagSet {
    bits: Vec<u64>,
    /// Tags of [`BITS_MAX`] and above, sorted.
    high: Vec<u32>,
}

/// Tags below this limit are stored as one bit each, 8 KiB in total.
const BITS_MAX: u32 = 1 << 16;

impl TagSet {
    fn add(&mut self, dictionary: &Dictionary) {
        for tag in dictionary.fields().iter().map(|field| field.tag) {
            if tag >= BITS_MAX {
                self.high.push(tag);
                continue;
            }
            let word = tag as usize / 64;
            if self.bits.len() <= word {
                self.bits.resize(word + 1, 0);
            }
            self.bits[word] |= 1 << (tag % 64);
        }
        self.high.sort_unstable();
    }

    fn contains(&self, tag: u32) -> bool {
        match self.bits.get(tag as usize / 64) {
            Some(word) => word & (1 << (tag % 64)) != 0,
            None => self.high.binary_search(&tag).is_ok(),
        }
    }
}
