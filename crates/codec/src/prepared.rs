//! Whole messages that are encoded in advance, header and trailer included, and updated in place.
//!
//! New values overwrite the values of the previous message. Constant bytes move only if the length
//! of a preceding value changes.
//! ```
//! use transfix_codec::{Precision, Prepared, Timestamp, tag};
//!
//! let mut order = Prepared::new("FIX.4.4", "D", Precision::Millis, |m| {
//!     m.fields(b"49=US\x0156=THEM\x01").slot(tag::MSG_SEQ_NUM).slot(tag::SENDING_TIME);
//!     m.slot(tag::CL_ORD_ID).fields(b"55=EU\x0154=1\x01").slot(tag::ORDER_QTY);
//! })?;
//! let now = Timestamp::parse(b"20261121-09:28:25.623").expect("a time");
//! let bytes = order.patch().uint(7).timestamp(now).str("17").uint(100).finish()?;
//! let text = String::from_utf8(bytes.to_vec()).unwrap().replace('\x01', "|");
//! assert_eq!(
//!     text,
//!     "8=FIX.4.4|9=73|35=D|49=US|56=THEM|34=7|52=20261121-09:28:25.623|11=17|55=EU|54=1|38=100|\
//!     10=038|"
//! );
//! # Ok::<(), transfix_codec::Misuse>(())
//! ```

use alloc::string::ToString;
use alloc::vec::Vec;
use core::mem::replace;

use crate::encode::moment::{Minute, seconds};
use crate::encode::text::{self, EIGHT_DIGITS, Short};
use crate::raw::check_constant;
use crate::{Decimal, Misuse, MsgType, Precision, SOH, Tag, Timestamp, tag};

const BLOCK: usize = 32;
/// Number of bytes by which the buffer grows at once.
const ROOM: usize = 256;
/// The tag of CheckSum(10), which precedes its digits.
const TRAILER_HEAD: &[u8] = b"10=";
const TRAILER_HEAD_SUM: u64 = b'1' as u64 + b'0' as u64 + b'=' as u64;

/// A message encoded in advance, in its own buffer.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The bytes of the last message, with spare room after the end.
    image: Vec<u8>,
    /// The variable values of the message, each with the constant bytes before it.
    slots: Vec<Slot>,
    /// The constant bytes after the last value, up to and including `10=`.
    rest: Constant,
    /// Sum of the bytes before the digits of BodyLength(9).
    sum: u64,
    /// Offset of the first digit of BodyLength(9).
    length_at: usize,
    /// Offset after the last digit of BodyLength(9).
    length_end: usize,
    /// Value of BodyLength(9), and the sum of its digits.
    length: (usize, u64),
    /// True if the last message was finished. Otherwise the constants may not be at their stored
    /// offsets.
    finished: bool,
    precision: Precision,
    minute: Minute,
}

#[derive(Clone, Debug)]
struct Slot {
    tag: Tag,
    before: Constant,
}

/// The constant bytes between two variable values.
#[derive(Clone, Debug)]
struct Constant {
    /// The bytes in blocks padded with zeros: copying a block of constant size is a store, copying
    /// a variable size is a call.
    blocks: Vec<[u8; BLOCK]>,
    /// The first eight bytes.
    head: [u8; 8],
    len: usize,
    sum: u64,
    /// Offset of the constant bytes in `Prepared::image`.
    at: usize,
}

impl Constant {
    fn new(bytes: &[u8]) -> Self {
        let block = |part: &[u8]| {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            block
        };
        let mut head = [0; 8];
        let kept = bytes.len().min(8);
        head[..kept].copy_from_slice(&bytes[..kept]);
        let sum = u64::from(crate::scan::sum(bytes));
        let blocks = bytes.chunks(BLOCK).map(block).collect();
        Self { blocks, head, len: bytes.len(), sum, at: 0 }
    }

    #[inline]
    fn write(&mut self, mut at: usize, image: &mut Vec<u8>) {
        self.at = at;
        for block in &self.blocks {
            store(image, at, *block);
            at = at.wrapping_add(BLOCK);
        }
    }
}

/// Writes `bytes` at offset `at`; the common case needs a single check.
#[inline(always)]
fn store<const N: usize>(image: &mut Vec<u8>, at: usize, bytes: [u8; N]) {
    if let Some(place) = image.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *place = bytes;
        return;
    }
    grow(image, at);
    image[at..][..N].copy_from_slice(&bytes);
}

