//! Two sessions in a simulated environment, run with many seeds: no message is lost or delivered
//! twice.
//!
//! `TRANSFIX_SEEDS=n` runs n seeds, and `TRANSFIX_SEED=x` runs the seed x. `cargo xtask simulate`
//! runs more seeds and prints a trace.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed test says which seed")]

use std::env;

use transfix_testkit::world::{self, Ground, Summary, Trace, WorldKind};

const SEEDS: u64 = 500;

/// Prints the seed if a simulation panics.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("run it alone: cargo xtask simulate --seed {} --worlds 1", self.0);
        }
    }
}

#[test]
fn every_world_obeys_its_laws() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match (number("TRANSFIX_SEED"), number("TRANSFIX_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, seeds) => 0..seeds.unwrap_or(SEEDS),
    };
    let worlds = seeds.end - seeds.start;
    let ground = Ground::default();
    let mut total = Summary::default();
    for seed in seeds {
        let seed = Seed(seed);
        total.add(&world::run(&ground, seed.0, WorldKind::of(seed.0), &Trace::default()));
    }
    println!("{total:?}");
    let tried = total.crashes.min(total.requests).min(total.verdicts).min(total.connections);
    assert!(worlds < 100 || tried > worlds / 10, "the worlds try little: {total:?}");
}

/// Two simulations with the same seed are identical, so that a failure can be examined.
#[test]
fn a_seed_repeats_its_world() {
    let ground = Ground::default();
    for kind in WorldKind::ALL {
        let traces = [Trace::last(100_000), Trace::last(100_000)];
        let [first, second] =
            traces.each_ref().map(|trace| (world::run(&ground, 7, kind, trace), trace.lines()));
        assert_eq!(first, second, "{kind:?}");
    }
}
