//! A run of fields of one message: the whole of it, or one entry of a repeating group.
//!
//! Values are parsed on demand and never copied. The typed getters look at the first occurrence.
//! Their errors are the [`Reject`] of the standard: a missing field (reason 1), an empty one (4), a
//! value of the wrong format (6).

use core::hint::cold_path;

use crate::error::GroupError;
use crate::group::{self, Entries, Groups, Members};
use crate::scan::{self, Layout};
use crate::{
    Date, Decimal, MonthYear, Reject, RejectReason, Tag, Tenor, TimeOfDay, Timestamp, TzTimeOnly,
    TzTimestamp, value,
};

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its tag; `Tag(0)` if what stood before the `=` is not a valid one.
    pub tag: Tag,
    /// Its value, without the delimiter.
    pub value: &'a [u8],
}

/// Consecutive fields of one message, in wire order, every occurrence kept.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// The whole frame.
    bytes: &'a [u8],
    tags: &'a [Tag],
    /// First byte of each value.
    values: &'a [u32],
    /// First byte of each field, and of what follows the last.
    starts: &'a [u32],
    /// The known layout of these fields, if there is one: no value is empty then.
    layout: Option<&'a Layout>,
}

impl<'a> Fields<'a> {
    /// Invariant: `values` is as long as `tags`, `starts` longer by one; all point into `bytes`, in
    /// ascending order, and each field ends with a delimiter.
    pub(crate) const fn new(
        bytes: &'a [u8],
        tags: &'a [Tag],
        values: &'a [u32],
        starts: &'a [u32],
    ) -> Self {
        Self { bytes, tags, values, starts, layout: None }
    }

    /// The same fields, which have that layout.
    pub(crate) const fn with_layout(self, layout: Option<&'a Layout>) -> Self {
        Self { layout, ..self }
    }

    /// Where the fields stand: tags, values, starts.
    pub(crate) const fn places(&self) -> (&'a [Tag], &'a [u32], &'a [u32]) {
        (self.tags, self.values, self.starts)
    }

