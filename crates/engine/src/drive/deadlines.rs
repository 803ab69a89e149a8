//! When each session of a worker has something to do even if no byte comes.
//!
//! Invariants: a session is found at its deadline, or earlier if that has moved since. A look costs
//! in proportion to the sessions that are due. The memory is in proportion to the sessions, however
//! often a deadline is noted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Stale entries are dropped when there are more than two for each session, and this many more.
const ROOM: usize = 64;

/// The deadlines of sessions, which are known by their places in the worker.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Moments and places, the earliest first. An entry that is not the session's noted one is
    /// passed over: taking it out of the middle would cost more.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// The earliest entry of each session that counts; `u64::MAX` for none.
    noted: Vec<u64>,
}

impl Deadlines {
    /// The session has something to do at this moment. One that is later than what is noted is
    /// looked up again then, so that a session which puts its deadline off costs nothing here.
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

    /// Drops stale entries. A worker that spins leaves one at each look at a session.
    #[cold]
    fn tidy(&mut self) {
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        let noted = self.noted.iter().enumerate().filter(|(_, at)| **at < u64::MAX);
        entries.extend(noted.map(|(session, at)| Reverse((*at, session))));
        self.heap = entries.into();
    }

    /// The earliest moment at which a session may be due; `u64::MAX` for none.
    pub(crate) fn next(&self) -> u64 {
        self.heap.peek().map_or(u64::MAX, |Reverse((at, _))| *at)
    }

    /// A session that is due, which has no deadline afterwards.
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
        // The worker asks the session again, and records the new deadline.
        deadlines.note(0, 90);
        assert_eq!(due(&mut deadlines, 60), [0; 0], "the entry for 50 counts no more");
        assert_eq!(due(&mut deadlines, 90), [0]);
    }

    #[test]
    fn a_worker_that_looks_again_and_again_takes_no_memory() {
        let mut deadlines = Deadlines::default();
        deadlines.note(1, 7_000_000);
        for now in 1..100_000 {
            // The heartbeat of an active session moves; that of a silent one does not.
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
