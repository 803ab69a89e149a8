//! Writes messages straight into a buffer that the caller owns.
//!
//! [`FrameWriter`] lays down BeginString(8) and room for BodyLength(9), lets header and body be
//! written behind, and patches BodyLength(9) and CheckSum(10) at the end. [`Body`] is the part that
//! applications write: it refuses what would damage the message.
//!
//! Invariant: after a [`Misuse`] the buffer is exactly as before.

use alloc::vec::Vec;
use core::ops::Range;

use crate::scan::sum;
use crate::time::TEXT_MAX as TIME_TEXT_MAX;
use crate::{Decimal, Misuse, Precision, SOH, Tag, Timestamp, tag};

/// Digits reserved for BodyLength(9): most messages are 100 to 999 bytes long.
const BODY_LENGTH_DIGITS: usize = 3;

/// `tag=` of the tags below 4096, padded, and its length.
static HEADS: [([u8; 8], u8); 4096] = heads();

const fn heads() -> [([u8; 8], u8); 4096] {
    let mut heads = [([0; 8], 0); 4096];
    let mut tag = 0;
    while tag < heads.len() {
        let digits = if tag > 999 {
            4
        } else if tag > 99 {
            3
        } else if tag > 9 {
            2
        } else {
            1
        };
        let mut number = tag;
        let mut at = digits;
        while at > 0 {
            at -= 1;
            heads[tag].0[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        heads[tag].0[digits] = b'=';
        heads[tag].1 = digits as u8 + 1;
        tag += 1;
    }
    heads
}

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
        out.extend_from_slice(b"\x019=000\x01");
        let counted = out.len();
        out.extend_from_slice(b"35=");
        out.extend_from_slice(msg_type);
        out.push(SOH);
        let misuse = (!is_msg_type(msg_type)).then_some(Misuse::MsgType);
        Self { body: Body { out, precision: Precision::default(), misuse }, begin, counted }
    }

    /// Appends bytes that are known to be whole fields, such as the constant part of a header.
    pub fn raw(&mut self, fields: &[u8]) {
        self.body.out.extend_from_slice(fields);
    }

    /// Appends `tag=value` for the header fields that only the session layer writes.
    pub fn header_uint(&mut self, tag: Tag, value: u64) {
        self.body.put_uint(tag, value);
    }

    /// Appends a time of the header, such as SendingTime(52).
    pub fn header_timestamp(&mut self, tag: Tag, value: Timestamp, precision: Precision) {
        self.body.put_timestamp(tag, value, precision);
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
        let sum = sum(&out[begin..]);
        let digits = [b'0' + sum / 100, b'0' + sum / 10 % 10, b'0' + sum % 10];
        out.extend_from_slice(b"10=");
        out.extend_from_slice(&digits);
        out.push(SOH);
        Ok(begin..out.len())
    }
}

/// Whether `value` can be a MsgType(35): 1 to 16 printable characters.
#[must_use]
pub fn is_msg_type(value: &[u8]) -> bool {
    (1..=16).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic)
}

/// Writes BodyLength(9) before `counted`; makes or takes room if it has not three digits.
fn patch_body_length(out: &mut Vec<u8>, counted: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(out.len() - counted).as_bytes();
    let room = counted - 1 - BODY_LENGTH_DIGITS..counted - 1;
    if digits.len() == BODY_LENGTH_DIGITS {
        out[room].copy_from_slice(digits);
        return;
    }
    let (old_end, len) = (out.len(), digits.len());
    if len > BODY_LENGTH_DIGITS {
        out.resize(old_end + len - BODY_LENGTH_DIGITS, 0);
    }
    out.copy_within(room.end..old_end, room.start + len);
    out[room.start..room.start + len].copy_from_slice(digits);
    if len < BODY_LENGTH_DIGITS {
        out.truncate(old_end - (BODY_LENGTH_DIGITS - len));
    }
}

/// Fields of an application message, in the order of the calls.
///
/// A mistake (a delimiter in a value, an empty value, a field of the session layer) is remembered
/// and makes the whole message fail, so that the calls need no check each.
pub struct Body<'b> {
    pub(crate) out: &'b mut Vec<u8>,
    pub(crate) precision: Precision,
    misuse: Option<Misuse>,
}

