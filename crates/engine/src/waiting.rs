//! Bytes that wait in memory, in each session and in all of them together.
//!
//! Invariant: only connected sessions count, since only they can be closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// All sessions of an engine together.
#[derive(Debug, Default)]
pub(crate) struct WaitingTotal {
    bytes: AtomicUsize,
    /// 0 for no limit.
    max: usize,
}

impl WaitingTotal {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max }
    }

    /// Whether all sessions hold more than they may, were it `more` than is known.
    fn is_over(&self, more: usize) -> bool {
        self.max > 0 && self.bytes.load(Ordering::Relaxed).saturating_add(more) > self.max
    }
}

/// What waits in one session, as it was known after its last turn.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: AtomicUsize,
    total: Arc<WaitingTotal>,
    /// Somebody found this session to be the one that must go.
    must_close: AtomicBool,
}

impl Waiting {
    pub(crate) fn of(total: &Arc<WaitingTotal>) -> Self {
        Self { total: Arc::clone(total), ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many bytes wait in this session. Answers whether all sessions hold more than they may.
    pub(crate) fn note(&self, bytes: usize) -> bool {
        // In the steady state nothing waits behind a turn, and no counter is written.
        if bytes != self.bytes() {
            let before = self.bytes.swap(bytes, Ordering::Relaxed);
            self.total.bytes.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        }
        self.total.is_over(0)
    }

    /// Whether so many bytes in the queue, which the last turn may not have seen, are too many.
    pub(crate) fn may_be_over(&self, queued: usize) -> bool {
        self.total.is_over(queued)
    }

    pub(crate) fn close(&self) {
        self.must_close.store(true, Ordering::Relaxed);
    }

    /// Whether the session must go; told once.
    pub(crate) fn must_close(&self) -> bool {
        self.must_close.load(Ordering::Relaxed) && self.must_close.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_all_sessions_hold() {
        let total = Arc::new(WaitingTotal::new(100));
        let [a, b] = [Waiting::of(&total), Waiting::of(&total)];
        assert!(!a.note(60) && !b.note(40) && a.may_be_over(1));
        assert!(b.note(41) && a.note(60));
        assert!(!a.note(0), "closed");
        assert_eq!((a.bytes(), b.bytes()), (0, 41));
        let free = Waiting::default();
        assert!(!free.note(usize::MAX), "without a limit");
    }
}
