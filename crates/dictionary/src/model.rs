//! The resolved dictionary, which never changes and is fast to search.
//!
//! Invariants: fields are sorted by tag. Messages and codes are sorted by length, then by value.
//! Each tag and each component to which a member refers exists, and components have no cycles. Tags
//! are found by index or binary search, never by hashing a name.

use std::sync::Arc;

use crate::{Condition, DataType};

/// The definition of one FIX version, or of a venue's variant of a version.
#[derive(Clone, Debug)]
pub struct Dictionary {
    pub(crate) name: String,
    pub(crate) extension_pack: Option<u32>,
    pub(crate) fields: Vec<Field>,
    pub(crate) messages: Vec<Message>,
    pub(crate) components: Vec<Arc<Component>>,
    pub(crate) header: Vec<Member>,
    pub(crate) trailer: Vec<Member>,
    pub(crate) index: Index,
}

/// Indexes into the sorted tables of a dictionary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// For each tag, its index in `fields`, or [`NOWHERE`]. Tags beyond this table are found by
    /// binary search.
    pub(crate) by_tag: Vec<u16>,
    /// Indexes into `fields`, sorted by name.
    pub(crate) by_field_name: Vec<u16>,
    /// Indexes into `messages`, sorted by name.
    pub(crate) by_message_name: Vec<u16>,
    /// Pairs of data field and Length field, sorted by data field.
    pub(crate) lengths: Vec<(u32, u32)>,
}

/// The value in `Index::by_tag` for a tag without a field.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// A field: its tag, name, data type and codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The tag, for example 44.
    pub tag: u32,
    /// The name, for example `Price`.
    pub name: String,
    /// The data type.
    pub data_type: DataType,
    /// The codes, sorted by length, then value; empty if any value of the type is permitted.
    pub codes: Vec<Code>,
    /// True if values other than the codes are permitted.
    ///
    /// Examples are fields with a range of values reserved for private use, and IOIQty(27), which
    /// permits a quantity as well as codes.
    pub open: bool,
}

/// A code of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The encoded value, for example `1`.
    pub value: String,
    /// The name, for example `BUY`.
    pub name: String,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The value of MsgType(35), for example `D`.
    pub msg_type: String,
    /// The name, for example `NewOrderSingle`.
    pub name: String,
    /// The layer that handles the message: session or application.
    pub category: Category,
    /// The members of the body in the published order, without header and trailer.
    pub members: Vec<Member>,
    /// The fields that the standard's descriptions require under a condition.
    pub conditions: Vec<Conditional>,
}

/// A field that the standard's field description requires under a condition.
///
/// Unlike [`Member::required_if`], which a venue or an Orchestra file defines, sessions check these
/// requirements only if configured.
#[derive(Clone, Debug)]
pub struct Conditional {
    /// The required field.
    pub tag: u32,
    /// The NumInGroup field of the group whose entries require the field; `None` if the message
    /// itself requires it.
    pub group: Option<u32>,
    /// The condition under which the field is required.
    pub condition: Arc<Condition>,
    /// The condition as text, as written in the dictionary.
    pub when: String,
    /// The sentence of the standard that states the condition.
    pub says: String,
}

/// The layer that handles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The session layer of the engine.
    Admin,
    /// The application.
    App,
}

/// A member of a message, group, component, header or trailer.
#[derive(Clone, Debug)]
pub struct Member {
    /// True if the member is required when its parent is present.
    ///
    /// A required member of an optional component is not always required in the message;
    /// [`Flat`](crate::Flat) takes this into account.
    pub required: bool,
    /// The condition under which the member is required; used only if `required` is false.
    pub required_if: Option<Arc<Condition>>,
    /// The kind of the member: field, group or component.
    pub kind: MemberKind,
}

/// The kind of a member.
#[derive(Clone, Debug)]
pub enum MemberKind {
    /// A field, given by its tag.
    Field(u32),
    /// A repeating group.
    Group(Group),
    /// A component, which stands for its members at this position.
    Component(Arc<Component>),
}

/// A repeating group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The NumInGroup field, for example NoLegs(555).
    pub count_tag: u32,
    /// The members of one entry, whose first field begins each entry.
    pub members: Vec<Member>,
}

/// A component: a named list of members that several messages share.
#[derive(Clone, Debug)]
pub struct Component {
    /// The name, for example `Instrument`.
    pub name: String,
    /// The members.
    pub members: Vec<Member>,
}

