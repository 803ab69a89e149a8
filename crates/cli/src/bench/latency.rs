//! Scenario S1 over two processes: the roles, and the run that starts both.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender as Channel, channel};

use serde::{Deserialize, Serialize};
use transfix::clock::{monotonic_ns, process_cpu_ns};
use transfix::{
    Application, BusinessReject, Disconnect, Engine, Message, Mode, Role, SessionId, SessionRef,
    SessionSettings, Settings, pin_to_cpu,
};

use super::floor::{self, Wait};
use super::pace::Pace;
use super::report::{Figures, Machine, Ratio, Report, table, write_csv};
use super::s1::{Arrivals, Configuration, Order, Receiver, ReportForm, Sender, sample_frames};
use super::{peer, plot};

/// How long a side waits for the other to appear.
const PATIENCE_NS: u64 = 30_000_000_000;

/// Scenario S1: round trip latency.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench latency --self --config optimized-hard-spin
  transfix bench latency --role acceptor  --config default --address 0.0.0.0:9880
  transfix bench latency --role initiator --config default --address 10.0.0.2:9880

Configurations: default, aggressive, balanced, optimized-hard-spin.
The floor is measured in the same run: the same bytes over a raw socket at the port above, with the
same way of waiting and the same pace, half before and half after the engine's round trips.
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
    config: Configuration,
    /// Where the acceptor listens; the floor uses the next port.
    #[arg(long, default_value = "127.0.0.1:9880")]
    address: String,
    /// Orders to send.
    #[arg(long, default_value_t = 10_000)]
    messages: usize,
    /// Orders a second.
    #[arg(long, default_value_t = 1_000)]
    rate: u64,
    /// The ExecutionReport(8) to answer with.
    #[arg(long, value_enum, default_value = "valid")]
    report: ReportForm,
    /// CPU of this side; default: 0 initiator, 1 acceptor, where the configuration has affinity.
    #[arg(long, conflicts_with = "both")]
    cpu: Option<usize>,
    /// CPU of the initiator's session where it has a thread beside the one that paces; default 1.
    #[arg(long, conflicts_with = "both")]
    session_cpu: Option<usize>,
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

/// What the initiator's process hands to the one that started it.
#[derive(Serialize, Deserialize)]
struct Raw {
    engine: Vec<u64>,
    floor: Vec<u64>,
    cpu_ns: Cpu,
}

/// CPU time of one process while the round trips took place.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Cpu {
    engine: u64,
    floor: u64,
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

fn print_line(line: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| error.to_string())
}

const fn wait(config: Configuration) -> Wait {
    if matches!(config.mode, Mode::Spin) { Wait::Spin } else { Wait::Kernel }
}

/// A quarter of the round trips before the engine's, a quarter after them.
fn floor_messages(messages: usize) -> usize {
    (messages / 4).max(1)
}

fn pin(args: &Args, default: usize) -> Result<Option<usize>, String> {
    let cpu = args.cpu.or_else(|| args.config.affinity.then_some(default));
    if let Some(cpu) = cpu {
        pin_to_cpu(cpu).map_err(|error| format!("CPU {cpu} cannot be used: {error}"))?;
    }
    Ok(cpu)
}

fn engine(
    args: &Args,
    mut session: SessionSettings,
    cpu: Option<usize>,
    application: Box<dyn Application>,
) -> Result<(Engine, StoreDir), String> {
    let dir = StoreDir::new()?;
    session.store_dir.clone_from(&dir.0);
    session.cpu = cpu;
    let mut settings = Settings::of(session);
    settings.engine.workers = args.config.pool_workers;
    let mut application = Some(application);
    let engine = Engine::start(&settings, |_| match application.take() {
        Some(application) => application,
        None => unreachable!("there is one session"),
    });
    Ok((engine.map_err(|error| error.to_string())?, dir))
}

/// A store of the benchmark, removed at its end.
struct StoreDir(PathBuf);

