//! The scenarios that measure round trips: S1, S4a and S5. This engine at both ends, the floor, and
//! other engines alternate, each as a pair of processes.

mod client;
mod floor;
mod line_up;
mod ours;
mod pace;
mod pair;
mod peers;
mod process;
mod quickfix;

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use transfix::Role;

use super::child::Side as Process;
use super::column::Column;
use super::contest::{Rounds, play};
use super::page::{Answer, Page};
use super::plot;
use super::report::{Kind, Machine, Ratio, Report, RoundCount, Series, table, write_csv};
use super::s1::{CLIENT, ReportForm, sample_frames};
use super::shared::{HostSide, StoreDir, at_least_one, bar, peers_in, print_line};
use super::throughput::Orders;
use floor::{Asking, Wait};
use line_up::LineUp;
pub(crate) use process::Work;
use process::{ONLOAD, Part, floor_address, has_onload, part};

/// Options of all scenarios that measure round trips.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Start all processes on this machine, over loopback.
    #[arg(long = "self", conflicts_with = "role")]
    both: bool,
    /// The side to run on this host; start the acceptor first, with the same options.
    #[arg(long, value_enum, required_unless_present_any = ["both", "part"])]
    role: Option<HostSide>,
    /// Configurations of the published page, `all`, or settings files of your own; default: see
    /// below.
    #[arg(long, value_delimiter = ',', value_name = "NAME|FILE")]
    config: Vec<String>,
    /// Address of the acceptor; the floor uses the next port.
    #[arg(long, default_value = "127.0.0.1:9880")]
    address: String,
    /// Total number of measured orders; default: see below.
    #[arg(long, value_parser = at_least_one)]
    messages: Option<usize>,
    /// Orders per second; with 0, each order follows the answer to the previous order; default: see
    /// below.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    rate: Option<u64>,
    /// Number of unmeasured orders before the first slice; default: see below.
    #[arg(long)]
    warmup: Option<usize>,
    /// Number of slices; engine, floor and peers alternate in each; default: see below.
    #[arg(long, value_parser = at_least_one, visible_alias = "repeats")]
    slices: Option<usize>,
    /// The form of the ExecutionReport(8) that answers an order.
    #[arg(long, value_enum, default_value = "valid")]
    report: ReportForm,
    /// Time in microseconds for which the threads of both sides spin before they sleep; the floor
    /// sleeps at once. Threads that never sleep ignore this option.
    #[arg(long, default_value_t = 0)]
    spin_us: u32,
    /// Write the protocol log on both sides.
    #[arg(long)]
    log: bool,
    /// Also run other engines, from this directory or from the directory of
    /// `cargo xtask peers build`.
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "role")]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object for each configuration.
    #[arg(long)]
    json: bool,
    /// Directory for the results: raw values, percentiles, JSON, and a chart.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
    /// The part of the benchmark that this process runs for its parent process.
    #[arg(long, value_enum, hide = true)]
    part: Option<Part>,
    /// Keep the session logged on between slices.
    #[arg(long, hide = true)]
    stay: bool,
}

/// The report of one run, and its raw values, the floor's first.
pub(crate) struct Measured {
    pub(crate) report: Report,
    pub(crate) raw: Vec<(String, Vec<u64>)>,
}

/// CPU of the client that measures acceptors of all engines.
const CLIENT_CPU: usize = 0;

impl Args {
    fn work(&self, page: &Page) -> Work {
        let mut work = Work::of(page, self.messages.unwrap_or(page.messages));
        if let Some(slices) = self.slices {
            work.orders = self.messages.unwrap_or(page.messages).div_ceil(slices);
            work.slices = slices;
        }
        work.warm_up = self.warmup.unwrap_or(work.warm_up);
        work.rate = self.rate.map_or(work.rate, |rate| (rate > 0).then_some(rate));
        (work.report, work.log, work.stays) = (self.report, self.log, self.stay);
        work
    }

    fn columns(&self, page: &Page) -> Result<Vec<Column>, String> {
        let all = ["all".to_owned()];
        let named = if self.config.is_empty() { &all[..] } else { &self.config };
        let mut columns = page.named(named)?;
        if self.spin_us > 0 {
            columns.iter_mut().for_each(|column| column.set_spin_us(self.spin_us));
        }
        Ok(columns)
    }
}

