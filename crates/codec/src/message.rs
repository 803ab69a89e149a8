//! A received message as a view over its bytes; values are parsed on demand.

use core::ops::Deref;

use crate::fields::Fields;
use crate::scan::{CheckSumPolicy, FieldIndex};
use crate::{Garbled, MsgType, Reject, tag};

/// A whole received message: its borrowed bytes and their index.
///
/// The getters of [`Fields`] read the fields of the message.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    fields: Fields<'a>,
}

impl<'a> Message<'a> {
    /// Indexes a whole frame that [`crate::frame::split`] has found, and verifies CheckSum(10).
    // Inlined so that the caller builds the message in place. Copying a message out of a `Result`
    // stalls the processor.
    #[inline]
    pub fn parse(
        frame: &'a [u8],
        index: &'a mut FieldIndex,
        check_sum: CheckSumPolicy,
    ) -> Result<Self, Garbled> {
        index.fill(frame, check_sum)?;
        Ok(Self { fields: index.fields(frame) })
    }

    /// Wraps `fields`, which begin with BeginString(8), BodyLength(9) and MsgType(35).
    pub(crate) const fn of(fields: Fields<'a>) -> Self {
        Self { fields }
    }

    /// Returns MsgType(35).
    #[must_use]
    #[inline]
    pub fn msg_type(&self) -> MsgType<'a> {
        MsgType::of(self.fields.value(2))
    }

    /// Returns BeginString(8).
    #[must_use]
    pub fn begin_string(&self) -> &'a [u8] {
        self.fields.value(0)
    }

    /// Returns MsgSeqNum(34).
    ///
    /// # Errors
    /// SessionRejectReason(373) 1, 4 or 6.
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

/// Formats the message with `|` in place of the delimiter.
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
