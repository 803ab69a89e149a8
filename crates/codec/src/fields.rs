//! Read access to consecutive fields of one message: the whole message, or one entry of a repeating
//! group.
//!
//! Values are parsed on demand and never copied. The typed getters read the first occurrence of a
//! tag. Errors are a [`Reject`] with a standard reason: a missing field (SessionRejectReason(373)
//! 1), an empty field (4), or a value of the wrong format (6).

use core::hint::cold_path;

use crate::error::GroupError;
use crate::group::{self, Entries, Groups, Members};
use crate::scan::{self, Layout};
use crate::{
    Date, Decimal, MonthYear, Reject, RejectReason, Tag, Tenor, TimeOfDay, Timestamp, TzTimeOnly,
    TzTimestamp, value,
};

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The tag; `Tag(0)` if the text before `=` is not a valid tag.
    pub tag: Tag,
    /// The value, without the delimiter.
    pub value: &'a [u8],
}

/// Consecutive fields of one message in wire order, including repeated tags.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// The bytes of the whole frame.
    bytes: &'a [u8],
    tags: &'a [Tag],
    /// Offset of the first byte of each value.
    values: &'a [u32],
    /// Offset of the first byte of each field, followed by the end offset of the last field.
    starts: &'a [u32],
    /// The known layout of these fields, if any, which speeds up the search for a tag. A known
    /// layout implies that no value is empty.
    layout: Option<&'a Layout>,
}

impl<'a> Fields<'a> {
    /// Creates fields from the bytes of their frame and the offsets in the frame.
    ///
    /// Invariant: `values` is as long as `tags`, and `starts` is longer by one. All offsets ascend
    /// and point into `bytes`, and each field ends with a delimiter.
    pub(crate) const fn new(
        bytes: &'a [u8],
        tags: &'a [Tag],
        values: &'a [u32],
        starts: &'a [u32],
    ) -> Self {
        Self { bytes, tags, values, starts, layout: None }
    }

    /// Returns these fields with the given known layout.
    pub(crate) const fn with_layout(self, layout: Option<&'a Layout>) -> Self {
        Self { layout, ..self }
    }

    /// Returns the tags, the offsets of the values and the offsets of the fields.
    pub(crate) const fn places(&self) -> (&'a [Tag], &'a [u32], &'a [u32]) {
        (self.tags, self.values, self.starts)
    }

