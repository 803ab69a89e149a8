//! Measures the round trip of an order and its report in two waiting modes. Each mode is compared
//! with its floor: the same bytes over a raw socket.
//!
//! Slices of engine and floor alternate, so that changes in the machine's speed affect both
//! measurements. `transfix bench latency` measures the same round trip between processes, with more
//! rounds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use transfix::clock::monotonic_ns;
use transfix::{
    Application, Body, BusinessReject, Decimal, Engine, Message, Mode, Precision, Role, SessionId,
    SessionRef, Settings, tag,
};
use transfix_codec::FrameWriter;

use super::floor::{self, INTERVAL_NS, Wait};
use super::picture::{self, Series, quantile, sorted};
use super::{PATIENCE, new_order, session};

/// Number of slices into which each measurement is divided.
const SLICES: usize = 5;
/// Number of orders at the start of a slice that are not counted, because caches and branch
/// predictors are still cold.
const WARM_UP: usize = 100;

const fn name(wait: Wait) -> &'static str {
    match wait {
        Wait::Sleep => "threads that sleep",
        Wait::Spin => "threads that spin",
    }
}

/// Returns the engine's mode for a role. In `Wait::Spin`, the client's sending thread also
/// receives, so that two cores suffice.
const fn mode(wait: Wait, role: Role) -> Mode {
    match (wait, role) {
        (Wait::Sleep, _) => Mode::Pool,
        (Wait::Spin, Role::Acceptor) => Mode::Spin,
        (Wait::Spin, Role::Initiator) => Mode::Polled,
    }
}

