//! The parts of generated messages: values by their type, code sets, views, writers.
//!
//! Generated code is a thin layer of names over this module, so that it stays small and quick to
//! compile; nobody needs to call it by hand.
//!
//! Invariants: a typed message and one written field by field are the same bytes. Nothing
//! allocates. The fields of a group entry stand in the dictionary's order, whatever the order of
//! the calls.

mod entries;
mod value;
mod writer;

pub use entries::{Entries, Entry};
pub use value::{CodeSet, ToField, Value, Word, Words};
pub use writer::{GroupWriter, Writer};

// Under one name with the rest: a message of a dictionary may be called Reject, too.
use crate::fields::{malformed, nothing};
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
    #[inline(always)]
    pub fn require<T: Value<'a>>(&self, tag: Tag) -> Result<T, Reject> {
        match self.raw(tag) {
            Some(value) if !value.is_empty() => T::read(value).ok_or_else(|| malformed(tag)),
            found => Err(nothing(tag, found.is_some())),
        }
    }

    /// The value of a field that may be absent.
    ///
    /// # Errors
    /// Reason 4 if it is empty, 6 if malformed.
    #[inline(always)]
    pub fn find<T: Value<'a>>(&self, tag: Tag) -> Result<Option<T>, Reject> {
        match self.raw(tag) {
            None => Ok(None),
            Some([]) => Err(nothing(tag, true)),
            Some(value) => T::read(value).map(Some).ok_or_else(|| malformed(tag)),
        }
    }
}

/// Checks that the message is of that MsgType(35).
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

/// A text of one to seven bytes as a number: its bytes, the first one lowest, and its length on
/// top. It is 0 for an empty text, and for a longer one.
///
/// ```
/// use transfix_codec::typed::word;
///
/// assert_eq!(word("OPT"), 0x0300_0000_0054_504f);
/// assert_ne!(word("OPT"), word("OPT\0"));
/// assert_eq!(word("COMMODITY"), 0);
/// ```
#[must_use]
#[inline]
pub fn word(text: &str) -> u64 {
    let text = text.as_bytes();
    let bytes = match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        (Some(first), Some(last)) if text.len() < 8 => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last) << (8 * (text.len() - 4))
        }
        (Some(_), _) => return 0,
        _ => text.iter().rev().fold(0, |bytes, byte| bytes << 8 | u64::from(*byte)),
    };
    bytes | (text.len() as u64) << 56
}
