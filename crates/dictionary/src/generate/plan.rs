//! Plan of the generated code: the requested messages, and the components and fields that they use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::GenerateError;
use super::names::{constant, pascal, snake, unused};
use super::types::{CodeKind, Type, plain};
use crate::{Component, Dictionary, Field, Member, MemberKind, Message, Unknown, nearest};

/// The elements for which code is generated, with their Rust names.
pub(super) struct Plan<'d> {
    pub(super) dictionary: &'d Dictionary,
    /// The messages by MsgType(35), each with the names of its view and module.
    pub(super) messages: Vec<Part<'d, Message>>,
    /// The components by name.
    pub(super) components: BTreeMap<&'d str, Part<'d, Component>>,
    /// The fields by tag, each with its Rust names.
    pub(super) fields: BTreeMap<u32, Named<'d>>,
    /// The tags of all Length fields of data fields.
    pub(super) lengths: HashSet<u32>,
}

/// A message or component, and its Rust names.
pub(super) struct Part<'d, T> {
    pub(super) part: &'d T,
    pub(super) view: String,
    pub(super) module: String,
}

/// A field, and its Rust names.
pub(super) struct Named<'d> {
    pub(super) field: &'d Field,
    pub(super) constant: String,
    /// The name of the getter and setter.
    pub(super) method: String,
    /// The name of the field's code set, or of the group that the field counts.
    pub(super) pascal: String,
    pub(super) rust: Type,
}

impl<'d> Plan<'d> {
    pub(super) fn of(dictionary: &'d Dictionary, wanted: &[String]) -> Result<Self, GenerateError> {
        let mut used = Used::default();
        let messages = chosen(dictionary, wanted)?;
        check_messages(&messages)?;
        messages.iter().for_each(|message| used.see(&message.members));
        used.see(dictionary.header());
        used.see(dictionary.trailer());
        if wanted.is_empty() {
            used.tags.extend(dictionary.fields().iter().map(|field| field.tag));
            dictionary.components().for_each(|component| used.component(component));
        }
        let mut taken = own_types();
        let messages = messages.into_iter().map(|message| {
            let view = unused(&mut taken, pascal(&message.name), &message.msg_type);
            Part { part: message, module: module(&view), view }
        });
        let messages = messages.collect();
        let mut taken = own_types();
        taken.extend(["StandardHeader", "StandardTrailer"].map(str::to_owned));
        let components = used.components.into_iter().map(|(name, part)| {
            let view = unused(&mut taken, pascal(name), "Component");
            (name, Part { part, module: module(&view), view })
        });
        let components = components.collect();
        let lengths: HashSet<u32> = dictionary.length_tags().iter().map(|pair| pair.1).collect();
        let fields = fields(dictionary, &used.tags)?;
        Ok(Self { dictionary, messages, components, fields, lengths })
    }

    /// Returns the FIX version with its extension pack.
    pub(super) fn version(&self) -> String {
        match self.dictionary.extension_pack() {
            Some(pack) => format!("{} EP{pack}", self.dictionary.name()),
            None => self.dictionary.name().to_owned(),
        }
    }

    /// Returns the Rust names of a member's field, which is always defined.
    pub(super) fn named(&self, tag: u32) -> &Named<'d> {
        &self.fields[&tag]
    }
}

/// Returns the names of types that the generated code itself uses.
fn own_types() -> HashSet<String> {
    let own = [
        "CodeSet",
        "Copy",
        "FnOnce",
        "GroupWriter",
        "Option",
        "Required",
        "Result",
        "Router",
        "TryFrom",
        "Writer",
    ];
    own.map(str::to_owned).into()
}

/// Returns the module name for a view name, such as `new_order_single`.
fn module(view: &str) -> String {
    snake(view)
}

fn chosen<'d>(dictionary: &'d Dictionary, wanted: &[String]) -> Result<Vec<&'d Message>, Unknown> {
    if wanted.is_empty() {
        return Ok(dictionary.messages().iter().collect());
    }
    let mut chosen = BTreeSet::new();
    for name in wanted {
        let messages = dictionary.messages();
        let is_meant = |message: &Message| message.name == *name || message.msg_type == *name;
        let Some(place) = messages.iter().position(is_meant) else {
            let names = messages.iter().map(|message| message.name.as_str());
            return Err(Unknown {
                what: name.clone(),
                version: dictionary.name().to_owned(),
                nearest: nearest(name, names).map(str::to_owned),
            });
        };
        chosen.insert(place);
    }
    Ok(chosen.into_iter().map(|place| &dictionary.messages()[place]).collect())
}

/// Returns the tags that occur in messages, header and trailer.
pub(super) fn used_tags(dictionary: &Dictionary) -> BTreeSet<u32> {
    let mut used = Used::default();
    dictionary.messages().iter().for_each(|message| used.see(&message.members));
    used.see(dictionary.header());
    used.see(dictionary.trailer());
    used.tags
}

