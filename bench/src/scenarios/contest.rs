//! Runs contestants in alternating slices (A B C, A B C), so that changes of the machine affect all
//! contestants. A round with a disturbed floor is repeated.

use super::report::RoundCount;
use super::summary::{median, quantile};

/// An engine, a peer or a floor whose slices are measured.
pub(crate) trait Contestant {
    /// Returns the name for the tables.
    fn name(&self) -> &str;

    /// Returns true if the run continues without this contestant after its failure, as for other
    /// engines.
    fn is_optional(&self) -> bool;

    /// Measures one slice. `warm_up` is true for the first slice, whose figures are discarded.
    fn slice(&mut self, warm_up: bool) -> Result<Slice, String>;
}

/// The measurements of one contestant in one slice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slice {
    /// Time of each round trip in nanoseconds, in the order of sending.
    pub(crate) ns: Vec<u64>,
    /// Delay of each sending after its planned time, in nanoseconds; empty without a pace.
    pub(crate) late_ns: Vec<u64>,
    /// CPU time of the contestant in nanoseconds.
    pub(crate) cpu_ns: u64,
}

impl Slice {
    fn p99(&self) -> f64 {
        let mut sorted = self.ns.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() * 99).div_ceil(100).saturating_sub(1)).map_or(0.0, |ns| *ns as f64)
    }
}

/// The measurements of a whole run.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Slices by contestant and round; a failed contestant has none.
    pub(crate) slices: Vec<Vec<Slice>>,
    /// Number of repetitions because of a disturbed floor.
    pub(crate) repeated: usize,
    /// Number of rounds whose floor is disturbed even after the repetitions.
    pub(crate) disturbed: usize,
    /// Failed contestants, with their reasons.
    pub(crate) lost: Vec<String>,
}

/// The round that is about to run, for reports of the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// The first round, which is discarded.
    WarmUp,
    /// A round by its number, counted from 1.
    Nth(usize),
    /// The repetition of a round, by its number counted from 1.
    Again(usize),
}

impl Round {
    /// Returns the progress as text; `of` is the number of rounds.
    pub(crate) fn words(self, of: usize) -> String {
        match self {
            Self::WarmUp => "warm-up".to_owned(),
            Self::Nth(n) => format!("round {n} of {of}"),
            Self::Again(n) => format!("round {n} again: the floor was disturbed"),
        }
    }
}

/// The results of all rounds, and counts of repeated and disturbed rounds.
#[derive(Debug)]
pub(crate) struct Repeated<R> {
    pub(crate) rounds: Vec<R>,
    pub(crate) count: RoundCount,
}

/// Runs `rounds` rounds after a warm-up, and repeats rounds with a disturbed floor, at most
/// `rounds` times. `floor_p99` returns the floor's 99th percentile in a round.
pub(crate) fn repeat<R>(
    rounds: usize,
    mut play: impl FnMut(Round) -> Result<R, String>,
    floor_p99: impl Fn(&R) -> f64,
) -> Result<Repeated<R>, String> {
    play(Round::WarmUp)?;
    let mut all = (1..=rounds).map(|n| play(Round::Nth(n))).collect::<Result<Vec<R>, _>>()?;
    let floors = |all: &[R]| disturbed(&all.iter().map(&floor_p99).collect::<Vec<_>>());
    let mut repeated = 0;
    while repeated < rounds
        && let Some(&n) = floors(&all).first()
    {
        repeated += 1;
        all[n] = play(Round::Again(n + 1))?;
    }
    let count = RoundCount { kept: all.len(), repeated, disturbed: floors(&all).len() };
    Ok(Repeated { rounds: all, count })
}

/// Runs `rounds` rounds of all contestants; contestant 0 is the floor. `tell` receives the
/// progress.
pub(crate) fn play(
    contestants: &mut [Box<dyn Contestant>],
    rounds: usize,
    mut tell: impl FnMut(&str),
) -> Result<Rounds, String> {
    let (mut out, mut lost) = (vec![false; contestants.len()], Vec::new());
    let one = |which: Round| {
        tell(&which.words(rounds));
        round(contestants, which == Round::WarmUp, &mut out, &mut lost)
    };
    let Repeated { rounds: all, count } = repeat(rounds, one, |round| round[0].p99())?;
    let mut slices = vec![Vec::with_capacity(all.len()); contestants.len()];
    for round in all {
        for ((slices, slice), out) in slices.iter_mut().zip(round).zip(&out) {
            if !out {
                slices.push(slice);
            }
        }
    }
    Ok(Rounds { slices, repeated: count.repeated, disturbed: count.disturbed, lost })
}