impl Dictionary {
    /// Returns the name of the FIX version, as used for BeginString(8) and ApplVerID(1128).
    ///
    /// Examples of names are `FIX.4.4`, `FIXT.1.1`, `FIX.5.0SP2` and `FIX.Latest`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the extension pack; `None` if the dictionary does not give one.
    #[must_use]
    pub fn extension_pack(&self) -> Option<u32> {
        self.extension_pack
    }

    /// Returns the field with this tag.
    #[must_use]
    #[inline]
    pub fn field(&self, tag: u32) -> Option<&Field> {
        match self.index.by_tag.get(tag as usize) {
            Some(&NOWHERE) => None,
            Some(&place) => Some(&self.fields[usize::from(place)]),
            None => self.fields.binary_search_by_key(&tag, |f| f.tag).ok().map(|i| &self.fields[i]),
        }
    }

    /// Returns the field with this name; case matters.
    #[must_use]
    pub fn field_named(&self, name: &str) -> Option<&Field> {
        let names = &self.index.by_field_name;
        let found =
            names.binary_search_by(|&i| self.fields[usize::from(i)].name.as_str().cmp(name));
        found.ok().map(|at| &self.fields[usize::from(names[at])])
    }

    /// Returns all fields, sorted by tag.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the message with this MsgType(35).
    #[must_use]
    #[inline]
    pub fn message(&self, msg_type: impl AsRef<[u8]>) -> Option<&Message> {
        let sought = by_length(msg_type.as_ref());
        let found =
            self.messages.binary_search_by(|m| by_length(m.msg_type.as_bytes()).cmp(&sought));
        found.ok().map(|i| &self.messages[i])
    }

    /// Returns the message with this name; case matters.
    #[must_use]
    pub fn message_named(&self, name: &str) -> Option<&Message> {
        let names = &self.index.by_message_name;
        let place = |&i: &u16| self.messages[usize::from(i)].name.as_str().cmp(name);
        names.binary_search_by(place).ok().map(|at| &self.messages[usize::from(names[at])])
    }

    /// Returns all messages, sorted by the length of MsgType(35), then by its value.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the component with this name; case matters.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&Component> {
        let found = self.components.binary_search_by(|c| c.name.as_str().cmp(name));
        found.ok().map(|i| &*self.components[i])
    }

    /// Iterates over all components, sorted by name.
    pub fn components(&self) -> impl ExactSizeIterator<Item = &Component> {
        self.components.iter().map(|component| &**component)
    }

    /// Returns the members of the standard header.
    ///
    /// The list is empty in an application version from FIX 5.0 on, because FIXT 1.1 defines the
    /// header.
    #[must_use]
    pub fn header(&self) -> &[Member] {
        &self.header
    }

    /// Returns the members of the standard trailer; see [`header`](Self::header).
    #[must_use]
    pub fn trailer(&self) -> &[Member] {
        &self.trailer
    }

    /// Returns the tag of the Length field for the tag of a data field, such as 95 for RawData(96).
    #[must_use]
    pub fn length_tag(&self, data_tag: u32) -> Option<u32> {
        let pairs = &self.index.lengths;
        pairs.binary_search_by_key(&data_tag, |pair| pair.0).ok().map(|i| pairs[i].1)
    }

    /// Returns all pairs of tags of a data field and its Length field, sorted by data field.
    #[must_use]
    pub fn length_tags(&self) -> &[(u32, u32)] {
        &self.index.lengths
    }
}

impl Field {
    /// Returns the code with this value.
    #[must_use]
    pub fn code(&self, value: impl AsRef<[u8]>) -> Option<&Code> {
        let sought = by_length(value.as_ref());
        let found = self.codes.binary_search_by(|c| by_length(c.value.as_bytes()).cmp(&sought));
        found.ok().map(|i| &self.codes[i])
    }

    /// Returns true if the codes permit the value; in a list of codes, each code must be permitted.
    #[must_use]
    pub fn admits(&self, value: &[u8]) -> bool {
        if self.codes.is_empty() || self.open {
            return true;
        }
        if self.data_type.is_multiple() {
            return value.split(|&b| b == b' ').all(|word| self.code(word).is_some());
        }
        self.code(value).is_some()
    }
}

/// Returns the sort key of message types and codes, by length and then by value: `2` before `10`,
/// `Z` before `AA`.
pub(crate) fn by_length(value: &[u8]) -> (usize, &[u8]) {
    (value.len(), value)
}
