//! A read-ahead cache of outbound messages. A resend reads one message after the other, and without
//! the cache each read would be a round trip to the server.

use crate::batch::Kept;

/// Maximum number of messages in one read.
pub(crate) const AHEAD: usize = 256;

/// The messages with the numbers `begin..end`, as read from the server.
#[derive(Debug, Default)]
pub(crate) struct Window {
    begin: u64,
    end: u64,
    /// Ascending.
    messages: Vec<(u64, Kept)>,
}

impl Window {
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(crate) const fn covers(&self, seq: u64) -> bool {
        self.begin <= seq && seq < self.end
    }

    /// Fills the cache with the result of reading up to [`AHEAD`] messages from number `begin` on,
    /// below `next_out`.
    pub(crate) fn fill(&mut self, begin: u64, next_out: u64, messages: Vec<(u64, Kept)>) {
        let last = messages.last().filter(|_| messages.len() >= AHEAD);
        // Messages that were committed after the read have numbers from `next_out` on.
        self.end = last.map_or(next_out, |(seq, _)| seq + 1);
        (self.begin, self.messages) = (begin, messages);
    }

    pub(crate) fn find(&self, seq: u64) -> Option<&Kept> {
        let at = self.messages.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(&self.messages[at].1)
    }
}
