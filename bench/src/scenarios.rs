//! The verb `bench` of the command line: the scenarios, each with its floor and its peers in the
//! same run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod child;
mod codec;
mod demonstration;
mod floor;
mod hftest;
mod latency;
mod pace;
mod peer;
mod plot;
mod report;
mod roles;
mod s1;
mod throughput;
mod validation;

use std::process::ExitCode;

use clap::Subcommand;

pub use demonstration::demonstrate;

/// Benchmark scenarios.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix bench latency --self --config optimized-hard-spin
  transfix bench throughput --self --sessions 1,32
  transfix bench codec --peers
  transfix bench validation --peers")]
pub struct Args {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Order round trip (S1): an order and its report, paced, between two processes.
    Latency(latency::Args),
    /// Throughput: orders and reports as fast as they go, and paced, by the number of sessions.
    Throughput(throughput::Args),
    /// hftest (S2b): preloaded orders sent at once, their reports counted; times inside the engine.
    Hftest(hftest::Args),
    /// Order codec (S2a): NewOrderSingle(D) to bytes and back, in memory.
    Codec(codec::Args),
    /// Validation (S4b): one message validated against FIX 4.2 and FIX 4.4, in memory.
    Validation(validation::Args),
}

/// Runs a scenario, and shows its figures.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    match &args.scenario {
        Scenario::Latency(args) => latency::run(args),
        Scenario::Throughput(args) => throughput::run(args),
        Scenario::Hftest(args) => hftest::run(args),
        Scenario::Codec(args) => codec::run(args),
        Scenario::Validation(args) => validation::run(args),
    }
}
