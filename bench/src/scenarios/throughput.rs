//! Scenario throughput: orders and their reports at full speed of one engine thread, and at a fixed
//! pace, by the number of sessions. Engine, floor and QuickFIX C++ are measured.
//!
//! Each side under test is a separate process with a client process of its own. The sides
//! alternate, slice by slice.

mod client;
mod figures;
mod floor;
mod orders;
mod side;
mod venue;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::value_parser;
use transfix::{Durability, pin_to_cpu};

use super::contest::{Repeated, Round, repeat};
use super::report::Machine;
use super::shared::{HostSide, StoreDir, at_least_one, peers_in, print_line, save_json};
use client::Task;
use figures::{Measured, Report, Run};
pub(crate) use orders::{Frames, Orders, length as frame_length};
use side::{Kind, Side};

/// Orders and reports at full speed of one engine thread, by the number of sessions.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench throughput --self
  transfix bench throughput --self --sessions 32 --peers --json
  transfix bench throughput --role acceptor  --address 10.0.0.2:9880
  transfix bench throughput --role initiator --address 10.0.0.2:9880

One sender (CPU 0) keeps orders under way in all sessions; one thread of the engine (CPU 1)
validates each, stores it, and stores and sends its ExecutionReport(8). The floor, measured in the
same run, waits with epoll, finds messages by their BodyLength(9) and writes as many bytes once a
read. Then all of it again at a steady pace. Engine, floor and peers take turns; a round in which
the floor was disturbed is played again by all, and ratios come with their certainty.
Over two hosts, floor and engine run where the acceptor is, which starts them for whoever reaches
its address, in a network that you trust; all options are those of the initiator.
Exit code: 0 done, 1 the run failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// Start all processes on this machine, over loopback.
    #[arg(long = "self", conflicts_with = "role")]
    both: bool,
    /// The side to run on this host; start the acceptor first.
    #[arg(long, value_enum, required_unless_present_any = ["both", "part"])]
    role: Option<HostSide>,
    /// Address of the acceptor.
    #[arg(long, default_value = "127.0.0.1:9880")]
    address: String,
    /// Numbers of sessions; each number is a separate run.
    #[arg(long, value_delimiter = ',', default_value = "1,32,1000,10000",
          value_parser = at_least_one)]
    sessions: Vec<usize>,
    /// Unanswered orders in each session at full speed; at most 2,048 over all sessions, but at
    /// least one per session.
    #[arg(long, default_value_t = 64, value_parser = at_least_one)]
    window: usize,
    /// Orders per second at the fixed pace, over all sessions.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    rate: u64,
    /// Number of slices of each side; the figures are medians over them.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    slices: usize,
    /// Length of a slice in milliseconds.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=60_000))]
    slice_ms: u64,
    /// Also run QuickFIX C++, from this directory or from the directory of
    /// `cargo xtask peers build`.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "role")]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Directory for the result: a JSON file, and a chart of the cost by the number of sessions.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
    /// The part of the benchmark that this process runs for its parent process.
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,
    /// Directory of the stores.
    #[arg(long, hide = true, default_value = ".")]
    store: PathBuf,
    /// The floor echoes the received bytes, and its thread is not pinned.
    #[arg(long, hide = true)]
    echo: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Client,
    Floor,
    File,
    Memory,
}

impl Args {
    /// Returns the address of the acceptor on another host, or `None` if all processes run here.
    fn host(&self) -> Option<&str> {
        self.role.map(|_| &*self.address)
    }
}

/// CPUs of the sender and of the side under test, if the machine has at least two.
const CPUS: [usize; 2] = [0, 1];
/// Maximum number of unanswered orders over all sessions.
const UNDER_WAY: usize = 2_048;
/// Number of descriptors that a process needs beside those of its sessions.
const OTHER_FILES: usize = 64;

