//! The unresolved form of a dictionary: members refer to components by name.
//!
//! Readers create a draft. [`Draft::resolve`] converts the draft to a dictionary, and
//! [`Draft::to_quickfix_xml`] writes it as XML. A draft may be changed before it is resolved.
//!
//! Invariants: `resolve` rejects references that cannot be resolved, with their line. The recursion
//! depth is at most [`Problem::DEPTH_MAX`].

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::model::{Index, NOWHERE, by_length};
use crate::nearest::nearest;
use crate::{
    Category, Component, Condition, Conditional, Dictionary, DictionaryError, Field, Flat, Group,
    Member, MemberKind, Message, Problem,
};

/// A dictionary as read from a file, in which members still refer to components by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// The name of the source file, for error messages.
    pub file: String,
    /// The version, for example `FIX.4.4`.
    pub name: String,
    /// The number of the extension pack, if the file gives one.
    pub extension_pack: Option<u32>,
    /// The fields in any order.
    pub fields: Vec<Field>,
    /// The components in any order.
    pub components: Vec<DraftComponent>,
    /// The messages in any order.
    pub messages: Vec<DraftMessage>,
    /// The members of the header.
    pub header: Vec<DraftMember>,
    /// The members of the trailer.
    pub trailer: Vec<DraftMember>,
}

/// A component whose members are not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftComponent {
    /// The name.
    pub name: String,
    /// The members.
    pub members: Vec<DraftMember>,
    /// The line in the file where the component begins.
    pub line: u32,
}

/// A message whose members are not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftMessage {
    /// The value of MsgType(35).
    pub msg_type: String,
    /// The name.
    pub name: String,
    /// The layer that handles the message: session or application.
    pub category: Category,
    /// The members.
    pub members: Vec<DraftMember>,
    /// The fields that the standard's descriptions require under a condition.
    pub conditions: Vec<DraftConditional>,
    /// The line in the file where the message begins.
    pub line: u32,
}

/// A [`Conditional`] whose condition is not yet parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftConditional {
    /// The tag of the required field.
    pub tag: u32,
    /// The NumInGroup field of the group whose entries require the field; `None` if the message
    /// itself requires it.
    pub group: Option<u32>,
    /// The condition under which the field is required, as the text of a [`Condition`].
    pub when: String,
    /// The sentence of the standard that states the condition.
    pub says: String,
    /// The line of the condition in the file.
    pub line: u32,
}

/// A member whose component reference is not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftMember {
    /// True if the member is required when its parent is present.
    pub required: bool,
    /// The condition under which the member is required, if `required` is false, as the text of a
    /// [`Condition`].
    pub required_if: Option<String>,
    /// The kind of the member.
    pub kind: DraftKind,
    /// The line of the member in the file.
    pub line: u32,
}

/// The kind of a member: field, group, or component that is not yet resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DraftKind {
    /// A field, given by its tag.
    Field(u32),
    /// A repeating group.
    Group {
        /// The NumInGroup field.
        count_tag: u32,
        /// The members of one entry.
        members: Vec<DraftMember>,
    },
    /// A component, given by its name.
    Component(String),
}

