//! `transfix-bench`: the benchmarks as a separate program, which `transfix bench` runs.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use tracing_subscriber::filter::LevelFilter;
use transfix_bench::scenarios::{self, Scenario};

/// Benchmark scenarios, each with its floor and its peers in the same run.
#[derive(Debug, Parser)]
#[command(
    name = "transfix-bench",
    bin_name = "transfix bench",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  transfix bench latency --self --config optimized-hard-spin
  transfix bench echo --self
  transfix bench round-trip --self
  transfix bench router --self
  transfix bench throughput --self --sessions 1,32
  transfix bench codec --peers
  transfix bench validation --peers

Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
struct Cli {
    /// Show all events of the engine on standard error, not only warnings.
    #[arg(long, short, global = true, display_order = 1_000)]
    verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    #[command(flatten)]
    Scenario(Scenario),
    /// Print completions for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    #[command(hide = true)]
    Man {
        /// The directory, which is made if it is missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = if cli.verbose { LevelFilter::INFO } else { LevelFilter::WARN };
    let events = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    events.with_ansi(std::io::stderr().is_terminal()).init();
    match cli.verb {
        Verb::Scenario(scenario) => scenarios::run(&scenario),
        Verb::Completions { shell } => {
            let mut command = Cli::command().bin_name("transfix-bench");
            clap_complete::generate(shell, &mut command, "transfix-bench", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
        Verb::Man { to } => {
            let made = std::fs::create_dir_all(&to);
            match made.and_then(|()| clap_mangen::generate_to(Cli::command(), &to)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("transfix-bench man: {}: {error}", to.display());
                    ExitCode::FAILURE
                }
            }
        }
    }
}
