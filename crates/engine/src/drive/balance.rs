//! Decides which sessions an overloaded worker of a pool gives to another worker.
//!
//! Invariants: a worker gives away only its own sessions, and never so many that the receiver
//! becomes busier than the giver. The cost of a check depends only on the number of sessions that
//! had turns. Recording a turn allocates at most once per session.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::drive::command_queue::{CommandQueue, Pool};

/// The maximum number of sessions that a worker gives away at once.
const GIVEN_MAX: usize = 64;

/// The interval of load checks, and the busy share of a worker, in percent, above which it is
/// overloaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) interval_ns: u64,
    pub(crate) hot_percent: u32,
}

/// The load of a pool's workers between two checks.
pub(crate) struct Shares {
    limits: PoolLimits,
    /// The time of the last check, and the total busy time of each worker at that time.
    before: (u64, Vec<u64>),
    /// The busy time of each worker between the last two checks, in nanoseconds.
    busy_ns: Vec<u64>,
    took_ns: u64,
}

impl Shares {
    pub(crate) const fn new(limits: PoolLimits) -> Self {
        Self { limits, before: (0, Vec::new()), busy_ns: Vec::new(), took_ns: 0 }
    }

    /// Measures the busy time of all workers if a check is due. Returns true if the measurement
    /// covers a full interval.
    pub(crate) fn look(&mut self, now_ns: u64, pool: &[Arc<CommandQueue>]) -> bool {
        let (at_ns, before) = &self.before;
        let interval_ns = self.limits.interval_ns;
        let is_early = !before.is_empty() && now_ns < at_ns.saturating_add(interval_ns);
        if is_early || interval_ns == 0 {
            return false;
        }
        let after: Vec<u64> = pool.iter().map(|worker| worker.busy_ns(now_ns)).collect();
        self.busy_ns = after.iter().zip(before).map(|(b, a)| b.saturating_sub(*a)).collect();
        self.took_ns = now_ns.saturating_sub(*at_ns);
        self.before = (now_ns, after);
        !self.busy_ns.is_empty()
    }

    pub(crate) fn is_hot(&self, worker: usize) -> bool {
        let busy_ns = self.busy_ns.get(worker).copied().unwrap_or(0);
        let most_ns = self.took_ns / 100 * u64::from(self.limits.hot_percent);
        busy_ns > most_ns
    }

    /// Returns the least busy worker and the busy time, in nanoseconds, to move to it. Returns
    /// `None` if `worker` should keep its sessions. Half of the difference is moved, so the two
    /// workers never swap places.
    fn gift(&self, worker: usize) -> Option<(usize, u64)> {
        let mine_ns = *self.busy_ns.get(worker)?;
        let (calmest, least_ns) = self.busy_ns.iter().enumerate().min_by_key(|(_, ns)| **ns)?;
        // A small difference is not worth moving sessions.
        let is_calm = *least_ns <= mine_ns / 4 * 3;
        (is_calm && self.is_hot(worker)).then(|| (calmest, (mine_ns - least_ns) / 2))
    }
}

/// The load of one worker and its pool, from which the worker decides what to give away.
pub(crate) struct Balance {
    pool: Pool,
    worker: usize,
    shares: Shares,
    turns: Turns,
}

impl Balance {
    /// Returns the state for worker `worker` of this pool.
    pub(crate) fn new(pool: &Pool, worker: usize, limits: PoolLimits) -> Self {
        let (pool, shares) = (Arc::clone(pool), Shares::new(limits));
        Self { pool, worker, shares, turns: Turns::default() }
    }

    /// Records the duration of a turn of the session in `slot`.
    pub(crate) fn note_turn(&mut self, slot: usize, took_ns: u64) {
        self.turns.note(slot, took_ns);
    }

