//! Two sessions in a simulated world, from many seeds: nothing is lost, nothing comes twice.
//!
//! `TRANSFIX_SEEDS=n` runs n seeds, `TRANSFIX_SEED=x` the one that has failed.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed test says which seed")]

use std::env;
use std::ops::Range;

use transfix_session::ResetPolicy;
use transfix_testkit::world::{self, Faults, Summary};

const SEEDS: u64 = 2_000;

fn seeds(usual: u64) -> Range<u64> {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match (number("TRANSFIX_SEED"), number("TRANSFIX_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(usual),
    }
}

/// Says which seed it was when a world panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("run it alone: TRANSFIX_SEED={}", self.0);
        }
    }
}

fn run_all(usual: u64, run: impl Fn(u64) -> Summary) -> Summary {
    let mut total = Summary::default();
    for seed in seeds(usual) {
        let seed = Seed(seed);
        let one = run(seed.0);
        total.delivered += one.delivered;
        total.connections += one.connections;
        total.verdicts += one.verdicts;
        total.ended_ns += one.ended_ns;
    }
    println!("{total:?}");
    total
}

#[test]
fn every_message_is_delivered_once_and_in_order() {
    let total = run_all(SEEDS, world::run);
    assert!(env::var("TRANSFIX_SEED").is_ok() || total.connections > total.verdicts);
}

/// Where numbers start again at each Logon(A) or after each connection, messages under way may be
/// lost with them; still none comes twice or out of order.
#[test]
fn resets_keep_the_order() {
    for reset in [ResetPolicy::LOGON, ResetPolicy::DISCONNECT] {
        run_all(SEEDS / 10, |seed| world::run_with(seed, Faults::any(seed), reset));
    }
}

/// A damaged message is garbled: it is skipped, and its number is missing like that of a lost one.
#[test]
fn damaged_messages_are_asked_for_again() {
    run_all(SEEDS / 10, |seed| {
        let faults = Faults { damage_one_in: 50, ..Faults::any(seed) };
        world::run_with(seed, faults, ResetPolicy::NEVER)
    });
}
