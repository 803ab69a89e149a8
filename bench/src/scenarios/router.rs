//! Scenario S3: a router that passes each message of many senders to a random one of several
//! receivers.
//!
//! A pair has two processes: one plays senders and receivers with plain sockets, the other is the
//! router, either this engine or the floor. The pairs alternate, row by row of the page's table.

mod client;
mod figures;
mod floor;
mod pair;
mod rate;
mod venue;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::value_parser;

use super::column::Column;
use super::contest::{Repeated, Round, repeat};
use super::remote::{self, Remote};
use super::report::Machine;
use super::shared::{HostSide, bar, print_line, save_json};
use client::Task;
use figures::{Report, Run, Shown};
use pair::{MODES, Pair, Routing, SESSIONS};
use rate::Highest;

/// A router between many sessions (S3): the latency that it adds, and the rate that it sustains.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench router --self
  transfix bench router --self --mode a --rows 70x20@1000
  transfix bench router --self --config own.toml --json
  transfix bench router --role acceptor  --address 10.0.0.2:9880
  transfix bench router --role initiator --address 10.0.0.2:9880

The page is that of the router sample of FIX Antenna HFT: N sessions send at once, the router
passes each message on to one of M others at random. Rows are SENDERSxRECEIVERS@RATE, the rate of
each sender a second; default: the page's twelve. RTT/2 is half of the time from the write of a
message to its arrival; socket to callback and put to socket are the engine's own latency points.
The floor is a router without a FIX engine: epoll, BodyLength(9), the same bytes to a socket at
random.
Over two hosts the router runs where the acceptor is, which starts it for whoever reaches its
address, in a network that you trust; all options but --config are those of the initiator.
Checked: each message arrives once, each receiver gets its share, and in mode A in order.
A round in which the floor was disturbed is played again by all. A row that fails is named, the
others are measured and saved all the same, and the exit code is 1.
Exit code: 0 done, 1 the run failed or a check did, 2 wrong usage.")]
pub(crate) struct Args {
    /// Start both processes on this machine, over loopback.
    #[arg(long = "self", conflicts_with = "role")]
    both: bool,
    /// The side to run on this host; start the acceptor first.
    #[arg(long, value_enum, required_unless_present_any = ["both", "part"])]
    role: Option<HostSide>,
    /// Address of the acceptor.
    #[arg(long, default_value = "127.0.0.1:9880")]
    address: String,
    /// The thread that routes: the thread that reads (a), or a pool of threads (b).
    #[arg(long, value_enum, default_value = "both")]
    mode: ModeArg,
    /// A configuration file to use instead of the built-in modes.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Rows of the table to measure; default: all rows of the page.
    #[arg(long, value_delimiter = ',', value_name = "NxM@RATE", value_parser = Row::parse)]
    rows: Vec<Row>,
    /// Length of a slice in milliseconds.
    #[arg(long, default_value_t = 500, value_parser = value_parser!(u64).range(10..=60_000))]
    slice_ms: u64,
    /// Number of slices of each row; router and floor alternate.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u64).range(1..=1_000))]
    slices: u64,
    /// Skip the search for the highest rate.
    #[arg(long)]
    no_rate: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Directory for `router.json`.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
    /// The part of the benchmark that this process runs for its parent process.
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,
    /// Number of sending sessions, and number of receiving sessions.
    #[arg(long, hide = true, num_args = 2)]
    sessions: Vec<usize>,
}

impl Args {
    /// Returns the address of the acceptor on another host, or `None` if all processes run here.
    fn host(&self) -> Option<&str> {
        self.role.map(|_| &*self.address)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ModeArg {
    A,
    B,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Client,
    Floor,
    Router,
}

/// A row of the page's table: numbers of senders and receivers, and the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    senders: usize,
    receivers: usize,
    /// Messages per second of each sender.
    rate: u64,
}

impl Row {
    const fn of(senders: usize, rate: u64, receivers: usize) -> Self {
        Self { senders, receivers, rate }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not SENDERSxRECEIVERS@RATE, such as 70x20@1000");
        let (sides, rate) = text.split_once('@').ok_or_else(wrong)?;
        let (senders, receivers) = sides.split_once('x').ok_or_else(wrong)?;
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| SESSIONS.contains(n));
        let numbers = number(senders).zip(number(receivers)).zip(number(rate));
        let ((senders, receivers), rate) = numbers.ok_or_else(wrong)?;
        Ok(Self { senders, receivers, rate: rate as u64 })
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}@{}", self.senders, self.receivers, self.rate)
    }
}

