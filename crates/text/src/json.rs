//! Converts a FIX message to JSON and back without loss.
//!
//! With dictionaries, a message is `{"Header": {…}, "Body": {…}, "Trailer": {…}}`, with fields by
//! name and groups as arrays of objects. Without dictionaries, a message is one object of tags. In
//! both forms:
//! - the members are the fields in wire order, each as a string; a repeated field is repeated. A
//!   tag without a unique name is written as its number;
//! - a value that is not UTF-8 is `{"base64": "…"}`;
//! - BodyLength(9) and CheckSum(10) are present only if they are wrong; otherwise they are
//!   computed;
//! - a group whose NumInGroup differs from the number of its entries is written field by field;
//! - a field without a valid tag is the member `""`, with all bytes before its delimiter.
//!
//! ```
//! use transfix_codec::{CheckSumPolicy, FieldIndex, Message};
//! use transfix_text::json;
//!
//! let fix44 = transfix_dictionary::standard("FIX44").expect("a standard dictionary");
//! let bytes = b"8=FIX.4.4\x019=33\x0135=D\x0111=1\x01453=1\x01448=A\x01447=D\x0154=1\x01\
//!     10=220\x01";
//! let mut index = FieldIndex::default();
//! let message = Message::parse(bytes, &mut index, CheckSumPolicy::Verify)?;
//!
//! let mut text = String::new();
//! json::Writer::named(&fix44, &fix44).write(&message, &mut text)?;
//! let expected = r#"{"Header":{"BeginString":"FIX.4.4","MsgType":"D"},"Body":{"ClOrdID":"1",
//! "NoPartyIDs":[{"PartyID":"A","PartyIDSource":"D"}],"Side":"1"},"Trailer":{}}"#;
//! assert_eq!(text, expected.replace('\n', ""));
//!
//! let mut again = Vec::new();
//! let length = json::read(text.as_bytes(), json::tags_of(&fix44, &fix44), &[], &mut again)?;
//! assert_eq!((length, &again[..]), (text.len(), &bytes[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod read;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Deref;

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use transfix_codec::group::{entry_end, group_end};
use transfix_codec::shown::write_json as write_string;
use transfix_codec::{Fields, Members, Message, MessageLayout, Tag, raw, tag, value};
use transfix_dictionary::Dictionary;

pub use read::{JsonError, JsonProblem, read};

/// The names of the three JSON objects of a message, in message order.
const SECTIONS: [&str; 3] = ["Header", "Body", "Trailer"];
/// The name of the JSON member for a value that is not UTF-8.
const BASE64: &str = "base64";

/// A writer of messages as JSON objects.
///
/// Reuse the writer for many messages, because it determines the groups of each message type only
/// once.
#[derive(Debug)]
pub struct Writer<D> {
    dictionaries: Option<(D, D)>,
    /// The layouts of the message types so far, by MsgType(35).
    layouts: BTreeMap<Vec<u8>, Option<MessageLayout>>,
}

/// The maximum number of stored layouts, which limits the memory if the input has very many message
/// types.
const LAYOUTS_MAX: usize = 1_024;

impl Writer<&Dictionary> {
    /// Creates a writer without dictionaries: names are tag numbers, and group fields are written
    /// one by one.
    #[must_use]
    pub const fn plain() -> Self {
        Self { dictionaries: None, layouts: BTreeMap::new() }
    }
}

impl<D: Deref<Target = Dictionary>> Writer<D> {
    /// Creates a writer with dictionaries: fields have names, and groups are arrays.
    ///
    /// `session` defines the header, the trailer and the session-level messages; see
    /// [`Rules::new`](transfix_codec::Rules::new).
    #[must_use]
    pub const fn named(session: D, application: D) -> Self {
        Self { dictionaries: Some((session, application)), layouts: BTreeMap::new() }
    }

    /// Writes one message as a JSON object without line breaks.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(&mut self, message: &Message<'_>, out: &mut dyn Write) -> fmt::Result {
        let skipped = Skipped::of(message);
        let Some((session, application)) = &self.dictionaries else {
            let mut object = Object { out, dictionaries: None, is_empty: true };
            object.out.write_char('{')?;
            object.fields(message, 0, skipped, None::<&MessageLayout>)?;
            return object.out.write_char('}');
        };
        let dictionaries = Some((&**session, &**application));
        let msg_type = message.msg_type().as_bytes();
        if !self.layouts.contains_key(msg_type) && self.layouts.len() < LAYOUTS_MAX {
            let layout = MessageLayout::new(session, application, msg_type);
            self.layouts.insert(msg_type.to_vec(), layout);
        }
        let layout = self.layouts.get(msg_type).and_then(Option::as_ref);
        let ends = sections(message, session, layout);
        let mut begin = 0;
        for (n, (name, end)) in SECTIONS.into_iter().zip(ends).enumerate() {
            write!(out, "{}\"{name}\":{{", if n == 0 { '{' } else { ',' })?;
            let mut object = Object { out, dictionaries, is_empty: true };
            object.fields(&message.slice(begin, end), begin, skipped, layout)?;
            out.write_char('}')?;
            begin = end;
        }
        out.write_char('}')
    }
}

/// Returns a function for [`read`] that looks up the tag of a name in two dictionaries.
pub fn tags_of<'d>(
    session: &'d Dictionary,
    application: &'d Dictionary,
) -> impl Fn(&str) -> Option<Tag> + Copy + 'd {
    move |name| {
        let field = application.field_named(name).or_else(|| session.field_named(name));
        field.map(|field| Tag(field.tag))
    }
}

