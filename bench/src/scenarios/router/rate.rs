//! Searches the highest rate that floor and routers sustain without a growing queue.
//!
//! Floor and routers alternate in each round. Each rate therefore has a confidence interval, and a
//! slow minute of the machine disturbs one round instead of one router.

use std::ops::RangeInclusive;

use serde::Serialize;

use super::super::summary::{Estimate, median};
use super::Row;
use super::client::Task;
use super::pair::Pair;

/// Number of rounds after the first search, which only finds approximate rates.
const ROUNDS: usize = 5;

/// Rate at which the first search starts, in messages per second of each sender.
const BEGIN: u64 = 200;
/// The rates between which the search is confined. A slice below the lower limit has fewer than
/// three messages, which proves nothing; the upper limit only ends the search.
const LIMITS: RangeInclusive<u64> = 20..=10_000_000;
const SLICE_NS: u64 = 150_000_000;

/// The parameters of a search for the highest rate.
struct Search {
    /// Factor between two consecutive rates of the search.
    step: f64,
    /// Number of attempts per rate. Half of the attempts must succeed, because the machine disturbs
    /// some attempts.
    attempts: usize,
}

const FIRST: Search = Search { step: 1.15, attempts: 2 };
const NEXT: Search = Search { step: 1.05, attempts: 4 };
/// Factor from the best rate so far to the rate at which the next search starts. The search
/// descends by the same factor while no rate is sustained.
const BACK: f64 = 0.9;
const DOWN: f64 = 0.5;

/// The highest sustained rates: of the floor, then of each mode.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Highest {
    /// Messages per second over all senders, as medians of the rounds; 0 if no rate was sustained.
    #[serde(rename = "highest")]
    pub(super) rates: Vec<f64>,
    /// Ratio of each mode's rate to the floor's rate in the same round; `None` if the floor
    /// sustained no rate in some round.
    #[serde(rename = "highest_ratios")]
    pub(super) ratios: Vec<Option<Estimate>>,
    /// Number of rounds in which the rates were measured.
    #[serde(rename = "highest_rounds")]
    rounds: usize,
}

/// Measures the highest rates with the numbers of sessions in this row.
///
/// # Errors
/// If a process fails.
pub(super) fn highest(row: Row, pairs: &mut [Pair]) -> Result<Highest, String> {
    let sides = pairs.len();
    let holds = |n: usize, rate: u64| {
        let (Row { senders, receivers, .. }, ns) = (row, SLICE_NS);
        let task = Task { senders, receivers, rate, ns, gives_up: true };
        Ok(pairs[n].slice(task)?.load.kept_up)
    };
    let rounds = rounds(sides, holds)?;
    Ok(Highest::of(&rounds, row.senders as f64))
}

/// Returns the highest rate of each side in each round. `holds` tries a rate once on one side.
fn rounds(
    sides: usize,
    mut holds: impl FnMut(usize, u64) -> Result<bool, String>,
) -> Result<Vec<Vec<u64>>, String> {
    let mut try_all = |search: &Search, from: &[u64]| -> Result<Vec<u64>, String> {
        let find = |(n, from): (usize, &u64)| search.find(*from, |rate| holds(n, rate));
        from.iter().enumerate().map(find).collect()
    };
    let mut best = try_all(&FIRST, &vec![BEGIN; sides])?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        // Each search starts from the best rate so far, because the previous round may have been
        // disturbed.
        let from: Vec<u64> = best.iter().map(|rate| times(*rate, BACK)).collect();
        let found = try_all(&NEXT, &from)?;
        best.iter_mut().zip(&found).for_each(|(best, found)| *best = (*best).max(*found));
        rounds.push(found);
    }
    Ok(rounds)
}

/// Returns the rate multiplied by `factor`.
fn times(rate: u64, factor: f64) -> u64 {
    (rate as f64 * factor).round() as u64
}

impl Search {
    /// Returns the highest sustained rate, searching upwards from this rate. If this rate is not
    /// sustained, the search descends first. Returns 0 if no rate within the limits is sustained.
    fn find(
        &self,
        from: u64,
        mut holds: impl FnMut(u64) -> Result<bool, String>,
    ) -> Result<u64, String> {
        let mut rate = from.max(*LIMITS.start());
        while !self.holds_often(rate, &mut holds)? {
            rate = times(rate, DOWN);
            if !LIMITS.contains(&rate) {
                return Ok(0);
            }
        }
        loop {
            let next = times(rate, self.step).max(rate + 1);
            if !LIMITS.contains(&next) || !self.holds_often(next, &mut holds)? {
                return Ok(rate);
            }
            rate = next;
        }
    }

