//! The words of the store: what is put in, what is found, the next numbers.

/// Which layer a message belongs to; a resend replays application messages and fills over the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message of the session layer, such as Heartbeat(0).
    Admin,
    /// Any other message.
    Application,
}

/// The numbers a session goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// The MsgSeqNum(34) expected next from the counterparty.
    pub next_in: u64,
    /// The MsgSeqNum(34) of the next message sent.
    pub next_out: u64,
    /// When the store was first opened or last reset, in UTC nanoseconds since 1970.
    pub created_ns: u64,
}

impl Numbers {
    /// Both numbers 1, as after a reset at `created_ns`.
    #[must_use]
    pub const fn fresh(created_ns: u64) -> Self {
        Self { next_in: 1, next_out: 1, created_ns }
    }
}

/// The note that an engine leaves at each logon: its time is that of the last logon.
pub const LOGGED_ON: &str = "logged on";

/// One thing to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message sent; `next_out` becomes `seq + 1`.
    Outbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// Its layer.
        kind: Kind,
        /// The whole message as sent.
        bytes: &'a [u8],
    },
    /// A message received; does not move `next_in`.
    Inbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// Its layer.
        kind: Kind,
        /// The whole message as received.
        bytes: &'a [u8],
    },
    /// Sets `next_in`.
    NextIn(u64),
    /// Sets `next_out`, and hides outbound messages from that number on.
    NextOut(u64),
    /// Both numbers become 1, `created_ns` becomes now; earlier messages are no longer found.
    Reset,
    /// An event of the session, in words; changes nothing.
    Note(&'a str),
    /// A message that waits to be sent and has no MsgSeqNum(34) yet. It waits until it is
    /// [`Record::Unqueued`], whatever becomes of the numbers.
    Queued {
        /// Its place in the queue, above that of all that wait.
        ticket: u64,
        /// The message as far as it is known.
        bytes: &'a [u8],
    },
    /// Messages that wait under this ticket and lower ones wait no more: they are sent in the same
    /// batch, or given up.
    Unqueued(u64),
}

impl Record<'_> {
    /// Stops on numbers which no session uses and no store can follow.
    pub(crate) fn assert_valid(&self) {
        let seq = match *self {
            Self::Outbound { seq, .. } | Self::Inbound { seq, .. } => seq,
            Self::NextIn(seq) | Self::NextOut(seq) => seq,
            Self::Queued { ticket, .. } | Self::Unqueued(ticket) => ticket,
            Self::Reset | Self::Note(_) => return,
        };
        assert!(seq > 0 && seq < u64::MAX, "MsgSeqNum(34) or ticket out of range");
    }
}

/// A message as it was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// MsgSeqNum(34); its ticket, if it waits to be sent.
    pub seq: u64,
    /// Its layer.
    pub kind: Kind,
    /// When it was put, in UTC nanoseconds since 1970.
    pub time_ns: u64,
    /// The whole message.
    pub bytes: &'a [u8],
}
