//! The measuring: all operations of all engines take turns in short slices of one run, so that
//! noise hits all alike; the figure of each is the median of its slices.

use crate::operation::{Operation, Set};
use crate::ours::Ours;
use crate::peer::Peers;

/// What is measured, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// What is done, by everyone who knows it.
    pub operations: &'a [Operation],
    /// To which messages; those of S4b are one set.
    pub sets: &'a [Set],
    /// Slices of each operation.
    pub slices: usize,
    /// How long one is.
    pub slice: Slice,
}

/// The length of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// About so many nanoseconds.
    Ns(u64),
    /// So many operations.
    Times(u64),
}

/// One operation of one engine on one set.
#[derive(Clone, Debug)]
pub struct Series {
    /// The engine's name; ours is `transfix`.
    pub engine: String,
    /// What was done.
    pub operation: Operation,
    /// To which messages.
    pub set: Set,
    /// Nanoseconds of one operation, one value a slice, ascending.
    pub ns: Vec<f64>,
}

impl Series {
    /// The average of the slices.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.ns.iter().sum::<f64>() / self.ns.len() as f64
    }

    /// The median of the slices.
    #[must_use]
    pub fn median_ns(&self) -> f64 {
        self.ns.get(self.ns.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Our name among the engines.
pub const OURS: &str = "transfix";

/// Measures what is planned, of ours and of all peers that know it.
///
/// # Errors
/// If a peer fails in the middle.
pub fn run(ours: &mut Ours, peers: &mut Peers, plan: Plan<'_>) -> Result<Vec<Series>, String> {
    let mut contests = contests(ours, peers, plan);
    for contest in &mut contests {
        contest.n = match plan.slice {
            Slice::Times(n) => n.max(1),
            Slice::Ns(ns) => contest.times_in(ours, peers, ns)?,
        };
    }
    for _ in 0..plan.slices {
        for contest in &mut contests {
            contest.slice(ours, peers)?;
        }
    }
    Ok(contests.into_iter().map(Contest::finish).collect())
}

/// Who does what, and how often in a slice.
struct Contest {
    /// None for us, or which of the peers.
    peer: Option<usize>,
    n: u64,
    series: Series,
}

fn contests(ours: &Ours, peers: &Peers, plan: Plan<'_>) -> Vec<Contest> {
    let mut contests = Vec::new();
    for &operation in plan.operations {
        for &set in plan.sets {
            if !operation.is_on(set) {
                continue;
            }
            let contest = |peer, engine: &str| {
                let series = Series { engine: engine.to_owned(), operation, set, ns: Vec::new() };
                Contest { peer, n: 1, series }
            };
            if ours.knows(operation) {
                contests.push(contest(None, OURS));
            }
            for (i, peer) in peers.ready.iter().enumerate() {
                if peer.knows(operation) {
                    contests.push(contest(Some(i), peer.name()));
                }
            }
        }
    }
    contests
}

impl Contest {
    fn run(&self, ours: &mut Ours, peers: &mut Peers, n: u64) -> Result<u64, String> {
        let Series { operation, set, .. } = self.series;
        match self.peer {
            None => Ok(ours.run(operation, set, n)),
            Some(i) => peers.ready[i].run(operation, set, n),
        }
    }

    /// How often fits into a slice; also warms up.
    fn times_in(&self, ours: &mut Ours, peers: &mut Peers, slice_ns: u64) -> Result<u64, String> {
        let mut n = 64;
        loop {
            let ns = self.run(ours, peers, n)?.max(1);
            if ns >= slice_ns / 4 {
                return Ok((n * slice_ns / ns).max(1));
            }
            n *= 2;
        }
    }

    fn slice(&mut self, ours: &mut Ours, peers: &mut Peers) -> Result<(), String> {
        // What the others did has emptied caches: a tenth of the slice is not counted.
        self.run(ours, peers, self.n / 10 + 1)?;
        let ns = self.run(ours, peers, self.n)?;
        self.series.ns.push(ns as f64 / self.n as f64);
        Ok(())
    }

    fn finish(mut self) -> Series {
        self.series.ns.sort_by(f64::total_cmp);
        self.series
    }
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
            // Encode is the peers' alone; S4b has one set, S2b three operations.
            let known = Operation::ALL.into_iter().filter(|operation| ours.knows(*operation));
            let sets_of = |o: Operation| Set::ALL.into_iter().filter(|set| o.is_on(*set)).count();
            let expected: usize = known.map(sets_of).sum();
            assert!(expected >= 6 * 2 + 2 + 3);
            assert_eq!(series.len(), expected);
            assert!(series.iter().all(|s| s.ns.len() == 3 && s.median_ns() > 0.0));
        }
    }
}
