//! The receive buffer of a link: bytes that were read but not processed yet.

use std::hint::cold_path;
use std::io;
use std::ops::Range;

use transfix_codec::frame::TooLong;
use transfix_session::core::bulk::is_bulky;
use transfix_transport::Stream;

/// Initial size in bytes, about ten messages: enough for a counterparty that sends little at a
/// time.
const SMALL: usize = 4 << 10;
/// Size in bytes to which full reads grow the buffer; a trim keeps this size.
const USUAL: usize = 64 << 10;

/// A growing window over one buffer, which is allocated at the first read. Consuming moves the
/// window's start, so that bytes are seldom moved.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// True if the last read has filled the buffer, so that the socket may have more bytes.
    is_short: bool,
    /// Bytes received since the last [`ReceiveBuffer::take_received`].
    received: usize,
    /// A message beyond the length limit, to which the next bytes belong.
    pub(super) too_long: Option<Box<TooLong>>,
}

impl ReceiveBuffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Returns the range of the first `n` bytes in the buffer, valid until the next read.
    pub(crate) const fn range(&self, n: usize) -> Range<usize> {
        self.begin..self.begin + n
    }

    /// Returns the whole buffer, to which [`ReceiveBuffer::range`] refers.
    pub(crate) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    pub(crate) const fn consume(&mut self, n: usize) {
        self.begin += n;
        assert!(self.begin <= self.end, "only bytes that were read are consumed");
        if self.begin == self.end {
            self.begin = 0;
            self.end = 0;
        }
    }

    /// Frees the memory of a past long message.
    pub(crate) fn trim(&mut self) {
        if self.is_bulky() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            self.buffer.truncate(USUAL.max(2 * self.end));
            self.buffer.shrink_to_fit();
        }
    }

    /// Frees all memory if the buffer is empty.
    pub(crate) fn rest(&mut self) {
        if self.begin == self.end {
            self.buffer = Vec::new();
        }
    }

    /// Returns true if the buffer is far larger than its content.
    pub(crate) const fn is_bulky(&self) -> bool {
        is_bulky(self.buffer.len(), self.end - self.begin)
    }

    pub(crate) fn clear(&mut self) {
        self.begin = 0;
        self.end = 0;
        self.too_long = None;
    }

    /// Adds bytes that were read from the stream before it was attached.
    pub(crate) fn preload(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.buffer[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
        self.received += bytes.len();
    }

    /// Returns the number of bytes received since the last call.
    pub(crate) const fn take_received(&mut self) -> usize {
        std::mem::replace(&mut self.received, 0)
    }

    /// Reads once from the stream. Returns the number of bytes read, and true if more may be
    /// available.
    pub(crate) fn read(&mut self, stream: &mut dyn Stream) -> io::Result<(usize, bool)> {
        if std::mem::take(&mut self.is_short) && self.buffer.len() < USUAL {
            cold_path();
            self.buffer.resize(USUAL.min(4 * self.buffer.len()), 0);
        }
        self.reserve(self.buffer.len().max(SMALL) / 4);
        let n = stream.read(&mut self.buffer[self.end..])?;
        self.end += n;
        self.received += n;
        self.is_short = self.end == self.buffer.len();
        Ok((n, self.is_short || stream.has_more()))
    }

    /// Makes room for `n` bytes after the window. Moves an incomplete message to the front of the
    /// buffer, and enlarges the buffer for a longer message, up to the limit of framing.
    #[inline(always)]
    fn reserve(&mut self, n: usize) {
        if self.buffer.len() - self.end >= n {
            return;
        }
        cold_path();
        self.buffer.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        if self.buffer.len() - self.end < n {
            self.buffer.resize(SMALL.max((self.end + n) * 2), 0);
        }
    }
}
