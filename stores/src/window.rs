//! Messages sent that are read ahead: a resend asks for one after the other, and each alone would
//! be a round trip.

use crate::batch::Kept;

/// How many are read at once.
pub(crate) const AHEAD: usize = 256;

/// The known messages of the numbers `begin..end`.
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

    /// Takes what a reading of up to [`AHEAD`] messages from `begin` has found below `next_out`.
    pub(crate) fn fill(&mut self, begin: u64, next_out: u64, messages: Vec<(u64, Kept)>) {
        let last = messages.last().filter(|_| messages.len() >= AHEAD);
        // Messages written later have a number of `next_out` or above.
        self.end = last.map_or(next_out, |(seq, _)| seq + 1);
        (self.begin, self.messages) = (begin, messages);
    }

    pub(crate) fn find(&self, seq: u64) -> Option<&Kept> {
        let at = self.messages.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        Some(&self.messages[at].1)
    }
}
