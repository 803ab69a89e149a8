//! Which worker of a pool has too much to do, and what it gives away.
//!
//! Invariants: a worker gives away its own sessions, and never so many that the other one has more
//! than it afterwards. The cost of a look goes by the sessions that had something to do. A turn
//! allocates nothing once its session has had one.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::drive::command_queue::{CommandQueue, Pool};

/// Sessions at most that a worker gives away at once.
const GIVEN_MAX: usize = 64;

/// How often a pool is looked at, and when a worker of it has too much to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) interval_ns: u64,
    pub(crate) hot_percent: u32,
}

/// How busy the workers of a pool were between two looks at them.
pub(crate) struct Shares {
    limits: PoolLimits,
    /// The last look, and how long each had worked then.
    before: (u64, Vec<u64>),
    /// How long each has worked between the last two.
    busy_ns: Vec<u64>,
    took_ns: u64,
}

impl Shares {
    pub(crate) const fn new(limits: PoolLimits) -> Self {
        Self { limits, before: (0, Vec::new()), busy_ns: Vec::new(), took_ns: 0 }
    }

    /// Looks at all of them if it is time to, and returns whether it has.
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

    /// The worker that the n-th one gives to, and the share of time: half of the difference to the
    /// calmest one, so the two never change places.
    fn gift(&self, worker: usize) -> Option<(usize, u64)> {
        let mine_ns = *self.busy_ns.get(worker)?;
        let (calmest, least_ns) = self.busy_ns.iter().enumerate().min_by_key(|(_, ns)| **ns)?;
        // A gap that is worth the way.
        let is_calm = *least_ns <= mine_ns / 4 * 3;
        (is_calm && self.is_hot(worker)).then(|| (calmest, (mine_ns - least_ns) / 2))
    }
}

/// The knowledge of one worker about itself and the others of its pool.
pub(crate) struct Balance {
    pool: Pool,
    worker: usize,
    shares: Shares,
    turns: Turns,
}

impl Balance {
    /// The n-th worker of this pool.
    pub(crate) fn new(pool: &Pool, worker: usize, limits: PoolLimits) -> Self {
        let (pool, shares) = (Arc::clone(pool), Shares::new(limits));
        Self { pool, worker, shares, turns: Turns::default() }
    }

    /// The session in this slot had its turn for so long.
    pub(crate) fn note_turn(&mut self, slot: usize, took_ns: u64) {
        self.turns.note(slot, took_ns);
    }

    /// Whom to give which slots, the heaviest first, if it is time to look, the worker has too much
    /// to do and another one less.
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

/// How long each session had its turn since the last look.
#[derive(Debug, Default)]
struct Turns {
    /// By slot; 0 for one that had none.
    ns: Vec<u64>,
    /// Slots that had one.
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

    /// Slots that took so much time together at most, the heaviest first.
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
