//! Bytes that wait in memory, per session and in total.
//!
//! Invariant: only connected sessions count, because closing a connection is the way to free
//! memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The waiting bytes of all sessions of an engine.
#[derive(Debug, Default)]
pub(crate) struct WaitingTotal {
    bytes: AtomicUsize,
    /// The limit in bytes; 0 for no limit.
    max: usize,
}

impl WaitingTotal {
    pub(crate) fn new(max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), max }
    }

    /// Returns true if all sessions together, with `more` bytes not counted yet, exceed the limit.
    fn is_over(&self, more: usize) -> bool {
        self.max > 0 && self.bytes.load(Ordering::Relaxed).saturating_add(more) > self.max
    }
}

/// The bit, in [`WaitingBytes`], of a session that must be closed to free memory.
const MUST_CLOSE: usize = 1 << (usize::BITS - 1);

/// The bytes that wait in one session, as of its last turn.
#[derive(Debug, Default)]
pub(crate) struct WaitingBytes {
    /// The number of waiting bytes; the highest bit is `MUST_CLOSE`.
    bytes: AtomicUsize,
    total: Arc<WaitingTotal>,
}

impl WaitingBytes {
    pub(crate) fn of(total: &Arc<WaitingTotal>) -> Self {
        Self { total: Arc::clone(total), ..Self::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) & !MUST_CLOSE
    }

    /// Records the waiting bytes of this session. Returns true if all sessions together exceed the
    /// limit.
    pub(crate) fn note(&self, bytes: usize) -> bool {
        // Usually nothing waits after a turn, so the shared counter is not written.
        if bytes != self.bytes() {
            let noted = |known| if bytes == 0 { 0 } else { bytes | known & MUST_CLOSE };
            let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
            let before = self.bytes.fetch_update(set, fetch, |known| Some(noted(known)));
            let (Ok(before) | Err(before)) = before;
            let more = bytes.wrapping_sub(before & !MUST_CLOSE);
            self.total.bytes.fetch_add(more, Ordering::Relaxed);
        }
        self.total.is_over(0)
    }

    /// Returns true if the limit may be exceeded with the bytes in the queue, of which the last
    /// turn has seen only a part.
    pub(crate) fn may_be_over(&self, queued: usize) -> bool {
        self.total.is_over(queued)
    }

    /// Marks this session to be closed. Has no effect on a session without waiting bytes.
    pub(crate) fn close(&self) {
        let marked = |known| (known > 0).then_some(known | MUST_CLOSE);
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, marked);
    }

    /// Returns true if the session must be closed. The mark disappears when no bytes wait in the
    /// session.
    pub(crate) fn must_close(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) & MUST_CLOSE != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_all_sessions_hold() {
        let total = Arc::new(WaitingTotal::new(100));
        let [a, b] = [WaitingBytes::of(&total), WaitingBytes::of(&total)];
        assert!(!a.note(60) && !b.note(40) && a.may_be_over(1));
        assert!(b.note(41) && a.note(60));
        assert!(!a.note(0), "closed");
        assert_eq!((a.bytes(), b.bytes()), (0, 41));
        let free = WaitingBytes::default();
        assert!(!free.note(usize::MAX >> 1), "without a limit");
    }

    #[test]
    fn who_must_go_goes_once() {
        let waiting = WaitingBytes::of(&Arc::new(WaitingTotal::new(50)));
        waiting.note(60);
        waiting.close();
        assert!(waiting.note(70) && waiting.must_close() && waiting.bytes() == 70);
        assert!(!waiting.note(0) && !waiting.must_close(), "it has gone");
        waiting.close();
        assert!(!waiting.must_close(), "found by two, and gone before the second one said so");
        waiting.note(60);
        assert!(!waiting.must_close(), "another connection");
    }
}
