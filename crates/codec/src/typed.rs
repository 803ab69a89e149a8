//! What generated messages are made of: values by their type, code sets, views, writers.
//!
//! Generated code is a thin layer of names over this module, so that it stays small and quick to
//! compile; nobody needs to call it by hand.
//!
//! Invariants: a typed message and one written field by field are the same bytes; nothing
//! allocates; the fields of a group entry stand in the dictionary's order, whatever the order of
//! the calls.

mod entries;
mod value;
mod writer;

pub use entries::{Entries, Entry};
pub use value::{CodeSet, ToField, Value, Word, Words};
pub use writer::{GroupWriter, Writer};

// Under one name with the rest: a message of a dictionary may be called Reject, too.
pub use crate::time_of_day::{TimeOfDay, TzTimeOnly, TzTimestamp};
pub use crate::value::Tenor;
pub use crate::{Body, Date, Decimal, Fields, Message, MonthYear, MsgType, Reject, Tag, Timestamp};
use crate::{RejectReason, tag};

/// A view over fields: a message's component, or an entry of a group.
pub trait View<'a>: Copy {
    /// The view over these fields.
    fn of(fields: Fields<'a>) -> Self;
}

impl<'a> Fields<'a> {
    /// The value of a field that must be there.
    ///
    /// # Errors
    /// Reason 1 if it is absent, 4 if empty, 6 if malformed.
    #[inline]
    pub fn require<T: Value<'a>>(&self, tag: Tag) -> Result<T, Reject> {
        let value = self.required(tag)?;
        T::read(value).ok_or(Reject::new(RejectReason::IncorrectDataFormat, tag))
    }

    /// The value of a field that may be absent.
    ///
    /// # Errors
    /// Reason 4 if it is empty, 6 if malformed.
    #[inline]
    pub fn find<T: Value<'a>>(&self, tag: Tag) -> Result<Option<T>, Reject> {
        match self.raw(tag) {
            None => Ok(None),
            Some([]) => Err(Reject::new(RejectReason::TagWithoutValue, tag)),
            Some(value) => match T::read(value) {
                None => Err(Reject::new(RejectReason::IncorrectDataFormat, tag)),
                found => Ok(found),
            },
        }
    }
}

/// Whether the message is of that MsgType(35).
///
/// # Errors
/// Reason 11 if it is not.
#[inline]
pub fn check(message: &Message<'_>, msg_type: MsgType<'_>) -> Result<(), Reject> {
    if message.msg_type() == msg_type {
        return Ok(());
    }
    Err(Reject::new(RejectReason::InvalidMsgType, tag::MSG_TYPE))
}
