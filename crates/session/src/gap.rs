//! Messages above a gap: kept within bounds until their turn comes.
//!
//! Invariant: at most the configured count and bytes are kept; what does not fit is dropped and
//! asked for again, since its number is still missing when the gap below it is closed.

use std::collections::BTreeMap;

/// The gap of one direction, and what waits above it.
#[derive(Debug)]
pub(crate) struct Gap {
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    messages_max: usize,
    bytes_max: usize,
    /// The last missing number of the gap that a ResendRequest(2) is open for.
    requested_to: Option<u64>,
}

impl Gap {
    pub(crate) const fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self { held: BTreeMap::new(), held_bytes: 0, messages_max, bytes_max, requested_to: None }
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.requested_to = None;
    }

    /// Notes that all up to `missing_to` is missing; answers whether it must be asked for.
    pub(crate) const fn open(&mut self, missing_to: u64) -> bool {
        let asks = self.requested_to.is_none();
        if asks {
            self.requested_to = Some(missing_to);
        }
        asks
    }

    /// Keeps a message for later; drops it if there is no room.
    pub(crate) fn hold(&mut self, seq: u64, bytes: &[u8]) {
        let room =
            self.held.len() < self.messages_max && self.held_bytes + bytes.len() <= self.bytes_max;
        if room && !self.held.contains_key(&seq) {
            self.held_bytes += bytes.len();
            self.held.insert(seq, bytes.to_vec());
        }
    }

    /// The expected number is now `next_num_in`: closes the gap and forgets what is below.
    pub(crate) fn advance(&mut self, next_num_in: u64) {
        if self.requested_to.is_some_and(|to| next_num_in > to) {
            self.requested_to = None;
        }
        while let Some(entry) = self.held.first_entry().filter(|e| *e.key() < next_num_in) {
            self.held_bytes -= entry.remove().len();
        }
    }

    /// The kept message with the expected number.
    pub(crate) fn take(&mut self, next_num_in: u64) -> Option<Vec<u8>> {
        // Mostly nothing is held: no search.
        if self.held.is_empty() {
            return None;
        }
        let bytes = self.held.remove(&next_num_in)?;
        self.held_bytes -= bytes.len();
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_and_the_gap_closes() {
        let mut gap = Gap::new(2, 10);
        assert!(gap.open(4));
        assert!(!gap.open(6));
        gap.hold(5, b"five");
        gap.hold(6, b"too long for the rest");
        gap.hold(6, b"six");
        gap.hold(7, b"x");
        assert_eq!(gap.held.len(), 2);
        gap.advance(5);
        assert_eq!(gap.take(5).as_deref(), Some(&b"five"[..]));
        assert!(gap.open(6), "closed, so that a new one is asked for");
        gap.advance(7);
        assert_eq!((gap.held.len(), gap.held_bytes), (0, 0));
    }
}
