//! Sample messages generated from a dictionary: valid messages of every type, with required or with
//! all fields.
//!
//! ```
//! use transfix_testkit::random::Random;
//! use transfix_testkit::sample::{Extent, Sample};
//!
//! let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
//! let mut sample = Sample::new(&fix44, &fix44, Random::new(1));
//! let order = sample.message(fix44.message("D").expect("a message"), Extent::Required);
//! assert!(order.starts_with(b"8=FIX.4.4\x019=") && order.ends_with(b"\x01"));
//! ```

use transfix_codec::{FrameWriter, Tag, data};
use transfix_dictionary::{DataType, Dictionary, Field, Flat, FlatMember, Member, Message};

use crate::random::Random;

/// The choice of fields and groups that a sample message contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The required fields and groups; each group entry has its first field.
    Required,
    /// Every field and group; an outer group has two entries, and a nested group has one entry.
    Everything,
    /// The required fields and groups, and a random selection of the optional ones.
    Some,
}

/// A generator of sample messages.
#[derive(Debug)]
pub struct Sample<'d> {
    session: &'d Dictionary,
    application: &'d Dictionary,
    random: Random,
}

/// The state of one nesting level: the output, and the tags already written at this level.
struct Level<'l> {
    out: &'l mut Vec<u8>,
    tags: Vec<u32>,
    extent: Extent,
    depth: usize,
    /// True if the members are defined in the session dictionary, not in the application
    /// dictionary.
    is_session: bool,
}

impl<'d> Sample<'d> {
    /// Creates a generator for messages of the dictionary `application`, with the header and
    /// trailer of `session`. Up to FIX 4.4, both dictionaries are the same.
    #[must_use]
    pub const fn new(session: &'d Dictionary, application: &'d Dictionary, random: Random) -> Self {
        Self { session, application, random }
    }

    /// Returns all messages of both dictionaries; a session-layer message that both define appears
    /// once.
    pub fn messages(&self) -> impl Iterator<Item = &'d Message> + use<'d> {
        let session = self.session;
        let is_own = move |message: &&Message| session.message(&message.msg_type).is_none();
        session.messages().iter().chain(self.application.messages().iter().filter(is_own))
    }

    /// Returns a valid message of the type that `message` defines.
    ///
    /// # Panics
    /// If the dictionary's name for the message cannot be a MsgType(35).
    pub fn message(&mut self, message: &Message, extent: Extent) -> Vec<u8> {
        let mut fields = Vec::new();
        let is_session = self.session.message(&message.msg_type).is_some();
        let tags = vec![8, 9, 35, 10];
        let mut level = Level { out: &mut fields, tags, extent, depth: 0, is_session: true };
        self.level(self.session.header(), &mut level);
        level.is_session = is_session;
        self.level(&message.members, &mut level);
        level.is_session = true;
        self.level(self.session.trailer(), &mut level);
        let mut bytes = Vec::new();
        let begin_string = self.session.name().as_bytes();
        let mut frame = FrameWriter::new(&mut bytes, begin_string, message.msg_type.as_bytes());
        frame.raw(&fields);
        match frame.finish() {
            Ok(_) => bytes,
            Err(misuse) => panic!("{}: {misuse}", message.name),
        }
    }

    /// Writes the members of one nesting level in dictionary order.
    fn level(&mut self, members: &[Member], level: &mut Level<'_>) {
        let flat: Vec<FlatMember<'_>> = Flat::of(members).collect();
        let is_entry = level.depth > 0;
        let mut n = 0;
        while n < flat.len() {
            let member = &flat[n];
            let next = flat.get(n + 1).map(|next| Tag(next.tag));
            let is_pair = next.and_then(data::length_of) == Some(Tag(member.tag));
            let is_wanted = member.required || is_entry && n == 0 || self.wants(level.extent);
            n += 1 + usize::from(is_pair);
            // A field that the dictionary lists twice in one message is written once.
            if !is_wanted || level.tags.contains(&member.tag) {
                continue;
            }
            level.tags.push(member.tag);
            if let Some(entry) = member.group {
                self.group(member.tag, entry, level);
            } else if is_pair {
                level.tags.extend(next.map(|next| next.0));
                put(level.out, member.tag, b"3");
                put(level.out, next.map_or(0, |next| next.0), b"a\x01b");
            } else {
                self.field(member.tag, level);
            }
        }
    }

    fn wants(&mut self, extent: Extent) -> bool {
        match extent {
            Extent::Required => false,
            Extent::Everything => true,
            Extent::Some => self.random.below(4) == 0,
        }
    }

    fn group(&mut self, count: u32, entry: &[Member], level: &mut Level<'_>) {
        let entries = if level.extent == Extent::Everything && level.depth == 0 { 2 } else { 1 };
        put(level.out, count, entries.to_string().as_bytes());
        for _ in 0..entries {
            let (tags, depth) = (Vec::new(), level.depth + 1);
            let mut inner = Level { out: level.out, tags, depth, ..*level };
            self.level(entry, &mut inner);
        }
    }

    fn field(&mut self, number: u32, level: &mut Level<'_>) {
        // The dictionary that defines the members comes first, as in validation.
        let [first, second] = if level.is_session {
            [self.session, self.application]
        } else {
            [self.application, self.session]
        };
        let Some(field) = first.field(number).or_else(|| second.field(number)) else { return };
        if field.codes.is_empty() {
            let texts = texts(field.data_type);
            put(level.out, number, texts[self.random.below(texts.len())].as_bytes());
        } else {
            let value = self.code(field);
            put(level.out, number, value.as_bytes());
        }
    }

    /// Returns a random code of the field, or two codes if the field is a list of codes.
    fn code(&mut self, field: &Field) -> String {
        let code = |random: &mut Random| field.codes[random.below(field.codes.len())].value.clone();
        let mut value = code(&mut self.random);
        if field.data_type.is_multiple() {
            value = format!("{value} {}", code(&mut self.random));
        }
        value
    }
}

fn put(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    out.extend_from_slice(tag.to_string().as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(1);
}

/// Returns sample values that are valid for the data type.
const fn texts(data_type: DataType) -> &'static [&'static str] {
    use DataType as T;
    match data_type {
        T::Int => &["12", "-3", "0007"],
        T::Length | T::TagNum | T::SeqNum | T::NumInGroup => &["1", "12", "0007"],
        T::DayOfMonth => &["1", "31"],
        T::Float | T::Qty | T::Price | T::PriceOffset | T::Amt | T::Percentage => {
            &["12.50", "-3", "0.000125", "1000000"]
        }
        T::Char => &["a", "7"],
        T::Boolean => &["Y", "N"],
        T::String | T::Pattern | T::Xid | T::XidRef => &["text", "more text", "\u{e9}"],
        T::MultipleCharValue => &["a", "a b"],
        T::MultipleStringValue => &["AA", "AA B"],
        T::Country => &["DE", "US"],
        T::Currency => &["EUR", "USD"],
        T::Exchange => &["XNYS", "XETR"],
        T::MonthYear => &["202611", "20261121", "202611w3"],
        T::UtcTimestamp => &["20261121-09:28:25", "20261121-09:28:25.623"],
        T::UtcTimeOnly | T::LocalMktTime => &["09:28:25"],
        T::UtcDateOnly | T::LocalMktDate => &["20261121"],
        T::TzTimeOnly => &["09:28Z", "09:28:25+05:30"],
        T::TzTimestamp => &["20261121-09:28Z", "20261121-09:28:25.5-05"],
        T::Data | T::XmlData => &["bytes"],
        T::Language => &["en", "de"],
        T::Tenor => &["D5", "M3"],
    }
}
