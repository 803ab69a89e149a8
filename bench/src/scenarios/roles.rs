//! The two roles of scenario S1, each in a process of its own.
//!
//! Engine and floor take turns, slice by slice, so that both meet the same moods of the machine.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender as Channel, channel};

use serde::{Deserialize, Serialize};
use transfix::clock::{monotonic_ns, process_cpu_ns};
use transfix::{
    Application, BusinessReject, Disconnection, Engine, LogSettings, Message, Mode, Role,
    SessionHandle, SessionRef, SessionSettings, Settings, State, pin_to_cpu,
};

use super::floor::{self, Wait};
use super::latency::{Args, print_line};
use super::pace::Pace;
use super::s1::{Arrivals, Configuration, Order, Receiver, ReportForm, Sender, sample_frames};

/// How long a side waits for the other to be there.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long it waits for an answer of the other, which may be on a machine with much to do.
const ANSWER_NS: u64 = 300_000_000_000;
/// Slices of a run: engine and floor in turn.
const SLICES: usize = 10;

/// What the initiator's process hands to the one that started it.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Raw {
    pub(super) engine: Vec<u64>,
    pub(super) floor: Vec<u64>,
    pub(super) cpu_ns: Cpu,
}

/// CPU time of one process while the round trips took place.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Cpu {
    pub(super) engine: u64,
    pub(super) floor: u64,
}

const fn wait(config: Configuration) -> Wait {
    if matches!(config.mode, Mode::Spin) { Wait::Spin } else { Wait::Kernel }
}

/// Slices that a run of so many messages has.
fn slices(messages: usize) -> usize {
    messages.clamp(1, SLICES)
}