    /// Returns the encoded fields, each with its delimiter.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.starts[0] as usize..self.starts[self.len()] as usize]
    }

    /// Returns the number of fields.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tags.len()
    }

    /// Returns true if there is no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Returns the tags in wire order; a field without a valid tag has `Tag(0)`.
    #[must_use]
    pub const fn tags(&self) -> &'a [Tag] {
        self.tags
    }

    /// Iterates over the fields in wire order.
    pub fn fields(
        &self,
    ) -> impl DoubleEndedIterator<Item = Field<'a>> + ExactSizeIterator + use<'a> {
        let bytes = self.bytes;
        let places = self.values.iter().zip(&self.starts[1..]);
        self.tags.iter().zip(places).map(move |(&tag, (&value, &next))| Field {
            tag,
            value: &bytes[value as usize..next as usize - 1],
        })
    }

    /// Returns the first field whose value is longer than `bytes_max` bytes.
    /// ```
    /// # use transfix_codec::{CheckSumPolicy, FieldIndex, Message, Tag};
    /// # let mut index = FieldIndex::default();
    /// let bytes = b"8=FIX.4.4\x019=18\x0135=B\x01148=headline\x0110=254\x01";
    /// let news = Message::parse(bytes, &mut index, CheckSumPolicy::Verify).expect("News");
    /// assert_eq!(news.longer_than(7).map(|field| field.tag), Some(Tag(148)));
    /// assert!(news.longer_than(8).is_none());
    /// ```
    #[must_use]
    #[inline]
    pub fn longer_than(&self, bytes_max: usize) -> Option<Field<'a>> {
        // Most messages are shorter than the limit, so no field of such a message can exceed it.
        if self.bytes.len() <= bytes_max {
            return None;
        }
        cold_path();
        self.fields().find(|field| field.value.len() > bytes_max)
    }

    /// Returns the n-th field, counted from 0.
    #[must_use]
    #[inline]
    pub fn at(&self, n: usize) -> Option<Field<'a>> {
        Some(Field { tag: *self.tags.get(n)?, value: self.value(n) })
    }

    /// Returns the value of the n-th field, which must exist.
    #[inline]
    pub(crate) fn value(&self, n: usize) -> &'a [u8] {
        &self.bytes[self.values[n] as usize..self.starts[n + 1] as usize - 1]
    }

    /// Returns true if each field has a value.
    #[inline]
    pub(crate) fn has_no_empty_value(&self) -> bool {
        if self.layout.is_some() {
            return true;
        }
        let places = self.values.iter().zip(&self.starts[1..]);
        // The loop has no branch per field, so that the compiler can vectorize it.
        places.fold(true, |all, (value, next)| all & (next.wrapping_sub(*value) > 1))
    }

    /// Returns the text before `=` of the n-th field, even if the text is not a valid tag.
    ///
    /// # Panics
    /// If there are `n` fields or fewer.
    #[must_use]
    pub fn tag_text(&self, n: usize) -> &'a [u8] {
        let text = self.encoded(n);
        let text = &text[..text.len() - 1];
        text.split(|&b| b == b'=').next().unwrap_or(text)
    }

    /// Returns the n-th encoded field: tag, `=`, value and delimiter.
    ///
    /// # Panics
    /// If there are `n` fields or fewer.
    #[must_use]
    pub fn encoded(&self, n: usize) -> &'a [u8] {
        &self.bytes[self.starts[n] as usize..self.starts[n + 1] as usize]
    }

    /// Returns the fields from the n-th up to, but excluding, the m-th.
    ///
    /// # Panics
    /// If `n` is above `m`, or if there are fewer than `m` fields.
    #[must_use]
    #[inline]
    pub fn slice(&self, n: usize, m: usize) -> Self {
        Self {
            bytes: self.bytes,
            tags: &self.tags[n..m],
            values: &self.values[n..m],
            starts: &self.starts[n..=m],
            layout: None,
        }
    }

    /// Splits the fields into the first `n` fields and the rest; at least `n` fields must exist.
    #[inline]
    pub(crate) fn split_at(&self, n: usize) -> (Self, Self) {
        let (tags, values) = (self.tags.split_at(n), self.values.split_at(n));
        let starts = (&self.starts[..=n], &self.starts[n..]);
        (
            Self { tags: tags.0, values: values.0, starts: starts.0, layout: None, ..*self },
            Self { tags: tags.1, values: values.1, starts: starts.1, layout: None, ..*self },
        )
    }

    /// Returns the position of the first occurrence of `tag`, counted from 0.
    #[must_use]
    #[inline(always)]
    pub fn position(&self, tag: Tag) -> Option<usize> {
        // Inlined, because a call would cost registers in callers that read many fields.
        let known = self.layout.and_then(|layout| layout.position(tag));
        known.unwrap_or_else(|| scan::position(self.tags, tag))
    }

    /// Returns the encoded value of the first occurrence of `tag`.
    #[must_use]
    #[inline(always)]
    pub fn raw(&self, tag: Tag) -> Option<&'a [u8]> {
        self.position(tag).map(|n| self.value(n))
    }

    /// Returns the value of the n-th occurrence of `tag`, counted from 0.
    #[must_use]
    pub fn nth(&self, tag: Tag, n: usize) -> Option<&'a [u8]> {
        self.all(tag).nth(n)
    }

    /// Iterates over the values of all occurrences of `tag`, in wire order.
    pub fn all(&self, tag: Tag) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields().filter(move |f| f.tag == tag).map(|f| f.value)
    }

    /// Iterates over the entries of a repeating group; `count` is the tag of its NumInGroup field.
    ///
    /// `delimiter` is the first field of each entry. The group is empty if `count` is absent.
    /// Without the members of the group, the end of the last entry is unknown; see
    /// [`Groups::members`].
    #[must_use]
    pub fn group(&self, count: Tag, delimiter: Tag) -> Groups<'a> {
        Groups::new(*self, count, delimiter)
    }

    /// Iterates over the entries of a repeating group with known members; `count` is the tag of its
    /// NumInGroup field.
    ///
    /// Each entry ends before the first field that is not in `members`. The group is empty if
    /// `count` is absent.
    #[must_use]
    pub fn entries<'m, M: Members + ?Sized>(
        &self,
        count: Tag,
        members: &'m M,
    ) -> Entries<'a, 'm, M> {
        Entries::new(*self, count, members)
    }

    /// Checks the structure of a repeating group and of its nested groups; `count` is the tag of
    /// its NumInGroup field.
    ///
    /// # Errors
    /// The first fault, with group, entry, tag and expected delimiter.
    pub fn check_group<M: Members + ?Sized>(
        &self,
        count: Tag,
        members: &M,
    ) -> Result<(), GroupError> {
        group::check(self, count, members)
    }

    /// Returns the value of a field that must be present and not empty.
    ///
    /// # Errors
    /// SessionRejectReason(373) 1 if the field is absent, 4 if its value is empty.
    #[inline(always)]
    pub fn required(&self, tag: Tag) -> Result<&'a [u8], Reject> {
        match self.raw(tag) {
            Some(value) if !value.is_empty() => Ok(value),
            found => Err(nothing(tag, found.is_some())),
        }
    }

    #[inline(always)]
    fn typed<T>(&self, tag: Tag, parse: impl Fn(&'a [u8]) -> Option<T>) -> Result<T, Reject> {
        match self.raw(tag) {
            Some(value) if !value.is_empty() => parse(value).ok_or_else(|| malformed(tag)),
            found => Err(nothing(tag, found.is_some())),
        }
    }

    /// Reads an optional field with the getter of its type; returns `None` if the field is absent.
    /// ```
    /// # use transfix_codec::{CheckSumPolicy, FieldIndex, Fields, Message, tag};
    /// # let bytes = b"8=FIX.4.4\x019=11\x0135=D\x0138=5\x0110=000\x01";
    /// # let mut index = FieldIndex::default();
    /// # let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore)?;
    /// assert_eq!(message.optional(tag::ORDER_QTY, Fields::uint), Ok(Some(5)));
    /// assert_eq!(message.optional(tag::PRICE, Fields::decimal), Ok(None));
    /// # Ok::<(), transfix_codec::Garbled>(())
    /// ```
    ///
    /// # Errors
    /// The errors of the getter, except SessionRejectReason(373) 1.
    #[inline]
    pub fn optional<T>(
        &self,
        tag: Tag,
        read: impl FnOnce(&Self, Tag) -> Result<T, Reject>,
    ) -> Result<Option<T>, Reject> {
        match read(self, tag) {
            Err(Reject { reason: RejectReason::RequiredTagMissing, .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Returns a String, data, XMLData or Pattern value as UTF-8 text.
    ///
    /// For the bytes of such a value, use [`required`](Self::required).
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn text(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, scan::text)
    }

    /// Returns an int value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn int(&self, tag: Tag) -> Result<i64, Reject> {
        self.typed(tag, value::int)
    }

    /// Returns a SeqNum, Length or NumInGroup value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn uint(&self, tag: Tag) -> Result<u64, Reject> {
        self.typed(tag, value::uint)
    }

    /// Returns a char value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn char(&self, tag: Tag) -> Result<u8, Reject> {
        self.typed(tag, value::char)
    }

    /// Returns a Boolean value, `Y` or `N` on the wire.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn boolean(&self, tag: Tag) -> Result<bool, Reject> {
        self.typed(tag, value::boolean)
    }

    /// Returns a Boolean value that defaults to `N`, such as PossDupFlag(43).
    ///
    /// # Errors
    /// SessionRejectReason(373) 4 and 6.
    #[inline]
    pub fn flag(&self, tag: Tag) -> Result<bool, Reject> {
        if self.raw(tag).is_none() { Ok(false) } else { self.boolean(tag) }
    }

    /// Returns a float, Qty, Price, Amt or Percentage value, exactly as encoded.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn decimal(&self, tag: Tag) -> Result<Decimal, Reject> {
        self.typed(tag, Decimal::parse)
    }

    /// Returns a DayOfMonth value: 1 to 31.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn day_of_month(&self, tag: Tag) -> Result<u8, Reject> {
        self.typed(tag, value::day_of_month)
    }

    /// Iterates over the characters of a MultipleCharValue.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn chars(
        &self,
        tag: Tag,
    ) -> Result<impl ExactSizeIterator<Item = u8> + Clone + use<'a>, Reject> {
        self.typed(tag, value::chars)
    }

    /// Iterates over the strings of a MultipleStringValue.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn words(
        &self,
        tag: Tag,
    ) -> Result<impl Iterator<Item = &'a [u8]> + Clone + use<'a>, Reject> {
        self.typed(tag, value::words)
    }

    /// Returns a Country value: two letters.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn country(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::country)
    }

    /// Returns a Currency value: three letters.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn currency(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::currency)
    }

    /// Returns a Language value: two letters.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn language(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::language)
    }

    /// Returns an Exchange value: a market identifier code.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn exchange(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::exchange)
    }

    /// Returns a Tenor value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn tenor(&self, tag: Tag) -> Result<Tenor, Reject> {
        self.typed(tag, Tenor::parse)
    }

    /// Returns a MonthYear value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn month_year(&self, tag: Tag) -> Result<MonthYear, Reject> {
        self.typed(tag, MonthYear::parse)
    }

    /// Returns a UTCDateOnly or LocalMktDate value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn date(&self, tag: Tag) -> Result<Date, Reject> {
        self.typed(tag, Date::parse)
    }

    /// Returns a UTCTimeOnly or LocalMktTime value, with any number of fraction digits.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn time_of_day(&self, tag: Tag) -> Result<TimeOfDay, Reject> {
        self.typed(tag, TimeOfDay::parse)
    }

    /// Returns a TZTimeOnly value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn tz_time_only(&self, tag: Tag) -> Result<TzTimeOnly, Reject> {
        self.typed(tag, TzTimeOnly::parse)
    }

    /// Returns a TZTimestamp value.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn tz_timestamp(&self, tag: Tag) -> Result<TzTimestamp, Reject> {
        self.typed(tag, TzTimestamp::parse)
    }

    /// Returns a UTCTimestamp value, with any number of fraction digits.
    ///
    /// Digits below one nanosecond are truncated.
    ///
    /// # Errors
    /// A [`Reject`] if the field is absent, empty or malformed.
    #[inline]
    pub fn timestamp(&self, tag: Tag) -> Result<Timestamp, Reject> {
        self.typed(tag, Timestamp::parse)
    }
}

/// Returns the error for an absent field or an empty field.
#[cold]
pub(crate) const fn nothing(tag: Tag, is_there: bool) -> Reject {
    let reason =
        if is_there { RejectReason::TagWithoutValue } else { RejectReason::RequiredTagMissing };
    Reject::new(reason, tag)
}

/// Returns the error for a value that does not match its data type.
#[cold]
pub(crate) const fn malformed(tag: Tag) -> Reject {
    Reject::new(RejectReason::IncorrectDataFormat, tag)
}
