//! The frames that a session wants to be stored and sent, in a buffer that the driver owns.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The treatment of a frame when the counterparty requests it: application messages are resent, and
/// a gap fill covers administrative messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Logon(A), Heartbeat(0), TestRequest(1), ResendRequest(2), Reject(3), SequenceReset(4),
    /// Logout(5).
    Admin,
    /// All other messages.
    Application,
}

/// An entry for the journal. The driver journals all entries in order before it writes their bytes
/// to the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A new outgoing frame.
    Frame {
        /// MsgSeqNum(34) of the frame.
        seq: u64,
        /// The treatment of the frame when the counterparty requests it.
        kind: Kind,
        /// Offsets of the frame in the outgoing stream; [`Outbox::frame`] returns its bytes.
        range: Range<u64>,
    },
    /// Both sequence numbers restart at 1; earlier messages can no longer be requested.
    Reset(ResetCause),
}

/// The reason why both sequence numbers restart at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// The counterparty's Logon(A) had ResetSeqNumFlag(141)=Y.
    Counterparty,
    /// This side requests the reset in its Logon(A), because the settings or an operator demand the
    /// reset.
    Logon,
    /// This side requests the reset while logged on.
    InSession,
    /// The settings require a reset after a disconnect of this kind.
    Disconnected,
    /// A window of the schedule has opened.
    Schedule,
}

impl fmt::Display for ResetCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counterparty => "the counterparty sent ResetSeqNumFlag(141)=Y",
            Self::Logon => "requested at the logon",
            Self::InSession => "requested while logged on",
            Self::Disconnected => "configured for the end of a connection",
            Self::Schedule => "a window of the schedule has opened",
        })
    }
}

/// The unwritten end of the outgoing stream of frames, with the entries to be journalled.
///
/// Offsets count the bytes of the stream since the outbox was created. An offset is never shifted
/// or reused, even if bytes are written, or dropped at the end of a connection.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The buffer; the bytes before index `head` are already written.
    pub(crate) bytes: Vec<u8>,
    head: usize,
    /// Offset in the stream of the first byte of the buffer.
    base: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Outbox {
    /// Creates an empty outbox with a capacity of `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let bytes = Vec::with_capacity(bytes);
        Self { bytes, entries: Vec::with_capacity(4), ..Self::default() }
    }

    /// Returns all unwritten frames, without gaps between them.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// Returns the number of unwritten bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// Returns true if all bytes are written.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset in the stream of the first unwritten byte.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.base + self.head as u64
    }

    /// Returns the offset in the stream after the last frame.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Returns the bytes of an unwritten frame, given its offsets in the stream.
    ///
    /// # Panics
    /// If the outbox does not hold the range.
    #[must_use]
    pub fn frame(&self, range: &Range<u64>) -> &[u8] {
        &self.bytes[(range.start - self.base) as usize..(range.end - self.base) as usize]
    }

    /// Returns the memory for the next frames, which the caller may prefetch.
    pub fn room(&mut self) -> &[MaybeUninit<u8>] {
        self.bytes.spare_capacity_mut()
    }

    /// Returns the entries for the journal, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Removes all entries, after the driver has journalled them.
    pub fn clear_entries(&mut self) {
        self.entries.clear();
    }

    /// Records that the next `n` bytes were written to the connection.
    ///
    /// # Panics
    /// If entries are not journalled yet, or `n` exceeds [`Outbox::len`].
    pub fn consume(&mut self, n: usize) {
        assert!(self.entries.is_empty(), "bytes go to the link after they are journalled");
        assert!(n <= self.len(), "the link takes what there is");
        self.head += n;
        // Most turns of a session write the whole buffer, and no bytes need to move.
        if self.head == self.bytes.len() {
            self.forget();
        } else if self.head > self.bytes.len() / 2 {
            // If more than half of the buffer is written, compaction moves at most as many bytes as
            // were written.
            self.compact();
        }
    }

    /// Releases unused memory, so that the capacity is about `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.compact();
        self.bytes.shrink_to(bytes);
        self.entries.shrink_to(64);
    }

    /// Returns the capacity of the buffer in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Drops all frames and entries after the connection has ended. Journalled messages can still
    /// be resent.
    pub fn clear(&mut self) {
        self.forget();
        self.entries.clear();
    }

    /// Adds an entry for the journal for a frame in the buffer.
    #[inline(always)]
    pub(crate) fn enter(&mut self, seq: u64, kind: Kind, range: Range<usize>) {
        let range = self.base + range.start as u64..self.base + range.end as u64;
        self.entries.push(Entry::Frame { seq, kind, range });
    }

    #[inline]
    fn forget(&mut self) {
        self.base = self.end();
        self.head = 0;
        self.bytes.clear();
    }

    /// Moves the unwritten bytes to the beginning of the buffer.
    #[cold]
    fn compact(&mut self) {
        self.base = self.written();
        self.bytes.drain(..std::mem::take(&mut self.head));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(frames: &[&[u8]]) -> Outbox {
        let mut out = Outbox::default();
        for (n, frame) in frames.iter().enumerate() {
            let begin = out.bytes.len();
            out.bytes.extend_from_slice(frame);
            out.enter(n as u64 + 1, Kind::Application, begin..out.bytes.len());
        }
        out
    }

    #[test]
    fn offsets_stay_while_bytes_are_written_in_pieces() {
        let all: Vec<u8> = (0..=255).collect();
        for step in 1..=all.len() {
            let mut out = outbox(&[&all]);
            out.clear_entries();
            while !out.is_empty() {
                let begin = out.written();
                out.consume(step.min(out.len()));
                assert_eq!(out.bytes(), &all[out.written() as usize..]);
                assert_eq!(out.end(), 256);
                let begin = begin.max(out.written());
                assert_eq!(out.frame(&(begin..256)), &all[begin as usize..]);
            }
            assert_eq!((out.written(), out.bytes.len()), (256, 0));
        }
    }

    #[test]
    fn what_is_forgotten_keeps_its_offsets() {
        let mut out = outbox(&[b"first", b"second"]);
        out.clear();
        assert_eq!((out.written(), out.end(), out.entries()), (11, 11, &[][..]));
        out.bytes.extend_from_slice(b"third");
        out.enter(3, Kind::Admin, 0..5);
        let [Entry::Frame { range, .. }] = out.entries() else { panic!("one frame") };
        assert_eq!((range.clone(), out.frame(range)), (11..16, &b"third"[..]));
    }

    #[test]
    #[should_panic(expected = "journalled")]
    fn nothing_is_written_before_it_is_journalled() {
        outbox(&[b"first"]).consume(1);
    }
}
