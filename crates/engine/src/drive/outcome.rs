//! The outcome of each session when the engine stops.

use std::fmt;

use transfix_session::{Disconnect, SessionId};

/// The state in which a session ended when the engine stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Not connected when the stop began.
    NotConnected,
    /// The connection ended during the stop. [`Disconnect::LoggedOut`] means an orderly logout.
    Ended(Disconnect),
    /// The counterparty did not answer our Logout(5) before the deadline.
    DeadlinePassed,
    /// The store failed or the application panicked, now or earlier. The log has the details.
    Failed,
}

impl Outcome {
    /// Returns the number of this outcome, for logs and other languages. The number never changes;
    /// the page "Codes" of the book lists all numbers.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NotConnected => 1201,
            Self::Ended(reason) => reason.as_u16(),
            Self::DeadlinePassed => 1202,
            Self::Failed => 1203,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected => f.write_str("was not connected"),
            Self::Ended(reason) => reason.fmt(f),
            Self::DeadlinePassed => f.write_str("the counterparty did not log out in time"),
            Self::Failed => f.write_str("has failed; see the log"),
        }
    }
}

/// The outcome of one session when the engine stops, with its next sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionOutcome {
    /// The session.
    pub id: SessionId,
    /// The outcome.
    pub outcome: Outcome,
    /// The next number expected from the counterparty.
    pub next_num_in: u64,
    /// The MsgSeqNum(34) of our next message.
    pub next_num_out: u64,
}
