//! The effect of each record on the sequence numbers and on the messages that can be found; shared
//! by all stores. `L` is the location of a message's bytes in a store.
//!
//! **Invariant:** only `commit` and `apply` change the visible state.

use std::sync::Arc;

use crate::index::Index;
use crate::record::Numbers;
use crate::threads::Helpers;

/// Number of entries per chunk of an index, as an exponent of two. A chunk takes 64 KiB in a file
/// store, and twice as much in a memory store.
pub(crate) const CHUNK_BITS: u32 = 12;
/// Number of entries per chunk of an index.
pub(crate) const CHUNK: usize = 1 << CHUNK_BITS;

/// The effect of one record on the state of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<L> {
    Outbound(u64, L),
    Inbound(u64, L),
    NextIn(u64),
    NextOut(u64),
    Reset { now_ns: u64 },
    Queued(u64, L),
    Unqueued(u64),
    LoggedOn { at_ns: u64 },
    Nothing,
}

impl<L> Change<L> {
    /// Applies the change to the next numbers.
    pub(crate) const fn renumber(&self, numbers: &mut Numbers) {
        match *self {
            Self::Outbound(seq, _) => numbers.next_out = seq + 1,
            Self::NextIn(seq) => numbers.next_in = seq,
            Self::NextOut(seq) => numbers.next_out = seq,
            Self::Reset { now_ns } => *numbers = Numbers::fresh(now_ns),
            Self::Inbound(..)
            | Self::Queued(..)
            | Self::Unqueued(_)
            | Self::LoggedOn { .. }
            | Self::Nothing => {}
        }
    }
}

/// The sequence numbers and the locations of messages as of the last commit, and the changes that
/// wait for the next commit.
#[derive(Debug)]
pub(crate) struct Ledger<L> {
    pub(crate) numbers: Numbers,
    /// The time of the last logon, in UTC nanoseconds since 1970; 0 if unknown.
    pub(crate) last_logon_ns: u64,
    pub(crate) outbound: Index<L>,
    pub(crate) inbound: Index<L>,
    /// The locations of messages that wait to be sent, by their tickets.
    pub(crate) waiting: Index<L>,
    pub(crate) staged: Vec<Change<L>>,
}

impl<L: Copy + Send + 'static> Ledger<L> {
    /// Number of records for which memory is reserved, enough for most batches. The memory grows to
    /// the size of the largest batch and is kept.
    const STAGED_FIRST: usize = 8;

    pub(crate) fn new(numbers: Numbers) -> Self {
        Self::of_chunks(numbers, CHUNK_BITS)
    }

    /// Creates a ledger whose indexes have 2^`chunk_bits` entries per chunk.
    pub(crate) fn of_chunks(numbers: Numbers, chunk_bits: u32) -> Self {
        let staged = Vec::with_capacity(Self::STAGED_FIRST);
        let [outbound, inbound, waiting] = [(); 3].map(|()| Index::new(chunk_bits));
        Self { numbers, last_logon_ns: 0, outbound, inbound, waiting, staged }
    }

    /// From now on, the threads of `helpers` make chunks of the message indexes in advance.
    pub(crate) fn help_by(&mut self, helpers: &Arc<Helpers>) {
        self.outbound.help_by(helpers);
        self.inbound.help_by(helpers);
    }

    pub(crate) fn commit(&mut self) {
        for position in 0..self.staged.len() {
            self.apply(self.staged[position]);
        }
        self.staged.clear();
    }

    pub(crate) fn apply(&mut self, change: Change<L>) {
        change.renumber(&mut self.numbers);
        match change {
            Change::Outbound(seq, place) => {
                self.outbound.hide_from(seq);
                self.outbound.insert(seq, place);
            }
            Change::Inbound(seq, place) => self.inbound.insert(seq, place),
            Change::NextOut(seq) => self.outbound.hide_from(seq),
            Change::Reset { .. } => {
                self.outbound.clear();
                self.inbound.clear();
            }
            Change::Queued(ticket, place) => self.waiting.insert(ticket, place),
            Change::Unqueued(ticket) => self.waiting.forget_to(ticket),
            Change::LoggedOn { at_ns } => self.last_logon_ns = at_ns,
            Change::NextIn(_) | Change::Nothing => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(changes: &[Change<u8>], next_out: u64, found: &[(u64, u8)]) {
        let mut ledger = Ledger::new(Numbers::fresh(0));
        ledger.staged.extend_from_slice(changes);
        ledger.commit();
        assert_eq!(ledger.numbers.next_out, next_out, "{changes:?}");
        let all: Vec<_> = (0..found.len() + 1).filter_map(|n| ledger.outbound.get(n)).collect();
        assert_eq!(all, found, "{changes:?}");
        for (seq, place) in found {
            assert_eq!(ledger.outbound.find(*seq), Some(*place), "{changes:?}");
        }
    }

    #[test]
    fn outbound_numbers_below_next_out_are_found() {
        use Change::{NextOut, Outbound, Reset};
        check(&[Outbound(1, 1), Outbound(2, 2)], 3, &[(1, 1), (2, 2)]);
        check(&[Outbound(1, 1), NextOut(9), Outbound(9, 9)], 10, &[(1, 1), (9, 9)]);
        check(&[Outbound(1, 1), Outbound(2, 2), NextOut(2)], 2, &[(1, 1)]);
        check(&[Outbound(1, 1), Outbound(2, 2), Outbound(1, 3)], 2, &[(1, 3)]);
        check(&[Outbound(5, 5), Outbound(3, 3)], 4, &[(3, 3)]);
        check(&[Outbound(1, 1), Reset { now_ns: 7 }], 1, &[]);
    }

    #[test]
    fn what_waits_outlives_a_reset() {
        use Change::{NextOut, Queued, Reset, Unqueued};
        let mut ledger = Ledger::new(Numbers::fresh(0));
        for change in [Queued(1, 1), Queued(2, 2), Reset { now_ns: 3 }, Queued(3, 3), NextOut(1)] {
            ledger.apply(change);
        }
        let from = |ledger: &Ledger<u8>| [0, 3, 4].map(|ticket| ledger.waiting.find_from(ticket));
        assert_eq!(from(&ledger), [Some((1, 1)), Some((3, 3)), None]);
        ledger.apply(Unqueued(2));
        assert_eq!(from(&ledger), [Some((3, 3)), Some((3, 3)), None]);
        ledger.apply(Unqueued(9));
        ledger.apply(Queued(1, 7));
        assert_eq!(from(&ledger), [Some((1, 7)), None, None]);
    }

    #[test]
    fn inbound_numbers_come_in_any_order() {
        let mut ledger = Ledger::new(Numbers::fresh(0));
        for (seq, place) in [(4, 4), (1, 1), (9, 9), (3, 3), (9, 10)] {
            ledger.apply(Change::Inbound(seq, place));
        }
        let found: Vec<_> = (1..10).filter_map(|seq| ledger.inbound.find(seq)).collect();
        assert_eq!(found, [1, 3, 4, 10]);
        assert_eq!(ledger.numbers.next_in, 1);
    }
}
