//! Micro-benchmarks, to run under callgrind or a profiler.
//!
//! - `turn N` runs N turns of a link with orders of one second; `turn seldom N` uses another second
//!   for each order.
//! - `points N` runs N turns with and without latency points, in alternating slices.
//! - `codec OPERATION SET N` runs one operation of the codec.
//! - `store append N` and `store read N` put messages into a file store and read them back.
//! - `hostile SHAPE N` processes about N bytes of hostile input, and prints the exact number.
//!
//! Each benchmark except `hostile` prints the nanoseconds per operation. Under callgrind they give
//! instruction counts (`cargo xtask instructions`).
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line speaks to its user")]

mod hostile;
mod probe;
mod typed;

use std::path::PathBuf;
use std::process::ExitCode;

use transfix::clock::monotonic_ns;
use transfix::{
    Application, BeginString, BusinessReject, Message, Now, Precision, Role, SessionId, SessionRef,
    SessionSettings, Timestamp, tag,
};
use transfix_bench::operation::{Operation, Set};
use transfix_bench::ours::Ours;
use transfix_codec::FrameWriter;
use transfix_store::{FileStore, Kind, Options, Record, Store, StoreError};

use probe::Probe;

/// Answers each NewOrderSingle(D) with one ExecutionReport(8).
struct Venue {
    ids: u64,
}

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = order.required(tag::CL_ORD_ID)?;
        let (symbol, side) = (order.required(tag::SYMBOL)?, order.char(tag::SIDE)?);
        let (price, quantity) = (order.decimal(tag::PRICE)?, order.decimal(tag::ORDER_QTY)?);
        self.ids += 1;
        let now = session.now().utc;
        let sent = session.send("8", |report| {
            report.uint(tag::ORDER_ID, self.ids).uint(tag::EXEC_ID, self.ids);
            report.char(tag::EXEC_TRANS_TYPE, b'0').char(tag::EXEC_TYPE, b'0');
            report.char(tag::ORD_STATUS, b'0').bytes(tag::CL_ORD_ID, id);
            report.bytes(tag::SYMBOL, symbol).char(tag::SIDE, side).decimal(tag::PRICE, price);
            report.decimal(tag::ORDER_QTY, quantity).decimal(tag::LEAVES_QTY, quantity);
            report.uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0).timestamp(tag::TRANSACT_TIME, now);
        });
        sent.map(|_| ()).map_err(|error| BusinessReject::other(error.to_string()))
    }
}

fn now() -> Now {
    // The time is fixed, because instruction counts must not depend on the clock.
    let utc = Timestamp::parse(b"20261121-12:00:00.123").unwrap_or_default();
    Now { utc, monotonic_ns: 1_000_000_000 }
}

