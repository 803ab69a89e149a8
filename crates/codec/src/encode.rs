//! Encodes messages into a buffer of the caller.
//!
//! [`FrameWriter`] writes BeginString(8), reserves room for BodyLength(9), and then writes the
//! header and the body. [`FrameWriter::finish`] fills in BodyLength(9) and appends CheckSum(10).
//! Applications write the [`Body`], which rejects fields that would damage the message.
//!
//! Invariant: after a [`Misuse`] the buffer has the content from before the message.

mod field;
mod head;
mod header;
pub(crate) mod moment;
pub(crate) mod piece;
pub(crate) mod tail;
pub(crate) mod text;
mod values;

use alloc::vec::Vec;
use core::hint::cold_path;
use core::ops::Range;

use crate::raw::check_body;
use crate::scan::sum;
use crate::{Decimal, Message, Misuse, MsgType, Precision, SOH, Tag, Timestamp, tag};
pub(crate) use head::Head;
pub use header::Header;
use moment::Minute;
use piece::Piece;
use tail::Tail;
use text::Short;

/// Digits reserved for BodyLength(9): most messages have 100 to 999 bytes.
const BODY_LENGTH_DIGITS: usize = 3;
/// The delimiter of BeginString(8), BodyLength(9) with zeros to be overwritten, and `35=`.
const BODY_LENGTH_ROOM: &[u8; 10] = b"\x019=000\x0135=";
/// Length of `10=ddd` and its delimiter, in bytes.
const TRAILER_LEN: usize = 7;
/// Length of `35=`, in bytes.
const MSG_TYPE_HEAD: usize = 3;

/// Returns BodyLength(9) with 2 or 3 zeros to be overwritten, followed by `35=`.
#[inline(always)]
const fn length_room(digits: usize) -> Short {
    match digits {
        2 => Short { word: u64::from_le_bytes(*b"00\x0135=\0\0"), len: 6 },
        _ => Short { word: u64::from_le_bytes(*b"000\x0135=\0"), len: 7 },
    }
}

/// A message being written.
pub struct FrameWriter<'b> {
    body: Body<'b>,
    /// Offset of the message in the buffer.
    begin: usize,
    /// Offset of the first byte that BodyLength(9) counts.
    counted: usize,
    /// Digits reserved for BodyLength(9): 2 or 3.
    digits: usize,
    summed: Summed,
}

/// The leading bytes of a message whose sum is already computed.
struct Summed {
    /// End offset of these bytes in the buffer.
    end: usize,
    sum: u8,
}

impl<'b> FrameWriter<'b> {
    /// Begins a message at the end of `out`: writes BeginString(8), room for BodyLength(9), and
    /// MsgType(35).
    // Inlined so that the constant parts, which are most of a header, are copied without a loop.
    #[inline]
    #[must_use]
    pub fn new(out: &'b mut Vec<u8>, begin_string: &[u8], msg_type: impl AsRef<[u8]>) -> Self {
        let begin = out.len();
        let mut tail = Tail::open(out);
        tail.store(b"8=", 2);
        tail.slice(begin_string);
        tail.store(BODY_LENGTH_ROOM, BODY_LENGTH_ROOM.len());
        let (counted, misuse) = write_msg_type(&mut tail, msg_type.as_ref());
        let body = Body { tail, precision: Precision::default(), misuse, minute: Minute::FIRST };
        let summed = Summed { end: begin, sum: 0 };
        Self { body, begin, counted, digits: BODY_LENGTH_DIGITS, summed }
    }

    /// Appends bytes that must be whole fields, such as the constant part of a header.
    #[inline]
    pub fn raw(&mut self, fields: &[u8]) {
        self.body.tail.slice(fields);
    }

    /// Appends a numeric header field that only the session layer may write.
    #[inline]
    pub fn header_uint(&mut self, tag: Tag, value: u64) {
        let head = Head::of(tag, &mut self.body.tail);
        self.body.put_uint(head, value, 1);
    }

    /// Appends a time field of the header, such as SendingTime(52).
    #[inline(always)]
    pub fn header_timestamp(&mut self, tag: Tag, value: Timestamp, precision: Precision) {
        let head = Head::of(tag, &mut self.body.tail);
        self.body.put_timestamp(head, value, precision);
    }