    /// The fields as they stand on the wire, each with its delimiter.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.bytes[self.starts[0] as usize..self.starts[self.len()] as usize]
    }

    /// How many fields there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.tags.len()
    }

    /// Returns true if there is no field.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// The tags in wire order; `Tag(0)` where what stood before the `=` is not a valid one.
    #[must_use]
    pub const fn tags(&self) -> &'a [Tag] {
        self.tags
    }

    /// The fields in wire order.
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

    /// The first field whose value has more than `bytes_max` bytes.
    ///
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
        // Mostly the whole message is shorter.
        if self.bytes.len() <= bytes_max {
            return None;
        }
        cold_path();
        self.fields().find(|field| field.value.len() > bytes_max)
    }

    /// The n-th field, counted from 0.
    #[must_use]
    #[inline]
    pub fn at(&self, n: usize) -> Option<Field<'a>> {
        Some(Field { tag: *self.tags.get(n)?, value: self.value(n) })
    }

    /// The value of the n-th field, which exists.
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
        // All are looked at, several at once: no jump for each.
        places.fold(true, |all, (value, next)| all & (next.wrapping_sub(*value) > 1))
    }

    /// The text before the `=` of the n-th field, also where it is not a valid tag.
    ///
    /// # Panics
    /// If there are not so many fields.
    #[must_use]
    pub fn tag_text(&self, n: usize) -> &'a [u8] {
        let text = self.encoded(n);
        let text = &text[..text.len() - 1];
        text.split(|&b| b == b'=').next().unwrap_or(text)
    }

    /// The n-th field as it stands on the wire: tag, `=`, value and delimiter.
    ///
    /// # Panics
    /// If there are not so many fields.
    #[must_use]
    pub fn encoded(&self, n: usize) -> &'a [u8] {
        &self.bytes[self.starts[n] as usize..self.starts[n + 1] as usize]
    }

    /// The fields from the n-th up to, but without, the m-th.
    ///
    /// # Panics
    /// If `n` is above `m`, or there are not so many fields.
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

    /// The first `n` fields and the others; there are as many.
    #[inline]
    pub(crate) fn split_at(&self, n: usize) -> (Self, Self) {
        let (tags, values) = (self.tags.split_at(n), self.values.split_at(n));
        let starts = (&self.starts[..=n], &self.starts[n..]);
        (
            Self { tags: tags.0, values: values.0, starts: starts.0, layout: None, ..*self },
            Self { tags: tags.1, values: values.1, starts: starts.1, layout: None, ..*self },
        )
    }

    /// Where the first occurrence of `tag` stands, counted from 0.
    #[must_use]
    #[inline(always)]
    pub fn position(&self, tag: Tag) -> Option<usize> {
        // No call: it would take its registers from those who ask for many fields.
        let known = self.layout.and_then(|layout| layout.position(tag));
        known.unwrap_or_else(|| scan::position(self.tags, tag))
    }

    /// The value of the first occurrence of `tag`, as it stands on the wire.
    #[must_use]
    #[inline(always)]
    pub fn raw(&self, tag: Tag) -> Option<&'a [u8]> {
        self.position(tag).map(|n| self.value(n))
    }

    /// The value of the n-th occurrence of `tag`, counted from 0.
    #[must_use]
    pub fn nth(&self, tag: Tag, n: usize) -> Option<&'a [u8]> {
        self.all(tag).nth(n)
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
        Groups::new(*self, count, delimiter)
    }

    /// The entries of the repeating group that the NumInGroup field `count` opens, each of which
    /// ends at the first field that is not one of `members`. Empty if the field is absent.
    #[must_use]
    pub fn entries<'m, M: Members + ?Sized>(
        &self,
        count: Tag,
        members: &'m M,
    ) -> Entries<'a, 'm, M> {
        Entries::new(*self, count, members)
    }

    /// Checks that the repeating group that `count` opens, and those within it, are well built.
    ///
    /// # Errors
    /// The first fault: with group, entry, tag and the delimiter that is expected.
    pub fn check_group<M: Members + ?Sized>(
        &self,
        count: Tag,
        members: &M,
    ) -> Result<(), GroupError> {
        group::check(self, count, members)
    }

    /// A value that must be there and not empty.
    ///
    /// # Errors
    /// Reason 1 if absent, 4 if empty.
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

    /// A value that may be absent, by the getter of its type.
    ///
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
    /// Those of the getter, reason 1 apart.
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

    /// A String, data, XMLData or Pattern value as UTF-8 text; [`required`](Self::required) gives
    /// the bytes.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn text(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, scan::text)
    }

    /// An int value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn int(&self, tag: Tag) -> Result<i64, Reject> {
        self.typed(tag, value::int)
    }

    /// A SeqNum, Length or NumInGroup value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn uint(&self, tag: Tag) -> Result<u64, Reject> {
        self.typed(tag, value::uint)
    }

    /// A char value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn char(&self, tag: Tag) -> Result<u8, Reject> {
        self.typed(tag, value::char)
    }

    /// A Boolean value: `Y` or `N`.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn boolean(&self, tag: Tag) -> Result<bool, Reject> {
        self.typed(tag, value::boolean)
    }

    /// A Boolean value that counts as `N` when absent, such as PossDupFlag(43).
    ///
    /// # Errors
    /// Reasons 4 and 6.
    #[inline]
    pub fn flag(&self, tag: Tag) -> Result<bool, Reject> {
        if self.raw(tag).is_none() { Ok(false) } else { self.boolean(tag) }
    }

    /// A float, Qty, Price, Amt or Percentage value, exactly as written.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn decimal(&self, tag: Tag) -> Result<Decimal, Reject> {
        self.typed(tag, Decimal::parse)
    }

    /// A DayOfMonth value: 1 to 31.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn day_of_month(&self, tag: Tag) -> Result<u8, Reject> {
        self.typed(tag, value::day_of_month)
    }

    /// The characters of a MultipleCharValue.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn chars(
        &self,
        tag: Tag,
    ) -> Result<impl ExactSizeIterator<Item = u8> + Clone + use<'a>, Reject> {
        self.typed(tag, value::chars)
    }

    /// The words of a MultipleStringValue.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn words(
        &self,
        tag: Tag,
    ) -> Result<impl Iterator<Item = &'a [u8]> + Clone + use<'a>, Reject> {
        self.typed(tag, value::words)
    }

    /// A Country value: two letters.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn country(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::country)
    }

    /// A Currency value: three letters.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn currency(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::currency)
    }

    /// A Language value: two letters.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn language(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::language)
    }

    /// An Exchange value: a market identifier code.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn exchange(&self, tag: Tag) -> Result<&'a str, Reject> {
        self.typed(tag, value::exchange)
    }

    /// A Tenor value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn tenor(&self, tag: Tag) -> Result<Tenor, Reject> {
        self.typed(tag, Tenor::parse)
    }

    /// A MonthYear value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn month_year(&self, tag: Tag) -> Result<MonthYear, Reject> {
        self.typed(tag, MonthYear::parse)
    }

    /// A UTCDateOnly or LocalMktDate value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn date(&self, tag: Tag) -> Result<Date, Reject> {
        self.typed(tag, Date::parse)
    }

    /// A UTCTimeOnly or LocalMktTime value, with any number of digits in its fraction.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn time_of_day(&self, tag: Tag) -> Result<TimeOfDay, Reject> {
        self.typed(tag, TimeOfDay::parse)
    }

    /// A TZTimeOnly value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn tz_time_only(&self, tag: Tag) -> Result<TzTimeOnly, Reject> {
        self.typed(tag, TzTimeOnly::parse)
    }

    /// A TZTimestamp value.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn tz_timestamp(&self, tag: Tag) -> Result<TzTimestamp, Reject> {
        self.typed(tag, TzTimestamp::parse)
    }

    /// A UTCTimestamp value, with any number of digits in its fraction; what is finer than a
    /// nanosecond is cut off.
    ///
    /// # Errors
    /// See the type.
    #[inline]
    pub fn timestamp(&self, tag: Tag) -> Result<Timestamp, Reject> {
        self.typed(tag, Timestamp::parse)
    }
}

/// The error of a field that is not there, or is there without a value.
#[cold]
pub(crate) const fn nothing(tag: Tag, is_there: bool) -> Reject {
    let reason =
        if is_there { RejectReason::TagWithoutValue } else { RejectReason::RequiredTagMissing };
    Reject::new(reason, tag)
}

/// The error of a value that is not of its type.
#[cold]
pub(crate) const fn malformed(tag: Tag) -> Reject {
    Reject::new(RejectReason::IncorrectDataFormat, tag)
}
