//! Writes messages straight into a buffer that the caller owns.
//!
//! [`FrameWriter`] lays down BeginString(8) and room for BodyLength(9), lets header and body be
//! written behind, and patches BodyLength(9) and CheckSum(10) at the end. [`Body`] is the part that
//! applications write: it refuses what would damage the message.
//!
//! Invariant: after a [`Misuse`] the buffer is exactly as before.

mod head;
mod header;
pub(crate) mod moment;
pub(crate) mod piece;
mod text;

use alloc::vec::Vec;
use core::ops::Range;

use crate::scan::sum;
use crate::{Decimal, Misuse, Precision, SOH, Tag, Timestamp, tag};
pub(crate) use head::Head;
pub use header::Header;
use moment::Minute;
use piece::append;
use text::{EIGHT_DIGITS, Short};

/// Digits reserved for BodyLength(9): most messages are 100 to 999 bytes long.
const BODY_LENGTH_DIGITS: usize = 3;
/// `10=ddd` and the delimiter.
const TRAILER_LEN: usize = 7;
/// The end of BeginString(8), and BodyLength(9) to be patched.
const BODY_LENGTH_ROOM: &[u8] = b"\x019=000\x01";
/// `35=`.
const MSG_TYPE_HEAD: usize = 3;

/// One message in the making.
pub struct FrameWriter<'b> {
    body: Body<'b>,
    /// Where the message begins in the buffer.
    begin: usize,
    /// First byte that BodyLength(9) counts.
    counted: usize,
}

impl<'b> FrameWriter<'b> {
    /// Begins a message at the end of `out`: BeginString(8), room for BodyLength(9), MsgType(35).
    #[must_use]
    pub fn new(out: &'b mut Vec<u8>, begin_string: &[u8], msg_type: &[u8]) -> Self {
        let begin = out.len();
        out.extend_from_slice(b"8=");
        out.extend_from_slice(begin_string);
        out.extend_from_slice(BODY_LENGTH_ROOM);
        out.extend_from_slice(b"35=");
        Self::after_start(out, begin, msg_type, Minute::FIRST)
    }

    /// All up to `35=` is there.
    #[inline]
    fn after_start(out: &'b mut Vec<u8>, begin: usize, msg_type: &[u8], minute: Minute) -> Self {
        let counted = out.len().wrapping_sub(MSG_TYPE_HEAD);
        let misuse = (!is_msg_type(msg_type)).then_some(Misuse::MsgType);
        let precision = Precision::default();
        let mut body = Body { out, precision, misuse, minute };
        match msg_type {
            [one] => append(body.out, [*one, SOH], 2),
            _ => _ = body.put_long(Head::NONE, msg_type),
        }
        Self { body, begin, counted }
    }

    /// Appends bytes that are known to be whole fields, such as the constant part of a header.
    pub fn raw(&mut self, fields: &[u8]) {
        self.body.out.extend_from_slice(fields);
    }

    /// Appends `tag=value` for the header fields that only the session layer writes.
    pub fn header_uint(&mut self, tag: Tag, value: u64) {
        let head = Head::of(tag, self.body.out);
        self.body.put_uint(head, value, 1);
    }

    /// Appends a time of the header, such as SendingTime(52).
    pub fn header_timestamp(&mut self, tag: Tag, value: Timestamp, precision: Precision) {
        let head = Head::of(tag, self.body.out);
        self.body.put_timestamp(head, value, precision);
    }

    /// The part that the application writes; its timestamps get `precision`.
    pub const fn body(&mut self, precision: Precision) -> &mut Body<'b> {
        self.body.precision = precision;
        &mut self.body
    }

    /// Patches BodyLength(9), appends CheckSum(10) and returns where the message stands.
    ///
    /// # Errors
    /// The first [`Misuse`] of the body; the buffer is then as before.
    pub fn finish(self) -> Result<Range<usize>, Misuse> {
        let Self { body: Body { out, misuse, .. }, begin, counted } = self;
        if let Some(misuse) = misuse {
            out.truncate(begin);
            return Err(misuse);
        }
        patch_body_length(out, counted);
        let sum = u64::from(sum(&out[begin..]));
        let digits = text::eight(sum) >> 40;
        let trailer = u64::from_le_bytes(*b"10=\0\0\0\x01\0") | digits << 24;
        append(out, trailer.to_le_bytes(), TRAILER_LEN);
        Ok(begin..out.len())
    }
}

