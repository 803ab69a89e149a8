//! Measures codec operations, alternating with their floor. The floor is one pass over the same
//! bytes before each operation, so that it reveals a disturbed round.

use crate::measure::{Contests, Plan, Series};
use crate::ours::Ours;
use crate::peer::Peers;

use super::contest::{Repeated, Round as Which, repeat};
use super::report::RoundCount;
use super::shared::{bar, print_line};
use super::summary::{Estimate, median, quantile};

/// All codec operations of a plan, ready to run round by round.
pub(super) struct Turns<'a> {
    contests: Contests<'a>,
    /// Index of the floor among the contests.
    floor: usize,
}

/// The measurements of one round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// The floor's times in the round, one before each operation.
    floors: Vec<f64>,
    /// The time of each operation, in the order of the contests; for the floor, the median of
    /// `floors`.
    ns: Vec<f64>,
}

/// The measurements of all rounds.
pub(super) struct Measured {
    /// The floor's time in each round.
    pub(super) floor: Vec<f64>,
    /// The series of all operations except the floor.
    pub(super) series: Vec<Series>,
    pub(super) rounds: RoundCount,
    /// Failed peers with their reasons; they are not in `series`.
    pub(super) lost: Vec<String>,
}

impl<'a> Turns<'a> {
    /// Prepares the operations of the plan, which must include a floor.
    pub(super) fn new(
        ours: &'a mut Ours,
        peers: &'a mut Peers,
        plan: Plan<'_>,
    ) -> Result<Self, String> {
        let contests = Contests::new(ours, peers, plan);
        let floor = contests.all.iter().position(|contest| contest.operation.is_floor());
        Ok(Self { contests, floor: floor.ok_or("there is no floor")? })
    }

    /// Runs one slice of each operation.
    pub(super) fn round(&mut self) -> Round {
        let mut round = Round { floors: Vec::new(), ns: Vec::new() };
        for n in 0..self.contests.all.len() {
            if n == self.floor {
                round.ns.push(f64::NAN);
                continue;
            }
            round.floors.push(self.contests.slice(self.floor));
            round.ns.push(self.contests.slice(n));
        }
        round.ns[self.floor] = median(&round.floors);
        round
    }

    /// Returns the measurements of `rounds`, sorted by operation.
    pub(super) fn measured<'r>(
        &self,
        rounds: impl Iterator<Item = &'r Round> + Clone,
        count: RoundCount,
    ) -> Measured {
        let of = |n: usize| rounds.clone().map(|round| round.ns[n]).collect::<Vec<f64>>();
        let is_whole = |n: usize| n != self.floor && !self.contests.is_lost(n);
        let others = self.contests.all.iter().enumerate().filter(|(n, _)| is_whole(*n));
        let series = others.map(|(n, contest)| Series { ns: of(n), ..contest.series() });
        Measured {
            floor: of(self.floor),
            series: series.collect(),
            rounds: count,
            lost: self.contests.lost().collect(),
        }
    }
}

impl Round {
    /// Returns the floor's 99th percentile in nanoseconds, which reveals a disturbed round.
    pub(super) fn floor_p99(&self) -> f64 {
        quantile(&self.floors, 0.99)
    }
}

/// Measures the plan for our codec and all peers that support its operations, with a progress bar.
pub(super) fn measure(
    ours: &mut Ours,
    peers: &mut Peers,
    plan: Plan<'_>,
    title: &str,
) -> Result<Measured, String> {
    let bar = bar(title, plan.slices + 1);
    bar.set_message("starts");
    let mut turns = Turns::new(ours, peers, plan)?;
    let one = |which: Which| {
        bar.set_message(which.words(plan.slices));
        let round = turns.round();
        bar.inc(1);
        Ok(round)
    };
    let Repeated { rounds, count } = repeat(plan.slices, one, Round::floor_p99)?;
    bar.finish_and_clear();
    Ok(turns.measured(rounds.iter(), count))
}

/// Returns the ratio of `ns` to `other` in each round.
pub(super) fn ratios(ns: &[f64], other: &[f64]) -> Vec<f64> {
    ns.iter().zip(other).map(|(ns, other)| ns / other).collect()
}

/// Returns the median of the ratios of `ns` to `other`.
pub(super) fn over(ns: &[f64], other: &[f64]) -> Estimate {
    Estimate::of(&ratios(ns, other))
}

/// Prints the result of each operation, then the floor, the rounds, and the missing engines. A row
/// has a label, the ratio to the floor and, for another engine, the ratio to ours.
pub(super) fn print(
    rows: impl Iterator<Item = (String, Estimate, Option<Estimate>)>,
    floor_ns: f64,
    rounds: RoundCount,
    not_run: &[String],
) -> Result<(), String> {
    for (who, floor, ours) in rows {
        print_line(&sentence(&who, floor, ours.map(|ratio| (ratio, "ours"))))?;
    }
    print_line(&format!("floor, one pass over the bytes: {floor_ns:.1} ns"))?;
    print_line(&rounds.words())?;
    not_run.iter().try_for_each(|line| print_line(line))
}

/// Returns a sentence such as `WHO: 1.21 × (95 % between 1.18 and 1.25) the floor`; for another
/// engine, also the ratio to Transfix.
pub(super) fn sentence(who: &str, floor: Estimate, ours: Option<(Estimate, &str)>) -> String {
    match ours {
        None => format!("{who}: {} the floor", floor.words()),
        Some((ratio, ours)) => format!("{who}: {} {ours}", ratio.words()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Slice;
    use crate::operation::{Operation, Set};

    #[test]
    fn the_floor_has_a_turn_before_each_other() {
        let (mut ours, mut peers) = (Ours::new().unwrap(), Peers::default());
        let plan = Plan {
            operations: &[Operation::Floor, Operation::Decode, Operation::BuildEncode],
            sets: &[Set::Hftest],
            slices: 2,
            slice: Slice::Times(64),
        };
        let mut turns = Turns::new(&mut ours, &mut peers, plan).unwrap();
        let rounds = [turns.round(), turns.round()];
        assert!(rounds.iter().all(|round| round.floors.len() == 2 && round.floor_p99() > 0.0));
        let count = RoundCount { kept: 2, repeated: 0, disturbed: 0 };
        let measured = turns.measured(rounds.iter(), count);
        let operations = measured.series.iter().map(|series| series.operation);
        assert!(operations.eq([Operation::Decode, Operation::BuildEncode]));
        assert_eq!(measured.floor, rounds.map(|round| median(&round.floors)));
        let decode = &measured.series[0];
        assert!(over(&decode.ns, &measured.floor).median > 0.0);
    }

    #[test]
    fn a_plan_without_a_floor_is_none() {
        let (mut ours, mut peers) = (Ours::new().unwrap(), Peers::default());
        let (operations, sets) = (&[Operation::Decode][..], &[Set::Fixed][..]);
        let plan = Plan { operations, sets, slices: 1, slice: Slice::Times(1) };
        assert!(Turns::new(&mut ours, &mut peers, plan).is_err());
    }

    #[test]
    fn peers_are_held_against_ours() {
        let at = |median| Estimate { median, low: median, high: median };
        let words = sentence("ours", at(1.2), None);
        assert_eq!(words, "ours: 1.20 × (95 % between 1.20 and 1.20) the floor");
        let words = sentence("other", at(9.0), Some((at(7.5), "ours")));
        assert_eq!(words, "other: 7.50 × (95 % between 7.50 and 7.50) ours");
        assert_eq!(over(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]), at(2.0));
    }
}
