//! What a session wants to be stored and sent: one buffer of frames, owned by the driver.

use std::fmt;
use std::hint::cold_path;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Whether a frame is resent (application) or covered by a gap fill (administrative).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Logon(A), Heartbeat(0), TestRequest(1), ResendRequest(2), Reject(3), SequenceReset(4),
    /// Logout(5).
    Admin,
    /// Everything else.
    Application,
}

/// One thing to be journalled, in this order, before the bytes go to the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A new frame, at `range` of [`Outbox::bytes`].
    Frame {
        /// Its MsgSeqNum(34).
        seq: u64,
        /// Whether it is resent when asked for.
        kind: Kind,
        /// Where it stands.
        range: Range<usize>,
    },
    /// Both numbers start again at 1; what was stored before is no longer asked for.
    Reset(ResetCause),
}

/// Why both numbers start again at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetCause {
    /// The counterparty's Logon(A) had ResetSeqNumFlag(141)=Y.
    Counterparty,
    /// This end asks for it at the logon: the settings or an operator want it.
    Logon,
    /// This end asks for it while logged on.
    InSession,
    /// The settings want it after the connection has ended as it has.
    Disconnected,
    /// A window of the schedule has opened.
    Schedule,
}

impl fmt::Display for ResetCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counterparty => "the counterparty sent ResetSeqNumFlag(141)=Y",
            Self::Logon => "asked for at the logon",
            Self::InSession => "asked for while logged on",
            Self::Disconnected => "set for the end of a connection",
            Self::Schedule => "a window of the schedule has opened",
        })
    }
}

/// Frames to be sent, and what of them is to be journalled.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
}

impl Outbox {
    /// An empty outbox with room for `bytes`.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), entries: Vec::with_capacity(4) }
    }

    /// All frames that have not been taken away yet, back to back.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the next frames are written, to ask the processor for it ahead.
    pub fn room(&mut self) -> &[MaybeUninit<u8>] {
        self.bytes.spare_capacity_mut()
    }

    /// What is to be journalled, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries are journalled.
    pub fn clear_entries(&mut self) {
        self.entries.clear();
    }

    /// The first `n` bytes are on the link; only after their entries are journalled.
    pub fn consume(&mut self, n: usize) {
        assert!(self.entries.is_empty(), "bytes go to the link after they are journalled");
        // The usual turn empties the buffer: no bytes move.
        if n == self.bytes.len() {
            self.bytes.clear();
        } else {
            cold_path();
            self.bytes.drain(..n);
        }
    }

    /// Gives back memory that is not needed any more, down to `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.bytes.shrink_to(bytes);
        self.entries.shrink_to(64);
    }

    /// Memory for frames, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Forgets everything: the link is gone, and what was journalled can be asked for again.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
