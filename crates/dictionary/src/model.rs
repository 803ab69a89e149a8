//! The dictionary as its users see it: constant, resolved, quick to look things up in.
//!
//! Invariants: fields are sorted by tag, messages and codes by length and then value; each tag and
//! component that a member names exists; components nest without cycles. Tags are found by index
//! or bisection, never by hashing a name.

use std::sync::Arc;

use crate::{Condition, DataType};

/// The definition of one version of FIX, or of a venue's variant of it.
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

/// The ways into the sorted tables of a dictionary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// By tag: the place in `fields`, or [`NOWHERE`]. Tags beyond the end are found by bisection.
    pub(crate) by_tag: Vec<u16>,
    /// Places in `fields`, in the order of the names.
    pub(crate) by_field_name: Vec<u16>,
    /// Places in `messages`, in the order of the names.
    pub(crate) by_message_name: Vec<u16>,
    /// (data field, its length field), in the order of the data fields.
    pub(crate) lengths: Vec<(u32, u32)>,
}

/// A place in `Index::by_tag` without a field.
pub(crate) const NOWHERE: u16 = u16::MAX;

/// A field: its tag, name and type, and the codes that its values are taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The tag, for example 44.
    pub tag: u32,
    /// The name, for example `Price`.
    pub name: String,
    /// The data type.
    pub data_type: DataType,
    /// The codes, sorted by length and then value; empty if any value of the type will do.
    pub codes: Vec<Code>,
    /// True if other values than the codes are allowed too (a range reserved for private use, or a
    /// quantity beside codes as in IOIQty(27)).
    pub open: bool,
}

/// One code of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The value on the wire, for example `1`.
    pub value: String,
    /// Its name, for example `BUY`.
    pub name: String,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// The value of MsgType(35), for example `D`.
    pub msg_type: String,
    /// The name, for example `NewOrderSingle`.
    pub name: String,
    /// The layer that handles it: session or application.
    pub category: Category,
    /// The body's members in the published order; header and trailer are not among them.
    pub members: Vec<Member>,
    /// The requirements of the standard's field descriptions on this message under conditions.
    pub conditions: Vec<Conditional>,
}

/// A field that the standard's description requires under a condition.
///
/// Another thing than [`Member::required_if`], which a venue or an Orchestra file demands: sessions
/// check these only if they are told to.
#[derive(Clone, Debug)]
pub struct Conditional {
    /// The field that must be there.
    pub tag: u32,
    /// The group whose entries it must be in, by its count; none for the message itself.
    pub group: Option<u32>,
    /// When it must be there.
    pub condition: Arc<Condition>,
    /// The condition as it is written in the dictionary.
    pub when: String,
    /// The words of the standard that it comes from.
    pub says: String,
}

/// The layer that handles a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// The session layer.
    Admin,
    /// The application.
    App,
}

/// A member of a message, group, component, header or trailer.
#[derive(Clone, Debug)]
pub struct Member {
    /// True if the member must be present when its parent is.
    ///
    /// A required member of an optional component is not required of the message;
    /// [`Flat`](crate::Flat) works this out.
    pub required: bool,
    /// When it must be present although `required` is not set.
    pub required_if: Option<Arc<Condition>>,
    /// The kind of the member.
    pub kind: MemberKind,
}

/// The kind of a member.
#[derive(Clone, Debug)]
pub enum MemberKind {
    /// A field, by its tag.
    Field(u32),
    /// A repeating group.
    Group(Group),
    /// A component: its members stand in its place.
    Component(Arc<Component>),
}

/// A repeating group.
#[derive(Clone, Debug)]
pub struct Group {
    /// The field that counts the entries, for example NoLegs(555).
    pub count_tag: u32,
    /// The members of one entry; the first field is the one each entry begins with.
    pub members: Vec<Member>,
}

/// A component: members that stand together in many messages.
#[derive(Clone, Debug)]
pub struct Component {
    /// The name, for example `Instrument`.
    pub name: String,
    /// The members.
    pub members: Vec<Member>,
}

