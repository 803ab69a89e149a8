//! The meaning of records: what each does to the numbers and to what is found. Shared by every
//! store; `L` says where a store keeps the bytes.
//!
//! **Invariant:** only `commit` and `apply` change what is visible.

use std::collections::VecDeque;

use crate::record::Numbers;

/// One record, reduced to what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<L> {
    Outbound(u64, L),
    Inbound(u64, L),
    NextIn(u64),
    NextOut(u64),
    Reset { now_ns: u64 },
    Queued(u64, L),
    Unqueued(u64),
    Nothing,
}

impl<L> Change<L> {
    /// What it does to the next numbers.
    pub(crate) const fn renumber(&self, numbers: &mut Numbers) {
        match *self {
            Self::Outbound(seq, _) => numbers.next_out = seq + 1,
            Self::NextIn(seq) => numbers.next_in = seq,
            Self::NextOut(seq) => numbers.next_out = seq,
            Self::Reset { now_ns } => *numbers = Numbers::fresh(now_ns),
            Self::Inbound(..) | Self::Queued(..) | Self::Unqueued(_) | Self::Nothing => {}
        }
    }
}

/// Where the message of each number lies, in ascending order of numbers.
#[derive(Debug)]
pub(crate) struct Index<L> {
    entries: VecDeque<(u64, L)>,
}

impl<L: Copy> Index<L> {
    const fn new() -> Self {
        Self { entries: VecDeque::new() }
    }

    pub(crate) fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn first(&self) -> Option<L> {
        self.entries.front().map(|entry| entry.1)
    }

    pub(crate) fn forget_first(&mut self) {
        self.entries.pop_front();
    }

    pub(crate) fn find(&self, seq: u64) -> Option<L> {
        let position = self.position(seq).ok()?;
        Some(self.entries[position].1)
    }

    /// The lowest number from this one on.
    pub(crate) fn find_from(&self, seq: u64) -> Option<(u64, L)> {
        let position = self.position(seq).unwrap_or_else(|position| position);
        self.entries.get(position).copied()
    }

    /// The lowest and the highest number.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        Some((self.entries.front()?.0, self.entries.back()?.0))
    }

    fn forget_to(&mut self, seq: u64) {
        while self.entries.front().is_some_and(|first| first.0 <= seq) {
            self.entries.pop_front();
        }
    }

    /// Numbers follow one another almost always, so the distance from the first one is the place.
    fn position(&self, seq: u64) -> Result<usize, usize> {
        let Some(first) = self.entries.front() else { return Err(0) };
        if let Some(distance) = seq.checked_sub(first.0)
            && let Ok(guess) = usize::try_from(distance)
            && self.entries.get(guess).is_some_and(|entry| entry.0 == seq)
        {
            return Ok(guess);
        }
        self.entries.binary_search_by_key(&seq, |entry| entry.0)
    }

    fn insert(&mut self, seq: u64, place: L) {
        if self.entries.back().is_none_or(|last| last.0 < seq) {
            self.entries.push_back((seq, place));
            return;
        }
        match self.position(seq) {
            Ok(position) => self.entries[position].1 = place,
            Err(position) => self.entries.insert(position, (seq, place)),
        }
    }

    fn hide_from(&mut self, seq: u64) {
        if self.entries.back().is_some_and(|last| last.0 >= seq) {
            let keep = self.position(seq).unwrap_or_else(|position| position);
            self.entries.truncate(keep);
        }
    }
}

/// Numbers and places as of the last commit, and the changes waiting for the next one.
#[derive(Debug)]
pub(crate) struct Ledger<L> {
    pub(crate) numbers: Numbers,
    pub(crate) outbound: Index<L>,
    pub(crate) inbound: Index<L>,
    /// Messages that wait to be sent, by their tickets.
    pub(crate) waiting: Index<L>,
    pub(crate) staged: Vec<Change<L>>,
}

impl<L: Copy> Ledger<L> {
    /// Batches up to this many records never allocate.
    const STAGED_RESERVE: usize = 64;

    pub(crate) fn new(numbers: Numbers) -> Self {
        let staged = Vec::with_capacity(Self::STAGED_RESERVE);
        let (outbound, inbound, waiting) = (Index::new(), Index::new(), Index::new());
        Self { numbers, outbound, inbound, waiting, staged }
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
                self.outbound.entries.clear();
                self.inbound.entries.clear();
            }
            Change::Queued(ticket, place) => self.waiting.insert(ticket, place),
            Change::Unqueued(ticket) => self.waiting.forget_to(ticket),
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
        let all: Vec<_> = ledger.outbound.entries.iter().copied().collect();
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
