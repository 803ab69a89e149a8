//! The end of a buffer, where a message is being written.
//!
//! Invariants: until the tail is dropped, the buffer is longer by [`MARGIN`] than what is written,
//! so that each value is a store of constant size. Bytes behind `end` mean nothing, and are cut off
//! when the tail is dropped.

use alloc::vec::Vec;
use core::ops::Range;

/// Room that is made at once: most messages need no more.
pub(super) const ROOM: usize = 512;
/// Room that there always is. It is seen to behind each write, where the compiler has nothing left
/// to keep in registers that it must save.
pub(super) const MARGIN: usize = 64;

pub(crate) struct Tail<'b> {
    buffer: &'b mut Vec<u8>,
    end: usize,
}

impl<'b> Tail<'b> {
    /// Begins behind all that is in `buffer`.
    #[inline(always)]
    pub(crate) fn open(buffer: &'b mut Vec<u8>) -> Self {
        Self::with_room(buffer, ROOM)
    }

    /// The same with room for `room` bytes, the margin included.
    #[inline(always)]
    pub(super) fn with_room(buffer: &'b mut Vec<u8>, room: usize) -> Self {
        let end = buffer.len();
        buffer.resize(end.saturating_add(room), 0);
        Self { buffer, end }
    }

    /// Where the next byte goes.
    #[inline(always)]
    pub(crate) const fn end(&self) -> usize {
        self.end
    }

    /// Takes back what was written behind `end`.
    #[inline]
    pub(crate) fn cut(&mut self, end: usize) {
        self.end = self.end.min(end);
    }

    /// The bytes written behind `begin`.
    #[inline(always)]
    pub(crate) fn written(&self, begin: usize) -> &[u8] {
        &self.buffer[begin..self.end]
    }

    /// Everything in the buffer, also what was there before.
    pub(crate) fn all_written(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.end]
    }

    /// Writes over `N` bytes that are written already.
    #[inline(always)]
    pub(crate) fn patch<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.buffer[at..][..N].copy_from_slice(&bytes);
    }

    /// Puts `bytes` in the place of others that are written already. At most the margin is added.
    // Nothing takes the address of a tail: where one is moved, no memory is copied.
    #[inline(always)]
    pub(crate) fn replace(&mut self, place: Range<usize>, bytes: &[u8]) {
        self.end = replace(self.buffer, self.end, (place, bytes));
        self.advance(0);
    }

    /// The next `N` bytes of what [`Tail::with_room`] has made room for; nothing is written yet.
    #[inline(always)]
    pub(super) fn fresh<const N: usize>(&mut self) -> &mut [u8; N] {
        self.buffer[self.end..].first_chunk_mut().expect("nothing is written")
    }

    /// The next `N` bytes, to be written by stores of constant size. How many of them count is
    /// said by [`Tail::advance`].
    #[inline(always)]
    pub(crate) fn room<const N: usize>(&mut self) -> &mut [u8; N] {
        const { assert!(N <= MARGIN) };
        self.buffer[self.end..].first_chunk_mut().expect("there is a margin")
    }

    /// The next `len` bytes are written.
    #[inline(always)]
    pub(crate) fn advance(&mut self, len: usize) {
        self.end = self.end.wrapping_add(len);
        if self.buffer.len().wrapping_sub(self.end) < MARGIN {
            grow(self.buffer, self.end);
        }
    }

    /// Writes the first `len` bytes of `block`; the whole of it is one store.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, block: &[u8; N], len: usize) {
        *self.room() = *block;
        self.advance(len);
    }

    /// Writes bytes of any number.
    #[inline(always)]
    pub(crate) fn slice(&mut self, bytes: &[u8]) {
        if self.buffer.len().wrapping_sub(self.end) < bytes.len() {
            grow(self.buffer, self.end.saturating_add(bytes.len()));
        }
        self.buffer[self.end..][..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }
}

impl Drop for Tail<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.buffer.truncate(self.end);
    }
}

/// Puts `bytes` in the place of others before `end`; returns where the end is then.
#[inline(never)]
fn replace(buffer: &mut [u8], end: usize, (place, bytes): (Range<usize>, &[u8])) -> usize {
    let behind = place.start + bytes.len();
    buffer.copy_within(place.end..end, behind);
    buffer[place.start..behind].copy_from_slice(bytes);
    end - place.end + behind
}

/// Makes room behind `end`.
#[cold]
#[inline(never)]
fn grow(buffer: &mut Vec<u8>, end: usize) {
    buffer.resize(end.saturating_add(ROOM), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_and_slices_beyond_the_room() {
        let mut out = b"before".to_vec();
        let mut tail = Tail::open(&mut out);
        let mut expected = b"before".to_vec();
        for n in 0..200_u8 {
            let len = usize::from(n) % 8;
            tail.store(&[n; 8], len);
            tail.slice(&[n; 100][..usize::from(n) % 100]);
            expected.extend(core::iter::repeat_n(n, len + usize::from(n) % 100));
        }
        tail.patch(1, *b"EF");
        tail.replace(1..3, b"e");
        drop(tail);
        expected.splice(1..3, *b"e");
        assert_eq!(out, expected);
    }

    #[test]
    fn what_is_cut_is_gone() {
        let mut out = b"before".to_vec();
        let mut tail = Tail::open(&mut out);
        tail.slice(b"behind");
        tail.cut(6);
        drop(tail);
        assert_eq!(out, b"before");
    }
}
