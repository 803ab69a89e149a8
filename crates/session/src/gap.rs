//! Messages above a gap: kept within bounds until their turn comes.
//!
//! Invariant: at most the configured count and bytes are kept; what does not fit is dropped and
//! asked for again, since its number is still missing when the gap below it is closed; a request
//! without an effect is repeated, at most once in [`ANSWER_WAIT_NS`].

use std::collections::BTreeMap;

/// How long a gap may stay as it is before it is asked for again: the ResendRequest(2) or a part of
/// its answer may have been garbled on the way, and nothing else would ever tell.
const ANSWER_WAIT_NS: u64 = 20_000_000_000;

/// A ResendRequest(2) that is open.
#[derive(Debug)]
struct Request {
    /// The last number known to be missing.
    to: u64,
    /// The expected number when it last moved, and since when it stands.
    next_num_in: u64,
    since_ns: u64,
}

/// The gap of one direction, and what waits above it.
#[derive(Debug)]
pub(crate) struct Gap {
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    messages_max: usize,
    bytes_max: usize,
    request: Option<Request>,
}

impl Gap {
    pub(crate) const fn new(messages_max: usize, bytes_max: usize) -> Self {
        Self { held: BTreeMap::new(), held_bytes: 0, messages_max, bytes_max, request: None }
    }

    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.request = None;
    }

    /// Notes at `now_ns` that all from `next_num_in` to `missing_to` is missing; answers whether it
    /// must be asked for.
    pub(crate) const fn open(&mut self, now_ns: u64, next_num_in: u64, missing_to: u64) -> bool {
        if let Some(request) = &mut self.request {
            if request.next_num_in != next_num_in {
                request.next_num_in = next_num_in;
                request.since_ns = now_ns;
            }
            if now_ns.saturating_sub(request.since_ns) < ANSWER_WAIT_NS {
                return false;
            }
        }
        self.request = Some(Request { to: missing_to, next_num_in, since_ns: now_ns });
        true
    }

    /// How many messages are kept, and their bytes.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.held.len(), self.held_bytes)
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

    /// The message with this number has been dealt with on arrival: it only counts when its turn
    /// comes. An empty one stands for it.
    pub(crate) fn settle(&mut self, seq: u64) {
        if self.held.len() < self.messages_max {
            self.held.entry(seq).or_default();
        }
    }

    /// The expected number is now `next_num_in`: closes the gap and forgets what is below.
    pub(crate) fn advance(&mut self, next_num_in: u64) {
        if self.request.as_ref().is_some_and(|request| next_num_in > request.to) {
            self.request = None;
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
        assert!(gap.open(0, 2, 4));
        assert!(!gap.open(0, 2, 6));
        gap.hold(5, b"five");
        gap.hold(6, b"too long for the rest");
        gap.hold(6, b"six");
        gap.hold(7, b"x");
        assert_eq!(gap.held.len(), 2);
        gap.advance(5);
        assert_eq!(gap.take(5).as_deref(), Some(&b"five"[..]));
        assert!(gap.open(0, 5, 6), "closed, so that a new one is asked for");
        gap.advance(7);
        assert_eq!((gap.held.len(), gap.held_bytes), (0, 0));
    }
    #[test]
    fn a_request_without_effect_is_repeated() {
        let mut gap = Gap::new(2, 10);
        assert!(gap.open(0, 2, 4));
        assert!(!gap.open(ANSWER_WAIT_NS - 1, 2, 6));
        assert!(gap.open(ANSWER_WAIT_NS, 2, 6), "nothing has come");
        assert!(!gap.open(ANSWER_WAIT_NS + 1, 2, 6));
        assert!(!gap.open(2 * ANSWER_WAIT_NS, 3, 6), "something has come");
        assert!(!gap.open(3 * ANSWER_WAIT_NS - 1, 3, 6));
        assert!(gap.open(3 * ANSWER_WAIT_NS, 3, 6), "but not all");
    }
}
