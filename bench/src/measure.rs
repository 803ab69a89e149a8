//! Measures codec operations. All operations of all engines alternate in short slices of one run,
//! so that noise affects all equally. Each figure is the median of its slices.

use crate::operation::{Operation, Set};
use crate::ours::Ours;
use crate::peer::Peers;

/// A request to [`run`]: the operations to measure, and the number and length of their slices.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Operations to measure; an engine skips unsupported ones.
    pub operations: &'a [Operation],
    /// Message sets to measure. The operations of S4b have one message and ignore this field.
    pub sets: &'a [Set],
    /// Number of slices for each operation.
    pub slices: usize,
    /// Length of each slice.
    pub slice: Slice,
}

/// The length of a slice, as a time or as a number of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// As many operations as take about this many nanoseconds.
    Ns(u64),
    /// Exactly this many operations.
    Times(u64),
}

/// The measured times of one operation, by one engine, on one message set.
#[derive(Clone, Debug)]
pub struct Series {
    /// The engine's name; ours is `transfix`.
    pub engine: String,
    /// The operation.
    pub operation: Operation,
    /// The message set.
    pub set: Set,
    /// Nanoseconds of one operation, one value per slice, in order.
    pub ns: Vec<f64>,
}

impl Series {
    /// Returns the average of all slices in nanoseconds per operation.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.ns.iter().sum::<f64>() / self.ns.len() as f64
    }

    /// Returns the median of all slices in nanoseconds per operation.
    #[must_use]
    pub fn median_ns(&self) -> f64 {
        let mut sorted = self.ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// The name of our codec in the list of engines.
pub const OURS: &str = "transfix";

/// Measures the plan for our codec and for all peers that support an operation.
///
/// # Errors
/// If a peer fails during the run.
pub fn run(ours: &mut Ours, peers: &mut Peers, plan: Plan<'_>) -> Result<Vec<Series>, String> {
    let mut contests = Contests::new(ours, peers, plan);
    let mut series: Vec<Series> = contests.all.iter().map(Contest::series).collect();
    for _ in 0..plan.slices {
        for (n, series) in series.iter_mut().enumerate() {
            series.ns.push(contests.slice(n));
        }
        if let Some((_, why)) = contests.lost.first() {
            return Err(why.clone());
        }
    }
    Ok(series)
}

/// All planned operations, ready to be measured slice by slice.
pub(crate) struct Contests<'a> {
    ours: &'a mut Ours,
    peers: &'a mut Peers,
    pub(crate) all: Vec<Contest>,
    /// Failed peers, each with its index and the reason. A failed peer is no longer measured.
    lost: Vec<(usize, String)>,
}

/// An operation of one engine on one message set, with the number of repetitions in a slice.
#[derive(Clone, Debug)]
pub(crate) struct Contest {
    engine: String,
    pub(crate) operation: Operation,
    set: Set,
    /// Index of the peer; `None` for our codec.
    peer: Option<usize>,
    n: u64,
}

impl Contest {
    /// Returns an empty series for the contest.
    pub(crate) fn series(&self) -> Series {
        let Self { engine, operation, set, .. } = self;
        Series { engine: engine.clone(), operation: *operation, set: *set, ns: Vec::new() }
    }
}

impl<'a> Contests<'a> {
    /// Collects the operations that the engines support, and determines how many of each fit into a
    /// slice.
    pub(crate) fn new(ours: &'a mut Ours, peers: &'a mut Peers, plan: Plan<'_>) -> Self {
        let all = contests(ours, peers, plan);
        let mut contests = Self { ours, peers, all, lost: Vec::new() };
        for n in 0..contests.all.len() {
            contests.all[n].n = match plan.slice {
                Slice::Times(times) => times.max(1),
                Slice::Ns(ns) => contests.times_in(n, ns),
            };
        }
        contests
    }

    /// Returns the nanoseconds for `times` runs of contest `n`, or `None` if the peer has failed.
    fn run(&mut self, n: usize, times: u64) -> Option<u64> {
        let Contest { operation, set, peer, .. } = self.all[n];
        let Some(peer) = peer else { return Some(self.ours.run(operation, set, times)) };
        if self.is_lost(n) {
            return None;
        }
        let ns = self.peers.ready[peer].run(operation, set, times);
        ns.map_err(|why| self.lost.push((peer, why))).ok()
    }

    /// Returns true if contest `n` belongs to a peer that has failed.
    pub(crate) fn is_lost(&self, n: usize) -> bool {
        self.lost.iter().any(|(lost, _)| self.all[n].peer == Some(*lost))
    }

    /// Returns a line for each failed peer, with the reason.
    pub(crate) fn lost(&self) -> impl Iterator<Item = String> + '_ {
        self.lost.iter().map(|(_, why)| format!("not measured to its end: {why}"))
    }

    /// Returns how many runs of contest `n` fit into a slice. The trial runs also warm up caches
    /// and buffers.
    fn times_in(&mut self, n: usize, slice_ns: u64) -> u64 {
        let mut times = 64;
        loop {
            let Some(ns) = self.run(n, times) else { return 1 };
            if ns >= slice_ns / 4 {
                return (times * slice_ns / ns.max(1)).max(1);
            }
            times *= 2;
        }
    }

    /// Runs one slice of contest `n`. Returns the nanoseconds per operation, or NaN if the peer has
    /// failed.
    pub(crate) fn slice(&mut self, n: usize) -> f64 {
        let times = self.all[n].n;
        // Other contests have emptied the caches meanwhile, so a tenth of a slice runs first and is
        // not counted.
        let ns = self.run(n, times / 10 + 1).and_then(|_| self.run(n, times));
        ns.map_or(f64::NAN, |ns| ns as f64 / times as f64)
    }
}

fn contests(ours: &Ours, peers: &Peers, plan: Plan<'_>) -> Vec<Contest> {
    let mut contests = Vec::new();
    for &operation in plan.operations {
        for &set in plan.sets {
            if !operation.is_on(set) {
                continue;
            }
            let contest = |peer, engine: &str| Contest {
                engine: engine.to_owned(),
                operation,
                set,
                peer,
                n: 1,
            };
            if ours.knows(operation) {
                contests.push(contest(None, OURS));
            }
            for (i, peer) in peers.ready.iter().enumerate() {
                if peer.knows(operation, set) {
                    contests.push(contest(Some(i), peer.name()));
                }
            }
        }
    }
    contests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_of_ours_gets_its_slices() {
        let mut ours = Ours::new().expect("every result is right");
        for slice in [Slice::Ns(10_000), Slice::Times(2)] {
            let (operations, sets) = (&Operation::ALL, &Set::ALL);
            let plan = Plan { operations, sets, slices: 3, slice };
            let series = run(&mut ours, &mut Peers::default(), plan).expect("no peers");
            // Only peers have `Encode`. The operations of S4b run on one set, and three operations
            // run on the messages of S2b.
            let known = Operation::ALL.into_iter().filter(|operation| ours.knows(*operation));
            let sets_of = |o: Operation| Set::ALL.into_iter().filter(|set| o.is_on(*set)).count();
            let expected: usize = known.map(sets_of).sum();
            assert!(expected >= 6 * 2 + 2 + 3);
            assert_eq!(series.len(), expected);
            assert!(series.iter().all(|s| s.ns.len() == 3 && s.median_ns() > 0.0));
        }
    }
}
