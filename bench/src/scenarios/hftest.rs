//! Scenario S2b, `hftest`: preloaded orders are sent at once; a random number of reports answers
//! each order. The engines of both sides measure encoding and decoding.

mod book;
mod both;
mod client;
mod expected;
mod figures;
mod floor;
mod input;
mod keys;
mod orders;
mod replies;
mod rounds;
pub(crate) mod sample;
mod server;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::value_parser;

/// hftest (S2b): preloaded orders are sent at once and their reports counted; the engine measures
/// its own times.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:
  transfix bench hftest --self
  transfix bench hftest --self --orders 100000 --valid --histogram
  transfix bench hftest --self --peers
  transfix bench hftest server
  transfix bench hftest client --preload 500000

After `hftest` of Fix8: the client makes orders (FIX 4.2) ahead and sends them at once; the server
confirms, cancels or rejects each, and fills those that it confirms by trades of random sizes. The
reports are counted and held against their orders and against the laws of chance. The times of
encoding and decoding come from the latency points of the engine.
With --self both sides run here, each in a process of its own, in rounds. In each the floor has a
turn, which sends as many bytes over bare sockets; then both sides send all orders; then codecs read
and write such messages in memory: ours and, with --peers, those of other engines. A round in which
the bare sockets were disturbed is played again. `client` and `server` are the same with keys to
press, as on the published page; each has a --help of its own.
Exit code: 0 done, 1 the run or its self-check failed, 2 wrong usage."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// Start both processes on this machine, over loopback, and send all orders.
    #[arg(long = "self", required = true)]
    both: bool,
    /// Number of orders to preload and send.
    #[arg(long, default_value_t = 500_000,
          value_parser = value_parser!(u32).range(1..=i64::from(keys::NUMBER_MAX)))]
    orders: u32,
    /// Number of rounds after a warm-up round; each round sends all orders. Ratios are medians over
    /// the rounds.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u16).range(1..=1_000))]
    rounds: u16,
    /// The seed of the client's random numbers; the server's seed is the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Send reports with LastCapacity(29)=4, and validate them in full; the page's value 5 is not
    /// in FIX 4.2.
    #[arg(long)]
    valid: bool,
    /// Abandon the run after this many seconds without a report.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = value_parser!(u64)
          .range(1..=86_400))]
    patience: u64,
    /// Print the distribution of times: below 1, 3, 5, 10, 20, 50, 100, 1,000 µs, and above.
    #[arg(long)]
    histogram: bool,
    /// Also run the codecs of other engines, from this directory or from the directory of
    /// `cargo xtask peers build`.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Path of the result as a JSON file.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
    /// Directory for the files `client` and `server` with the times of each side in the median
    /// round.
    #[arg(long, value_name = "DIR", default_value = ".")]
    log_dir: PathBuf,
    /// For tests: number of the report that the server omits, counted from 1.
    #[arg(long, hide = true)]
    drop: Option<u64>,
}

/// A side alone, which the user controls with keys.
#[derive(Debug, Clone, clap::Subcommand)]
enum Part {
    Server(server::Args),
    Client(client::Args),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let (name, done) = match &args.part {
        None => ("", rounds::run(args)),
        Some(Part::Server(args)) => (" server", server::run(args).map(|()| true)),
        Some(Part::Client(args)) => (" client", client::run(args)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        // The run has already printed its faults.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transfix bench hftest{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line and flushes the output.
fn say(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{line}").map_err(|why| why.to_string())
}