impl<'b> Body<'b> {
    /// Fields written outside a message, to be framed later with [`Body::fields`]; appends to
    /// `out`.
    #[must_use]
    pub const fn detached(out: &'b mut Vec<u8>, precision: Precision) -> Self {
        Self { out, precision, misuse: None }
    }

    /// The first mistake so far.
    #[must_use]
    pub const fn misuse(&self) -> Option<Misuse> {
        self.misuse
    }

    /// A String value, or any value already in its wire form.
    pub fn bytes(&mut self, tag: Tag, value: &[u8]) -> &mut Self {
        if value.is_empty() {
            self.blame(Misuse::EmptyValue(tag));
        } else if value.contains(&SOH) {
            self.blame(Misuse::DelimiterInValue(tag));
        }
        self.check(tag).put(tag, value);
        self
    }

    /// A String value.
    pub fn str(&mut self, tag: Tag, value: &str) -> &mut Self {
        self.bytes(tag, value.as_bytes())
    }

    /// A char value.
    pub fn char(&mut self, tag: Tag, value: u8) -> &mut Self {
        self.bytes(tag, &[value])
    }

    /// A Boolean value.
    pub fn boolean(&mut self, tag: Tag, value: bool) -> &mut Self {
        self.check(tag).put(tag, if value { b"Y" } else { b"N" });
        self
    }

    /// A SeqNum, Length or NumInGroup value.
    pub fn uint(&mut self, tag: Tag, value: u64) -> &mut Self {
        self.check(tag).put_uint(tag, value);
        self
    }

    /// An int value.
    pub fn int(&mut self, tag: Tag, value: i64) -> &mut Self {
        let mut buffer = itoa::Buffer::new();
        self.check(tag).put(tag, buffer.format(value).as_bytes());
        self
    }

    /// A float, Qty, Price, Amt or Percentage value, with exactly its scale.
    pub fn decimal(&mut self, tag: Tag, value: Decimal) -> &mut Self {
        let mut buffer = Decimal::text_buffer();
        let text = value.text(&mut buffer);
        self.check(tag).put(tag, text);
        self
    }

    /// A UTCTimestamp value, with the precision of the session.
    pub fn timestamp(&mut self, tag: Tag, value: Timestamp) -> &mut Self {
        let precision = self.precision;
        self.check(tag).put_timestamp(tag, value, precision);
        self
    }

    /// A data field after its Length field; `value` may hold any byte.
    pub fn data(&mut self, length: Tag, data: Tag, value: &[u8]) -> &mut Self {
        if crate::data::length_of(data) != Some(length) {
            self.blame(Misuse::DelimiterInValue(data));
        }
        self.check(length).check(data).put_uint(length, value.len() as u64);
        self.put(data, value);
        self
    }

    /// Whole fields already encoded, each ended by its delimiter, such as those of another message
    /// or of [`Body::detached`]; copied as they are.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        self.out.extend_from_slice(encoded);
        self
    }

    pub(crate) const fn blame(&mut self, misuse: Misuse) {
        if self.misuse.is_none() {
            self.misuse = Some(misuse);
        }
    }

    fn check(&mut self, tag: Tag) -> &mut Self {
        if tag::is_session_owned(tag) || tag.0 == 0 {
            self.blame(Misuse::SessionOwned(tag));
        }
        self
    }

    fn put(&mut self, tag: Tag, value: &[u8]) {
        match HEADS.get(tag.0 as usize) {
            Some(&(head, len)) => {
                // Eight bytes are one store; what is too much is taken back.
                let end = self.out.len() + len as usize;
                self.out.extend_from_slice(&head);
                self.out.truncate(end);
            }
            None => self.put_head(tag),
        }
        self.out.extend_from_slice(value);
        self.out.push(SOH);
    }

    /// A tag that no standard version has.
    #[cold]
    fn put_head(&mut self, tag: Tag) {
        let mut buffer = itoa::Buffer::new();
        self.out.extend_from_slice(buffer.format(tag.0).as_bytes());
        self.out.push(b'=');
    }

    fn put_uint(&mut self, tag: Tag, value: u64) {
        let mut buffer = itoa::Buffer::new();
        self.put(tag, buffer.format(value).as_bytes());
    }

    fn put_timestamp(&mut self, tag: Tag, value: Timestamp, precision: Precision) {
        let mut buffer = [0; TIME_TEXT_MAX];
        let text = value.text(precision, &mut buffer);
        self.put(tag, text);
    }
}
