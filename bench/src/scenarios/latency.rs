//! Scenario S1 over two processes: the roles, and the run that starts both.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::value_parser;
use transfix::Mode;

use super::child::Side;
use super::report::{Figures, Machine, NOISE_EXPLAINED, Ratio, Report, table, write_csv};
use super::roles::{Cpu, Raw, acceptor, initiator};
use super::s1::{Configuration, ReportForm, sample_frames};
use super::{peer, plot};

/// Order round trip (scenario S1): its latency, beside its floor and its peers.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench latency --self --config optimized-hard-spin
  transfix bench latency --role acceptor  --config default --address 0.0.0.0:9880
  transfix bench latency --role initiator --config default --address 10.0.0.2:9880

Configurations: default, aggressive, balanced, optimized-hard-spin.
The floor is measured in the same run: the same bytes over a raw socket at the port above, with the
same way of waiting and the same pace, in ten slices between those of the engine.
Exit code: 0 done, 1 the run failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// Start both processes here, over loopback.
    #[arg(long = "self", conflicts_with = "role")]
    both: bool,
    /// The side to run in this process; start the acceptor first.
    #[arg(long, value_enum, required_unless_present = "both")]
    role: Option<Role>,
    /// Configuration of the published page, "Latency2" of FIX Antenna C++ 2.19.
    #[arg(long, default_value = "default", value_parser = Configuration::named)]
    pub(super) config: Configuration,
    /// Where the acceptor listens; the floor uses the next port.
    #[arg(long, default_value = "127.0.0.1:9880")]
    pub(super) address: String,
    /// Orders to send.
    #[arg(long, default_value_t = 10_000, value_parser = at_least_one)]
    pub(super) messages: usize,
    /// Orders a second.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(super) rate: u64,
    /// The ExecutionReport(8) to answer with.
    #[arg(long, value_enum, default_value = "valid")]
    pub(super) report: ReportForm,
    /// CPU of this side; default: 0 initiator, 1 acceptor, where the configuration has affinity.
    #[arg(long, conflicts_with = "both")]
    pub(super) cpu: Option<usize>,
    /// CPU of the initiator's session where it has a thread beside the one that paces; default 1.
    #[arg(long, conflicts_with = "both")]
    pub(super) session_cpu: Option<usize>,
    /// For how long the threads of both sides look at their sockets before they sleep, in
    /// microseconds; the floor sleeps at once. Not for optimized-hard-spin, which never sleeps.
    #[arg(long, default_value_t = 0)]
    spin_us: u32,
    /// Write the protocol log on both sides.
    #[arg(long)]
    pub(super) log: bool,
    /// With --self: also run QuickFIX C++, from this directory or where `cargo xtask peers build`
    /// puts it, beside this program's own.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Where raw values are written.
    #[arg(long, default_value = "latency.csv")]
    csv: PathBuf,
    /// Where the picture of the distribution is drawn.
    #[arg(long, default_value = "latency.svg")]
    svg: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Role {
    Acceptor,
    Initiator,
}

/// What both sides are to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Orders to send.
    pub(crate) messages: usize,
    /// Orders a second.
    pub(crate) rate: u64,
    /// What they are answered with.
    pub(crate) report: ReportForm,
    /// Whether both write the protocol log.
    pub(crate) log: bool,
}

/// One run with its raw values.
pub(crate) struct Measured {
    pub(crate) report: Report,
    pub(crate) engine: Vec<u64>,
    pub(crate) floor: Vec<u64>,
}

