//! Names of messages, fields and values in the dictionaries of a session, for typed input.

use std::sync::Arc;

use transfix::{BeginString, Mask, SessionDictionaries, SessionSettings, Tag, clock, tag};
use transfix_codec::{CheckSumPolicy, FieldIndex, FrameWriter, MessageLayout, Rules, Scratch};
use transfix_codec::{Precision, Switches};
use transfix_dictionary::{DataType, Dictionary, Field, Flat, Member, Message, nearest};

use crate::check::explain::Explain;
use crate::foreign::Foreign;
use crate::input::Pair;

/// Maximum length of a MsgType(35), in characters. A longer word is taken as a message name.
const MSG_TYPE_MAX: usize = 3;
/// Maximum number of codes in the list of possible values of a field.
const CODES_MAX: usize = 12;

/// Dictionaries of a session, with lookup by name for typed input.
pub(super) struct Vocabulary {
    dictionaries: SessionDictionaries,
    pair: Pair,
    begin_string: BeginString,
    sender_comp_id: String,
    target_comp_id: String,
    /// Fields whose values are shown as stars.
    mask: Mask,
}

impl Vocabulary {
    /// Loads the dictionaries with which the session validates messages.
    pub(super) fn new(session: &SessionSettings) -> Result<Self, String> {
        let dictionaries = session.dictionaries()?;
        let id = session.id();
        Ok(Self {
            pair: Pair {
                session: Arc::clone(dictionaries.session()),
                application: Arc::clone(dictionaries.application()),
            },
            dictionaries,
            begin_string: session.begin_string,
            sender_comp_id: id.sender_comp_id.to_string(),
            target_comp_id: id.target_comp_id.to_string(),
            mask: session.mask(),
        })
    }

    /// Returns the tag of the Length field that belongs to the data field `tag`.
    pub(super) fn length_of(&self, tag: u32) -> Option<u32> {
        self.dictionaries().into_iter().find_map(|one| one.length_tag(tag))
    }

    /// Returns an index that knows the data fields of the session's dictionaries.
    pub(super) fn index(&self) -> FieldIndex {
        self.dictionaries.index()
    }

    fn dictionaries(&self) -> [&Dictionary; 2] {
        [&self.pair.application, &self.pair.session]
    }

    /// Returns the message with this name or MsgType(35).
    pub(super) fn message(&self, name: &str) -> Result<&Message, String> {
        let found = self.dictionaries().into_iter();
        let mut found = found.filter_map(|one| one.message_named(name).or(one.message(name)));
        found.next().ok_or_else(|| {
            let hint = nearest(name, self.message_names());
            let hint = hint.map_or_else(String::new, |name| format!("; do you mean {name}?"));
            format!("{} has no message '{name}'{hint}", self.pair.application.name())
        })
    }

    /// Returns the MsgType(35) for a message name or a MsgType(35). A short unknown word is
    /// accepted, because a venue may define its own MsgType(35).
    pub(super) fn msg_type(&self, name: &str) -> Result<String, String> {
        match self.message(name) {
            Ok(message) => Ok(message.msg_type.clone()),
            Err(_) if name.len() <= MSG_TYPE_MAX => Ok(name.to_owned()),
            Err(error) => Err(error),
        }
    }

    /// Returns the name and MsgType(35) of a message, such as `NewOrderSingle(D)`.
    pub(super) fn message_name(&self, msg_type: &str) -> String {
        match self.message(msg_type) {
            Ok(message) => format!("{}({msg_type})", message.name),
            Err(_) => format!("({})", Foreign(msg_type)),
        }
    }

    /// Returns the names of all application messages.
    pub(super) fn message_names(&self) -> impl Iterator<Item = &str> {
        self.pair.application.messages().iter().map(|message| &*message.name)
    }

    /// Returns the tag of a field, given as a number or a name.
    pub(super) fn tag(&self, name: &str) -> Result<u32, String> {
        if let Ok(number @ 1..) = name.parse() {
            return Ok(number);
        }
        let mut found = self.dictionaries().into_iter().filter_map(|one| one.field_named(name));
        found.next().map(|field| field.tag).ok_or_else(|| {
            let all = self.pair.application.fields().iter().map(|field| &*field.name);
            let hint = nearest(name, all);
            let hint = hint.map_or_else(String::new, |name| format!("; do you mean {name}?"));
            format!("{} has no field '{name}'{hint}", self.pair.application.name())
        })
    }

    /// Returns the value of the code with the name `text`, or `text` itself if no code has this
    /// name.
    pub(super) fn value(&self, tag: u32, text: &str) -> String {
        let codes = self.pair.field(tag).map_or(&[][..], |field| &field.codes);
        let named = codes.iter().find(|code| code.name.eq_ignore_ascii_case(text));
        named.map_or(text, |code| &code.value).to_owned()
    }

    /// Returns the name and tag of a field, such as `Side(54)`.
    pub(super) fn name(&self, tag: u32) -> String {
        match self.pair.field(tag) {
            Some(field) => format!("{}({tag})", field.name),
            None => format!("({tag})"),
        }
    }

