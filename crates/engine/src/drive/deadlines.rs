//! The times at which sessions of a worker have work without inbound bytes.
//!
//! Invariants: a session is found at its deadline, or too early if its deadline was postponed. The
//! cost of a check is proportional to the number of due sessions. The memory is proportional to the
//! number of sessions, however often deadlines are noted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The number of entries, beyond two per session, above which stale entries are dropped.
const ROOM: usize = 64;

/// The deadlines of sessions, which are identified by their slots in the worker.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Times and slots, the earliest first. An entry whose time differs from `noted` is stale and
    /// is skipped, because removing it from the middle would cost more.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The earliest valid entry of each session; `u64::MAX` for none.
    noted: Vec<u64>,
}

impl Deadlines {
    /// Notes that the session has work at time `at`. A later time than the noted one is ignored,
    /// because the worker asks the session again at the noted time. Postponing a deadline therefore
    /// costs nothing.
    pub(crate) fn note(&mut self, session: usize, at: u64) {
        if self.noted.len() <= session {
            self.noted.resize(session + 1, u64::MAX);
        }
        if at < self.noted[session] {
            self.noted[session] = at;
            self.heap.push(Reverse((at, session)));
            if self.heap.len() > 2 * self.noted.len() + ROOM {
                self.tidy();
            }
        }
    }

    /// Drops stale entries. A spinning worker adds one at each check of a session.
    #[cold]
    fn tidy(&mut self) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        let noted = self.noted.iter().enumerate().filter(|(_, at)| **at < u64::MAX);
        entries.extend(noted.map(|(session, at)| Reverse((*at, session))));
        self.heap = entries.into();
    }

    /// Returns the earliest time at which a session may be due; `u64::MAX` for none.
    pub(crate) fn next(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// Takes a due session, which has no deadline afterwards.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<usize> {
        while self.next() <= now_ns {
            let Reverse((at, session)) = self.heap.pop()?;
            if self.noted[session] == at {
                self.noted[session] = u64::MAX;
                return Some(session);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(deadlines: &mut Deadlines, now_ns: u64) -> Vec<usize> {
        std::iter::from_fn(|| deadlines.take_due(now_ns)).collect()
    }

    #[test]
    fn who_is_due_is_found_once() {
        let mut deadlines = Deadlines::default();
        assert_eq!((deadlines.next(), deadlines.take_due(u64::MAX - 1)), (u64::MAX, None));
        for (session, at) in [(3, 30), (0, 10), (1, 20)] {
            deadlines.note(session, at);
        }
        assert_eq!((deadlines.next(), due(&mut deadlines, 9)), (10, vec![]));
        assert_eq!(due(&mut deadlines, 20), [0, 1]);
        assert_eq!((deadlines.next(), due(&mut deadlines, 20)), (30, vec![]));
        assert_eq!(due(&mut deadlines, 30), [3]);
    }

    #[test]
    fn an_earlier_deadline_counts_and_a_later_one_is_looked_up_again() {
        let mut deadlines = Deadlines::default();
        deadlines.note(0, 50);
        deadlines.note(0, 20);
        deadlines.note(0, 90);
        assert_eq!(due(&mut deadlines, 20), [0]);
        // When the noted time has come, the worker asks the session again and notes the later
        // deadline.
        deadlines.note(0, 90);
        assert_eq!(due(&mut deadlines, 60), [0; 0], "the entry for 50 counts no more");
        assert_eq!(due(&mut deadlines, 90), [0]);
    }

    #[test]
    fn a_worker_that_looks_again_and_again_takes_no_memory() {
        let mut deadlines = Deadlines::default();
        deadlines.note(1, 7_000_000);
        for now in 1..100_000 {
            // The heartbeat deadline moves with each message of an active session; deadline 0
            // belongs to a silent session.
            for at in [0, 30_000 + now] {
                deadlines.note(0, at);
                deadlines.note(2, if at == 0 { 0 } else { 8_000_000 });
                let _ = due(&mut deadlines, now);
            }
        }
        assert!(deadlines.heap.len() <= 3 * 2 + ROOM, "{} entries", deadlines.heap.len());
        assert_eq!(due(&mut deadlines, 8_000_000), [0, 1, 2]);
    }

    #[test]
    fn putting_a_deadline_off_takes_no_memory() {
        let mut deadlines = Deadlines::default();
        for at in 1_000..100_000 {
            deadlines.note(7, at);
        }
        assert_eq!(deadlines.heap.len(), 1);
    }
}