pub(crate) fn run(args: &Args) -> ExitCode {
    let done = match (args.part, args.role) {
        (Some(part), _) => play(args, part),
        (None, Some(HostSide::Acceptor)) => side::serve(&args.address),
        (None, _) => run_all(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench throughput: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a part in a process that [`run_all`] has started.
fn play(args: &Args, part: Part) -> Result<(), String> {
    let sessions = args.sessions.first().copied().unwrap_or(1);
    let has_two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let pin = |cpu: usize| match has_two {
        true => pin_to_cpu(cpu).map_err(|error| format!("CPU {cpu}: {error}")),
        false => Ok(()),
    };
    let venue = |durability| {
        let cpu = has_two.then_some(CPUS[1]);
        venue::run((&args.address, sessions), durability, &args.store, cpu)
    };
    match part {
        Part::Client => {
            pin(CPUS[0])?;
            client::run(&args.address, sessions)
        }
        Part::Floor if args.echo => floor::run(&args.address, floor::Answer::Same),
        Part::Floor => {
            pin(CPUS[1])?;
            floor::run(&args.address, floor::Answer::Report)
        }
        Part::File => venue(Durability::Process),
        Part::Memory => venue(Durability::Memory),
    }
}

/// Returns the command that starts this program as `part`; `address` is the address to listen on or
/// to connect to.
fn command(part: &str, sessions: usize, address: &str) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(["throughput", "--part", part, "--address", address]);
    command.args(["--sessions", &sessions.to_string()]);
    Ok(command)
}

fn run_all(args: &Args) -> Result<(), String> {
    let peers = args.peers.as_ref().map(|dir| peers_in(dir.as_deref())).transpose()?;
    // The stores are removed only at the end of all runs, because ext4 creates files slowly for
    // minutes after many deletions.
    let (mut runs, mut stores) = (Vec::new(), Vec::new());
    for &sessions in &args.sessions {
        runs.push(run_with(args, sessions, peers.as_deref(), &mut stores)?);
    }
    let settings = serde_json::json!({
        "window": args.window,
        "under_way_max": UNDER_WAY,
        "rate_per_s": args.rate,
        "slices": args.slices,
        "slice_ms": args.slice_ms,
        "workers": 1,
        "validation": true,
        "durability": "process",
        "hosts": if args.host().is_some() { 2 } else { 1 },
    });
    let report =
        Report { scenario: "throughput".to_owned(), runs, machine: Machine::this(), settings };
    let out = args.out.display();
    let json = save_json(&args.out, "throughput", &report)?;
    report.draw(&args.out.join("throughput.svg"))?;
    if args.json {
        return print_line(&json);
    }
    print_line(&format!("{}\n", report.machine.words()))?;
    print_line(&report.to_string())?;
    print_line(&format!("Picture of the cost by the number of sessions: {out}/throughput.svg"))
}

/// Measures all sides with the same number of sessions.
fn run_with(
    args: &Args,
    sessions: usize,
    peers: Option<&Path>,
    stores: &mut Vec<StoreDir>,
) -> Result<Run, String> {
    open_files(sessions)?;
    let window = args.window.min((UNDER_WAY / sessions).max(1));
    let ns = args.slice_ms * 1_000_000;
    let tasks = [Task::Full { window, ns }, Task::Paced { rate: args.rate, ns }];
    let mut kinds = vec![Kind::Floor, Kind::TransfixFile, Kind::TransfixMemory];
    if peers.is_some() {
        kinds.extend([Kind::QuickfixFile, Kind::QuickfixMemory]);
    }
    let mut run = Run::new(sessions, window);
    let mut sides = Vec::new();
    for kind in kinds {
        eprint!("\r\x1b[K{sessions} sessions: {} starts", kind.name());
        let store = StoreDir::new()?;
        match Side::start((kind, sessions), args.host(), &store.0, peers) {
            Ok(side) => sides.push(side),
            // A failure of another engine is recorded as a result; a failure of ours or of the
            // floor is an error.
            Err(error) if kind.is_peer() => run.not_run.push(format!("{}: {error}", kind.name())),
            Err(error) => return Err(format!("{}: {error}", kind.name())),
        }
        stores.push(store);
    }
    let not_run = &mut run.not_run;
    let round = |which: Round| {
        let words = which.words(args.slices);
        round(&mut sides, tasks, (sessions, &words), not_run)
    };
    let floor_p99 = |round: &Vec<Measured>| round[0].full_p99_ns();
    let Repeated { rounds, count } = repeat(args.slices, round, floor_p99)?;
    eprint!("\r\x1b[K");
    for round in &rounds {
        run.add(round)?;
    }
    run.end(count);
    Ok(run)
}

/// Measures one slice of each side, the floor first. A peer that fails is removed from `sides`.
fn round(
    sides: &mut Vec<Side>,
    [full, paced]: [Task; 2],
    (sessions, words): (usize, &str),
    not_run: &mut Vec<String>,
) -> Result<Vec<Measured>, String> {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for side in &mut *sides {
        let (kind, name) = (side.kind, side.kind.name());
        eprint!("\r\x1b[K{sessions} sessions: {words}, {name}");
        let both = side.slice(full).and_then(|full| Ok((full, side.slice(paced)?)));
        match both {
            Ok((full, paced)) => all.push(Measured { kind, full, paced }),
            Err(error) if kind.is_peer() => {
                not_run.push(format!("{name}, from {words} on: {error}"));
                failed.push(kind);
            }
            Err(error) => return Err(format!("{name}: {error}")),
        }
    }
    sides.retain(|side| !failed.contains(&side.kind));
    Ok(all)
}

/// Raises the soft limit of descriptors to the number that all sessions need, as far as the hard
/// limit allows.
fn open_files(sessions: usize) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Each session has a socket; a file store of QuickFIX has four more files.
    let needed = (6 * sessions + OTHER_FILES) as u64;
    if current.is_some_and(|current| current < needed) {
        let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
        let limit = Rlimit { current: Some(raised), maximum };
        setrlimit(Resource::Nofile, limit).map_err(|error| format!("ulimit -n: {error}"))?;
    }
    Ok(())
}
