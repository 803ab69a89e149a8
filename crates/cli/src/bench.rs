//! `transfix bench`: the benchmark scenarios, each with its floor and its peers in the same run.

mod child;
mod floor;
mod latency;
mod pace;
mod peer;
pub(crate) mod plot;
pub(crate) mod report;
mod roles;
mod s1;

use std::process::ExitCode;

use clap::Subcommand;

pub(crate) use latency::{Measured, measure_in_child};
pub(crate) use s1::{Configuration, ReportForm};

/// Benchmark scenarios.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  transfix bench latency --self --config optimized-hard-spin")]
pub(crate) struct Args {
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Debug, Subcommand)]
enum Scenario {
    /// S1: round trip of NewOrderSingle(D) and ExecutionReport(8), paced, between two processes.
    Latency(latency::Args),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match &args.scenario {
        Scenario::Latency(args) => latency::run(args),
    }
}
