//! The steps that a session takes back when it goes on from its store: [`RolledBack`].

use std::fmt;

/// The steps that the application has seen and done, and the store has not kept. The session goes
/// on from before them. Ranges have their first number and the one behind their last; they may be
/// empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RolledBack {
    /// MsgSeqNum(34) of messages that `Application::on_message` may have had, and that come
    /// again.
    pub received: std::ops::Range<u64>,
    /// MsgSeqNum(34) of messages that were sent in answer or besides: they never left, and their
    /// numbers are used for others.
    pub sent: std::ops::Range<u64>,
}

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |range: &std::ops::Range<u64>| range.end.saturating_sub(range.start);
        write!(
            f,
            "{} messages received come again, from MsgSeqNum(34) {} on; {} sent never left, from \
             {} on",
            count(&self.received),
            self.received.start,
            count(&self.sent),
            self.sent.start
        )
    }
}
