//! Counts the messages of a large fleet of initiators: a simulation of the gateways' looks, and of
//! the take-overs after a gateway was lost.
//!
//! The rules are those of `Fleet`: a gateway reads the owner of a session once, and asks each owner
//! once in a look. After a loss it waits for one of four times at random, reads the owners again,
//! and takes over the sessions that still have the lost owner.

use std::collections::BTreeSet;

/// Direct gets of a take-over from a stream with three replicas.
const DIRECT_GETS: u64 = 24;
/// Duration of a read and of a take-over, in microseconds, as on a quiet cluster.
const READ_US: u64 = 1_000;
const TAKE_US: u64 = 5_000;
/// Number of owners that a gateway reads at a time.
const READS: u64 = 64;

/// A fleet whose gateways own the same number of initiators each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) gateways: u64,
    /// Number of sessions that each gateway owns.
    pub(super) owned: u64,
    /// `answer_ms`, in microseconds.
    pub(super) answer_us: u64,
}

/// Numbers of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Reads of the last record of a session.
    pub(super) reads: u64,
    /// Requests of a gateway to another one.
    pub(super) requests: u64,
    pub(super) direct_gets: u64,
    pub(super) appends: u64,
    /// Appends that the brokers refuse, because another gateway was faster.
    pub(super) refused: u64,
}

impl Model {
    pub(super) const fn sessions(self) -> u64 {
        self.gateways * self.owned
    }

    /// Returns the messages of one look of one gateway. In its first look it knows no owner.
    pub(super) fn look(self, is_first: bool) -> Counts {
        let (mut counts, mut asked) = (Counts::default(), BTreeSet::new());
        for session in self.owned..self.sessions() {
            counts.reads += u64::from(is_first);
            counts.requests += u64::from(asked.insert(session / self.owned));
        }
        counts
    }

    /// Returns the messages by which all other gateways find out that one is lost, and take its
    /// sessions over. The owner that each session gets is the gateway whose append comes first.
    pub(super) fn loss(self, seed: u64) -> Counts {
        let mut random = Random(seed);
        let mut counts = Counts::default();
        let mut attempts = Vec::new();
        for _ in 1..self.gateways {
            // The lost gateway is asked, and asked again after the wait.
            counts.requests += 2;
            let phase = random.below(self.answer_us / 2);
            let begin = phase + random.below(4) * self.answer_us / 32;
            for session in 0..self.owned {
                attempts.push((begin + (session / READS + 1) * READ_US, session));
            }
        }
        attempts.sort_unstable();
        let mut taken = vec![u64::MAX; self.owned as usize];
        for (at, session) in attempts {
            let taken = &mut taken[session as usize];
            counts.reads += 1;
            if *taken <= at {
                continue;
            }
            // The store reads the last record, and asks the owner.
            counts.reads += 1;
            counts.requests += 1;
            if *taken <= at + READ_US {
                continue;
            }
            counts.direct_gets += DIRECT_GETS;
            if *taken <= at + TAKE_US {
                counts.refused += 1;
                counts.reads += 1;
                counts.requests += 1;
            } else {
                counts.appends += 1;
                *taken = at + TAKE_US;
            }
        }
        counts
    }
}

/// Numbers that look random, the same for each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_asks_each_other_gateway_once() {
        let model = Model { gateways: 3, owned: 10, answer_us: 1_000_000 };
        let steady = Counts { requests: 2, ..Counts::default() };
        assert_eq!(model.look(false), steady);
        assert_eq!(model.look(true), Counts { reads: 20, ..steady });
    }

    #[test]
    fn each_lost_session_is_taken_over_once() {
        for gateways in [2, 3, 50] {
            let model = Model { gateways, owned: 100, answer_us: 1_000_000 };
            for seed in 0..20 {
                let counts = model.loss(seed);
                assert_eq!(counts.appends, 100, "{model:?}, seed {seed}");
                let tries = counts.appends + counts.refused;
                assert_eq!(counts.direct_gets, tries * DIRECT_GETS);
                // Each gateway reads each owner once, and a try reads at least once more.
                let least = (gateways - 1) * 100 + tries + counts.refused;
                assert!(counts.reads >= least, "{counts:?}");
                assert!(gateways > 2 || counts.refused == 0, "{counts:?}");
            }
        }
    }
}
