//! Error types, one for each party at fault; the type determines the answer to the counterparty.
//!
//! [`Garbled`]: the bytes are not a message; they are skipped and counted, and no MsgSeqNum(34) is
//! consumed. [`Reject`]: a bad message, answered by Reject(3). [`Misuse`]: a mistake of the caller,
//! never caused by counterparty data.

use core::fmt;

use crate::{MsgType, Tag};

/// A fault of bytes that are not a FIX message: the session sends no answer and consumes no
/// MsgSeqNum(34).
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Garbled {
    /// The bytes do not start with `8=FIX`.
    BeginString,
    /// BodyLength(9) is not the second field, or not a number.
    BodyLengthField,
    /// BodyLength(9) exceeds the configured maximum message length.
    TooLong,
    /// CheckSum(10) is not at the position that BodyLength(9) implies.
    BodyLength,
    /// CheckSum(10) differs from the sum of the bytes.
    CheckSum,
    /// MsgType(35) is not the third field.
    MsgType,
}

impl Garbled {
    /// Returns the code of this fault, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::BeginString => 401,
            Self::BodyLengthField => 402,
            Self::TooLong => 403,
            Self::BodyLength => 404,
            Self::CheckSum => 405,
            Self::MsgType => 406,
        }
    }
}

impl fmt::Display for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeginString => "bytes outside a message, skipped to the next 8=FIX",
            Self::BodyLengthField => "BodyLength(9) is not the second field or not a number",
            Self::TooLong => {
                "BodyLength(9) exceeds the limit; raise message_bytes_max if such messages are \
                 expected"
            }
            Self::BodyLength => "CheckSum(10) is not at the position that BodyLength(9) gives",
            Self::CheckSum => "CheckSum(10) differs from the sum of the bytes",
            Self::MsgType => "MsgType(35) is not the third field",
        })
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Garbled {}

/// The fault of an invalid message: SessionRejectReason(373) and RefTagID(371) of the Reject(3)
/// that answers the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// SessionRejectReason(373).
    pub reason: RejectReason,
    /// RefTagID(371), if a single field is at fault.
    pub tag: Option<Tag>,
}

impl Reject {
    /// Creates a reject that names `tag` as the field at fault.
    #[must_use]
    pub const fn new(reason: RejectReason, tag: Tag) -> Self {
        Self { reason, tag: Some(tag) }
    }
}

impl Reject {
    /// Returns the value of Text(58) for the Reject(3): the reason, the RefTagID(371) `tag`, and
    /// the rejected message.
    /// ```
    /// use transfix_codec::{Reject, RejectReason, Tag, msg_type};
    ///
    /// let reject = Reject::new(RejectReason::RequiredTagMissing, Tag(44));
    /// let text = reject.explained(Some(44), msg_type::NEW_ORDER_SINGLE, Some(7)).to_string();
    /// assert_eq!(text, "Required tag missing, tag 44 [MsgSeqNum 7, MsgType D]");
    /// ```
    pub fn explained(
        self,
        tag: Option<i64>,
        msg_type: MsgType<'_>,
        seq: Option<u64>,
    ) -> impl fmt::Display + use<'_> {
        fmt::from_fn(move |f| {
            f.write_str(self.reason.text())?;
            if let Some(tag) = tag {
                write!(f, ", tag {tag}")?;
            }
            f.write_str(" [")?;
            if let Some(seq) = seq {
                write!(f, "MsgSeqNum {seq}, ")?;
            }
            write!(f, "MsgType {}]", msg_type.as_bytes().escape_ascii())
        })
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag {
            Some(tag) => write!(f, "{}, tag {tag}", self.reason.text()),
            None => f.write_str(self.reason.text()),
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Reject {}

/// A structural fault of a repeating group.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupError {
    /// The NumInGroup field of the group.
    pub group: Tag,
    /// The faulty entry, counted from 1. If the group ends too early, the entry count plus 1.
    pub entry: usize,
    /// The kind of the fault.
    pub fault: GroupFault,
}

/// The kinds of structural faults of a repeating group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupFault {
    /// The NumInGroup field is not a number.
    NotANumber,
    /// The entry does not begin with the delimiter of the group.
    Delimiter {
        /// The delimiter: the first field of each entry.
        expected: Tag,
        /// The field found instead; `None` if the message ends here.
        found: Option<Tag>,
    },
    /// A member is repeated within an entry, or stands after a member that the published order
    /// places later.
    Order {
        /// The member.
        tag: Tag,
        /// The member that precedes the misplaced member.
        after: Tag,
    },
    /// The group has more entries than NumInGroup gives.
    TooMany,
}