/// Ensures that the bytes of `constant` are at offset `at`; returns their end offset, and whether
/// any constant has moved.
#[inline(always)]
fn place(
    constant: &mut Constant,
    (at, moved): (usize, bool),
    image: &mut Vec<u8>,
) -> (usize, bool) {
    let moved = moved || constant.at != at;
    if moved {
        constant.write(at, image);
    } else {
        // The preceding value may have overwritten the first seven bytes of the constant; see
        // `Patch::put`.
        store(image, at, constant.head);
    }
    (at.wrapping_add(constant.len), moved)
}

/// Enlarges the buffer beyond offset `at`.
#[cold]
#[inline(never)]
fn grow(image: &mut Vec<u8>, at: usize) {
    image.resize(at + ROOM, 0);
}

impl Prepared {
    /// Creates a prepared message of type `msg_type`.
    ///
    /// `layout` adds constant fields and slots after MsgType(35), in wire order, header fields
    /// included.
    ///
    /// # Errors
    /// The first [`Misuse`] of the layout: an invalid BeginString(8) or MsgType(35), a slot for a
    /// framing field, or constant bytes that are not whole fields.
    pub fn new(
        begin_string: &str,
        msg_type: impl AsRef<[u8]>,
        precision: Precision,
        layout: impl FnOnce(&mut PreparedLayout),
    ) -> Result<Self, Misuse> {
        let misuse = check(tag::BEGIN_STRING, begin_string.as_bytes())
            .or_else(|| (!MsgType::of(msg_type.as_ref()).is_valid()).then_some(Misuse::MsgType));
        let open = [b"\x0135=", msg_type.as_ref(), b"\x01"].concat();
        let mut laid_out = PreparedLayout { slots: Vec::new(), open, misuse };
        layout(&mut laid_out);
        let PreparedLayout { slots, mut open, misuse } = laid_out;
        if let Some(misuse) = misuse {
            return Err(misuse);
        }
        open.extend_from_slice(TRAILER_HEAD);
        let mut image = ["8=", begin_string, "\x019="].concat().into_bytes();
        let (sum, length_at) = (u64::from(crate::scan::sum(&image)), image.len());
        image.extend_from_slice(b"000");
        Ok(Self {
            slots,
            rest: Constant::new(&open),
            sum,
            length_at,
            length_end: image.len(),
            length: (0, u64::from(crate::scan::sum(b"000"))),
            finished: false,
            precision,
            minute: Minute::FIRST,
            image,
        })
    }

    /// Begins the next message; its values follow in the order of the slots.
    #[inline(always)]
    #[must_use = "end with finish(); otherwise the message is incomplete"]
    pub fn patch(&mut self) -> Patch<'_> {
        // An unfinished previous message may have overwritten constants, so all constants are then
        // written again.
        let moved = !replace(&mut self.finished, false);
        let (at, sum) = (self.length_end, self.sum);
        Patch { prepared: self, slot: 0, at, sum, moved, misuse: None }
    }

    /// Updates BodyLength(9); `end` is the offset of the value of CheckSum(10), and the result is
    /// that offset afterwards.
    #[inline(always)]
    fn write_length(&mut self, end: usize) -> usize {
        // BodyLength(9) counts neither the delimiter after its digits nor `10=`.
        let length = end.wrapping_sub(self.length_end).wrapping_sub(1 + TRAILER_HEAD.len());
        if length == self.length.0 { end } else { self.change_length(length, end) }
    }

    fn change_length(&mut self, length: usize, end: usize) -> usize {
        let digits = Short::digits(length as u64, 1);
        let old_end = self.length_end;
        let new_end = self.length_at.wrapping_add(digits.len);
        self.length = (length, text::byte_sum(digits.word));
        if length as u64 >= EIGHT_DIGITS / 10 || new_end != old_end {
            return self.move_all(end);
        }
        // The eight-byte store of the digits also covers the bytes after the digits, so these bytes
        // are included.
        let first = self.slots.first().map_or(&self.rest, |slot| &slot.before);
        let behind = u64::from_le_bytes(first.head) << (8 * digits.len as u32 % 64);
        store(&mut self.image, self.length_at, (digits.word | behind).to_le_bytes());
        end
    }

    /// Moves all bytes after BodyLength(9) when its number of digits changes.
    #[cold]
    #[inline(never)]
    fn move_all(&mut self, end: usize) -> usize {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(self.length.0).as_bytes();
        self.length.1 = u64::from(crate::scan::sum(digits));
        let (old_end, new_end) = (self.length_end, self.length_at + digits.len());
        self.image.splice(self.length_at..old_end, digits.iter().copied());
        let before = self.slots.iter_mut().map(|slot| &mut slot.before);
        for constant in before.chain([&mut self.rest]) {
            constant.at = constant.at - old_end + new_end;
        }
        self.length_end = new_end;
        end - old_end + new_end
    }
}