fn round(
    contestants: &mut [Box<dyn Contestant>],
    warm_up: bool,
    out: &mut [bool],
    lost: &mut Vec<String>,
) -> Result<Vec<Slice>, String> {
    let mut round = Vec::with_capacity(contestants.len());
    for (contestant, out) in contestants.iter_mut().zip(out) {
        let slice = if *out { Ok(Slice::default()) } else { contestant.slice(warm_up) };
        round.push(slice.or_else(|error| {
            let error = format!("{}: {error}", contestant.name());
            if !contestant.is_optional() {
                return Err(error);
            }
            *out = true;
            lost.push(error);
            Ok(Slice::default())
        })?);
    }
    Ok(round)
}

/// Returns the rounds with a disturbed floor, the worst round first. A floor is disturbed if its
/// p99 exceeds two limits. The first limit is the upper quartile plus 1.5 times the interquartile
/// range (Tukey's fence). The second limit is 1.25 times the median.
fn disturbed(p99: &[f64]) -> Vec<usize> {
    let [low, high] = [0.25, 0.75].map(|part| quantile(p99, part));
    let fence = (high + 1.5 * (high - low)).max(1.25 * median(p99));
    let mut beyond: Vec<usize> = (0..p99.len()).filter(|n| p99[*n] > fence).collect();
    beyond.sort_by(|a, b| p99[*b].total_cmp(&p99[*a]));
    beyond
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scripted {
        name: &'static str,
        p99: Vec<u64>,
        played: usize,
    }

    impl Contestant for Scripted {
        fn name(&self) -> &str {
            self.name
        }

        fn is_optional(&self) -> bool {
            self.name == "peer"
        }

        fn slice(&mut self, warm_up: bool) -> Result<Slice, String> {
            if warm_up {
                return Ok(Slice::default());
            }
            self.played += 1;
            let ns = self.p99.get(self.played - 1).copied().ok_or("it ended")?;
            Ok(Slice { ns: vec![ns; 3], ..Slice::default() })
        }
    }

    fn scripted(name: &'static str, p99: &[u64]) -> Box<dyn Contestant> {
        Box::new(Scripted { name, p99: p99.to_vec(), played: 0 })
    }

    #[test]
    fn a_round_with_a_disturbed_floor_is_played_again_by_all() {
        let floor = scripted("floor", &[10, 11, 90, 10, 12, 11]);
        let engine = scripted("engine", &[20, 21, 99, 20, 22, 23]);
        let played = play(&mut [floor, engine], 5, |_| {}).unwrap();
        assert_eq!((played.repeated, played.lost.len()), (1, 0));
        let all = |n: usize| played.slices[n].iter().map(|slice| slice.ns[0]).collect::<Vec<_>>();
        assert_eq!((all(0), all(1)), (vec![10, 11, 11, 10, 12], vec![20, 21, 23, 20, 22]));
    }

    #[test]
    fn what_is_always_disturbed_is_repeated_no_more_often_than_there_are_rounds() {
        let p99 = [&[10; 3][..], &[90; 20]].concat();
        let played = play(&mut [scripted("floor", &p99)], 4, |_| {}).unwrap();
        assert_eq!((played.repeated, played.disturbed), (4, 1));
    }

    #[test]
    fn who_fails_falls_out_if_it_is_a_peer_and_ends_the_run_if_not() {
        let sides = || [scripted("floor", &[10, 10, 10]), scripted("peer", &[30])];
        let played = play(&mut sides(), 3, |_| {}).unwrap();
        assert_eq!(played.lost, ["peer: it ended"]);
        assert!(played.slices[1].is_empty() && played.slices[0].len() == 3);
        let error = play(&mut [scripted("floor", &[10])], 3, |_| {}).unwrap_err();
        assert_eq!(error, "floor: it ended");
    }
}