/// Whether `value` can be a MsgType(35): 1 to 16 printable characters.
#[must_use]
pub fn is_msg_type(value: &[u8]) -> bool {
    (1..=16).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic)
}

/// Writes BodyLength(9) before `counted`; makes or takes room if it has not three digits.
#[inline]
fn patch_body_length(out: &mut Vec<u8>, counted: usize) {
    let length = out.len().wrapping_sub(counted);
    let room = counted - 1 - BODY_LENGTH_DIGITS;
    if (100..1000).contains(&length)
        && let Some(room) = out.get_mut(room..).and_then(|rest| rest.first_chunk_mut())
    {
        let digits = text::eight(length as u64) >> 40;
        *room = [digits as u8, (digits >> 8) as u8, (digits >> 16) as u8];
    } else {
        move_for_body_length(out, counted, length);
    }
}

/// The same for a length that has not three digits.
#[cold]
fn move_for_body_length(out: &mut Vec<u8>, counted: usize, length: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(length).bytes();
    out.splice(counted - 1 - BODY_LENGTH_DIGITS..counted - 1, digits);
}

/// Fields of an application message, in the order of the calls.
///
/// A mistake (a delimiter in a value, an empty value, a field of the session layer) is remembered
/// and makes the whole message fail, so that the calls need no check each.
pub struct Body<'b> {
    pub(crate) out: &'b mut Vec<u8>,
    pub(crate) precision: Precision,
    misuse: Option<Misuse>,
    /// Of the last moment written.
    minute: Minute,
}

impl<'b> Body<'b> {
    /// Fields written outside a message, to be framed later with [`Body::fields`]; appends to
    /// `out`.
    #[must_use]
    pub const fn detached(out: &'b mut Vec<u8>, precision: Precision) -> Self {
        Self { out, precision, misuse: None, minute: Minute::FIRST }
    }

    /// The first mistake so far.
    #[must_use]
    pub const fn misuse(&self) -> Option<Misuse> {
        self.misuse
    }

    /// A String value, or any value already in its wire form.
    #[inline]
    pub fn bytes(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        let head = self.head(tag);
        self.put_bytes(head, tag, value)
    }

    /// A String value.
    #[inline]
    pub fn str(&mut self, tag: Tag, value: &str) -> &mut Self {
        self.bytes(tag, value.as_bytes())
    }

    /// A char value.
    #[inline]
    pub fn char(&mut self, tag: Tag, value: u8) -> &mut Self {
        if value == SOH {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        let head = self.head(tag);
        self.put(head, Short::char(value))
    }

    /// A Boolean value.
    #[inline]
    pub fn boolean(&mut self, tag: Tag, value: bool) -> &mut Self {
        let head = self.head(tag);
        self.put(head, Short::char(if value { b'Y' } else { b'N' }))
    }

    /// A SeqNum, Length or NumInGroup value.
    #[inline]
    pub fn uint(&mut self, tag: Tag, value: u64) -> &mut Self {
        let head = self.head(tag);
        self.put_uint(head, value, 1)
    }

    /// The same with leading zeros up to `digits_min` digits.
    #[inline]
    pub fn padded(&mut self, tag: Tag, value: u64, digits_min: usize) -> &mut Self {
        let head = self.head(tag);
        self.put_uint(head, value, digits_min)
    }

    /// An int value.
    #[inline]
    pub fn int(&mut self, tag: Tag, value: i64) -> &mut Self {
        self.decimal(tag, Decimal::from(value))
    }

    /// A float, Qty, Price, Amt or Percentage value, with exactly its scale.
    #[inline]
    pub fn decimal(&mut self, tag: Tag, value: Decimal) -> &mut Self {
        let head = self.head(tag);
        self.put_decimal(head, value)
    }

    /// A UTCTimestamp value, with the precision of the session.
    #[inline]
    pub fn timestamp(&mut self, tag: Tag, value: Timestamp) -> &mut Self {
        let head = self.head(tag);
        self.put_timestamp(head, value, self.precision)
    }

    /// A data field after its Length field; `value` may hold any byte.
    pub fn data(&mut self, length: Tag, data: Tag, value: &[u8]) -> &mut Self {
        if crate::data::length_of(data) != Some(length) {
            self.blame(Misuse::DelimiterInValue(data));
        }
        self.uint(length, value.len() as u64);
        let head = self.head(data);
        self.put_long(head, value)
    }

    /// Whole fields already encoded, each ended by its delimiter, such as those of another message
    /// or of [`Body::detached`]; copied as they are.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        self.out.extend_from_slice(encoded);
        self
    }