impl Draft {
    /// Resolves the draft into a dictionary.
    ///
    /// # Errors
    /// If a field, message or component is defined twice, a member is undefined, or components form
    /// a cycle or nest too deep.
    pub fn resolve(mut self) -> Result<Dictionary, DictionaryError> {
        self.sort();
        self.check_fields()?;
        self.check_messages()?;
        let mut resolver = Resolver::of(&self)?;
        for place in 0..self.components.len() {
            resolver.component(place, 0, self.components[place].line)?;
        }
        let (header, _) = resolver.members(&self.header, 0)?;
        let (trailer, _) = resolver.members(&self.trailer, 0)?;
        let mut messages = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            messages.push(Message {
                msg_type: message.msg_type.clone(),
                name: message.name.clone(),
                category: message.category,
                members: resolver.members(&message.members, 0)?.0,
                conditions: resolver.conditionals(&message.conditions)?,
            });
        }
        let components = resolver.done.into_iter().flatten().collect();
        let index = self.index();
        let Self { name, extension_pack, fields, .. } = self;
        let dictionary = Dictionary {
            name,
            extension_pack,
            fields,
            messages,
            components,
            header,
            trailer,
            index,
        };
        Ok(dictionary)
    }

    /// Adds the session layer, which is another draft, to this draft of an application version.
    ///
    /// Adds the header, trailer, messages, fields and components of `session` that this draft does
    /// not have yet.
    #[must_use]
    pub fn with_session(mut self, session: Self) -> Self {
        if self.header.is_empty() {
            self.header = session.header;
        }
        if self.trailer.is_empty() {
            self.trailer = session.trailer;
        }
        let tags: HashSet<u32> = self.fields.iter().map(|field| field.tag).collect();
        self.fields.extend(session.fields.into_iter().filter(|field| !tags.contains(&field.tag)));
        let names: HashSet<_> = self.components.iter().map(|known| known.name.clone()).collect();
        let components = session.components.into_iter();
        self.components.extend(components.filter(|component| !names.contains(&component.name)));
        let types: HashSet<_> = self.messages.iter().map(|known| known.msg_type.clone()).collect();
        let messages = session.messages.into_iter();
        self.messages.extend(messages.filter(|message| !types.contains(&message.msg_type)));
        self
    }

    /// Sorts fields, components and messages into the canonical order; members keep their order.
    pub(crate) fn sort(&mut self) {
        self.fields.sort_by_key(|field| field.tag);
        for field in &mut self.fields {
            field
                .codes
                .sort_by(|a, b| by_length(a.value.as_bytes()).cmp(&by_length(b.value.as_bytes())));
            field.codes.dedup_by(|a, b| a.value == b.value);
        }
        self.components.sort_by(|a, b| a.name.cmp(&b.name));
        self.messages.sort_by(|a, b| {
            by_length(a.msg_type.as_bytes()).cmp(&by_length(b.msg_type.as_bytes()))
        });
    }

    fn check_fields(&self) -> Result<(), DictionaryError> {
        if self.fields.len() > Problem::FIELDS_MAX {
            return Err(self.error(0, "fields".into(), Problem::TooManyFields));
        }
        for pair in self.fields.windows(2) {
            if pair[0].tag == pair[1].tag {
                let (name, tag) = (pair[0].name.clone(), pair[0].tag);
                let element = format!("field '{}'", pair[1].name);
                return Err(self.error(0, element, Problem::TagTaken { name, tag }));
            }
        }
        // If two fields have the same name, the field with the lower tag is reported as the
        // standard's field.
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by(|a, b| (&a.name, a.tag).cmp(&(&b.name, b.tag)));
        match fields.windows(2).find(|pair| pair[0].name == pair[1].name) {
            None => Ok(()),
            Some(pair) => {
                let (name, id) = (pair[0].name.clone(), pair[0].tag.to_string());
                let element = format!("field {}", pair[1].tag);
                Err(self.error(0, element, Problem::NameTaken { name, id }))
            }
        }
    }

    fn check_messages(&self) -> Result<(), DictionaryError> {
        for pair in self.messages.windows(2) {
            if pair[0].msg_type == pair[1].msg_type {
                let (name, msg_type) = (pair[0].name.clone(), pair[0].msg_type.clone());
                let element = format!("message '{}'", pair[1].name);
                let problem = Problem::TypeTaken { name, msg_type };
                return Err(self.error(pair[1].line, element, problem));
            }
        }
        Ok(())
    }

    fn index(&self) -> Index {
        let tags = self.fields.last().map_or(0, |last| last.tag.min(DIRECT_TAG_MAX) as usize + 1);
        let mut by_tag = vec![NOWHERE; tags];
        for (field, place) in self.fields.iter().zip(0_u16..) {
            if let Some(slot) = by_tag.get_mut(field.tag as usize) {
                *slot = place;
            }
        }
        let mut by_field_name: Vec<u16> = (0_u16..).take(self.fields.len()).collect();
        by_field_name.sort_by_key(|&place| &self.fields[usize::from(place)].name);
        let mut by_message_name: Vec<u16> = (0_u16..).take(self.messages.len()).collect();
        by_message_name.sort_by_key(|&place| &self.messages[usize::from(place)].name);
        Index { by_tag, by_field_name, by_message_name, lengths: self.lengths() }
    }

    /// Returns the tags of each data field and its Length field.
    ///
    /// The file format does not define these pairs. By the standard's naming, the Length field of
    /// `RawData` is `RawDataLength` or `RawDataLen`. If no field has such a name, the preceding
    /// Length field is used.
    fn lengths(&self) -> Vec<(u32, u32)> {
        let tags: HashMap<&str, u32> =
            self.fields.iter().map(|f| (f.name.as_str(), f.tag)).collect();
        let mut before: HashMap<u32, u32> = HashMap::new();
        let mut see = |members: &[DraftMember]| pairs_of(members, &mut before);
        see(&self.header);
        see(&self.trailer);
        self.components.iter().for_each(|component| see(&component.members));
        self.messages.iter().for_each(|message| see(&message.members));
        let mut lengths = Vec::new();
        for field in self.fields.iter().filter(|field| field.data_type.is_data()) {
            let by_name = ["Len", "Length"]
                .iter()
                .find_map(|end| tags.get(format!("{}{end}", field.name).as_str()).copied());
            let adjacent = || {
                let tag = *before.get(&field.tag)?;
                let at = self.fields.binary_search_by_key(&tag, |field| field.tag).ok()?;
                (self.fields[at].data_type == crate::DataType::Length).then_some(tag)
            };
            if let Some(length) = by_name.or_else(adjacent) {
                lengths.push((field.tag, length));
            }
        }
        lengths
    }

    fn error(&self, line: u32, element: String, problem: Problem) -> DictionaryError {
        DictionaryError { file: self.file.clone(), line, element, problem }
    }
}