    /// Returns the receiving worker and the slots to give, the busiest first. Returns `None` unless
    /// a check is due, this worker is overloaded and another is less busy.
    pub(crate) fn gift(&mut self, now_ns: u64) -> Option<(Arc<CommandQueue>, Vec<usize>)> {
        let pool = self.pool.get()?;
        if !self.shares.look(now_ns, pool) {
            return None;
        }
        let gift = self.shares.gift(self.worker);
        let slots = gift.map_or_else(Vec::new, |(_, ns)| self.turns.fitting(ns));
        self.turns.clear();
        let (to, _) = gift.filter(|_| !slots.is_empty())?;
        Some((Arc::clone(&pool[to]), slots))
    }
}

/// The duration of each session's turns since the last check.
#[derive(Debug, Default)]
struct Turns {
    /// The durations by slot, in nanoseconds; 0 for a session without a turn.
    ns: Vec<u64>,
    /// Slots that had a turn.
    slots: Vec<usize>,
}

impl Turns {
    fn note(&mut self, slot: usize, took_ns: u64) {
        if self.ns.len() <= slot {
            self.ns.resize(slot + 1, 0);
        }
        if took_ns > 0 && self.ns[slot] == 0 {
            self.slots.push(slot);
        }
        self.ns[slot] += took_ns;
    }

    fn clear(&mut self) {
        self.slots.drain(..).for_each(|slot| self.ns[slot] = 0);
    }

    /// Returns slots whose turns took at most `left_ns` together, the busiest first.
    fn fitting(&mut self, mut left_ns: u64) -> Vec<usize> {
        self.slots.sort_unstable_by_key(|slot| (Reverse(self.ns[*slot]), *slot));
        let mut fitting = Vec::new();
        for slot in &self.slots {
            if self.ns[*slot] <= left_ns && fitting.len() < GIVEN_MAX {
                left_ns -= self.ns[*slot];
                fitting.push(*slot);
            }
        }
        fitting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn shares(busy_ns: &[u64], hot_percent: u32) -> Shares {
        let mut shares = Shares::new(PoolLimits { interval_ns: S, hot_percent });
        (shares.busy_ns, shares.took_ns) = (busy_ns.to_vec(), S);
        shares
    }

    #[test]
    fn who_is_hot_gives_the_calmest_half_of_the_gap() {
        let shares_of = |hot| shares(&[S / 10 * 8, S / 10 * 4, S / 10 * 2], hot);
        assert_eq!(shares_of(70).gift(0), Some((2, S / 10 * 3)));
        assert_eq!(shares_of(70).gift(1), None, "it is not hot");
        assert_eq!(shares_of(80).gift(0), None, "it is not hot");
        assert_eq!(shares_of(0).gift(2), None, "it is the calmest");
        assert_eq!(shares(&[S, S / 10 * 9], 70).gift(0), None, "all have as much to do");
        assert!(shares_of(70).is_hot(0) && !shares_of(70).is_hot(1));
        assert_eq!(shares(&[], 70).gift(0), None);
    }

    #[test]
    fn what_fits_goes_the_heaviest_first() {
        let turns = |all: &[(usize, u64)]| {
            let mut turns = Turns::default();
            all.iter().for_each(|(slot, ns)| turns.note(*slot, *ns));
            turns
        };
        let mut all = turns(&[(3, 700), (5, 200), (8, 0), (9, 60), (9, 40)]);
        assert_eq!(all.fitting(350), [5, 9], "the heaviest is more than the gap");
        assert_eq!(all.fitting(1_000), [3, 5, 9]);
        assert_eq!(all.fitting(99), [0; 0]);
        all.clear();
        assert_eq!(all.fitting(1_000), [0; 0]);
        all.note(8, 1);
        assert_eq!(all.fitting(1_000), [8]);
        let many: Vec<_> = (0..1_000).map(|slot| (slot, 1)).collect();
        assert_eq!(turns(&many).fitting(500).len(), GIVEN_MAX);
        assert_eq!(turns(&[]).fitting(0), [0; 0]);
    }
}