impl GroupFault {
    /// Returns the code of this fault, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NotANumber => 451,
            Self::Delimiter { .. } => 452,
            Self::Order { .. } => 453,
            Self::TooMany => 454,
        }
    }
}

impl GroupError {
    /// Returns the code of this error, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        self.fault.as_u16()
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, entry, fault } = self;
        match fault {
            GroupFault::NotANumber => write!(f, "group {group}: its NumInGroup is not a number"),
            GroupFault::Delimiter { expected, found: Some(found) } => {
                write!(f, "group {group}, entry {entry}: tag {found} is in place of ")?;
                write!(f, "the delimiter {expected}")
            }
            GroupFault::Delimiter { expected, found: None } => {
                write!(f, "group {group}, entry {entry}: the delimiter {expected} is expected, ")?;
                f.write_str("but the message ends")
            }
            GroupFault::Order { tag, after } => {
                write!(f, "group {group}, entry {entry}: tag {tag} must not follow {after}")
            }
            GroupFault::TooMany => {
                write!(f, "group {group}, entry {entry}: NumInGroup gives fewer entries")
            }
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for GroupError {}

impl From<GroupError> for Reject {
    fn from(error: GroupError) -> Self {
        match error.fault {
            GroupFault::NotANumber => Self::new(RejectReason::IncorrectDataFormat, error.group),
            GroupFault::Order { tag, .. } => Self::new(RejectReason::GroupFieldsOutOfOrder, tag),
            // If a field other than the delimiter ends the group, entries are missing.
            GroupFault::Delimiter { .. } | GroupFault::TooMany => {
                Self::new(RejectReason::IncorrectNumInGroup, error.group)
            }
        }
    }
}

/// The reasons of SessionRejectReason(373), as defined by FIX 4.2 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum RejectReason {
    /// 0: the tag number is invalid.
    InvalidTagNumber = 0,
    /// 1: a required tag is missing.
    RequiredTagMissing = 1,
    /// 2: the tag is not defined for this message type.
    TagNotDefinedForMessage = 2,
    /// 3: the tag is undefined.
    UndefinedTag = 3,
    /// 4: the tag has no value.
    TagWithoutValue = 4,
    /// 5: the value is incorrect (out of range) for this tag.
    ValueOutOfRange = 5,
    /// 6: the value has an incorrect data format.
    IncorrectDataFormat = 6,
    /// 9: a CompID is wrong.
    CompIdProblem = 9,
    /// 10: SendingTime(52) is inaccurate.
    SendingTimeAccuracy = 10,
    /// 11: MsgType(35) is invalid.
    InvalidMsgType = 11,
    /// 13: the tag appears more than once.
    TagAppearsMoreThanOnce = 13,
    /// 14: the tag is out of the required order.
    TagOutOfOrder = 14,
    /// 15: the fields of a repeating group are out of order.
    GroupFieldsOutOfOrder = 15,
    /// 16: NumInGroup differs from the number of entries.
    IncorrectNumInGroup = 16,
    /// 18: the application version is invalid or unsupported.
    UnsupportedApplVersion = 18,
    /// 99: any other reason.
    Other = 99,
}

impl RejectReason {
    /// All reasons, in the order of their values.
    pub const ALL: [Self; 16] = [
        Self::InvalidTagNumber,
        Self::RequiredTagMissing,
        Self::TagNotDefinedForMessage,
        Self::UndefinedTag,
        Self::TagWithoutValue,
        Self::ValueOutOfRange,
        Self::IncorrectDataFormat,
        Self::CompIdProblem,
        Self::SendingTimeAccuracy,
        Self::InvalidMsgType,
        Self::TagAppearsMoreThanOnce,
        Self::TagOutOfOrder,
        Self::GroupFieldsOutOfOrder,
        Self::IncorrectNumInGroup,
        Self::UnsupportedApplVersion,
        Self::Other,
    ];