/// Measures round trips in each waiting mode, prints the table, and writes `latency.csv` and
/// `latency.svg`.
pub(super) fn measure(messages: usize) -> Result<(), String> {
    println!(
        "\n{messages} round trips of an order and its report, at 1,000 a second, with messages \
         validated\nand stored:\n"
    );
    let frames = frames();
    let mut all: Vec<Series> = Vec::new();
    for wait in [Wait::Sleep, Wait::Spin] {
        let (mut floor, mut engine) = (Vec::new(), Vec::new());
        for slice in 0..SLICES {
            let count = WARM_UP + messages / SLICES + usize::from(slice < messages % SLICES);
            let times =
                floor::slice(wait, &frames, count).map_err(|why| format!("floor: {why}"))?;
            floor.extend_from_slice(&times[WARM_UP..]);
            engine.extend_from_slice(&slice_of_engine(wait, count)?[WARM_UP..]);
        }
        all.extend([("  its floor".to_owned(), floor), (name(wait).to_owned(), engine)]);
    }
    // The table shows the engine's row above the row of its floor.
    all.swap(0, 1);
    all.swap(2, 3);
    println!("{}\n", table(&all));
    let (csv, svg) = (PathBuf::from("latency.csv"), PathBuf::from("latency.svg"));
    write(&csv, &csv_of(&all))?;
    write(&svg, &picture::draw("Round trip of an order and its report, over loopback", &all))?;
    println!("Raw values: {}; chart of the distribution: {}", csv.display(), svg.display());
    println!("For more scenarios and comparisons with other engines: transfix bench");
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Arrival times of the reports at the callback, shared with the sending thread.
struct Arrivals {
    count: AtomicUsize,
    at_ns: Vec<AtomicU64>,
}

struct Asking(Arc<Arrivals>);

impl Application for Asking {
    fn on_message(
        &mut self,
        report: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let at = monotonic_ns();
        if let Some(place) = self.0.at_ns.get(report.uint(tag::CL_ORD_ID)? as usize) {
            place.store(at, Ordering::Relaxed);
            self.0.count.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }
}

struct Answering {
    reports: u64,
}

impl Application for Answering {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.reports += 1;
        let (id, symbol) = (order.uint(tag::CL_ORD_ID)?, order.required(tag::SYMBOL)?);
        let quantity = order.decimal(tag::ORDER_QTY)?;
        let number = self.reports;
        let sent = session.send("8", |body| report(body, number, id, (symbol, quantity)));
        Ok(sent.map(drop)?)
    }
}

fn report(body: &mut Body<'_>, number: u64, order: u64, (symbol, quantity): (&[u8], Decimal)) {
    body.uint(tag::ORDER_ID, number).uint(tag::CL_ORD_ID, order).uint(tag::EXEC_ID, number);
    body.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0').bytes(tag::SYMBOL, symbol);
    body.char(tag::SIDE, b'1').decimal(tag::LEAVES_QTY, quantity).uint(tag::CUM_QTY, 0);
    body.uint(tag::AVG_PX, 0);
}

fn order(body: &mut Body<'_>, n: u64) {
    new_order(body, n, b'1', (100, Decimal::new(30, 0)));
}

/// Returns an order and its report, which have the same lengths as the messages in the engine
/// measurement.
fn frames() -> [Vec<u8>; 2] {
    let frame = |msg_type: &[u8], ids: &[u8], fill: &dyn Fn(&mut Body<'_>)| {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type);
        frame.raw(ids);
        frame.raw(b"34=500\x0152=20261121-12:00:00.123\x01");
        fill(frame.body(Precision::Millis));
        // `finish` cannot fail, because both frames are well formed.
        let _ = frame.finish();
        out
    };
    let quantity = Decimal::new(100, 0);
    [
        frame(b"D", b"49=CLIENT\x0156=VENUE\x01", &|body| order(body, 500)),
        frame(b"8", b"49=VENUE\x0156=CLIENT\x01", &|body| {
            report(body, 500, 500, (b"EU", quantity))
        }),
    ]
}

fn start(
    role: Role,
    (wait, address, dir): (Wait, &str, &Path),
    application: Box<dyn Application>,
) -> Result<Engine, String> {
    let mut settings = session(role, address, dir);
    settings.store.keep_inbound = false;
    settings.threads.mode = mode(wait, role);
    let mut application = Some(application);
    let engine = Engine::start(&Settings::of(settings), |_| match application.take() {
        Some(application) => application,
        None => unreachable!("the settings have exactly one session"),
    });
    engine.map_err(|error| error.to_string())
}

/// Measures `count` round trips between two newly started engines. Returns the times in
/// nanoseconds.
fn slice_of_engine(wait: Wait, count: usize) -> Result<Vec<u64>, String> {
    let dir = std::env::temp_dir().join(format!("transfix-demo-trips-{}", std::process::id()));
    let times = slice_in(&dir, wait, count);
    // If the removal fails, the files stay in the system's temporary directory.
    let _ = std::fs::remove_dir_all(&dir);
    times
}

fn slice_in(dir: &Path, wait: Wait, count: usize) -> Result<Vec<u64>, String> {
    let answering = Box::new(Answering { reports: 0 });
    let venue = start(Role::Acceptor, (wait, "127.0.0.1:0", dir), answering)?;
    let at_ns = std::iter::repeat_with(AtomicU64::default).take(count).collect();
    let arrivals = Arc::new(Arrivals { count: AtomicUsize::new(0), at_ns });
    let asking = Box::new(Asking(Arc::clone(&arrivals)));
    let address = venue.listening()[0].to_string();
    let mut client = start(Role::Initiator, (wait, &address, dir), asking)?;
    let id = SessionId::new(transfix::BeginString::Fix44, "CLIENT", "VENUE");
    let handle = client.session(&id).ok_or("no session")?;
    until(&mut client, "no logon", || handle.is_logged_on())?;
    let (begin, mut sent_at) = (monotonic_ns(), Vec::with_capacity(count));
    for n in 0..count as u64 {
        while monotonic_ns() < begin + (n + 1) * INTERVAL_NS {
            client.poll();
        }
        sent_at.push(monotonic_ns());
        handle.send("D", |body| order(body, n)).map_err(|error| format!("order {n}: {error}"))?;
    }
    let all_came = || arrivals.count.load(Ordering::Acquire) == count;
    until(&mut client, "not all execution reports arrived in time", all_came)?;
    drop((client.stop(Duration::from_secs(5)), venue.stop(Duration::from_secs(5))));
    let got_at = arrivals.at_ns.iter().map(|at| at.load(Ordering::Relaxed));
    Ok(sent_at.iter().zip(got_at).map(|(sent, got)| got.saturating_sub(*sent)).collect())
}

/// Waits until `is_done` returns true. Meanwhile polls the client engine, if this engine has no
/// thread of its own.
fn until(client: &mut Engine, otherwise: &str, is_done: impl Fn() -> bool) -> Result<(), String> {
    let give_up = monotonic_ns() + PATIENCE.as_nanos() as u64;
    while !is_done() {
        client.poll();
        if monotonic_ns() > give_up {
            return Err(otherwise.to_owned());
        }
    }
    Ok(())
}

fn table(all: &[Series]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["µs", "min", "avg", "p50", "p95", "p99", "max", "p50/floor"]);
    for pair in all.chunks_exact(2) {
        let medians = [0, 1].map(|n| quantile(&sorted(&pair[n].1), 0.5) as f64);
        for (n, (name, times)) in pair.iter().enumerate() {
            let sorted = sorted(times);
            let average = sorted.iter().sum::<u64>() / sorted.len().max(1) as u64;
            let parts = [0.5, 0.95, 0.99, 1.0].map(|part| quantile(&sorted, part));
            let figures = [quantile(&sorted, 0.0), average].into_iter().chain(parts);
            let mut row = vec![name.clone()];
            row.extend(figures.map(|ns| format!("{:.1}", ns as f64 / 1_000.0)));
            row.push(format!("{:.2}", medians[n] / medians[1].max(1.0)));
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn csv_of(all: &[Series]) -> String {
    let mut text = "series,i,ns\n".to_owned();
    for pair in all.chunks_exact(2) {
        for (of, (_, times)) in ["", "floor of "].iter().zip(pair) {
            let name = pair[0].0.as_str();
            text.extend(times.iter().enumerate().map(|(i, ns)| format!("{of}{name},{i},{ns}\n")));
        }
    }
    text
}
