//! `transfix`: one program to try, run, test and measure FIX sessions. One file per verb.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod bench;
mod dictionary;
mod peer;
mod venue;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A FIX engine on the command line.
#[derive(Debug, Parser)]
#[command(
    name = "transfix",
    version,
    about,
    after_help = "Examples:
  transfix demo
  transfix dictionary FIX44 NewOrderSingle
  transfix bench latency --self --config optimized-hard-spin

Exit codes: 0 done, 1 failed, 2 wrong usage. `transfix VERB --help` explains a verb."
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure a scenario against its floor and its peers.
    Bench(bench::Args),
    /// Show what FIX says: versions, messages, fields.
    Dictionary(dictionary::Args),
    /// A counterparty for tests, driven by lines.
    #[command(hide = true)]
    Peer(peer::Args),
}

fn main() -> ExitCode {
    match Cli::parse().verb {
        Verb::Bench(args) => bench::run(&args),
        Verb::Dictionary(args) => dictionary::run(&args),
        Verb::Peer(args) => peer::run(&args),
    }
}