/// Runs a scenario and prints its figures.
pub(crate) fn run(page: &Page, args: &Args) -> ExitCode {
    let say = |error: String| eprintln!("transfix bench {}: {error}", page.name);
    let columns = match args.columns(page) {
        Ok(columns) => columns,
        Err(error) => {
            say(error);
            return ExitCode::from(2);
        }
    };
    if let Err(error) = check(page, &columns, args) {
        say(error);
        return ExitCode::from(2);
    }
    let done = match (args.part, args.role) {
        (Some(part), _) => play_part(page, &columns[0], args, part),
        (_, Some(HostSide::Acceptor)) => answer(page, &columns, args),
        _ => run_all(page, &columns, args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    }
}

/// Checks that the configurations can run with these options.
fn check(page: &Page, columns: &[Column], args: &Args) -> Result<(), String> {
    if let Some(column) = columns.iter().find(|column| !column.has_initiator()) {
        return Err(format!("{}: no session with role initiator", column.name));
    }
    if args.role.is_some() {
        floor_address(&args.address)?;
        if columns.len() > 1 {
            let first = &columns[0].name;
            return Err(format!(
                "over two hosts one configuration is run at a time: name it, such as --config \
                 {first}; see transfix bench {} --help",
                page.name
            ));
        }
    }
    Ok(())
}

/// Runs one part of the benchmark in this process, which the parent process has started for that
/// purpose.
fn play_part(page: &Page, column: &Column, args: &Args, part: Part) -> Result<(), String> {
    let (work, address) = (&args.work(page), &*args.address);
    let wait = if column.spins() { Wait::Spin } else { Wait::Kernel };
    let receiver_cpu = column.session(Role::Initiator).threads.cpu;
    let pin = |cpu: Option<usize>| match cpu {
        Some(cpu) => {
            transfix::pin_to_cpu(cpu).map_err(|e| format!("CPU {cpu} cannot be used: {e}"))
        }
        None => Ok(()),
    };
    let (order, report) = sample_frames(work.report, page.client_id);
    let answer = if page.answer == Answer::Echo { &order } else { &report };
    match part {
        Part::Acceptor => ours::acceptor(page, column, address, work),
        Part::Initiator => ours::initiator(page, column, address, work),
        Part::FloorAcceptor => {
            pin(column.session(Role::Acceptor).threads.cpu)?;
            serve(address, wait, (order.len(), answer))
        }
        Part::FloorInitiator => {
            pin(column.beside.sender_cpu)?;
            let asking = Asking { wait, receiver_cpu, rate: work.rate };
            ours::obey(|task| {
                let asked = floor::ask(address, asking, (&order, answer.len()), task);
                asked.map_err(|error| format!("floor at {address}: {error}"))
            })
        }
        Part::Client => {
            pin((cpus() > 1).then_some(CLIENT_CPU))?;
            let id = column.session(Role::Initiator).id();
            let [sender, target] = match args.peers {
                Some(_) => [peers::CLIENT, peers::VENUE],
                None => [&*id.sender_comp_id, &*id.target_comp_id],
            };
            let orders = Orders::between(sender, target, page.client_id.then_some(CLIENT));
            let answer_type = if page.answer == Answer::Echo { "D" } else { "8" };
            client::run(address, orders, answer_type, work.rate)
        }
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the floor's acceptor: prints the listening address, and serves until standard input ends.
fn serve(address: &str, wait: Wait, (order, answer): (usize, &[u8])) -> Result<(), String> {
    let listener = TcpListener::bind(address).map_err(|e| format!("floor at {address}: {e}"))?;
    print_line(&listener.local_addr().map_err(|e| e.to_string())?.to_string())?;
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        floor::answer(&listener, wait, order, answer).map_err(|error| format!("floor: {error}"))?;
    }
}

/// Runs the acceptors of engine and floor for an initiator on another host, until interrupted.
fn answer(page: &Page, columns: &[Column], args: &Args) -> Result<(), String> {
    let column = &columns[0];
    let (work, floor) = (args.work(page), floor_address(&args.address)?);
    let start = |name: &str, of, address: &str| -> Result<Process, String> {
        let mut command = part(page, column, &work, of, address);
        Process::start(name, command.stdin(Stdio::piped()))
    };
    let mut floor = start("the floor", Part::FloorAcceptor, &floor)?;
    let mut engine = start("the engine", Part::Acceptor, &args.address)?;
    let (engine_at, floor_at) = (engine.first_line()?, floor.first_line()?);
    print_line(&format!("{}: engine at {engine_at}, floor at {floor_at}", column.name))?;
    // The engine's process prints no more lines; the loop ends when the process exits.
    while engine.line().is_ok() {}
    engine.finish()
}

fn run_all(page: &Page, columns: &[Column], args: &Args) -> Result<(), String> {
    std::fs::create_dir_all(&args.out).map_err(|e| format!("{}: {e}", args.out.display()))?;
    let dir = args.peers.as_ref().map(|dir| peers_in(dir.as_deref())).transpose()?;
    let remote = args.role.map(|_| &*args.address);
    let (mut runs, mut not_run) = (Vec::new(), Vec::new());
    for column in columns {
        if column.beside.kernel_bypass && !has_onload() {
            not_run.push(format!(
                "{} needs OpenOnload and its network card; the program `{ONLOAD}` is not installed",
                column.name
            ));
            continue;
        }
        let run = measure(page, column, args.work(page), (remote, dir.as_deref()))?;
        if args.json {
            let json = serde_json::to_string(&run.report.in_short()).map_err(|e| e.to_string())?;
            print_line(&json)?;
        }
        save(page, column, args, &run)?;
        runs.push(run);
    }
    if runs.is_empty() {
        return Err(not_run.join("; "));
    }
    draw(page, args, &runs)?;
    if args.json {
        not_run.iter().for_each(|missing| eprintln!("not run: {missing}"));
        return Ok(());
    }
    show(page, columns, args, &runs, &not_run)
}

/// Measures one configuration. `remote` is the address of the acceptor on another host.
fn measure(
    page: &Page,
    column: &Column,
    work: Work,
    (remote, peers): (Option<&str>, Option<&Path>),
) -> Result<Measured, String> {
    // A spinning thread on another host cannot be suspended, and only a logout stops it.
    let work = Work { stays: remote.is_none(), ..work };
    let title = format!("{} {}", page.name, column.name);
    let bar = bar(&title, work.slices + 1);
    bar.set_message("starts");
    let mut line_up =
        LineUp { page, column, work, all: Vec::new(), kinds: Vec::new(), notes: Vec::new() };
    let stores = StoreDir::new()?;
    line_up.ours(remote)?;
    let mut not_run = Vec::new();
    if let Some(dir) = peers {
        not_run = line_up.peers(dir, &stores.0)?;
    }
    let LineUp { mut all, kinds, notes, .. } = line_up;
    let rounds = play(&mut all, work.slices, |what| {
        bar.set_message(what.to_owned());
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    not_run.extend(rounds.lost.iter().cloned());
    let names: Vec<String> = all.iter().map(|one| one.name().to_owned()).collect();
    let mut measured = measured(page, column, work, (&names, &kinds, &rounds));
    (measured.report.not_run, measured.report.notes) = (not_run, notes);
    Ok(measured)
}

fn measured(
    page: &Page,
    column: &Column,
    work: Work,
    (names, kinds, rounds): (&[String], &[Kind], &Rounds),
) -> Measured {
    let floor = &rounds.slices[0];
    let played = names.iter().zip(kinds).zip(&rounds.slices);
    let played: Vec<_> = played.filter(|(_, slices)| !slices.is_empty()).collect();
    let of_kind = |kind: Kind| {
        let found = played.iter().find(|((_, of), _)| **of == kind);
        found.map(|(_, slices)| &slices[..])
    };
    let series: Vec<Series> = played
        .iter()
        .map(|((name, kind), slices)| {
            let mut series = Series::of(name, **kind, slices, floor);
            let ours = match kind {
                Kind::Peer => of_kind(Kind::Engine),
                Kind::PeerAcceptor => of_kind(Kind::Acceptor),
                _ => None,
            };
            series.to_ours = ours.map(|ours| Ratio::of(slices, ours));
            series
        })
        .collect();
    let raw = played
        .iter()
        .map(|((name, _), slices)| {
            ((*name).clone(), slices.iter().flat_map(|slice| slice.ns.clone()).collect())
        })
        .collect();
    let is_peer = |kind| matches!(kind, Kind::Peer | Kind::PeerAcceptor);
    let peers: BTreeMap<_, _> = series
        .iter()
        .filter(|series| is_peer(series.kind))
        .map(|series| (series.name.clone(), series.figures))
        .collect();
    let report = Report {
        scenario: page.scenario.to_owned(),
        configuration: column.name.clone(),
        recorded: transfix::clock::now().utc.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: series[1].figures,
        floor: series[0].figures,
        peers,
        ratio: series[1].ratio.unwrap_or_default(),
        rounds: RoundCount {
            kept: work.slices,
            repeated: rounds.repeated,
            disturbed: rounds.disturbed,
        },
        series,
        notes: Vec::new(),
        not_run: Vec::new(),
        machine: Machine::this(),
        settings: settings(page, column, work),
    };
    Measured { report, raw }
}

/// Returns the settings that affect the figures, for the JSON object.
fn settings(page: &Page, column: &Column, work: Work) -> serde_json::Value {
    let (order, report) = sample_frames(work.report, page.client_id);
    serde_json::json!({
        "messages": work.orders * work.slices,
        "warm_up": work.warm_up,
        "rate_per_s": work.rate,
        "prepared": column.beside.prepared,
        "affinity": column.beside.sender_cpu.is_some(),
        "mode": column.session(Role::Acceptor).threads.mode,
        "spin_us": column.session(Role::Acceptor).threads.spin.as_micros() as u64,
        "configuration": column.described(),
        "protocol_log": work.log,
        "answer": page.answer.name(),
        "report": if work.report == ReportForm::Valid { "valid" } else { "page" },
        "order_bytes": order.len(),
        "report_bytes": if page.answer == Answer::Echo { order.len() } else { report.len() },
        "hosts": if work.stays { 1 } else { 2 },
        "floor": if column.spins() { "spin" } else { "kernel wait" },
        "transport": "TCP",
    })
}

/// Writes the files of one run.
fn save(page: &Page, column: &Column, args: &Args, run: &Measured) -> Result<(), String> {
    run.report.save(&args.out, &format!("{}-{}", page.name, column.name))
}

/// Writes the raw values of all runs, and their chart.
fn draw(page: &Page, args: &Args, runs: &[Measured]) -> Result<(), String> {
    // The name of another engine is the same in all configurations, so the name of the
    // configuration is put before it.
    let name = |run: &Measured, name: &str| {
        let configuration = &run.report.configuration;
        match name.contains(&**configuration) {
            true => name.to_owned(),
            false => format!("{configuration}: {name}"),
        }
    };
    let named: Vec<(String, &[u64])> = runs
        .iter()
        .flat_map(|run| run.raw.iter().map(move |(of, values)| (name(run, of), &values[..])))
        .collect();
    let series: Vec<(&str, &[u64])> = named.iter().map(|(name, raw)| (&**name, *raw)).collect();
    let csv = args.out.join(format!("{}.csv", page.name));
    write_csv(&csv, &series).map_err(|e| format!("{}: {e}", csv.display()))?;
    plot::draw(&args.out.join(format!("{}.svg", page.name)), page.title, &series)
}

fn show(
    page: &Page,
    columns: &[Column],
    args: &Args,
    runs: &[Measured],
    not_run: &[String],
) -> Result<(), String> {
    let work = args.work(page);
    let pace = work.rate.map_or_else(
        || "each after the answer to the one before".to_owned(),
        |rate| format!("{rate} a second"),
    );
    let host = if args.role.is_some() { "two hosts" } else { "loopback, one host" };
    print_line(&format!("{}\n{}", page.title, Machine::this().words()))?;
    print_line(&format!(
        "transfix {}; {host}; {} orders, {pace}, {} before that are not measured, after a \
         round that warms up; {} slices\n",
        env!("CARGO_PKG_VERSION"),
        work.orders * work.slices,
        work.warm_up,
        work.slices
    ))?;
    for run in runs {
        let column = columns.iter().find(|column| column.name == run.report.configuration);
        if let Some(column) = column {
            let Column { name, beside, .. } = column;
            print_line(&format!("{name} (\"{}\"): {}", beside.title, beside.advice))?;
            print_line(&column.words())?;
        }
    }
    print_line(&table(runs.iter().map(|run| &run.report)).to_string())?;
    for run in runs {
        for sentence in run.report.sentences() {
            print_line(&sentence)?;
        }
        for note in &run.report.notes {
            print_line(note)?;
        }
        for missing in &run.report.not_run {
            print_line(&format!("not run: {missing}"))?;
        }
    }
    for missing in not_run {
        print_line(&format!("not run: {missing}"))?;
    }
    let out = args.out.display();
    print_line(&format!("Raw values, percentiles, pictures: {out}"))
}