impl Measured {
    /// Names of the two series, for files and pictures.
    pub(crate) fn names(&self) -> (String, String) {
        let name = &self.report.configuration;
        (name.clone(), format!("floor of {name}"))
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let config = Configuration { spin_us: args.spin_us, ..args.config };
    let args = &Args { config, ..args.clone() };
    let done = match args.role {
        None => run_both(args),
        Some(Role::Acceptor) => acceptor(args),
        Some(Role::Initiator) => initiator(args).and_then(|raw| {
            // Started by hand, this side shows what it measured; started by --self, it hands over.
            if std::env::var_os(HAND_OVER).is_some() {
                print_line(&serde_json::to_string(&raw).map_err(|e| e.to_string())?)
            } else {
                show(args, &measured(args.config, args, &raw, Cpu::default()))
            }
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench latency: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Set by the process that starts the initiator, which wants raw values on standard output.
const HAND_OVER: &str = "TRANSFIX_BENCH_HAND_OVER";

fn run_both(args: &Args) -> Result<(), String> {
    let dir = args.peers.as_ref().map(|dir| peers_in(dir.as_deref())).transpose()?;
    let mut measured = {
        let &Args { messages, rate, report, log, .. } = args;
        measure_in_child(args.config, Work { messages, rate, report, log })?
    };
    if let Some(dir) = dir {
        let peers = &mut measured.report.peers;
        peer::run_all(&dir, args.config, (args.messages, args.rate), peers)?;
    }
    show(args, &measured)
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "a number above 0".to_owned())
}

/// Where the programs of the peers are: the directory that the user names, which must be there, or
/// `target/peers` for a program in `target/release`.
pub(super) fn peers_in(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(dir) = named {
        let shown = dir.display();
        return if dir.is_dir() { Ok(dir.into()) } else { Err(format!("{shown}: no directory")) };
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = program.parent().and_then(Path::parent);
    target.map(|target| target.join("peers")).ok_or_else(|| "name the directory".to_owned())
}

/// Runs both sides in processes of their own and gathers what they measured.
pub(crate) fn measure_in_child(config: Configuration, work: Work) -> Result<Measured, String> {
    let Work { messages, rate, report, log } = work;
    let mut acceptor = side("acceptor", (config, "127.0.0.1:0"), work)?;
    let listening = acceptor.line()?;
    let mut initiator = side("initiator", (config, &listening), work)?;
    let raw: Raw = serde_json::from_str(&initiator.line()?).map_err(|e| e.to_string())?;
    let acceptor_cpu: Cpu =
        serde_json::from_str(&acceptor.line()?).map_err(|error| error.to_string())?;
    initiator.finish()?;
    acceptor.finish()?;
    let args = Args {
        both: true,
        role: None,
        config,
        address: listening,
        messages,
        rate,
        report,
        spin_us: config.spin_us,
        log,
        cpu: None,
        session_cpu: None,
        peers: None,
        json: false,
        csv: PathBuf::new(),
        svg: PathBuf::new(),
    };
    Ok(measured(config, &args, &raw, acceptor_cpu))
}

/// One side of our own, as a process.
fn side(
    role: &'static str,
    (config, address): (Configuration, &str),
    work: Work,
) -> Result<Side, String> {
    let form = if work.report == ReportForm::Valid { "valid" } else { "page" };
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command
        .args(["bench", "latency", "--role", role, "--config", config.name])
        .args(["--address", address, "--report", form])
        .args(["--messages", &work.messages.to_string(), "--rate", &work.rate.to_string()])
        .args(["--spin-us", &config.spin_us.to_string()])
        .args(work.log.then_some("--log"))
        .env(HAND_OVER, "1");
    Side::start(role, &mut command)
}

fn measured(config: Configuration, args: &Args, raw: &Raw, acceptor: Cpu) -> Measured {
    let engine = Figures::of(&raw.engine, raw.cpu_ns.engine + acceptor.engine);
    let floor = Figures::of(&raw.floor, raw.cpu_ns.floor + acceptor.floor);
    let (order, report) = sample_frames(args.report);
    let settings = serde_json::json!({
        "messages": args.messages,
        "rate_per_s": args.rate,
        "prepared": config.prepared,
        "affinity": config.affinity,
        "mode": config.mode,
        "spin_us": config.spin_us,
        "validation": if args.report == ReportForm::Valid { "both sides" } else { "acceptor" },
        "store": "file, mapped, durability process",
        "protocol_log": args.log,
        "report": if args.report == ReportForm::Valid { "valid" } else { "page" },
        "order_bytes": order.len(),
        "report_bytes": report.len(),
        "floor": if config.mode == Mode::Spin { "spin" } else { "kernel wait" },
    });
    let report = Report {
        scenario: "S1".to_owned(),
        configuration: config.name.to_owned(),
        engine,
        floor,
        peers: Default::default(),
        ratio: Ratio::of(&engine, &floor),
        machine: Machine::this(),
        settings,
    };
    Measured { report, engine: raw.engine.clone(), floor: raw.floor.clone() }
}

fn show(args: &Args, measured: &Measured) -> Result<(), String> {
    let (engine, floor) = measured.names();
    let series: [(&str, &[u64]); 2] = [(&engine, &measured.engine), (&floor, &measured.floor)];
    write_csv(&args.csv, &series).map_err(|e| format!("{}: {e}", args.csv.display()))?;
    plot::draw(
        &args.svg,
        "Order round trip (S1): NewOrderSingle(D) to ExecutionReport(8)",
        &series,
    )?;
    if args.json {
        let json = serde_json::to_string(&measured.report).map_err(|e| e.to_string())?;
        return print_line(&json);
    }
    print_line(&table([&measured.report]).to_string())?;
    if measured.report.ratio.is_noise() {
        print_line(NOISE_EXPLAINED)?;
    }
    print_line(&format!(
        "{}: {}. Raw values: {}; picture: {}",
        args.config.name,
        args.config.advice,
        args.csv.display(),
        args.svg.display()
    ))
}

pub(super) fn print_line(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| error.to_string())
}