    /// Returns the value as shown on the screen: stars replace a secret.
    pub(super) fn seen(&self, msg_type: &str, tag: u32, value: &str) -> String {
        match self.mask.hides(msg_type, Tag(tag)) {
            true => "*".repeat(value.chars().count()),
            false => value.to_owned(),
        }
    }

    /// Describes the possible values of a field by its codes or, without codes, by its data type.
    pub(super) fn choice(&self, tag: u32) -> String {
        let Some(field) = self.pair.field(tag) else { return String::new() };
        if field.codes.is_empty() {
            return format!("a {}", field.data_type.name());
        }
        let codes = field.codes.iter().take(CODES_MAX);
        let codes: Vec<_> = codes.map(|code| format!("{}={}", code.value, code.name)).collect();
        let more = if field.codes.len() > CODES_MAX { ", …" } else { "" };
        codes.join(", ") + more
    }

    /// Returns the name of the code with this value.
    pub(super) fn code(&self, tag: u32, value: &str) -> Option<&str> {
        Some(&*self.pair.field(tag)?.code(value)?.name)
    }

    /// Returns the names of the codes of a field.
    pub(super) fn codes(&self, tag: u32) -> impl Iterator<Item = &str> {
        let codes = self.pair.field(tag).map_or(&[][..], |field| &field.codes);
        codes.iter().map(|code| &*code.name)
    }

    /// Returns the names of all fields of a message, including the fields of its groups.
    pub(super) fn fields_of(&self, msg_type: &str) -> Vec<&str> {
        let mut tags = Vec::new();
        if let Ok(message) = self.message(msg_type) {
            add_tags(&message.members, &mut tags);
        }
        let mut names: Vec<_> =
            tags.iter().filter_map(|tag| Some(&*self.pair.field(*tag)?.name)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns the required fields of a message. Each value is a placeholder such as `{id}`, or the
    /// mark `?`.
    pub(super) fn begun(&self, message: &Message) -> Vec<(u32, String)> {
        let needed = Flat::of(&message.members).filter(|member| member.required);
        needed.map(|member| (member.tag, self.made_up(member.tag))).collect()
    }

    fn made_up(&self, tag: u32) -> String {
        let data_type = self.pair.field(tag).map(|field: &Field| field.data_type);
        match data_type {
            _ if tag == tag::CL_ORD_ID.0 => "{id}",
            Some(DataType::UtcTimestamp) => "{now}",
            Some(DataType::UtcDateOnly | DataType::LocalMktDate) => "{date}",
            _ => super::values::MISSING,
        }
        .to_owned()
    }

    /// Returns true if the field belongs to the header or the trailer, which the session writes.
    pub(super) fn is_of_session(&self, tag: u32) -> bool {
        let ends = [self.pair.session.header(), self.pair.session.trailer()];
        ends.into_iter().any(|members| {
            let mut tags = Vec::new();
            add_tags(members, &mut tags);
            tags.contains(&tag)
        })
    }

    /// Validates a message with these fields. Returns one line for each error.
    pub(super) fn wrong(&self, msg_type: &str, fields: &[(u32, String)]) -> Vec<String> {
        let mut frame = Vec::new();
        let version = self.begin_string.as_str().as_bytes();
        let mut writer = FrameWriter::new(&mut frame, version, msg_type.as_bytes());
        let ends = [(49, &*self.sender_comp_id), (56, &*self.target_comp_id), (34, "1")];
        for (tag, value) in ends {
            writer.raw(format!("{tag}={value}\x01").as_bytes());
        }
        writer.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        for (tag, value) in fields {
            writer.raw(format!("{tag}={value}\x01").as_bytes());
        }
        if let Err(error) = writer.finish() {
            return vec![error.to_string()];
        }
        let mut index = self.dictionaries.index();
        let message = transfix::Message::parse(&frame, &mut index, CheckSumPolicy::Ignore);
        let message = match message {
            Ok(message) => message,
            Err(error) => return vec![error.to_string()],
        };
        let rules = Rules::new(&self.pair.session, &self.pair.application);
        let (mut findings, mut scratch) = (Vec::new(), Scratch::default());
        let switches = Switches { conditions: true, ..Switches::default() };
        rules.check_all(&message, &switches, &mut scratch, |finding| findings.push(finding));
        let (session, application) = (&self.pair.session, &self.pair.application);
        let layout = MessageLayout::new(session, application, msg_type.as_bytes());
        let (layout, findings) = (layout.as_ref(), &findings[..]);
        let mask = Some(&self.mask);
        let explain = Explain { message: &message, pair: &self.pair, layout, findings, mask };
        findings.iter().map(|finding| explain.finding(finding)).collect()
    }
}

/// Appends the tags of these members and of the members of their groups.
fn add_tags(members: &[Member], tags: &mut Vec<u32>) {
    for member in Flat::of(members) {
        tags.push(member.tag);
        if let Some(entry) = member.group {
            add_tags(entry, tags);
        }
    }
}