/// Messages of each slice: engine and floor, which gets half as many.
fn slice(messages: usize) -> (usize, usize) {
    let engine = messages.div_ceil(slices(messages));
    (engine, engine.div_ceil(2))
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
    session.store.store_dir.clone_from(&dir.0);
    session.log = args.log.then(|| LogSettings::in_dir(dir.0.join("log")));
    let has_thread = matches!(session.threads.mode, Mode::Dedicated | Mode::Spin);
    session.threads.cpu = cpu.filter(|_| has_thread);
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
pub(super) struct StoreDir(pub(super) PathBuf);

impl StoreDir {
    pub(super) fn new() -> Result<Self, String> {
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

    fn on_disconnect(&mut self, _: &Disconnection<'_>, _: &mut SessionRef<'_>) {
        let _ = self.changes.send(());
    }
}

/// The receiving side: prints its two addresses, answers slice by slice, prints its CPU time.
pub(super) fn acceptor(args: &Args) -> Result<(), String> {
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
    let next = || changed.recv().map_err(|_| "the session never came".to_owned());
    let mut cpu_ns = Cpu::default();
    for _ in 0..slices(args.messages) {
        cpu_ns.floor += timed(|| {
            let done = floor::answer(&raw, wait(args.config), order.len(), &report);
            done.map_err(|error| format!("floor: {error}"))
        })?;
        next()?;
        cpu_ns.engine += timed(next)?;
    }
    engine.stop(1_000);
    print_line(&serde_json::to_string(&cpu_ns).map_err(|e| e.to_string())?)
}

/// The sending side: paces, measures, and answers with the raw values.
pub(super) fn initiator(args: &Args) -> Result<Raw, String> {
    // "engine floor" from the acceptor's own line, or one address and the next port.
    let (address, raw_address) = match args.address.split_once(' ') {
        Some((engine, floor)) => (engine.to_owned(), floor.to_owned()),
        None => {
            let (host, port) = split_address(&args.address)?;
            (args.address.clone(), format!("{host}:{}", port + 1))
        }
    };
    pin(args, 0)?;
    let session_cpu = args.session_cpu.or_else(|| args.config.affinity.then_some(1));
    let (order, report) = sample_frames(args.report);
    let (engine_n, floor_n) = slice(args.messages);
    let mut raw = Raw::default();
    let mut trader = None;
    for _ in 0..slices(args.messages) {
        raw.cpu_ns.floor += timed(|| {
            let waits = (wait(args.config), session_cpu);
            let load = (floor_n, args.rate);
            let values = floor::ask(&raw_address, waits, (&order, report.len()), load);
            raw.floor.extend(values.map_err(|error| format!("floor at {raw_address}: {error}"))?);
            Ok(())
        })?;
        let trader = match &mut trader {
            Some(trader) => trader,
            none => none.insert(Trader::start(args, &address, session_cpu)?),
        };
        trader.log_on(&address)?;
        raw.cpu_ns.engine += timed(|| trader.round_trips(engine_n, args.rate))?;
        trader.log_out()?;
    }
    raw.engine = trader.map(Trader::latencies).unwrap_or_default();
    Ok(raw)
}

/// The initiator's engine and what it measures.
struct Trader {
    engine: Engine,
    handle: SessionHandle,
    arrivals: Arc<Arrivals>,
    order: Order,
    /// When each order was begun.
    sent_at: Vec<u64>,
    _dir: StoreDir,
}

impl Trader {
    fn start(args: &Args, address: &str, session_cpu: Option<usize>) -> Result<Self, String> {
        // The last slice may be longer than its share.
        let arrivals = Arc::new(Arrivals::new(args.messages + SLICES));
        let mut session = args.config.session(Role::Initiator, address);
        // The page's report lacks fields that FIX 4.2 requires.
        session.validation.validate = args.report == ReportForm::Valid;
        let id = session.id();
        let sender = Sender { arrivals: Arc::clone(&arrivals) };
        let (engine, dir) = engine(args, session, session_cpu, Box::new(sender))?;
        let handle = engine.session(&id).ok_or("no session")?;
        let order = Order::new(args.config.prepared);
        let sent_at = Vec::with_capacity(args.messages + SLICES);
        Ok(Self { engine, handle, arrivals, order, sent_at, _dir: dir })
    }

    /// Drives the engine, if it has no thread, until `done`.
    fn drive_until(
        &mut self,
        done: impl Fn(&Self) -> bool,
        patience_ns: u64,
        otherwise: impl FnOnce(&Self) -> String,
    ) -> Result<(), String> {
        let give_up = monotonic_ns() + patience_ns;
        while !done(self) {
            self.engine.poll();
            if monotonic_ns() > give_up {
                return Err(otherwise(self));
            }
        }
        Ok(())
    }

    fn log_on(&mut self, address: &str) -> Result<(), String> {
        self.handle.log_on().map_err(|error| error.to_string())?;
        self.drive_until(
            |this| this.handle.state() != State::Disconnected,
            PATIENCE_NS,
            |_| format!("no connection to {address}; start the acceptor first"),
        )?;
        self.drive_until(
            |this| this.handle.is_logged_on(),
            ANSWER_NS,
            |this| format!("no logon at {address}: the session is {:?}", this.handle.state()),
        )
    }

    fn log_out(&mut self) -> Result<(), String> {
        self.handle.log_out("").map_err(|error| error.to_string())?;
        self.drive_until(
            |this| this.handle.state() == State::Disconnected,
            ANSWER_NS,
            |_| "the acceptor did not log out".to_owned(),
        )
    }

    /// Sends `n` orders at the pace and waits for their reports.
    fn round_trips(&mut self, n: usize, rate: u64) -> Result<(), String> {
        let first = self.sent_at.len();
        let pace = Pace::start(rate);
        for i in 0..n {
            while !pace.is_due(i) {
                self.engine.poll();
            }
            self.sent_at.push(monotonic_ns());
            let now = transfix::clock::now().utc;
            let order = &self.order;
            let sent = self.handle.send("D", |body| order.write(body, first + i, now));
            sent.map_err(|error| format!("order {}: {error}", first + i))?;
        }
        let reports = |this: &Self| this.arrivals.count.load(Ordering::Acquire);
        self.drive_until(
            |this| reports(this) >= first + n,
            ANSWER_NS,
            |this| format!("{} of {} reports came", reports(this), first + n),
        )
    }

    fn latencies(self) -> Vec<u64> {
        self.engine.stop(5_000);
        let got_at = self.arrivals.at_ns.iter().map(|at| at.load(Ordering::Relaxed));
        self.sent_at.iter().zip(got_at).map(|(sent, got)| got.saturating_sub(*sent)).collect()
    }
}
