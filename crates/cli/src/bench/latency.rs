//! Scenario S1 over two processes: the roles, and the run that starts both.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use transfix::Mode;

use super::report::{Figures, Machine, Ratio, Report, table, write_csv};
use super::roles::{Cpu, Raw, acceptor, initiator};
use super::s1::{Configuration, ReportForm, sample_frames};
use super::{peer, plot};

/// Scenario S1: round trip latency.
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
    role: Option<Side>,
    /// Configuration of the published page.
    #[arg(long, default_value = "default", value_parser = Configuration::named)]
    pub(super) config: Configuration,
    /// Where the acceptor listens; the floor uses the next port.
    #[arg(long, default_value = "127.0.0.1:9880")]
    pub(super) address: String,
    /// Orders to send.
    #[arg(long, default_value_t = 10_000)]
    pub(super) messages: usize,
    /// Orders a second.
    #[arg(long, default_value_t = 1_000)]
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
    /// With --self: also run QuickFIX C++ (built by `cargo xtask peers build`), from this
    /// directory.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "target/peers")]
    peers: Option<PathBuf>,
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
enum Side {
    Acceptor,
    Initiator,
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
    let done = match args.role {
        None => run_both(args),
        Some(Side::Acceptor) => acceptor(args),
        Some(Side::Initiator) => initiator(args).and_then(|raw| {
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
    let mut measured = measure_in_child(args.config, args.messages, args.rate, args.report)?;
    if let Some(dir) = &args.peers {
        let peers = &mut measured.report.peers;
        peer::run_all(dir, args.config, (args.messages, args.rate), peers)?;
    }
    show(args, &measured)
}

/// Runs both sides in processes of their own and gathers what they measured.
pub(crate) fn measure_in_child(
    config: Configuration,
    messages: usize,
    rate: u64,
    form: ReportForm,
) -> Result<Measured, String> {
    let mut acceptor =
        Process::start(&["acceptor", config.name, "127.0.0.1:0"], form, messages, rate)?;
    let listening = acceptor.line()?;
    let mut initiator =
        Process::start(&["initiator", config.name, &listening], form, messages, rate)?;
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
        report: form,
        cpu: None,
        session_cpu: None,
        peers: None,
        json: false,
        csv: PathBuf::new(),
        svg: PathBuf::new(),
    };
    Ok(measured(config, &args, &raw, acceptor_cpu))
}

/// A child process of this program, ended with its owner.
struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(
        [role, config, address]: &[&str; 3],
        form: ReportForm,
        messages: usize,
        rate: u64,
    ) -> Result<Self, String> {
        let form = if form == ReportForm::Valid { "valid" } else { "page" };
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut child = Command::new(program)
            .args(["bench", "latency", "--role", role, "--config", config])
            .args(["--address", address, "--report", form])
            .args(["--messages", &messages.to_string(), "--rate", &rate.to_string()])
            .env(HAND_OVER, "1")
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("the {role} cannot be started: {e}"))?;
        let out = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { child, lines: BufReader::new(out) })
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => {
                Err("a process of the benchmark ended too early; its error is above".to_owned())
            }
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Process {
    /// Waits for its end, which comes by itself after its last line.
    fn finish(mut self) -> Result<(), String> {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("a process ended with {status}")) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Already ended, unless something failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        "validation": if args.report == ReportForm::Valid { "both sides" } else { "acceptor" },
        "store": "file, mapped, durability process",
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
    plot::draw(&args.svg, "S1: NewOrderSingle to ExecutionReport", &series)?;
    if args.json {
        let json = serde_json::to_string(&measured.report).map_err(|e| e.to_string())?;
        return print_line(&json);
    }
    print_line(&table([&measured.report]).to_string())?;
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