/// The components and fields that the requested messages use.
#[derive(Default)]
struct Used<'d> {
    tags: BTreeSet<u32>,
    components: BTreeMap<&'d str, &'d Component>,
}

impl<'d> Used<'d> {
    fn see(&mut self, members: &'d [Member]) {
        for member in members {
            match &member.kind {
                MemberKind::Field(tag) => _ = self.tags.insert(*tag),
                MemberKind::Group(group) => {
                    self.tags.insert(group.count_tag);
                    self.see(&group.members);
                }
                MemberKind::Component(component) => self.component(component),
            }
        }
    }

    fn component(&mut self, component: &'d Component) {
        if self.components.insert(&component.name, component).is_none() {
            self.see(&component.members);
        }
    }
}

/// Rejects a custom message whose Rust name is the name of a message of the standard.
fn check_messages(messages: &[&Message]) -> Result<(), GenerateError> {
    let is_own = |message: &Message| message.msg_type.starts_with('U');
    let mut standard = HashMap::new();
    for message in messages.iter().filter(|message| !is_own(message)) {
        standard.entry(pascal(&message.name)).or_insert(message);
    }
    for message in messages.iter().filter(|message| is_own(message)) {
        let rust = pascal(&message.name);
        if let Some(taken) = standard.get(&rust) {
            let by = format!("{}({})", taken.name, taken.msg_type);
            let element = format!("message {}({})", message.name, message.msg_type);
            return Err(GenerateError::NameTaken { element, rust, by });
        }
    }
    Ok(())
}

/// Rejects a custom field whose Rust name is the name of a field of the standard.
///
/// `taken` contains the fields with lower tags, by their Rust names.
fn check_field(field: &Field, taken: &HashMap<String, &Field>) -> Result<(), GenerateError> {
    let names = [constant(&field.name), snake(&field.name), pascal(&field.name)];
    for rust in names {
        if let Some(known) = taken.get(&rust)
            && is_own(field) != is_own(known)
        {
            let (own, standard) = if is_own(field) { (field, *known) } else { (*known, field) };
            let by = format!("{}({})", standard.name, standard.tag);
            let element = format!("field {}({})", own.name, own.tag);
            return Err(GenerateError::NameTaken { element, rust, by });
        }
    }
    Ok(())
}

/// Returns true if the tag is in the range of user-defined tags. Higher tags belong to extension
/// packs of the standard.
fn is_own(field: &Field) -> bool {
    (5_000..40_000).contains(&field.tag)
}

fn fields<'d>(
    dictionary: &'d Dictionary,
    used: &BTreeSet<u32>,
) -> Result<BTreeMap<u32, Named<'d>>, GenerateError> {
    let mut taken = HashMap::new();
    let (mut constants, mut sets) = (HashSet::new(), own_types());
    let mut methods = HashSet::new();
    let mut fields = BTreeMap::new();
    for field in used.iter().filter_map(|tag| dictionary.field(*tag)) {
        check_field(field, &taken)?;
        for name in [constant(&field.name), snake(&field.name), pascal(&field.name)] {
            taken.entry(name).or_insert(field);
        }
        let number = field.tag.to_string();
        let pascal = unused(&mut sets, pascal(&field.name), &number);
        let named = Named {
            field,
            constant: unused(&mut constants, constant(&field.name), &number),
            method: unused(&mut methods, snake(&field.name), &number),
            rust: rust(dictionary, field, &pascal),
            pascal,
        };
        fields.insert(field.tag, named);
    }
    Ok(fields)
}

fn rust(dictionary: &Dictionary, field: &Field, name: &str) -> Type {
    if let Some(length) = dictionary.length_tag(field.tag) {
        return Type::Data(length);
    }
    match CodeKind::of(field) {
        Some(kind) if field.data_type.is_multiple() => Type::Codes(name.to_owned(), kind),
        Some(kind) => Type::Code(name.to_owned(), kind),
        None => Type::Plain(plain(field.data_type)),
    }
}

/// Returns the tags of all members in their order and without duplicates, including members of
/// nested groups.
pub(super) fn flat_tags(members: &[Member]) -> Vec<u32> {
    fn walk(members: &[Member], seen: &mut HashMap<u32, ()>, tags: &mut Vec<u32>) {
        for member in crate::Flat::of(members) {
            if seen.insert(member.tag, ()).is_none() {
                tags.push(member.tag);
            }
            if let Some(group) = member.group {
                walk(group, seen, tags);
            }
        }
    }
    let (mut seen, mut tags) = (HashMap::new(), Vec::new());
    walk(members, &mut seen, &mut tags);
    tags
}
