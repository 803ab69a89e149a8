//! `transfix bench`: the benchmark scenarios, each with its floor and its peers in the same run.

mod child;
mod codec;
mod floor;
mod latency;
mod pace;
mod peer;
pub(crate) mod plot;
pub(crate) mod report;
mod roles;
mod s1;
mod validation;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use latency::{Measured, Work, measure_in_child};
pub(crate) use s1::{Configuration, ReportForm};

/// Benchmark scenarios.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix bench latency --self --config optimized-hard-spin
  transfix bench codec --peers
  transfix bench validation --peers")]
pub(crate) struct Args {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// Order round trip (S1): an order and its report, paced, between two processes.
    Latency(latency::Args),
    /// Order codec (S2a): NewOrderSingle(D) to bytes and back, in memory.
    Codec(codec::Args),
    /// Validation (S4b): one message validated against FIX 4.2 and FIX 4.4, in memory.
    Validation(validation::Args),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.scenario {
        Scenario::Latency(args) => latency::run(args),
        Scenario::Codec(args) => codec::run(args),
        Scenario::Validation(args) => validation::run(args),
    }
}