/// Records for each field the field that precedes it among the members.
fn pairs_of(members: &[DraftMember], before: &mut HashMap<u32, u32>) {
    for pair in members.windows(2) {
        if let (DraftKind::Field(length), DraftKind::Field(data)) = (&pair[0].kind, &pair[1].kind) {
            before.entry(*data).or_insert(*length);
        }
    }
    for member in members {
        if let DraftKind::Group { members, .. } = &member.kind {
            pairs_of(members, before);
        }
    }
}

/// Replaces names in members by the fields and components; resolves each component once.
struct Resolver<'d> {
    draft: &'d Draft,
    places: HashMap<&'d str, usize>,
    /// The components that are already resolved, by their index in the draft.
    done: Vec<Option<Arc<Component>>>,
    /// Number of members of each resolved component, including nested components and groups.
    sizes: Vec<usize>,
    /// True for each component whose resolution has begun but not ended, which detects cycles.
    open: Vec<bool>,
}

impl<'d> Resolver<'d> {
    fn of(draft: &'d Draft) -> Result<Self, DictionaryError> {
        let mut places = HashMap::new();
        for (place, component) in draft.components.iter().enumerate() {
            match places.entry(component.name.as_str()) {
                Entry::Vacant(vacant) => vacant.insert(place),
                Entry::Occupied(_) => {
                    let element = format!("component '{}'", component.name);
                    return Err(draft.error(component.line, element, Problem::DefinedTwice));
                }
            };
        }
        let count = draft.components.len();
        let (done, sizes) = (vec![None; count], vec![0; count]);
        Ok(Self { draft, places, done, sizes, open: vec![false; count] })
    }

    fn component(
        &mut self,
        place: usize,
        depth: usize,
        line: u32,
    ) -> Result<Arc<Component>, DictionaryError> {
        if let Some(done) = &self.done[place] {
            return Ok(Arc::clone(done));
        }
        let component = &self.draft.components[place];
        if self.open[place] {
            let element = format!("component '{}'", component.name);
            return Err(self.draft.error(line, element, Problem::Cycle));
        }
        self.open[place] = true;
        let (members, size) = self.members(&component.members, depth + 1)?;
        self.open[place] = false;
        self.sizes[place] = size;
        let component = Arc::new(Component { name: component.name.clone(), members });
        self.done[place] = Some(Arc::clone(&component));
        Ok(component)
    }