/// The rows of the page: senders, rate of each sender, and receivers.
const ROWS: [Row; 12] = [
    Row::of(1, 1_000, 10),
    Row::of(1, 5_000, 10),
    Row::of(1, 10_000, 10),
    Row::of(5, 1_000, 10),
    Row::of(5, 5_000, 10),
    Row::of(5, 10_000, 10),
    Row::of(20, 1_000, 20),
    Row::of(20, 5_000, 20),
    Row::of(20, 10_000, 20),
    Row::of(70, 1_000, 20),
    Row::of(70, 5_000, 20),
    Row::of(70, 10_000, 20),
];

/// CPUs of the sending process and of the router, if the machine has at least two.
const CPUS: [usize; 2] = [0, 1];

pub(crate) fn run(args: &Args) -> ExitCode {
    let done = match (args.part, args.role) {
        (Some(part), _) => play(args, part).map(|()| true),
        (None, Some(HostSide::Acceptor)) => {
            pair::serve(&args.address, args.config.as_deref()).map(|()| true)
        }
        (None, _) => run_all(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("transfix bench router: {error}");
            ExitCode::FAILURE
        }
    }
}

fn has_two_cpus() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1)
}

fn column(name: &str) -> Result<Column, String> {
    match MODES.iter().find(|(mode, _)| *mode == name) {
        Some((mode, text)) => Column::parse(mode, text),
        None => Column::load(name.as_ref()),
    }
}

/// Runs a part in a process that [`run_all`] has started.
fn play(args: &Args, part: Part) -> Result<(), String> {
    let [senders, receivers] = args.sessions[..] else { return Err("no sessions".to_owned()) };
    let pin = |n: usize| match has_two_cpus() {
        true => transfix::pin_to_cpu(CPUS[n]).map_err(|error| format!("CPU {n}: {error}")),
        false => Ok(()),
    };
    match part {
        Part::Client => {
            pin(0)?;
            client::run(&args.address, senders, receivers)
        }
        Part::Floor => {
            pin(1)?;
            floor::run(&args.address, senders, receivers)
        }
        Part::Router => {
            let name = args.config.as_ref().map(|path| path.display().to_string());
            venue::run(&column(&name.unwrap_or_default())?, &args.address, senders, receivers)
        }
    }
}

fn run_all(args: &Args) -> Result<bool, String> {
    let rows = if args.rows.is_empty() { &ROWS[..] } else { &args.rows };
    let most = |pick: fn(&Row) -> usize| rows.iter().map(pick).max().unwrap_or(1);
    let sessions = [most(|row| row.senders), most(|row| row.receivers)];
    let names: Vec<String> = match (&args.config, args.mode) {
        (Some(path), _) => vec![path.display().to_string()],
        (_, ModeArg::A) => vec![MODES[0].0.to_owned()],
        (_, ModeArg::B) => vec![MODES[1].0.to_owned()],
        (_, ModeArg::Both) => MODES.map(|(name, _)| name.to_owned()).into(),
    };
    let columns = names.iter().map(|name| column(name)).collect::<Result<Vec<_>, _>>()?;
    let cpus = match args.host() {
        Some(host) => Remote::connect(host)?.cpus()?,
        None => remote::cpus(),
    };
    let (shown, highest, not_run) = measure_all(args, rows, sessions, (&names, &columns))?;
    let cpus = venue::cpus(cpus);
    let rooms: Vec<bool> = columns.iter().map(|c| venue::has_room(c, cpus)).collect();
    let workers: Vec<usize> = columns.iter().map(|c| venue::workers(c, cpus)).collect();
    let settings = serde_json::json!({
        "slices": args.slices,
        "slice_ms": args.slice_ms,
        "transport": if args.host().is_some() { "TCP, two hosts" } else { "TCP, loopback" },
        "cpus_of_router": cpus,
        "has_a_cpu_for_each_thread": rooms,
        "workers": workers,
        "configurations": columns.iter().map(Column::described).collect::<Vec<_>>(),
    });
    let machine = Machine::this();
    let modes = names;
    let scenario = "S3".to_owned();
    let report = Report { scenario, modes, rows: shown, not_run, highest, machine, settings };
    save(args, (&columns, cpus), &report)?;
    Ok(report.holds())
}

/// Starts a pair for the floor and for each router, and logs on all sessions.
fn start(names: &[String], host: Option<&str>, sessions: [usize; 2]) -> Result<Vec<Pair>, String> {
    let pair = |name: &str, config| Pair::start(name, host, &Routing { config, sessions });
    let floor = pair("the floor", None);
    let routers = names.iter().map(|name| pair(name, Some(name.clone())));
    std::iter::once(floor).chain(routers).collect()
}

