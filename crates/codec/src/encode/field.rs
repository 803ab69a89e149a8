//! Writes whole fields at the end of a buffer: the head `tag=`, the value and the delimiter.
//!
//! Each store has a constant size, and each field checks only once that the buffer has room.

use super::head::Head;
use super::moment::{Minute, seconds};
use super::tail::Tail;
use super::text::{EIGHT_DIGITS, Short};
use crate::{Precision, SOH, Timestamp};

impl Tail<'_> {
    /// Writes a field whose value is one byte.
    #[inline(always)]
    pub(super) fn byte(&mut self, head: Head, value: u8) {
        let room: &mut [u8; 16] = self.room();
        let at = head.open(room);
        room[at..at + 2].copy_from_slice(&[value, SOH]);
        self.advance(at + 2);
    }

    /// Writes a field whose value is a text of at most eight bytes.
    #[inline(always)]
    pub(super) fn short(&mut self, head: Head, text: Short) {
        let room: &mut [u8; 32] = self.room();
        let at = head.open(room);
        room[at..at + 8].copy_from_slice(&text.word.to_le_bytes());
        let at = at + (text.len & 15);
        room[at] = SOH;
        self.advance(at + 1);
    }

    /// Writes a field whose value has `len` bytes, 9 to 16, split into the first eight bytes and
    /// the rest.
    #[inline(always)]
    pub(super) fn more(&mut self, head: Head, [first, rest]: [u64; 2], len: usize) {
        let room: &mut [u8; 48] = self.room();
        let at = head.open(room);
        room[at..at + 8].copy_from_slice(&first.to_le_bytes());
        room[at + 8..at + 16].copy_from_slice(&rest.to_le_bytes());
        let at = at + (len & 31);
        room[at] = SOH;
        self.advance(at + 1);
    }

    /// Writes a field with a value of any length.
    #[inline(never)]
    pub(super) fn long(&mut self, head: Head, value: &[u8]) {
        self.store(&head.word.to_le_bytes(), head.len);
        self.slice(value);
        self.store(&[SOH], 1);
    }

    /// Writes a numeric field with at least `digits_min` digits; `digits_min` is at most 8.
    #[inline(always)]
    pub(super) fn uint(&mut self, head: Head, value: u64, digits_min: usize) {
        if value < EIGHT_DIGITS {
            self.short(head, Short::digits(value, digits_min.clamp(1, 8)));
        } else {
            self.long(head, itoa::Buffer::new().format(value).as_bytes());
        }
    }

    /// Writes a field whose value is a UTCTimestamp.
    #[inline(always)]
    pub(super) fn moment(
        &mut self,
        head: Head,
        (value, precision): (Timestamp, Precision),
        minute: &mut Minute,
    ) {
        let nanos = minute.enter(value.0);
        let room: &mut [u8; 48] = self.room();
        let at = head.open(room);
        let [date, time] = minute.text();
        room[at..at + 8].copy_from_slice(&date.to_le_bytes());
        room[at + 8..at + 16].copy_from_slice(&time.to_le_bytes());
        let at = at + Minute::LEN;
        if precision == Precision::Millis {
            let text = minute.millis(nanos) | u64::from(SOH) << 48;
            room[at..at + 8].copy_from_slice(&text.to_le_bytes());
            return self.advance(at + 7);
        }
        let (text, len) = seconds(nanos, precision);
        room[at..at + 16].copy_from_slice(&text.to_le_bytes());
        self.advance(at + len + 1);
    }
}