    /// Resolves the members of a message or component, and counts them, including the members of
    /// nested parts.
    ///
    /// The count bounds the time of later walks over the members: a few nested components, each
    /// used twice, would multiply to a huge message.
    fn members(
        &mut self,
        members: &'d [DraftMember],
        depth: usize,
    ) -> Result<(Vec<Member>, usize), DictionaryError> {
        let (mut resolved, mut size) = (Vec::with_capacity(members.len()), 0);
        for member in members {
            if depth > Problem::DEPTH_MAX {
                return Err(self.draft.error(member.line, "member".into(), Problem::TooDeep));
            }
            let kind = match &member.kind {
                DraftKind::Field(tag) => {
                    self.check_defined(*tag, member.line)?;
                    MemberKind::Field(*tag)
                }
                DraftKind::Group { count_tag, members } => {
                    self.check_defined(*count_tag, member.line)?;
                    let (members, inner) = self.members(members, depth + 1)?;
                    size += inner;
                    if Flat::of(&members).next().is_none() {
                        let element = format!("group {count_tag}");
                        return Err(self.draft.error(member.line, element, Problem::EmptyGroup));
                    }
                    MemberKind::Group(Group { count_tag: *count_tag, members })
                }
                DraftKind::Component(name) => {
                    let Some(&place) = self.places.get(name.as_str()) else {
                        return Err(self.unknown_component(name, member.line));
                    };
                    let component = self.component(place, depth, member.line)?;
                    size += self.sizes[place];
                    MemberKind::Component(component)
                }
            };
            size += 1;
            if size > Problem::MEMBERS_MAX {
                let problem = Problem::TooManyMembers;
                return Err(self.draft.error(member.line, "member".into(), problem));
            }
            let text = member.required_if.as_ref();
            let required_if = text.map(|text| self.condition(text, member.line)).transpose()?;
            resolved.push(Member { required: member.required, required_if, kind });
        }
        Ok((resolved, size))
    }

    fn conditionals(
        &self,
        conditions: &[DraftConditional],
    ) -> Result<Vec<Conditional>, DictionaryError> {
        let resolve = |draft: &DraftConditional| {
            self.check_defined(draft.tag, draft.line)?;
            draft.group.map_or(Ok(()), |group| self.check_defined(group, draft.line))?;
            Ok(Conditional {
                tag: draft.tag,
                group: draft.group,
                condition: self.condition(&draft.when, draft.line)?,
                when: draft.when.clone(),
                says: draft.says.clone(),
            })
        };
        conditions.iter().map(resolve).collect()
    }

    fn condition(&self, text: &str, line: u32) -> Result<Arc<Condition>, DictionaryError> {
        let fields = &self.draft.fields;
        let find = |name: &str| {
            let by_tag = name.parse().ok().and_then(|tag: u32| {
                fields.binary_search_by_key(&tag, |field| field.tag).ok().map(|at| &fields[at])
            });
            by_tag.or_else(|| fields.iter().find(|field| field.name == name))
        };
        match Condition::parse_with(text, &find) {
            Ok(condition) => Ok(Arc::new(condition)),
            Err(bad) => {
                let element = format!("condition '{text}'");
                Err(self.draft.error(line, element, Problem::BadCondition(bad)))
            }
        }
    }

    fn check_defined(&self, tag: u32, line: u32) -> Result<(), DictionaryError> {
        match self.draft.fields.binary_search_by_key(&tag, |field| field.tag) {
            Ok(_) => Ok(()),
            Err(_) => {
                let problem = Problem::UnknownField { name: tag.to_string(), nearest: None };
                Err(self.draft.error(line, format!("field {tag}"), problem))
            }
        }
    }

    fn unknown_component(&self, name: &str, line: u32) -> DictionaryError {
        let nearest = nearest(name, self.places.keys().copied()).map(str::to_owned);
        let problem = Problem::UnknownComponent { name: name.to_owned(), nearest };
        self.draft.error(line, format!("component '{name}'"), problem)
    }
}

/// Tags up to this limit are found by index (at most 128 KiB), higher tags by binary search.
const DIRECT_TAG_MAX: u32 = 65_535;