impl Dictionary {
    /// The version's name as in ApplVerID(1128) and BeginString(8), for example `FIX.4.4`,
    /// `FIXT.1.1`, `FIX.5.0SP2` or `FIX.Latest`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The extension pack that the dictionary includes, if it says so.
    #[must_use]
    pub fn extension_pack(&self) -> Option<u32> {
        self.extension_pack
    }

    /// The field of that tag.
    #[must_use]
    #[inline]
    pub fn field(&self, tag: u32) -> Option<&Field> {
        match self.index.by_tag.get(tag as usize) {
            Some(&NOWHERE) => None,
            Some(&place) => Some(&self.fields[usize::from(place)]),
            None => self.fields.binary_search_by_key(&tag, |f| f.tag).ok().map(|i| &self.fields[i]),
        }
    }

    /// The field of that name; the case of letters counts.
    #[must_use]
    pub fn field_named(&self, name: &str) -> Option<&Field> {
        let names = &self.index.by_field_name;
        let found =
            names.binary_search_by(|&i| self.fields[usize::from(i)].name.as_str().cmp(name));
        found.ok().map(|at| &self.fields[usize::from(names[at])])
    }

    /// All fields, by tag.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The message of that MsgType(35).
    #[must_use]
    #[inline]
    pub fn message(&self, msg_type: impl AsRef<[u8]>) -> Option<&Message> {
        let sought = by_length(msg_type.as_ref());
        let found =
            self.messages.binary_search_by(|m| by_length(m.msg_type.as_bytes()).cmp(&sought));
        found.ok().map(|i| &self.messages[i])
    }

    /// The message of that name; the case of letters counts.
    #[must_use]
    pub fn message_named(&self, name: &str) -> Option<&Message> {
        let names = &self.index.by_message_name;
        let place = |&i: &u16| self.messages[usize::from(i)].name.as_str().cmp(name);
        names.binary_search_by(place).ok().map(|at| &self.messages[usize::from(names[at])])
    }

    /// All messages, by MsgType(35): the shorter first.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The component of that name; the case of letters counts.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&Component> {
        let found = self.components.binary_search_by(|c| c.name.as_str().cmp(name));
        found.ok().map(|i| &*self.components[i])
    }

    /// All components, by name.
    pub fn components(&self) -> impl ExactSizeIterator<Item = &Component> {
        self.components.iter().map(|component| &**component)
    }

    /// The members of the standard header; none in an application version from FIX 5.0 on, where
    /// they are those of FIXT 1.1.
    #[must_use]
    pub fn header(&self) -> &[Member] {
        &self.header
    }

    /// The members of the standard trailer; see [`header`](Self::header).
    #[must_use]
    pub fn trailer(&self) -> &[Member] {
        &self.trailer
    }

    /// The field that gives the length of a data field: 95 for RawData(96).
    #[must_use]
    pub fn length_tag(&self, data_tag: u32) -> Option<u32> {
        let pairs = &self.index.lengths;
        pairs.binary_search_by_key(&data_tag, |pair| pair.0).ok().map(|i| pairs[i].1)
    }

    /// All (data field, its length field), by the data field's tag.
    #[must_use]
    pub fn length_tags(&self) -> &[(u32, u32)] {
        &self.index.lengths
    }
}

impl Field {
    /// The code of that value.
    #[must_use]
    pub fn code(&self, value: impl AsRef<[u8]>) -> Option<&Code> {
        let sought = by_length(value.as_ref());
        let found = self.codes.binary_search_by(|c| by_length(c.value.as_bytes()).cmp(&sought));
        found.ok().map(|i| &self.codes[i])
    }

    /// Returns true if the codes allow the value; each word of it where the type is a list of
    /// codes.
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

/// The order of message types and codes: `2` before `10`, `Z` before `AA`.
pub(crate) fn by_length(value: &[u8]) -> (usize, &[u8]) {
    (value.len(), value)
}