/// The results: the rows, the highest rates, and the failures with their reasons.
type Measured = (Vec<Shown>, Highest, Vec<String>);

/// Measures all rows. If a row fails, the results of other rows are kept, and all processes restart
/// for the next row.
fn measure_all(
    args: &Args,
    rows: &[Row],
    sessions: [usize; 2],
    (names, columns): (&[String], &[Column]),
) -> Result<Measured, String> {
    /// Number of consecutive failed starts after which the remaining rows are skipped.
    const STARTS: usize = 2;
    let bar = bar("router", rows.len() * args.slices as usize);
    let (mut shown, mut rates, mut not_run) = (Vec::new(), Highest::default(), Vec::new());
    let (mut pairs, mut failed_starts) = (None, 0);
    let mut with_pairs = |measure: &mut dyn FnMut(&mut [Pair]) -> Result<(), String>| {
        if failed_starts == STARTS {
            return Err("not tried, since the processes did not start".to_owned());
        }
        let mut running = match pairs.take() {
            Some(running) => running,
            None => start(names, args.host(), sessions).inspect_err(|_| failed_starts += 1)?,
        };
        failed_starts = 0;
        measure(&mut running)?;
        pairs = Some(running);
        Ok(())
    };
    for row in rows {
        let done = with_pairs(&mut |pairs| {
            shown.push(measure(row, args, pairs, columns, &bar)?);
            Ok(())
        });
        if let Err(error) = done {
            not_run.push(format!("{row}: {error}"));
        }
    }
    bar.finish_and_clear();
    if let (false, Some(row)) = (args.no_rate, rows.last()) {
        let done = with_pairs(&mut |pairs| {
            rates = rate::highest(*row, pairs)?;
            Ok(())
        });
        if let Err(error) = done {
            not_run.push(format!("the highest rate: {error}"));
        }
    }
    match not_run.first() {
        Some(error) if shown.is_empty() => Err(error.clone()),
        _ => Ok((shown, rates, not_run)),
    }
}

fn measure(
    row: &Row,
    args: &Args,
    pairs: &mut [Pair],
    columns: &[Column],
    bar: &indicatif::ProgressBar,
) -> Result<Shown, String> {
    let &Row { senders, receivers, rate } = row;
    let ns = args.slice_ms * 1_000_000;
    let task = Task { senders, receivers, rate, ns, gives_up: false };
    let slices = args.slices as usize;
    let round = |which: Round| {
        bar.set_message(format!("{row}: {}", which.words(slices)));
        let task = if which == Round::WarmUp { Task { ns: ns / 10, ..task } } else { task };
        let runs = pairs.iter_mut().map(|pair| pair.slice(task)).collect::<Result<Vec<_>, _>>()?;
        if matches!(which, Round::Nth(_)) {
            bar.inc(1);
        }
        Ok(runs)
    };
    let floor_p99 = |runs: &Vec<Run>| figures::quantile(&runs[0].load, 0.99) as f64;
    let Repeated { rounds, count } = repeat(slices, round, floor_p99)?;
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); columns.len() + 1];
    for round in rounds {
        for (runs, run) in runs.iter_mut().zip(round) {
            runs.push(run);
        }
    }
    let in_order: Vec<bool> = columns.iter().map(|column| !venue::has_pool(column)).collect();
    Ok(Shown::of(task, &runs, count, &in_order))
}

fn save(args: &Args, (columns, cpus): (&[Column], usize), report: &Report) -> Result<(), String> {
    let json = save_json(&args.out, "router", report)?;
    if args.json {
        return print_line(&json);
    }
    print_line(&format!("Router (S3)\n{}\n", report.machine.words()))?;
    for column in columns {
        let Column { name, beside, .. } = column;
        let threads = match (venue::workers(column, cpus), venue::has_room(column, cpus)) {
            (workers, true) => format!("{workers} workers"),
            (workers, false) => format!("{workers} workers, none spins: too few CPUs"),
        };
        print_line(&format!("{name} (\"{}\"): {}; {threads}", beside.title, beside.advice))?;
    }
    print_line(&report.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_wrong_ones_refused() {
        assert_eq!(Row::parse("70x20@1000"), Ok(Row::of(70, 1_000, 20)));
        for wrong in ["70x20", "0x1@1", "1x1@0", "ax1@1", "1x1@1000000"] {
            assert!(Row::parse(wrong).is_err(), "{wrong}");
        }
        for (name, _) in MODES {
            assert!(!column(name).unwrap().beside.title.is_empty());
        }
    }
}
