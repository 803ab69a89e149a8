//! A received message as a view over its bytes: fields in wire order, values parsed on demand.

use crate::group::Groups;
use crate::scan::{CheckSumPolicy, FieldIndex, Span};
use crate::{Decimal, Garbled, Reject, RejectReason, Tag, Timestamp, tag, value};

/// A whole message: borrowed bytes and their index.
///
/// Every occurrence of every field is kept, in the order received. The typed getters look at the
/// first occurrence and answer with the [`Reject`] that the standard gives for a missing field
/// (reason 1), an empty one (4) or a value of the wrong format (6).
#[derive(Clone, Copy)]
pub struct Message<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its tag; `Tag(0)` if what stood before the `=` is not a valid one.
    pub tag: Tag,
    /// Its value, without the delimiter.
    pub value: &'a [u8],
}

impl<'a> Message<'a> {
    /// Indexes a frame that [`crate::frame::split`] found whole, and verifies CheckSum(10).
    ///
    /// # Errors
    /// [`Garbled`] if MsgType(35) is not the third field or CheckSum(10) is wrong.
    pub fn parse(
        frame: &'a [u8],
        index: &'a mut FieldIndex,
        check_sum: CheckSumPolicy,
    ) -> Result<Self, Garbled> {
        let spans = index.fill(frame, check_sum)?;
        Ok(Self { bytes: frame, spans })
    }

    /// The whole message as received, from BeginString(8) to CheckSum(10).
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All fields in wire order, header and trailer included.
    pub fn fields(
        &self,
    ) -> impl DoubleEndedIterator<Item = Field<'a>> + ExactSizeIterator + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| field(bytes, *span))
    }

    /// The n-th field, counted from 0.
    #[inline]
    pub(crate) fn at(&self, n: usize) -> Option<Field<'a>> {
        self.spans.get(n).map(|span| field(self.bytes, *span))
    }

    /// The text before the `=` of the n-th field, also where it is not a valid tag.
    #[must_use]
    pub fn tag_text(&self, n: usize) -> &'a [u8] {
        let begin = if n == 0 { 0 } else { self.spans[n - 1].end as usize + 1 };
        let text = &self.bytes[begin..self.spans[n].end as usize];
        text.split(|&b| b == b'=').next().unwrap_or(text)
    }

    /// The n-th field as it stands on the wire: tag, `=`, value and delimiter.
    #[must_use]
    pub fn encoded(&self, n: usize) -> &'a [u8] {
        let begin = if n == 0 { 0 } else { self.spans[n - 1].end as usize + 1 };
        &self.bytes[begin..=self.spans[n].end as usize]
    }

    /// MsgType(35).
    #[must_use]
    pub fn msg_type(&self) -> &'a [u8] {
        field(self.bytes, self.spans[2]).value
    }

    /// BeginString(8).
    #[must_use]
    pub fn begin_string(&self) -> &'a [u8] {
        field(self.bytes, self.spans[0]).value
    }

    /// The value of the first occurrence of `tag`, as it stands on the wire.
    #[must_use]
    pub fn raw(&self, tag: Tag) -> Option<&'a [u8]> {
        self.spans.iter().find(|s| s.tag == tag).map(|s| field(self.bytes, *s).value)
    }

    /// The values of all occurrences of `tag`, in wire order.
    pub fn all(&self, tag: Tag) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields().filter(move |f| f.tag == tag).map(|f| f.value)
    }

    /// The entries of the repeating group that the NumInGroup field `count` opens, as received.
    ///
    /// `delimiter` is the first field of each entry. Empty if the field is absent. Where an entry
    /// ends inside the last one depends on the dictionary: see [`Groups::members`].
    #[must_use]
    pub fn group(&self, count: Tag, delimiter: Tag) -> Groups<'a> {
        Groups::new(self.bytes, self.spans, count, delimiter)
    }

    /// A value that must be there and not empty.
    ///
    /// # Errors
    /// Reason 1 if absent, 4 if empty.
    pub fn required(&self, tag: Tag) -> Result<&'a [u8], Reject> {
        match self.raw(tag) {
            None => Err(Reject::new(RejectReason::RequiredTagMissing, tag)),
            Some([]) => Err(Reject::new(RejectReason::TagWithoutValue, tag)),
            Some(value) => Ok(value),
        }
    }

    fn typed<T>(&self, tag: Tag, parse: impl Fn(&'a [u8]) -> Option<T>) -> Result<T, Reject> {
        let value = self.required(tag)?;
        parse(value).ok_or(Reject::new(RejectReason::IncorrectDataFormat, tag))
    }

    /// A String value as UTF-8 text.
    ///
    /// # Errors
    /// See the type.
    pub fn text(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, |value| core::str::from_utf8(value).ok())
    }

    /// An int value.
    ///
    /// # Errors
    /// See the type.
    pub fn int(&self, tag: Tag) -> Result<i64, Reject> {
        self.typed(tag, value::int)
    }

    /// A SeqNum, Length or NumInGroup value.
    ///
    /// # Errors
    /// See the type.
    pub fn uint(&self, tag: Tag) -> Result<u64, Reject> {
        self.typed(tag, value::uint)
    }

    /// A char value.
    ///
    /// # Errors
    /// See the type.
    pub fn char(&self, tag: Tag) -> Result<u8, Reject> {
        self.typed(tag, value::char)
    }

    /// A Boolean value: `Y` or `N`.
    ///
    /// # Errors
    /// See the type.
    pub fn boolean(&self, tag: Tag) -> Result<bool, Reject> {
        self.typed(tag, value::boolean)
    }

    /// A Boolean value that counts as `N` when absent, such as PossDupFlag(43).
    ///
    /// # Errors
    /// Reasons 4 and 6.
    pub fn flag(&self, tag: Tag) -> Result<bool, Reject> {
        if self.raw(tag).is_none() { Ok(false) } else { self.boolean(tag) }
    }

    /// A float, Qty, Price, Amt or Percentage value, exactly as written.
    ///
    /// # Errors
    /// See the type.
    pub fn decimal(&self, tag: Tag) -> Result<Decimal, Reject> {
        self.typed(tag, Decimal::parse)
    }

    /// A UTCTimestamp value, with a fraction of 0 to 12 digits (picoseconds are cut off).
    ///
    /// # Errors
    /// See the type.
    pub fn timestamp(&self, tag: Tag) -> Result<Timestamp, Reject> {
        self.typed(tag, Timestamp::parse)
    }

    /// MsgSeqNum(34).
    ///
    /// # Errors
    /// See the type.
    pub fn msg_seq_num(&self) -> Result<u64, Reject> {
        self.uint(tag::MSG_SEQ_NUM)
    }
}

pub(crate) fn field(bytes: &[u8], span: Span) -> Field<'_> {
    Field { tag: span.tag, value: &bytes[span.begin as usize..span.end as usize] }
}

/// The message with `|` for the delimiter, as FIX people write it.
impl core::fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for chunk in self.bytes.split_inclusive(|&b| b == crate::SOH) {
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