    #[cold]
    pub(crate) const fn blame(&mut self, misuse: Misuse) {
        if self.misuse.is_none() {
            self.misuse = Some(misuse);
        }
    }

    /// Refuses the tags that only the session layer writes.
    #[inline]
    pub(crate) const fn check(&mut self, tag: Tag) {
        if tag::is_session_owned(tag) || tag.0 == 0 {
            self.blame(Misuse::SessionOwned(tag));
        }
    }

    /// The head of an application's field.
    #[inline]
    fn head(&mut self, tag: Tag) -> Head {
        self.check(tag);
        Head::of(tag, self.out)
    }

    /// A whole field of at most 14 bytes: head, text and delimiter are one store.
    #[inline]
    fn put(&mut self, head: Head, text: Short) -> &mut Self {
        let field = u128::from(head.word) | text.delimited() << (8 * head.len as u32 % 64);
        append(self.out, field.to_le_bytes(), head.len.wrapping_add(text.len).wrapping_add(1));
        self
    }

    #[inline]
    pub(crate) fn put_bytes(&mut self, head: Head, tag: Tag, value: &[u8]) -> &mut Self {
        let Some(word) = text::load(value) else {
            if value.is_empty() {
                self.blame(Misuse::EmptyValue(tag));
            } else if value.contains(&SOH) {
                self.blame(Misuse::DelimiterInValue(tag));
            }
            return self.put_long(head, value);
        };
        if text::has_delimiter(word) {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        if value.len() <= 8 {
            return self.put(head, Short { word: word as u64, len: value.len() });
        }
        head.append(self.out);
        append(self.out, word.to_le_bytes(), value.len());
        self.out.push(SOH);
        self
    }

    #[inline]
    pub(crate) fn put_uint(&mut self, head: Head, value: u64, digits_min: usize) -> &mut Self {
        if value < EIGHT_DIGITS && digits_min <= 8 {
            return self.put(head, Short::digits(value, digits_min.max(1)));
        }
        head.append(self.out);
        text::append_digits(self.out, value, digits_min);
        self.out.push(SOH);
        self
    }

    #[inline]
    pub(crate) fn put_decimal(&mut self, head: Head, value: Decimal) -> &mut Self {
        match Short::decimal(value.mantissa as u64, value.scale as usize) {
            Some(text) => self.put(head, text),
            None => self.put_long_decimal(head, value),
        }
    }

    /// A decimal of many digits, or below zero.
    fn put_long_decimal(&mut self, head: Head, value: Decimal) -> &mut Self {
        head.append(self.out);
        if value.mantissa < 0 {
            self.out.push(b'-');
        }
        let mantissa = value.mantissa.unsigned_abs();
        if value.scale == 0 {
            text::append_digits(self.out, mantissa, 1);
        } else {
            let one = 10_u64.pow(u32::from(value.scale));
            text::append_digits(self.out, mantissa / one, 1);
            self.out.push(b'.');
            text::append_digits(self.out, mantissa % one, usize::from(value.scale));
        }
        self.out.push(SOH);
        self
    }

    #[inline]
    pub(crate) fn put_timestamp(
        &mut self,
        head: Head,
        value: Timestamp,
        precision: Precision,
    ) -> &mut Self {
        let (seconds, len) = moment::seconds(self.minute.enter(value.0), precision);
        head.append(self.out);
        append(self.out, self.minute.text().to_le_bytes(), Minute::LEN);
        append(self.out, seconds.to_le_bytes(), len.wrapping_add(1));
        self
    }

    /// A value of any length.
    fn put_long(&mut self, head: Head, value: &[u8]) -> &mut Self {
        head.append(self.out);
        self.out.extend_from_slice(value);
        self.out.push(SOH);
        self
    }
}