/// Builder for the layout of a [`Prepared`] message: constant fields and slots, in wire order.
///
/// [`Prepared::new`] returns the first misuse in the layout as its error.
#[derive(Debug)]
pub struct PreparedLayout {
    slots: Vec<Slot>,
    /// The constant bytes appended since the last slot.
    open: Vec<u8>,
    misuse: Option<Misuse>,
}

impl PreparedLayout {
    /// Appends whole constant fields, each with its delimiter.
    ///
    /// A data field and its Length field must be passed in the same call.
    pub fn fields(&mut self, encoded: &[u8]) -> &mut Self {
        self.misuse = self.misuse.or_else(|| check_constant(encoded, is_framing));
        self.open.extend_from_slice(encoded);
        self
    }

    /// Appends a field whose value is set anew in each message, through [`Prepared::patch`].
    ///
    /// No value may contain the delimiter, not even the value of a data field.
    pub fn slot(&mut self, tag: Tag) -> &mut Self {
        let misuse = is_framing(tag).then_some(Misuse::SessionOwned(tag));
        self.misuse = self.misuse.or(misuse);
        self.open.extend_from_slice(tag.to_string().as_bytes());
        self.open.push(b'=');
        self.slots.push(Slot { tag, before: Constant::new(&self.open) });
        self.open.clear();
        // This delimiter ends the value of the slot.
        self.open.push(SOH);
        self
    }
}

/// The next message of a [`Prepared`], to be filled with values.
pub struct Patch<'p> {
    prepared: &'p mut Prepared,
    /// Index of the next slot.
    slot: usize,
    /// Offset in the buffer of the next byte to be written.
    at: usize,
    /// Sum of the bytes written so far, without BodyLength(9), modulo 2^64.
    sum: u64,
    /// True if a constant of this message has moved.
    ///
    /// After a move, all later constants are rewritten, because a block write may have overwritten
    /// them.
    moved: bool,
    misuse: Option<Misuse>,
}

impl<'p> Patch<'p> {
    /// Writes the constant bytes before the next value, and returns the tag of that value.
    #[inline(always)]
    fn next(&mut self) -> Tag {
        let Prepared { slots, image, .. } = &mut *self.prepared;
        let Some(Slot { tag, before }) = slots.get_mut(self.slot) else {
            self.blame(Misuse::SlotCount);
            return Tag(0);
        };
        (self.at, self.moved) = place(before, (self.at, self.moved), image);
        self.sum = self.sum.wrapping_add(before.sum);
        self.slot += 1;
        *tag
    }

    #[inline(always)]
    fn blame(&mut self, misuse: Misuse) {
        self.misuse = self.misuse.or(Some(misuse));
    }

    /// Writes a value of at most eight bytes as a single store.
    ///
    /// The store overwrites up to seven bytes of the next constant; the constant's `head` then
    /// restores these bytes.
    #[inline(always)]
    fn put(&mut self, text: Short) {
        self.put_summed(text, text::byte_sum(text.word));
    }

    /// Writes a value whose byte sum is known.
    #[inline(always)]
    fn put_summed(&mut self, Short { word, len }: Short, sum: u64) {
        store(&mut self.prepared.image, self.at, word.to_le_bytes());
        self.at = self.at.wrapping_add(len);
        self.sum = self.sum.wrapping_add(sum);
    }

    /// Writes a String value.
    #[inline(always)]
    pub fn str(self, value: &str) -> Self {
        self.bytes(value.as_bytes())
    }

    /// Writes any encoded value.
    #[inline(always)]
    pub fn bytes(mut self, value: &[u8]) -> Self {
        let tag = self.next();
        match text::load_short(value) {
            Some(text) => {
                if text::has_delimiter(text.word) {
                    self.blame(Misuse::DelimiterInValue(tag));
                }
                self.put(text);
            }
            None => match text::load_more(value) {
                Some(words) if !words.into_iter().any(text::has_delimiter) => {
                    let [first, rest] = words;
                    self.put(Short { word: first, len: 8 });
                    self.put(Short { word: rest, len: value.len().wrapping_sub(8) });
                }
                _ => self.long(tag, value),
            },
        }
        self
    }

