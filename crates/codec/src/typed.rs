//! Building blocks of generated messages: typed values, code sets, views and writers.
//!
//! Generated code only gives names to the functions of this module, so that it stays small and
//! compiles quickly. Applications do not call this module directly.
//!
//! Invariants: a typed message has the same bytes as a message written field by field. Nothing
//! allocates. The fields of a group entry appear in the dictionary's order, whatever the order of
//! the calls.

mod entries;
mod value;
mod writer;

pub use entries::{Entries, Entry};
pub use value::{CodeSet, ToField, Value, Word, Words};
pub use writer::{GroupWriter, Writer};

// Generated code refers to these types through this module, because a dictionary may define a
// message named Reject.
use crate::fields::{malformed, nothing};
pub use crate::time_of_day::{TimeOfDay, TzTimeOnly, TzTimestamp};
pub use crate::value::Tenor;
pub use crate::{Body, Date, Decimal, Fields, Message, MonthYear, MsgType, Reject, Tag, Timestamp};
use crate::{RejectReason, tag};

/// A view over consecutive fields: a component of a message, or an entry of a group.
pub trait View<'a>: Copy {
    /// Creates a view over these fields.
    fn of(fields: Fields<'a>) -> Self;
}

impl<'a> Fields<'a> {
    /// Returns the value of a required field, or an error if the field is absent.
    ///
    /// # Errors
    /// SessionRejectReason(373) 1 if the field is absent, 4 if empty, 6 if malformed.
    #[inline(always)]
    pub fn require<T: Value<'a>>(&self, tag: Tag) -> Result<T, Reject> {
        match self.raw(tag) {
            Some(value) if !value.is_empty() => T::read(value).ok_or_else(|| malformed(tag)),
            found => Err(nothing(tag, found.is_some())),
        }
    }

    /// Returns the value of an optional field; `None` if the field is absent.
    ///
    /// # Errors
    /// SessionRejectReason(373) 4 if the field is empty, 6 if malformed.
    #[inline(always)]
    pub fn find<T: Value<'a>>(&self, tag: Tag) -> Result<Option<T>, Reject> {
        match self.raw(tag) {
            None => Ok(None),
            Some([]) => Err(nothing(tag, true)),
            Some(value) => T::read(value).map(Some).ok_or_else(|| malformed(tag)),
        }
    }
}

/// Checks that MsgType(35) of a message is the expected type.
///
/// # Errors
/// SessionRejectReason(373) 11 if the type differs.
#[inline]
pub fn check(message: &Message<'_>, msg_type: MsgType<'_>) -> Result<(), Reject> {
    if message.msg_type() == msg_type {
        return Ok(());
    }
    Err(Reject::new(RejectReason::InvalidMsgType, tag::MSG_TYPE))
}

/// Returns a number that identifies a text of one to seven bytes.
///
/// The number contains the bytes, the first byte lowest, and the length in the highest byte. An
/// empty text or a longer one gives 0.
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
