//! A received message as a view over its bytes: fields in wire order, values parsed on demand.

use core::ops::Deref;

use crate::fields::Fields;
use crate::scan::{CheckSumPolicy, FieldIndex};
use crate::{Garbled, MsgType, Reject, tag};

/// A whole message: borrowed bytes and their index; read it by the getters of [`Fields`].
#[derive(Clone, Copy)]
pub struct Message<'a> {
    fields: Fields<'a>,
}

impl<'a> Message<'a> {
    /// Indexes a frame that [`crate::frame::split`] found whole, and verifies CheckSum(10).
    ///
    /// # Errors
    /// [`Garbled`] if MsgType(35) is not the third field or CheckSum(10) is wrong.
    // Inlined: the message is made where it is used, and not copied out of a result, which a
    // processor waits for.
    #[inline]
    pub fn parse(
        frame: &'a [u8],
        index: &'a mut FieldIndex,
        check_sum: CheckSumPolicy,
    ) -> Result<Self, Garbled> {
        index.fill(frame, check_sum)?;
        Ok(Self { fields: index.fields(frame) })
    }

    /// The message with these fields, which begin with BeginString(8), BodyLength(9), MsgType(35).
    pub(crate) const fn of(fields: Fields<'a>) -> Self {
        Self { fields }
    }

    /// MsgType(35).
    #[must_use]
    #[inline]
    pub fn msg_type(&self) -> MsgType<'a> {
        MsgType::of(self.fields.value(2))
    }

    /// BeginString(8).
    #[must_use]
    pub fn begin_string(&self) -> &'a [u8] {
        self.fields.value(0)
    }

    /// MsgSeqNum(34).
    ///
    /// # Errors
    /// Reason 1, 4 or 6.
    pub fn msg_seq_num(&self) -> Result<u64, Reject> {
        self.uint(tag::MSG_SEQ_NUM)
    }
}

impl<'a> Deref for Message<'a> {
    type Target = Fields<'a>;

    fn deref(&self) -> &Fields<'a> {
        &self.fields
    }
}

/// The message with `|` for the delimiter, as FIX people write it.
impl core::fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for chunk in self.bytes().split_inclusive(|&b| b == crate::SOH) {
            let text = chunk.strip_suffix(&[crate::SOH]).unwrap_or(chunk);
            write!(f, "{}|", text.utf8_chunks().next().map_or("", |c| c.valid()))?;
        }
        Ok(())
    }
}

impl core::fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
