//! The data types of the store: the records to put, the messages found, and the next sequence
//! numbers.

/// The layer of a message. A resend repeats application messages, and covers messages of the
/// session layer by gap fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A message of the session layer, such as Heartbeat(0).
    Admin,
    /// Any other message.
    Application,
}

/// The next sequence numbers of a session.
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
    /// Returns the numbers after a reset at `created_ns`: both are 1.
    #[must_use]
    pub const fn fresh(created_ns: u64) -> Self {
        Self { next_in: 1, next_out: 1, created_ns }
    }
}

/// The text of the [`Record::Note`] that an engine writes at each logon; its time is the time of
/// the last logon.
pub const LOGGED_ON: &str = "logged on";

/// A record that is put into a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A sent message; `next_out` becomes `seq + 1`.
    Outbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// The layer of the message.
        kind: Kind,
        /// The whole message, as sent.
        bytes: &'a [u8],
    },
    /// A received message; `next_in` does not change.
    Inbound {
        /// MsgSeqNum(34).
        seq: u64,
        /// The layer of the message.
        kind: Kind,
        /// The whole message, as received.
        bytes: &'a [u8],
    },
    /// Sets `next_in`.
    NextIn(u64),
    /// Sets `next_out`; outbound messages from that number on are no longer found.
    NextOut(u64),
    /// Resets both numbers to 1 and `created_ns` to the current time; earlier messages are no
    /// longer found.
    Reset,
    /// An event of the session, as text; changes no state.
    Note(&'a str),
    /// A message that waits to be sent and has no MsgSeqNum(34) yet. It waits until a
    /// [`Record::Unqueued`] covers its ticket, even if the numbers are reset.
    Queued {
        /// The ticket of the message in the queue, higher than the tickets of all waiting messages.
        ticket: u64,
        /// The bytes of the message, without the fields that are set when it is sent.
        bytes: &'a [u8],
    },
    /// Removes the queued messages up to and including this ticket from the queue. They were sent
    /// in the same batch, or discarded.
    Unqueued(u64),
}

impl Record<'_> {
    /// Panics if a sequence number or ticket is one that no session uses, or that has no successor.
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

/// A message as found in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// MsgSeqNum(34), or the ticket of a queued message.
    pub seq: u64,
    /// The layer of the message.
    pub kind: Kind,
    /// The time at which the message was put, in UTC nanoseconds since 1970.
    pub time_ns: u64,
    /// The whole message.
    pub bytes: &'a [u8],
}