fn frame(out: &mut Vec<u8>, msg_type: &[u8], (seq, sent): (u64, Timestamp), fields: &[u8]) {
    out.clear();
    let mut frame = FrameWriter::new(out, b"FIX.4.2", msg_type);
    frame.raw(b"49=INCA\x0156=TW\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, sent, Precision::Millis);
    frame.raw(fields);
    // The frame has valid fields, so encoding cannot fail.
    let _ = frame.finish();
}

/// A logged-on venue with already encoded orders, so that only turns are counted.
struct Turns {
    probe: Probe,
    orders: Vec<Vec<u8>>,
    answer: Vec<u8>,
    dir: PathBuf,
}

impl Turns {
    /// Logs on, and encodes the orders; their SendingTime(52) values alternate between `seconds`
    /// different seconds.
    fn new(n: u64, latency_points: bool, seconds: u64) -> Result<Self, String> {
        let name = format!("transfix-turn-{latency_points}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let id = SessionId::new(BeginString::Fix42, "TW", "INCA");
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        settings.latency_points = latency_points;
        let mut probe = Probe::new(&dir, &settings, Box::new(Venue { ids: 0 }), now())?;
        let (mut bytes, mut answer) = (Vec::new(), vec![0; 4096]);
        frame(&mut bytes, b"A", (1, now().utc), b"98=0\x01108=30\x01");
        if probe.turn(&bytes, now(), &mut answer) == 0 {
            return Err("no logon".to_owned());
        }
        let order = b"11=5000\x0121=1\x0155=EU\x0154=1\x0160=20261121-12:00:00.123\x0140=2\x01\
            38=5\x0159=0\x0144=30\x01";
        let orders = (0..n).map(|i| {
            let sent = Timestamp(now().utc.0 - (i % seconds * 1_000_000_000) as i64);
            frame(&mut bytes, b"D", (i + 2, sent), order);
            bytes.clone()
        });
        let orders = orders.collect();
        Ok(Self { probe, orders, answer, dir })
    }

    /// Waits `pause_ns`, runs a turn with order `n`, and returns the nanoseconds of the turn.
    fn take(&mut self, n: usize, pause_ns: u64) -> Result<u64, String> {
        let due = monotonic_ns() + pause_ns;
        while monotonic_ns() < due {
            std::hint::spin_loop();
        }
        let start = monotonic_ns();
        if self.probe.turn(&self.orders[n], now(), &mut self.answer) == 0 {
            return Err("no report".to_owned());
        }
        Ok(monotonic_ns() - start)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn turns(n: u64, pause_ns: u64, seconds: u64) -> Result<(), String> {
    let (mut turns, mut ns) = (Turns::new(n, true, seconds)?, 0);
    for i in 0..turns.orders.len() {
        ns += turns.take(i, pause_ns)?;
    }
    println!("{n} turns, {} ns each", ns / n.max(1));
    Ok(())
}

/// Number of turns in a slice.
const SLICE: usize = 1_000;

/// Measures the cost of latency points. Slices with and without latency points alternate; the
/// median difference counts.
fn points(n: u64) -> Result<(), String> {
    let mut sides = [Turns::new(n, true, 1)?, Turns::new(n, false, 1)?];
    let mut found = Vec::new();
    for first in (0..n as usize).step_by(SLICE) {
        let slice = first..(first + SLICE).min(n as usize);
        let mut means = [0.0; 2];
        // The slice that runs first changes from round to round.
        for side in [found.len() % 2, 1 - found.len() % 2] {
            let mut ns = 0;
            for i in slice.clone() {
                ns += sides[side].take(i, 0)?;
            }
            means[side] = ns as f64 / slice.len() as f64;
        }
        found.push(means);
    }
    let median = |value: fn(&[f64; 2]) -> f64| {
        let mut values: Vec<f64> = found.iter().map(value).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    let cost = median(|[with, without]| with - without);
    let (with, without) = (median(|[with, _]| *with), median(|[_, without]| *without));
    let latency = sides[0].probe.latency();
    let stages = latency.stages().filter(|(_, times)| times.count() >= n).count();
    let each = cost / stages.max(1) as f64;
    println!("a turn with points {with:.0} ns, without {without:.0} ns: {cost:.0} ns more");
    println!("{stages} stages measured in each turn, {each:.1} ns each");
    print!("{latency}");
    Ok(())
}

fn codec(operation: &str, set: &str, n: u64) -> Result<(), String> {
    let operation =
        Operation::named(operation).ok_or_else(|| format!("no operation {operation}"))?;
    let set = Set::named(set).ok_or_else(|| format!("no set {set}"))?;
    let mut ours = Ours::new()?;
    ours.set_typed(typed::TYPED)?;
    let ns = ours.run(operation, set, n);
    println!("{n} times {}, {} ns each", operation.name(), ns / n.max(1));
    Ok(())
}

/// A separate function, because callgrind counts by function name: the store's helper threads
/// execute a varying number of instructions.
#[inline(never)]
fn store_append(store: &mut FileStore, seq: u64) -> Result<(), StoreError> {
    let (kind, bytes) = (Kind::Application, &[b'x'; 200]);
    store.put(0, Record::Outbound { seq, kind, bytes })?;
    store.commit().map(drop)
}

/// A separate function, because callgrind counts by function name, as for `store_append`.
#[inline(never)]
fn store_read(store: &mut FileStore, seq: u64) -> Result<usize, StoreError> {
    let stored = store.outbound(seq)?;
    Ok(stored.map_or(0, |stored| usize::from(stored.bytes[0])))
}

fn store(operation: &str, n: u64) -> Result<(), String> {
    /// Number of stored messages that the benchmark reads repeatedly.
    const MESSAGES: u64 = 1_000;
    let dir = std::env::temp_dir().join(format!("transfix-store-{}", std::process::id()));
    let told = |error: StoreError| error.to_string();
    let (mut store, _) = FileStore::open(&dir, Options::default(), 0).map_err(told)?;
    (1..=MESSAGES).try_for_each(|seq| store_append(&mut store, seq)).map_err(told)?;
    let (start, mut read) = (monotonic_ns(), 0);
    for i in 0..n {
        if operation == "append" {
            store_append(&mut store, MESSAGES + 1 + i).map_err(told)?;
        } else {
            read += store_read(&mut store, 1 + i % MESSAGES).map_err(told)?;
        }
    }
    println!("{n} times {operation}, {} ns each; {read}", (monotonic_ns() - start) / n.max(1));
    drop(store);
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["turn", n] => number(n).and_then(|n| turns(n, 0, 1)),
        ["turn", "seldom", n] => number(n).and_then(|n| turns(n, 0, 60)),
        // With one turn per millisecond, code and data are as cold as between real orders.
        ["paced", n] => number(n).and_then(|n| turns(n, 1_000_000, 1)),
        ["points", n] => number(n).and_then(points),
        ["codec", operation, set, n] => number(n).and_then(|n| codec(operation, set, n)),
        ["store", operation @ ("append" | "read"), n] => {
            number(n).and_then(|n| store(operation, n))
        }
        ["hostile", shape, n] => number(n).and_then(|n| hostile::run(shape, n as usize)).map(|n| {
            println!("{n} bytes");
        }),
        _ => Err("usage: count turn [seldom] N | paced N | points N | codec OPERATION SET N | \
                  store append N | store read N | hostile SHAPE N"
            .to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("count: {error}");
            ExitCode::FAILURE
        }
    }
}
