//! The types of the store: records to put, messages found, the next numbers.

/// The layer of a message. A resend repeats application messages and gap fills the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message of the session layer, such as Heartbeat(0).
    Admin,
    /// Any other message.
    Application,
}

/// The next numbers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbers {
    /// The MsgSeqNum(34) expected next from the counterparty.
    pub next_in: u64,
    /// The MsgSeqNum(34) of the next message sent.
    pub next_out: u64,
    /// The time when the store was first opened or last reset, in UTC nanoseconds since 1970.
    pub created_ns: u64,
}

impl Numbers {
    /// Returns both numbers 1, as after a reset at `created_ns`.
    #[must_use]
    pub const fn fresh(created_ns: u64) -> Self {
        Self { next_in: 1, next_out: 1, created_ns }
    }
}

/// The note that an engine writes at each logon. Its time is the time of the last logon.
pub const LOGGED_ON: &str = "logged on";

/// One record to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A message sent; `next_out` becomes `seq + 1`.
    Outbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// The message's layer.
        kind: Kind,
        /// The whole message as sent.
        bytes: &'a [u8],
    },
    /// A message received; does not move `next_in`.
    Inbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// The message's layer.
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
    /// A message that waits to be sent and has no MsgSeqNum(34) yet. The message waits until
    /// [`Record::Unqueued`], even if the numbers are reset.
    Queued {
        /// The message's ticket in the queue, higher than all waiting tickets.
        ticket: u64,
        /// The message's bytes, without the fields that are set when it is sent.
        bytes: &'a [u8],
    },
    /// Queued messages with this ticket or a lower one no longer wait. These messages are sent in
    /// the same batch, or discarded.
    Unqueued(u64),
}

impl Record<'_> {
    /// Panics on numbers that no session uses and no store can follow.
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

/// A message found in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// MsgSeqNum(34), or the ticket of a queued message.
    pub seq: u64,
    /// The message's layer.
    pub kind: Kind,
    /// The time of the put, in UTC nanoseconds since 1970.
    pub time_ns: u64,
    /// The whole message.
    pub bytes: &'a [u8],
}
