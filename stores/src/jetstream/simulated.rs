//! Simulated worlds: sessions over simulated brokers, with faults from a seed, and the laws that no
//! fault may break.
//!
//! `cargo xtask simulate --kind fleet --seed N --worlds M` runs M worlds from the seed N on.

mod cluster;
mod gateway;
mod history;
mod replica;
mod world;

use world::World;

/// A deliberate fault, which the laws must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deliberate {
    /// The brokers accept every append, whatever the last record is.
    NoFence,
    /// A process checks that it has a lease before it sends an append, and nothing else.
    LeaseOnly,
    /// The leader alone is asked for the last record.
    TailBelieved,
    /// A record follows the one before it at the same broker, whatever is missing between them.
    GapBelieved,
    /// The leader acknowledges an append before another broker has it.
    EarlyAcknowledgement,
}

/// Number of worlds in the usual test.
const WORLDS: u64 = 200;

#[test]
fn no_fault_of_brokers_or_gateways_breaks_a_law() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("TRANSFIX_SEED").unwrap_or(0);
    let seeds = first..first + number("TRANSFIX_WORLDS").unwrap_or(WORLDS);
    let mut sums = [0; 11];
    for seed in seeds.clone() {
        let report = World::run(seed, None).unwrap_or_else(|broken| {
            let again = "cargo xtask simulate --kind fleet --worlds 1 --seed";
            panic!("{broken}; again with {again} {seed}");
        });
        let events = report.events;
        let counts = [
            report.commits,
            report.take_overs,
            events.elections,
            events.step_downs,
            events.kills,
            events.partitions,
            events.power_cuts,
            events.messages_lost,
            events.late_appends,
            events.refused_appends,
            report.deleted,
        ];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    println!(
        "{} worlds: commits, take-overs, elections, step-downs, kills, partitions, power cuts, \
         messages lost, late appends, refused appends, messages deleted: {sums:?}",
        seeds.end - seeds.start
    );
    assert!(seeds.end - seeds.start < WORLDS || sums.iter().all(|sum| *sum > 0), "{sums:?}");
}

#[test]
fn each_deliberate_fault_breaks_a_law() {
    for fault in [
        Deliberate::NoFence,
        Deliberate::LeaseOnly,
        Deliberate::TailBelieved,
        Deliberate::GapBelieved,
        Deliberate::EarlyAcknowledgement,
    ] {
        // A session that is unavailable at the end breaks no law about messages.
        let broken = (0..20).find_map(|seed| {
            let broken = World::run(seed, Some(fault)).err()?;
            (!broken.contains("unavailable")).then_some((seed, broken))
        });
        let (seed, broken) = broken.unwrap_or_else(|| panic!("{fault:?} breaks no law"));
        println!("{fault:?}: seed {seed}: {broken}");
    }
}
