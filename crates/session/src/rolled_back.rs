//! The sequence numbers that a session rolls back when it continues from its store: [`RolledBack`].

use std::fmt;

/// The messages that the application has received or sent, but that the store has not kept. The
/// session continues from the numbers before them. Each range is half-open and may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolledBack {
    /// MsgSeqNum(34) of messages that `Application::on_message` may have received already, and will
    /// receive again.
    pub received: std::ops::Range<u64>,
    /// MsgSeqNum(34) of messages that the application sent, but that were never written to the
    /// connection. Other messages will use these numbers.
    pub sent: std::ops::Range<u64>,
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |range: &std::ops::Range<u64>| range.end.saturating_sub(range.start);
        write!(
            f,
            "{} received messages will be delivered again, from MsgSeqNum(34) {}; {} sent \
             messages never left, from {}",
            count(&self.received),
            self.received.start,
            count(&self.sent),
            self.sent.start
        )
    }
}
