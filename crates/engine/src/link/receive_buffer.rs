//! The receive buffer of one link: bytes read and not yet taken apart.

use std::hint::cold_path;
use std::io;
use std::ops::Range;

use transfix_codec::frame::TooLong;
use transfix_session::core::bulk::is_bulky;
use transfix_transport::Stream;

/// The size of the buffer of a counterparty that sends little at a time: some ten messages.
const SMALL: usize = 4 << 10;
/// The size that it grows to as reads fill it, and which it keeps.
const USUAL: usize = 64 << 10;

/// A growing window over one buffer; the front is given back without moving bytes where possible.
/// There is no buffer before the first read.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// The last read filled the buffer: more came at once than it has room for.
    is_short: bool,
    /// Bytes that came in since somebody asked for their number.
    received: usize,
    /// A message longer than the limit; the bytes continue it.
    pub(super) too_long: Option<Box<TooLong>>,
}

impl ReceiveBuffer {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.begin..self.end]
    }

    /// Where the first `n` bytes stand; they stay there until the next read.
    pub(crate) const fn range(&self, n: usize) -> Range<usize> {
        self.begin..self.begin + n
    }

    /// The whole buffer, which ranges of the window are counted in.
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

    /// Gives back the memory of a long message that is over.
    pub(crate) fn trim(&mut self) {
        if self.is_bulky() {
            self.buffer.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            self.buffer.truncate(USUAL.max(2 * self.end));
            self.buffer.shrink_to_fit();
        }
    }

    /// Gives back all memory if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.begin == self.end {
            self.buffer = Vec::new();
        }
    }

    /// Returns true if it has far more memory than it uses.
    pub(crate) const fn is_bulky(&self) -> bool {
        is_bulky(self.buffer.len(), self.end - self.begin)
    }

    pub(crate) fn clear(&mut self) {
        self.begin = 0;
        self.end = 0;
        self.too_long = None;
    }

    /// Takes over bytes that another owner of the stream has read already.
    pub(crate) fn preload(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.buffer[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
        self.received += bytes.len();
    }

    /// How many bytes came in since the last call.
    pub(crate) const fn take_received(&mut self) -> usize {
        std::mem::replace(&mut self.received, 0)
    }

    /// Reads once. Returns the bytes read, and whether there may be more at once.
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

    /// Makes room for `n` bytes behind the window. A partial message moves to the front. A message
    /// longer than the buffer makes it grow, within the limit that framing enforces.
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