impl StoreDir {
    fn new() -> Result<Self, String> {
        let name = format!("transfix-bench-{}-{}", std::process::id(), monotonic_ns());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        // What is left behind lies in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tells the main thread of the acceptor when the session begins and ends.
struct UntilEnd {
    receiver: Receiver,
    changes: Channel<()>,
}

impl Application for UntilEnd {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.receiver.on_message(message, session)
    }

    fn on_logon(&mut self, _: &mut SessionRef<'_>) {
        let _ = self.changes.send(());
    }

    fn on_disconnect(&mut self, _: &SessionId, _: Disconnect) {
        let _ = self.changes.send(());
    }
}

fn acceptor(args: &Args) -> Result<(), String> {
    let (host, port) = split_address(&args.address)?;
    let cpu = pin(args, 1)?;
    let raw_port = if port == 0 { 0 } else { port + 1 };
    let raw = TcpListener::bind((host, raw_port)).map_err(|e| format!("floor port: {e}"))?;
    let (changes, changed) = channel();
    let receiver = Receiver::new(args.config.prepared, args.report);
    let session = args.config.session(Role::Acceptor, &args.address);
    let (engine, _dir) = engine(args, session, cpu, Box::new(UntilEnd { receiver, changes }))?;
    let raw_at = raw.local_addr().map_err(|e| e.to_string())?;
    print_line(&format!("{} {raw_at}", engine.listening()[0]))?;
    let (order, report) = sample_frames(args.report);
    let mut cpu_ns = Cpu::default();
    cpu_ns.floor += timed(|| {
        floor::answer(&raw, wait(args.config), order.len(), &report).map_err(|e| e.to_string())
    })?;
    let next = || changed.recv().map_err(|_| "the session never came".to_owned());
    next()?;
    cpu_ns.engine = timed(next)?;
    cpu_ns.floor += timed(|| {
        floor::answer(&raw, wait(args.config), order.len(), &report).map_err(|e| e.to_string())
    })?;
    engine.stop(1_000);
    print_line(&serde_json::to_string(&cpu_ns).map_err(|e| e.to_string())?)
}

/// CPU time of this process while `work` is done.
fn timed(work: impl FnOnce() -> Result<(), String>) -> Result<u64, String> {
    let before = process_cpu_ns();
    work()?;
    Ok(process_cpu_ns() - before)
}

fn split_address(address: &str) -> Result<(&str, u16), String> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| format!("{address} is not host:port"))
}

fn initiator(args: &Args) -> Result<Raw, String> {
    // "engine floor" from the acceptor's own line, or one address and the next port.
    let (address, raw_address) = match args.address.split_once(' ') {
        Some((engine, floor)) => (engine.to_owned(), floor.to_owned()),
        None => {
            let (host, port) = split_address(&args.address)?;
            (args.address.clone(), format!("{host}:{}", port + 1))
        }
    };
    let cpu = pin(args, 0)?;
    let (order, report) = sample_frames(args.report);
    let floor_n = floor_messages(args.messages);
    let session_cpu = args.session_cpu.or_else(|| args.config.affinity.then_some(1));
    let waits = (wait(args.config), session_cpu);
    let mut raw = Raw { engine: Vec::new(), floor: Vec::new(), cpu_ns: Cpu::default() };
    for half in 0..2 {
        raw.cpu_ns.floor += timed(|| {
            let load = (floor_n, args.rate);
            let values = floor::ask(&raw_address, waits, (&order, report.len()), load);
            raw.floor.extend(values.map_err(|error| format!("floor at {raw_address}: {error}"))?);
            Ok(())
        })?;
        if half == 0 {
            (raw.engine, raw.cpu_ns.engine) =
                engine_round_trips(args, &address, (cpu, session_cpu))?;
        }
    }
    Ok(raw)
}

fn engine_round_trips(
    args: &Args,
    address: &str,
    (cpu, session_cpu): (Option<usize>, Option<usize>),
) -> Result<(Vec<u64>, u64), String> {
    let n = args.messages;
    let arrivals = Arc::new(Arrivals::new(n));
    let mut session = args.config.session(Role::Initiator, address);
    // The page's report lacks fields that FIX 4.2 requires.
    session.validate = args.report == ReportForm::Valid;
    let id = session.id();
    let session_cpu = if session.mode == Mode::Polled { cpu } else { session_cpu };
    let sender = Sender { arrivals: Arc::clone(&arrivals) };
    let (mut engine, _dir) = engine(args, session, session_cpu, Box::new(sender))?;
    let handle = engine.session(&id).ok_or("no session")?;
    let give_up = monotonic_ns() + PATIENCE_NS;
    while !arrivals.logged_on.load(Ordering::Acquire) {
        engine.poll();
        if monotonic_ns() > give_up {
            return Err(format!("no logon at {address}; start the acceptor first"));
        }
    }
    let cpu_ns = process_cpu_ns();
    let order = Order::new(args.config.prepared);
    let mut sent_at = vec![0_u64; n];
    let pace = Pace::start(args.rate);
    for (i, at) in sent_at.iter_mut().enumerate() {
        while !pace.is_due(i) {
            engine.poll();
        }
        *at = monotonic_ns();
        let now = transfix::clock::now().utc;
        let sent = handle.send("D", |body| order.write(body, i, now));
        sent.map_err(|error| format!("order {i}: {error}"))?;
    }
    let give_up = monotonic_ns() + PATIENCE_NS;
    while arrivals.count.load(Ordering::Acquire) < n {
        engine.poll();
        if monotonic_ns() > give_up {
            let count = arrivals.count.load(Ordering::Acquire);
            return Err(format!("{count} of {n} reports came"));
        }
    }
    let cpu_ns = process_cpu_ns() - cpu_ns;
    engine.stop(5_000);
    let got_at = arrivals.at_ns.iter().map(|at| at.load(Ordering::Relaxed));
    let values = sent_at.iter().zip(got_at).map(|(sent, got)| got.saturating_sub(*sent));
    Ok((values.collect(), cpu_ns))
}