/// Returns the indexes after the last field of header, body and trailer.
fn sections(
    message: &Message<'_>,
    session: &Dictionary,
    layout: Option<&MessageLayout>,
) -> [usize; 3] {
    let tags = message.tags();
    let is_in = |members: &[transfix_dictionary::Member], tag: Tag| {
        transfix_dictionary::Flat::of(members).any(|member| member.tag == tag.0)
    };
    let mut header = 0;
    while header < tags.len() && is_in(session.header(), tags[header]) {
        let nested = layout.and_then(|layout| layout.group(tags[header]));
        header = nested.map_or(header + 1, |nested| group_end(tags, header + 1, nested));
    }
    let trailer = tags[header..].iter().rev().take_while(|tag| is_in(session.trailer(), **tag));
    [header, tags.len() - trailer.count(), tags.len()]
}

/// The fields that the JSON text omits because they are correct and can be computed: BodyLength(9)
/// and CheckSum(10).
#[derive(Clone, Copy)]
struct Skipped {
    body_length: bool,
    check_sum: Option<usize>,
}

impl Skipped {
    fn of(message: &Message<'_>) -> Self {
        let bytes = message.bytes();
        let last = message.len() - 1;
        let covered = &bytes[..bytes.len() - message.encoded(last).len()];
        let length = message.at(1).filter(|field| field.tag == tag::BODY_LENGTH);
        let is_right = |text: &[u8]| {
            let number = value::uint(text).filter(|_| text == b"0" || !text.starts_with(b"0"));
            number == raw::body_length(bytes).map(|length| length as u64)
        };
        // If the field before the last one is also a CheckSum(10), a reader would take that field
        // for the checksum of the message.
        let is_alone = message.tags()[last - 1] != tag::CHECK_SUM;
        let is_sum = message.at(last).is_some_and(|field| field.value == raw::check_sum(covered));
        Self {
            body_length: length.is_some_and(|field| is_right(field.value)),
            check_sum: (is_alone && is_sum).then_some(last),
        }
    }

    fn holds(self, n: usize) -> bool {
        self.body_length && n == 1 || self.check_sum == Some(n)
    }
}

/// A JSON object being written.
struct Object<'o, 'd> {
    out: &'o mut dyn Write,
    dictionaries: Option<(&'d Dictionary, &'d Dictionary)>,
    is_empty: bool,
}

impl Object<'_, '_> {
    /// Writes fields. `first` is the index of the first field within the message.
    fn fields<M: Members + ?Sized>(
        &mut self,
        fields: &Fields<'_>,
        first: usize,
        skipped: Skipped,
        members: Option<&M>,
    ) -> fmt::Result {
        let tags = fields.tags();
        let mut at = 0;
        while let Some(field) = fields.at(at) {
            let n = at;
            at += 1;
            if skipped.holds(first + n) {
                continue;
            }
            self.key(field.tag)?;
            if field.tag == Tag(0) {
                let encoded = fields.encoded(n);
                write_value(&encoded[..encoded.len() - 1], self.out)?;
                continue;
            }
            let nested = members.and_then(|members| members.group(field.tag));
            let end = nested.map_or(at, |nested| group_end(tags, at, nested));
            match nested.filter(|nested| is_counted(field.value, &tags[at..end], *nested)) {
                Some(nested) => {
                    self.entries(&fields.slice(at, end), first + at, skipped, nested)?;
                    at = end;
                }
                None => write_value(field.value, self.out)?,
            }
        }
        Ok(())
    }

    /// Writes the entries of a repeating group as an array.
    fn entries<M: Members + ?Sized>(
        &mut self,
        fields: &Fields<'_>,
        first: usize,
        skipped: Skipped,
        members: &M,
    ) -> fmt::Result {
        let tags = fields.tags();
        let mut at = 0;
        self.out.write_char('[')?;
        while at < tags.len() {
            self.out.write_str(if at == 0 { "{" } else { ",{" })?;
            let end = entry_end(tags, at, members);
            self.is_empty = true;
            self.fields(&fields.slice(at, end), first + at, skipped, Some(members))?;
            self.out.write_char('}')?;
            at = end;
        }
        self.is_empty = false;
        self.out.write_char(']')
    }

    /// Writes the name of a field, or its tag if the name does not map back to the same tag.
    fn key(&mut self, tag: Tag) -> fmt::Result {
        if !self.is_empty {
            self.out.write_char(',')?;
        }
        self.is_empty = false;
        let named = self.dictionaries.and_then(|(session, application)| {
            let field = application.field(tag.0).or_else(|| session.field(tag.0))?;
            let name = field.name.as_str();
            let leads_back = tags_of(session, application)(name) == Some(tag);
            let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic());
            (leads_back && is_plain && !SECTIONS.contains(&name)).then_some(name)
        });
        match named {
            Some(name) => write_string(name, self.out)?,
            None if tag == Tag(0) => self.out.write_str("\"\"")?,
            None => write!(self.out, "\"{tag}\"")?,
        }
        self.out.write_char(':')
    }
}

/// Returns true if `count` equals the number of group entries and has no leading zeros.
fn is_counted<M: Members + ?Sized>(count: &[u8], tags: &[Tag], members: &M) -> bool {
    let (mut entries, mut at) = (0, 0);
    while at < tags.len() {
        at = entry_end(tags, at, members);
        entries += 1;
    }
    value::uint(count) == Some(entries) && (count == b"0" || !count.starts_with(b"0"))
}

fn write_value(value: &[u8], out: &mut dyn Write) -> fmt::Result {
    if let Ok(text) = std::str::from_utf8(value) {
        return write_string(text, out);
    }
    write!(out, "{{\"{BASE64}\":\"{}\"}}", Base64Display::new(value, &STANDARD))
}
