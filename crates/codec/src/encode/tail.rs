//! The writable end of a buffer in which a message is being encoded.
//!
//! Invariants: until the tail is dropped, the buffer extends at least [`MARGIN`] bytes beyond the
//! written bytes, so that each value is a store of constant size. Bytes after `end` are undefined,
//! and dropping the tail truncates them.

use alloc::vec::Vec;
use core::ops::Range;

/// Number of bytes reserved when a message begins: most messages need no more.
pub(super) const ROOM: usize = 512;
/// Minimum number of free bytes after `end`.
///
/// The margin is checked after each write, where the compiler has no live registers to save.
pub(super) const MARGIN: usize = 64;

pub(crate) struct Tail<'b> {
    buffer: &'b mut Vec<u8>,
    end: usize,
}

impl<'b> Tail<'b> {
    /// Begins writing after the existing bytes of `buffer`.
    #[inline(always)]
    pub(crate) fn open(buffer: &'b mut Vec<u8>) -> Self {
        Self::with_room(buffer, ROOM)
    }

    /// Begins writing after the existing bytes of `buffer`, with room for `room` bytes, the margin
    /// included.
    #[inline(always)]
    pub(super) fn with_room(buffer: &'b mut Vec<u8>, room: usize) -> Self {
        let end = buffer.len();
        buffer.resize(end.saturating_add(room), 0);
        Self { buffer, end }
    }

    /// Returns the offset in the buffer at which the next byte is written.
    #[inline(always)]
    pub(crate) const fn end(&self) -> usize {
        self.end
    }

    /// Removes the bytes after `end`.
    #[inline]
    pub(crate) fn cut(&mut self, end: usize) {
        self.end = self.end.min(end);
    }

    /// Returns the bytes written from offset `begin` on.
    #[inline(always)]
    pub(crate) fn written(&self, begin: usize) -> &[u8] {
        &self.buffer[begin..self.end]
    }

    /// Returns all written bytes in the buffer, including the bytes that preceded the tail.
    pub(crate) fn all_written(&mut self) -> &mut [u8] {
        &mut self.buffer[..self.end]
    }

    /// Overwrites `N` written bytes at offset `at`.
    #[inline(always)]
    pub(crate) fn patch<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.buffer[at..][..N].copy_from_slice(&bytes);
    }

    /// Replaces the written bytes in `place` by `bytes`, which may be longer by at most [`MARGIN`]
    /// bytes.
    // This method is inlined so that no call takes the address of the tail; moving a tail then
    // copies no memory.
    #[inline(always)]
    pub(crate) fn replace(&mut self, place: Range<usize>, bytes: &[u8]) {
        self.end = replace(self.buffer, self.end, (place, bytes));
        self.advance(0);
    }

    /// Returns the next `N` unwritten bytes of the room made by [`Tail::with_room`].
    #[inline(always)]
    pub(super) fn fresh<const N: usize>(&mut self) -> &mut [u8; N] {
        self.buffer[self.end..].first_chunk_mut().expect("nothing is written")
    }

    /// Returns the `N` bytes after the written bytes, as the target of constant-size stores.
    ///
    /// [`Tail::advance`] then sets how many of these bytes are written.
    #[inline(always)]
    pub(crate) fn room<const N: usize>(&mut self) -> &mut [u8; N] {
        const { assert!(N <= MARGIN) };
        self.buffer[self.end..].first_chunk_mut().expect("there is a margin")
    }

    /// Marks the next `len` bytes as written.
    #[inline(always)]
    pub(crate) fn advance(&mut self, len: usize) {
        self.end = self.end.wrapping_add(len);
        if self.buffer.len().wrapping_sub(self.end) < MARGIN {
            grow(self.buffer, self.end);
        }
    }

    /// Appends the first `len` bytes of `block` with a single store of the whole block.
    #[inline(always)]
    pub(crate) fn store<const N: usize>(&mut self, block: &[u8; N], len: usize) {
        *self.room() = *block;
        self.advance(len);
    }

    /// Appends any number of bytes.
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

/// Replaces the bytes in `place`, which precedes `end`, by `bytes`; returns the new end.
#[inline(never)]
fn replace(buffer: &mut [u8], end: usize, (place, bytes): (Range<usize>, &[u8])) -> usize {
    let behind = place.start + bytes.len();
    buffer.copy_within(place.end..end, behind);
    buffer[place.start..behind].copy_from_slice(bytes);
    end - place.end + behind
}

/// Enlarges the buffer so that the margin follows `end`.
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