    /// Returns the body, to which the application adds its fields; timestamps have `precision`.
    #[inline]
    pub const fn body(&mut self, precision: Precision) -> &mut Body<'b> {
        self.body.precision = precision;
        &mut self.body
    }

    /// Writes the value of BodyLength(9), appends CheckSum(10) and returns the range of the message
    /// in the buffer.
    ///
    /// # Errors
    /// The first [`Misuse`] of the body; the buffer then has its previous content.
    #[inline(always)]
    pub fn finish(self) -> Result<Range<usize>, Misuse> {
        let Self { body: Body { mut tail, misuse, .. }, begin, counted, digits, summed } = self;
        if let Some(misuse) = misuse {
            cold_path();
            tail.cut(begin);
            return Err(misuse);
        }
        // The sum is computed before BodyLength(9) is patched. Reading bytes right after storing
        // them in smaller pieces stalls the processor.
        let zeros = summed.sum.wrapping_add(sum(tail.written(summed.end)));
        let sum = zeros.wrapping_add(patch_body_length(&mut tail, counted, digits));
        let digits = text::three(u64::from(sum));
        let trailer = u64::from_le_bytes(*b"10=\0\0\0\x01\0") | digits << 24;
        tail.store(&trailer.to_le_bytes(), TRAILER_LEN);
        Ok(begin..tail.end())
    }
}

/// Writes the value of MsgType(35); also returns the offset where BodyLength(9) starts to count.
#[inline(always)]
fn write_msg_type(tail: &mut Tail<'_>, msg_type: &[u8]) -> (usize, Option<Misuse>) {
    let counted = tail.end().wrapping_sub(MSG_TYPE_HEAD);
    if let [one] = msg_type {
        tail.store(&[*one, SOH], 2);
    } else {
        tail.slice(msg_type);
        tail.store(&[SOH], 1);
    }
    (counted, (!MsgType::of(msg_type).is_valid()).then_some(Misuse::MsgType))
}

/// Writes BodyLength(9) before offset `counted`, in place of `zeros` zeros.
///
/// Returns the difference that the digits make to the sum of the bytes.
#[inline(always)]
fn patch_body_length(tail: &mut Tail<'_>, counted: usize, zeros: usize) -> u8 {
    let length = tail.end().wrapping_sub(counted);
    let room = counted.wrapping_sub(1).wrapping_sub(zeros);
    match (zeros, length) {
        (3, 100..1000) => {
            let [hundreds, tens, ones, ..] = text::three(length as u64).to_le_bytes();
            tail.patch(room, [hundreds, tens, ones]);
            let sum = hundreds.wrapping_add(tens).wrapping_add(ones);
            sum.wrapping_sub(b'0'.wrapping_mul(3))
        }
        (2, 10..100) => {
            let [tens, ones, ..] = text::two(length as u64).to_le_bytes();
            tail.patch(room, [tens, ones]);
            tens.wrapping_add(ones).wrapping_sub(b'0'.wrapping_mul(2))
        }
        _ => {
            // The value needs more or fewer digits than the reserved zeros.
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(length).as_bytes();
            tail.replace(room..room.wrapping_add(zeros), digits);
            sum(digits).wrapping_sub(b'0'.wrapping_mul(zeros as u8))
        }
    }
}

/// A writer for the fields of an application message, which appear in the order of the calls.
///
/// A misuse is a delimiter in a value, an empty value, or a field that only the session layer may
/// write. `Body` stores the first misuse, and finishing the message reports it; single calls need
/// no check.
pub struct Body<'b> {
    pub(crate) tail: Tail<'b>,
    pub(crate) precision: Precision,
    misuse: Option<Misuse>,
    /// The minute of the last written timestamp, cached as text.
    minute: Minute,
}