    /// Returns the value of SessionRejectReason(373).
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        *self as u16
    }

    /// Returns the standard's description of the reason, for Text(58).
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::InvalidTagNumber => "Invalid tag number",
            Self::RequiredTagMissing => "Required tag missing",
            Self::TagNotDefinedForMessage => "Tag not defined for this message type",
            Self::UndefinedTag => "Undefined tag",
            Self::TagWithoutValue => "Tag specified without a value",
            Self::ValueOutOfRange => "Value is incorrect (out of range) for this tag",
            Self::IncorrectDataFormat => "Incorrect data format for value",
            Self::CompIdProblem => "CompID problem",
            Self::SendingTimeAccuracy => "SendingTime accuracy problem",
            Self::InvalidMsgType => "Invalid MsgType",
            Self::TagAppearsMoreThanOnce => "Tag appears more than once",
            Self::TagOutOfOrder => "Tag specified out of required order",
            Self::GroupFieldsOutOfOrder => "Repeating group fields out of order",
            Self::IncorrectNumInGroup => "Incorrect NumInGroup count for repeating group",
            Self::UnsupportedApplVersion => "Invalid or unsupported application version",
            Self::Other => "Other",
        }
    }
}

/// A mistake of the sending application. The message is not encoded, and the buffer keeps its
/// previous content.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// A value contains the delimiter, which only a data field may contain (see
    /// [`crate::Body::data`]).
    DelimiterInValue(Tag),
    /// A value is empty; FIX forbids empty values, so omit the field.
    EmptyValue(Tag),
    /// Only the session layer may write this field.
    SessionOwned(Tag),
    /// MsgType(35) is empty, or names an administrative message that the session layer sends.
    MsgType,
    /// The number of values given to a template differs from its number of slots.
    SlotCount,
    /// Bytes passed as whole encoded fields are not whole fields.
    NotWholeFields,
    /// A NumInGroup field cannot be set directly; it follows from the entries of the group.
    NumInGroup(Tag),
    /// The entry of the group does not permit this field.
    NotInEntry(Tag),
    /// The field is a member of a group, and cannot be set in the message itself.
    GroupMember {
        /// The field.
        tag: Tag,
        /// The NumInGroup field of the group.
        group: Tag,
    },
    /// The field is the delimiter of its group entry and cannot be removed.
    EntryDelimiter(Tag),
}

impl Misuse {
    /// Returns the code of this mistake, for logs and other languages.
    ///
    /// Codes never change; the page "Codes" of the book lists all codes.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::DelimiterInValue(_) => 301,
            Self::EmptyValue(_) => 302,
            Self::SessionOwned(_) => 303,
            Self::MsgType => 304,
            Self::SlotCount => 305,
            Self::NotWholeFields => 306,
            Self::NumInGroup(_) => 307,
            Self::NotInEntry(_) => 308,
            Self::GroupMember { .. } => 309,
            Self::EntryDelimiter(_) => 310,
        }
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DelimiterInValue(tag) => {
                write!(f, "the value of tag {tag} contains SOH, which only a data field may hold")
            }
            Self::EmptyValue(tag) => write!(f, "tag {tag} has no value; omit the field"),
            Self::SessionOwned(tag) => {
                write!(f, "tag {tag} is written by the session layer; omit it")
            }
            Self::MsgType => f.write_str("MsgType(35) is empty or belongs to the session layer"),
            Self::SlotCount => f.write_str("fill each slot of the template exactly once"),
            Self::NotWholeFields => {
                f.write_str("constant fields are incomplete; write each as tag=value and SOH")
            }
            Self::NumInGroup(tag) => {
                write!(f, "tag {tag} counts the entries of a group; add or remove entries instead")
            }
            Self::NotInEntry(tag) => write!(f, "tag {tag} is no member of the group's entries"),
            Self::GroupMember { tag, group } => {
                write!(f, "tag {tag} belongs to the entries of group {group}; change it there")
            }
            Self::EntryDelimiter(tag) => {
                write!(f, "tag {tag} begins each entry of the group; remove the entry instead")
            }
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Misuse {}