    /// Writes a long value, or records the misuse of an empty or invalid value.
    #[inline(always)]
    fn long(&mut self, tag: Tag, value: &[u8]) {
        self.misuse = self.misuse.or_else(|| check(tag, value));
        // The arguments are passed by value: a variable whose address is taken stays in memory
        // instead of registers.
        (self.at, self.sum) = write_long(self.prepared, self.at, self.sum, value);
    }

    /// Writes a SeqNum, Length or quantity without fraction.
    #[inline(always)]
    pub fn uint(self, value: u64) -> Self {
        self.padded(value, 1)
    }

    /// Writes an unsigned number with leading zeros up to `digits_min` digits, at most 8.
    ///
    /// With padding, a value has the same length in each message, so the following bytes need not
    /// move.
    #[inline(always)]
    pub fn padded(mut self, value: u64, digits_min: usize) -> Self {
        let tag = self.next();
        if value >= EIGHT_DIGITS {
            self.long(tag, itoa::Buffer::new().format(value).as_bytes());
        } else {
            self.put(Short::digits(value, digits_min.clamp(1, 8)));
        }
        self
    }

    /// Writes a float, Qty, Price, Amt or Percentage value.
    #[inline(always)]
    pub fn decimal(mut self, value: Decimal) -> Self {
        let tag = self.next();
        match value.short() {
            Some(text) => self.put(text),
            None => self.long(tag, value.text(&mut Decimal::text_buffer())),
        }
        self
    }

    /// Writes a UTCTimestamp value.
    #[inline(always)]
    pub fn timestamp(mut self, value: Timestamp) -> Self {
        self.next();
        let nanos = self.prepared.minute.enter(value.0);
        let ([date, time], sum) = (self.prepared.minute.text(), self.prepared.minute.sum());
        self.put_summed(Short { word: date, len: 8 }, sum);
        self.put_summed(Short { word: time, len: Minute::LEN - 8 }, 0);
        // The delimiter is omitted, because the next constant begins with it.
        if self.prepared.precision != Precision::Millis {
            let (rest, len) = seconds(nanos, self.prepared.precision);
            let text = &rest.to_le_bytes()[..len];
            (self.at, self.sum) = write_long(self.prepared, self.at, self.sum, text);
        } else {
            let word = self.prepared.minute.millis(nanos);
            self.put(Short { word, len: 6 });
        }
        self
    }

    /// Writes BodyLength(9) and CheckSum(10); returns the message, which is valid until the next
    /// [`Prepared::patch`].
    ///
    /// # Errors
    /// The first [`Misuse`]; later messages are not affected.
    #[inline(always)]
    pub fn finish(mut self) -> Result<&'p [u8], Misuse> {
        if self.slot != self.prepared.slots.len() {
            self.blame(Misuse::SlotCount);
        }
        if let Some(misuse) = self.misuse {
            return Err(misuse);
        }
        let Self { prepared, at, sum, moved, .. } = self;
        let (end, _) = place(&mut prepared.rest, (at, moved), &mut prepared.image);
        let end = prepared.write_length(end);
        // `rest.sum` includes the bytes `10=`, which CheckSum(10) does not cover.
        let sum = sum.wrapping_add(prepared.rest.sum).wrapping_add(prepared.length.1);
        let sum = sum.wrapping_sub(TRAILER_HEAD_SUM) & 0xFF;
        let trailer = text::three(sum) as u32 | u32::from(SOH) << 24;
        store(&mut prepared.image, end, trailer.to_le_bytes());
        prepared.finished = true;
        Ok(&prepared.image[..end + 4])
    }
}

/// Returns true if the codec itself writes this field in each message (tags 8, 9, 35 and 10), or if
/// the tag is 0.
fn is_framing(tag: Tag) -> bool {
    [Tag(0), tag::BEGIN_STRING, tag::BODY_LENGTH, tag::MSG_TYPE, tag::CHECK_SUM].contains(&tag)
}

/// Returns the misuse if the value is invalid.
#[inline(never)]
fn check(tag: Tag, value: &[u8]) -> Option<Misuse> {
    if value.is_empty() {
        return Some(Misuse::EmptyValue(tag));
    }
    value.contains(&SOH).then_some(Misuse::DelimiterInValue(tag))
}

/// Writes a value of any length; returns its end offset and the updated sum.
#[inline(never)]
fn write_long(prepared: &mut Prepared, at: usize, sum: u64, value: &[u8]) -> (usize, u64) {
    let end = at + value.len();
    if prepared.image.len() < end {
        grow(&mut prepared.image, end);
    }
    prepared.image[at..end].copy_from_slice(value);
    (end, sum.wrapping_add(u64::from(crate::scan::sum(value))))
}
