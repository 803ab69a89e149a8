//! The verbs of `transfix bench`: the scenarios, each with its floor and its peers in the same run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod child;
mod codec;
mod column;
mod contest;
mod directory;
pub(crate) mod hftest;
mod moved;
mod page;
mod plot;
mod remote;
mod report;
mod router;
mod s1;
mod shared;
mod summary;
mod throughput;
mod trip;
mod turns;
mod validation;

use std::process::ExitCode;

use clap::Subcommand;

const LATENCY_HELP: &str = "\
Examples:
  transfix bench latency --self
  transfix bench latency --self --config optimized-hard-spin --peers
  transfix bench latency --role acceptor  --config default --address 0.0.0.0:9880
  transfix bench latency --role initiator --config default --address 10.0.0.2:9880

Configurations of the page, \"Latency2\" of FIX Antenna C++ 2.19: default, aggressive, balanced,
optimized-hard-spin; and balanced-onload, optimized-hard, which need OpenOnload. Default: all.
The page's parameters are the default: --messages 10000 --rate 1000 --warmup 0; --slices 10.
The floor is measured in the same run: the same bytes over a raw socket at the port above, with the
same way of waiting and the same pace, in slices between those of the engine.
Exit code: 0 done, 1 the run failed, 2 wrong usage.";

const ECHO_HELP: &str = "\
Examples:
  transfix bench echo --self
  transfix bench echo --self --messages 1000000          (five repeats of 200,000, as on the page)
  transfix bench echo --role acceptor  --config file --address 0.0.0.0:9880
  transfix bench echo --role initiator --config file --address 10.0.0.2:9880

Configurations of the page, FIX Antenna .NET Core 0.9.2: memory (A) and file (B). Default: both.
Default: --messages 100000 --rate 5000 --warmup 1000 --slices 5; the page sends 200,000 in each of
its five repeats, which takes six minutes with the floor.
Exit code: 0 done, 1 the run failed, 2 wrong usage.";

const ROUND_TRIP_HELP: &str = "\
Examples:
  transfix bench round-trip --self
  transfix bench round-trip --self --rate 1000           (paced)
  transfix bench round-trip --self --config balanced --peers

Configurations of the page, FIX Antenna Java 2.15.27: balanced and optimized. Default: both.
Default: --messages 100000 --rate 0 --warmup 5000 --slices 10; the page does not say how many.
Exit code: 0 done, 1 the run failed, 2 wrong usage.";

/// Benchmark scenarios.
#[derive(Debug, Subcommand)]
#[allow(private_interfaces, reason = "a program runs them and looks into none")]
pub enum Scenario {
    /// Order round trip (S1): paced orders, each answered by a report, between two processes.
    #[command(after_help = LATENCY_HELP)]
    Latency(trip::Args),
    /// Echo (S4a): paced orders that the acceptor returns unchanged in the same session.
    #[command(after_help = ECHO_HELP)]
    Echo(trip::Args),
    /// Round trip (S5): each order is sent after the report for the previous order.
    #[command(after_help = ROUND_TRIP_HELP)]
    RoundTrip(trip::Args),
    /// Router (S3): many sessions send; each message is routed to a random one of a few receiving
    /// sessions.
    Router(router::Args),
    /// Throughput: orders and reports at full speed, and at a fixed pace, by the number of
    /// sessions.
    Throughput(throughput::Args),
    /// hftest (S2b): preloaded orders are sent at once and their reports counted; the engine
    /// measures its own times.
    Hftest(hftest::Args),
    /// Order codec (S2a): a NewOrderSingle(D) is encoded and decoded in memory.
    Codec(codec::Args),
    /// Validation (S4b): one message is validated against FIX 4.2 and FIX 4.4 in memory.
    Validation(validation::Args),
    /// Show which figures changed between two runs, and which changes are noise.
    Compare(moved::CompareArgs),
}

/// Runs a scenario and prints its figures.
#[must_use]
pub fn run(scenario: &Scenario) -> ExitCode {
    match scenario {
        Scenario::Latency(args) => trip::run(&page::LATENCY, args),
        Scenario::Echo(args) => trip::run(&page::ECHO, args),
        Scenario::RoundTrip(args) => trip::run(&page::ROUND_TRIP, args),
        Scenario::Router(args) => router::run(args),
        Scenario::Throughput(args) => throughput::run(args),
        Scenario::Hftest(args) => hftest::run(args),
        Scenario::Codec(args) => codec::run(args),
        Scenario::Validation(args) => validation::run(args),
        Scenario::Compare(args) => moved::compare(args),
    }
}