impl<'b> Body<'b> {
    /// Creates a body that appends fields to `out` without a message. [`Body::fields_unchecked`]
    /// can later copy these fields into a message.
    ///
    /// # Errors
    /// The first [`Misuse`]; the buffer then has its previous content.
    pub fn detached(
        out: &'b mut Vec<u8>,
        precision: Precision,
        fill: impl FnOnce(&mut Self),
    ) -> Result<(), Misuse> {
        let tail = Tail::open(out);
        let begin = tail.end();
        let mut body = Self { tail, precision, misuse: None, minute: Minute::FIRST };
        fill(&mut body);
        let Some(misuse) = body.misuse else { return Ok(()) };
        body.tail.cut(begin);
        Err(misuse)
    }

    /// Returns the first misuse so far.
    #[must_use]
    pub const fn misuse(&self) -> Option<Misuse> {
        self.misuse
    }

    /// Writes a String value, or any encoded value.
    #[inline(always)]
    pub fn bytes(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        let head = self.head(tag);
        self.put_bytes(head, tag, value);
        self
    }

    /// Writes a String value.
    #[inline(always)]
    pub fn str(&mut self, tag: Tag, value: &str) -> &mut Self {
        self.bytes(tag, value.as_bytes())
    }

    /// Writes a char value.
    #[inline(always)]
    pub fn char(&mut self, tag: Tag, value: u8) -> &mut Self {
        if value == SOH {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        let head = self.head(tag);
        self.tail.byte(head, value);
        self
    }

    /// Writes a Boolean value.
    #[inline(always)]
    pub fn boolean(&mut self, tag: Tag, value: bool) -> &mut Self {
        let head = self.head(tag);
        self.tail.byte(head, if value { b'Y' } else { b'N' });
        self
    }

    /// Writes a SeqNum, Length or NumInGroup value.
    #[inline(always)]
    pub fn uint(&mut self, tag: Tag, value: u64) -> &mut Self {
        let head = self.head(tag);
        self.put_uint(head, value, 1);
        self
    }

    /// Writes an unsigned number with leading zeros up to `digits_min` digits, at most 8.
    #[inline(always)]
    pub fn padded(&mut self, tag: Tag, value: u64, digits_min: usize) -> &mut Self {
        let head = self.head(tag);
        self.put_uint(head, value, digits_min);
        self
    }

    /// Writes an int value.
    #[inline]
    pub fn int(&mut self, tag: Tag, value: i64) -> &mut Self {
        let head = self.head(tag);
        // A negative value exceeds the range of short texts when cast to `u64`.
        match Short::decimal(value as u64, 0) {
            Some(text) => self.tail.short(head, text),
            None => self.tail.long(head, Decimal::from(value).text(&mut Decimal::text_buffer())),
        }
        self
    }

    /// Writes a float, Qty, Price, Amt or Percentage value, with exactly its scale.
    #[inline(always)]
    pub fn decimal(&mut self, tag: Tag, value: Decimal) -> &mut Self {
        let head = self.head(tag);
        self.put_decimal(head, value);
        self
    }

    /// Writes a UTCTimestamp value, with the precision of the session.
    #[inline(always)]
    pub fn timestamp(&mut self, tag: Tag, value: Timestamp) -> &mut Self {
        let head = self.head(tag);
        self.put_timestamp(head, value, self.precision);
        self
    }

    /// Writes a Length field and its data field; `value` may contain any byte.
    ///
    /// The two tags must be a standard pair, or both must be user-defined, 5000 or above.
    pub fn data(&mut self, length: Tag, data: Tag, value: &[u8]) -> &mut Self {
        let is_standard = crate::data::length_of(data) == Some(length);
        if !is_standard && length.0.min(data.0) < tag::USER_DEFINED {
            self.blame(Misuse::DelimiterInValue(data));
        }
        if value.is_empty() {
            self.blame(Misuse::EmptyValue(data));
        }
        self.uint(length, value.len() as u64);
        let head = self.head(data);
        self.tail.long(head, value);
        self
    }

    /// Writes whole encoded fields, each with its delimiter, such as fields of another message.
    ///
    /// Records a [`Misuse`] if a part of `encoded` is not a field, has an empty value, or is a
    /// field of the session layer.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        if let Err(misuse) = check_body(encoded) {
            self.blame(misuse);
        }
        self.fields_unchecked(encoded)
    }

    /// Copies the fields of a received message for forwarding, byte for byte and in their order.
    ///
    /// Fields of the inbound session are skipped ([`tag::stays_with_session`]): framing, CompIDs,
    /// SubID and LocationID fields, sequence numbers, sending times, PossDupFlag(43), signature and
    /// encrypted data. To change fields, load the message into a
    /// [`MessageDraft`](crate::MessageDraft). A field without a valid tag or with an empty value is
    /// a [`Misuse`]; validation excludes such fields.
    pub fn copy(&mut self, message: &Message<'_>) -> &mut Self {
        for (n, field) in message.fields().enumerate() {
            if tag::stays_with_session(field.tag) {
                continue;
            }
            // The message's index gives the end of each field, even if a data field contains the
            // delimiter. For a field that cannot be sent, `fields` records a misuse with the tag.
            if field.tag == Tag(0) || field.value.is_empty() {
                self.fields(message.encoded(n));
            } else {
                self.fields_unchecked(message.encoded(n));
            }
        }
        self
    }

    /// Copies whole fields without checking them, such as the fields of [`Body::detached`].
    pub fn fields_unchecked(&mut self, encoded: &[u8]) -> &mut Self {
        self.tail.slice(encoded);
        self
    }

    #[inline]
    pub(crate) const fn blame(&mut self, misuse: Misuse) {
        if self.misuse.is_none() {
            self.misuse = Some(misuse);
        }
    }

    /// Records a misuse for a tag that only the session layer may write, and for tag 0.
    #[inline(always)]
    pub(crate) const fn check(&mut self, tag: Tag) {
        if tag::is_session_owned(tag) || tag.0 == 0 {
            self.blame(Misuse::SessionOwned(tag));
        }
    }

    /// Checks the tag of an application field and returns the bytes `tag=`.
    #[inline(always)]
    fn head(&mut self, tag: Tag) -> Head {
        self.check(tag);
        Head::of(tag, &mut self.tail)
    }

    #[inline(always)]
    pub(crate) fn put_bytes(&mut self, head: Head, tag: Tag, value: &[u8]) {
        match text::load_short(value) {
            Some(text) if !text::has_delimiter(text.word) => self.tail.short(head, text),
            _ => self.put_more(head, tag, value),
        }
    }

    /// Writes a value of more than eight bytes, or records the misuse of an invalid value.
    // Not inlined: otherwise `put_bytes` would have to save registers.
    #[inline(never)]
    fn put_more(&mut self, head: Head, tag: Tag, value: &[u8]) {
        match text::load_more(value) {
            Some(ends) if !ends.into_iter().any(text::has_delimiter) => {
                self.tail.more(head, ends, value.len());
            }
            _ => self.put_long(head, tag, value),
        }
    }

    /// Writes a value of more than 16 bytes, or records the misuse of an invalid value.
    #[inline(never)]
    fn put_long(&mut self, head: Head, tag: Tag, value: &[u8]) {
        if value.is_empty() {
            self.blame(Misuse::EmptyValue(tag));
        } else if value.contains(&SOH) {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        self.tail.long(head, value);
    }

    #[inline]
    pub(crate) fn put_uint(&mut self, head: Head, value: u64, digits_min: usize) {
        self.tail.uint(head, value, digits_min);
    }

    #[inline(always)]
    pub(crate) fn put_decimal(&mut self, head: Head, value: Decimal) {
        match value.short() {
            Some(text) => self.tail.short(head, text),
            None => self.tail.long(head, value.text(&mut Decimal::text_buffer())),
        }
    }

    #[inline]
    pub(crate) fn put_timestamp(&mut self, head: Head, value: Timestamp, precision: Precision) {
        self.tail.moment(head, (value, precision), &mut self.minute);
    }

    #[inline(always)]
    pub(crate) fn put_piece(&mut self, piece: &Piece) {
        piece.write(&mut self.tail);
    }

    /// Appends one more string, after a blank, to the value just written.
    pub(crate) fn put_word(&mut self, word: &[u8]) {
        // The blank replaces the delimiter of the field.
        self.tail.cut(self.tail.end().wrapping_sub(1));
        self.tail.store(b" ", 1);
        self.tail.long(Head::NONE, word);
    }
}