    /// Returns true if the rate is sustained in half of the attempts. Stops once the result is
    /// decided.
    fn holds_often(
        &self,
        rate: u64,
        holds: &mut impl FnMut(u64) -> Result<bool, String>,
    ) -> Result<bool, String> {
        let (mut held, mut failed) = (0, 0);
        while 2 * held < self.attempts && 2 * failed <= self.attempts {
            if holds(rate)? {
                held += 1;
            } else {
                failed += 1;
            }
        }
        Ok(2 * held >= self.attempts)
    }
}

impl Highest {
    /// Computes the rates from `rounds[r][s]`: messages per second of each sender in round r of
    /// side s.
    fn of(rounds: &[Vec<u64>], senders: f64) -> Self {
        let sides = rounds.first().map_or(0, Vec::len);
        let of = |side: usize| rounds.iter().map(move |round| round[side] as f64 * senders);
        let rates = (0..sides).map(|side| median(&of(side).collect::<Vec<_>>())).collect();
        let ratios = (1..sides).map(|side| {
            let ratios: Vec<f64> = of(side).zip(of(0)).map(|(rate, floor)| rate / floor).collect();
            of(0).all(|floor| floor > 0.0).then(|| Estimate::of(&ratios))
        });
        Self { rates, ratios: ratios.collect(), rounds: rounds.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_found_in_each_round() {
        // The highest rates of two simulated sides. The second side becomes slower during the
        // measurement.
        let (mut tried, limits) = (0, [10_000.0, 5_000.0]);
        let found = rounds(2, |n, rate| {
            tried += 1;
            let limit = if n == 1 && tried > 120 { limits[n] / 2.0 } else { limits[n] };
            Ok((rate as f64) <= limit)
        });
        let found = found.unwrap();
        assert_eq!(found.len(), ROUNDS);
        for round in &found {
            let floor = round[0] as f64;
            assert!((9_500.0..=10_000.0).contains(&floor), "{found:?}");
        }
        let (first, last) = (found[0][1] as f64, found[ROUNDS - 1][1] as f64);
        assert!((4_750.0..=5_000.0).contains(&first), "{found:?}");
        assert!((2_350.0..=2_500.0).contains(&last), "{found:?}");
    }

    #[test]
    fn a_bad_moment_costs_its_round_alone() {
        let mut tried = 0;
        let found = rounds(1, |_, rate| {
            tried += 1;
            Ok(rate <= 5_000 && !(50..90).contains(&tried))
        });
        let found: Vec<u64> = found.unwrap().into_iter().flatten().collect();
        let good = found.iter().filter(|rate| (4_500..=5_000).contains(*rate)).count();
        assert_eq!((good, found.len()), (ROUNDS - 1, ROUNDS), "{found:?}");
    }

    #[test]
    fn half_of_the_attempts_are_enough() {
        let mut attempts = 0;
        let odd = |_| {
            attempts += 1;
            Ok(attempts % 2 == 1 && attempts < 9)
        };
        assert_eq!(NEXT.find(1_000, odd), Ok(1_050));
    }

    #[test]
    fn what_takes_nothing_has_no_rate() {
        assert_eq!(NEXT.find(1_000, |_| Ok(false)), Ok(0));
        let none = Highest::of(&[vec![0, 100], vec![0, 100]], 2.0);
        assert_eq!(none.rates, [0.0, 200.0]);
        assert_eq!(none.ratios, [None]);
        assert_eq!(Highest::of(&[], 2.0), Highest::default());
    }

    #[test]
    fn a_search_ends_whatever_holds() {
        assert!(LIMITS.contains(&NEXT.find(1_000, |_| Ok(true)).unwrap()));
        assert_eq!(NEXT.find(0, |rate| Ok(rate <= 23)), Ok(23), "by one where 5 % is less");
        assert_eq!(NEXT.find(1_000, |rate| Ok(rate <= 600)).map(|rate| rate > 570), Ok(true));
        assert!(NEXT.find(1_000, |_| Err("gone".to_owned())).is_err());
    }

    #[test]
    fn rates_are_medians_and_ratios_have_intervals() {
        let highest = Highest::of(&[vec![100, 80], vec![200, 140], vec![100, 75]], 10.0);
        assert_eq!(highest.rates, [1_000.0, 800.0]);
        let Estimate { median, low, high } = highest.ratios[0].unwrap();
        assert!(median == 0.75 && low >= 0.7 && high <= 0.8, "{highest:?}");
    }
}
