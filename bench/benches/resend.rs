//! Measures the resend of a million stored messages, and its effect on another session of the same
//! thread: `cargo bench -p transfix-bench --bench resend`.
//!
//! An engine with one worker has two acceptor sessions. `LAGGARD` has a million messages in its
//! store, and its counterparty, a plain socket, requests all of them. `TRADER` answers orders all
//! the time; its client waits for each answer. The floor of the resend reads the same messages from
//! the store and sums their bytes. The floor of the round trips exchanges the same messages between
//! two plain threads, before and during another resend. That floor shows the effect of the machine
//! alone.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time, and paces what it measures")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use transfix::{
    Application, BeginString, BusinessReject, Engine, EngineError, Message, Offline, Precision,
    Role, SessionEvent, SessionId, SessionRef, SessionSettings, Settings, clock, tag,
};
use transfix_codec::FrameWriter;
use transfix_store::{FileStore, Options, Store};
use transfix_testkit::temp::TempDir;

const MESSAGES: u64 = 1_000_000;
const ROUND_TRIPS: usize = 3_000;
/// Number of resends. Undisturbed round trips are measured before each resend.
const ROUNDS: u64 = 7;
/// Time for which the counterparty of `LAGGARD` lets bytes accumulate, as a network card does. A
/// wake-up for every segment would measure this machine's scheduler.
const COALESCED: Duration = Duration::from_micros(100);
const LONG: Duration = Duration::from_secs(120);

/// Answers each order with a report that has the same ClOrdID(11).
struct Echo;

impl Application for Echo {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        let sent = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, &id));
        sent.map(drop).map_err(|error| BusinessReject::other(error.to_string()))
    }
}

/// Notifies the benchmark of each logon and each report.
struct Client(Sender<()>);

impl Application for Client {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.0.send(()).ok();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.0.send(()).ok();
        }
    }
}

fn settings(role: Role, us: &str, them: &str, address: &str, dir: &TempDir) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, us, them);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.store.store_dir = dir.path().join(us);
    settings.validation.validate = false;
    settings.queue.offline = if them == "LAGGARD" { Offline::Store } else { Offline::Refuse };
    settings
}

fn start(
    sessions: Vec<SessionSettings>,
    mut application: impl FnMut() -> Box<dyn Application>,
) -> Result<Engine, EngineError> {
    let mut all = Settings { sessions, ..Settings::default() };
    all.engine.workers = 1;
    Engine::start(&all, |_| application())
}

fn main() {
    let dir = TempDir::new();
    let of = |them| settings(Role::Acceptor, "VENUE", them, "127.0.0.1:0", &dir);
    let venue = start(vec![of("LAGGARD"), of("TRADER")], || Box::new(Echo)).unwrap();
    let address = venue.listening()[0];
    let laggard = SessionId::new(BeginString::Fix44, "VENUE", "LAGGARD");
    let handle = venue.session(&laggard).unwrap();
    let text = "x".repeat(120);
    let begun = Instant::now();
    for n in 0..MESSAGES {
        handle.send("B", |news| _ = news.uint(tag::CL_ORD_ID, n).str(tag::TEXT, &text)).unwrap();
    }
    println!("stored {MESSAGES} messages: {} ns each", ns_each(begun, MESSAGES));

    let (sender, seen) = channel();
    let client = settings(Role::Initiator, "TRADER", "VENUE", &address.to_string(), &dir);
    let id = client.id();
    let client = start(vec![client], || Box::new(Client(sender.clone()))).unwrap();
    seen.recv_timeout(LONG).unwrap();
    let mut plain = Plain::start();
    round_trips(&client, &id, &seen, None);
    plain.round_trips(None);
    let (mut engine, mut floor, mut took, mut grown) = (vec![], vec![], vec![], 0);
    for round in 1..=ROUNDS {
        let seq = 4 * round - 2;
        let before = round_trips(&client, &id, &seen, None);
        let anonymous = memory_kib();
        let ((_, time), during) =
            while_resending(address, seq, |done| round_trips(&client, &id, &seen, Some(done)));
        grown = grown.max(memory_kib() - anonymous);
        took.push(time.as_nanos() as f64 / MESSAGES as f64);
        engine.push([before, during]);
        let before = plain.round_trips(None);
        let (_, during) = while_resending(address, seq + 2, |done| plain.round_trips(Some(done)));
        floor.push([before, during]);
    }
    client.stop(Duration::from_secs(5));
    venue.stop(Duration::from_secs(5));
    drop(handle);

    let (each, read) = (percentile(&took, 50), reading(&dir));
    println!("resent: {each:.0} ns a message; reading them from the store {read:.0}");
    println!("memory meanwhile: {grown:+} KiB at most");
    print("the other session", &engine);
    print("two plain threads", &floor);
}

/// Prints a line for each round, and the medians of the ratios, for the client `whose`.
fn print(whose: &str, rounds: &[[Vec<f64>; 2]]) {
    println!("round trip of {whose}, us");
    let mut ratios = [vec![], vec![]];
    for [before, during] in rounds {
        let [a, b, c, d] = [(before, 50), (before, 99), (during, 50), (during, 99)]
            .map(|(times, percent)| percentile(times, percent));
        println!(
            "  before p50 {a:.1} p99 {b:.1}; meanwhile p50 {c:.1} p99 {d:.1}: {:.2} x and {:.2} x",
            c / a,
            d / b
        );
        ratios[0].push(c / a);
        ratios[1].push(d / b);
    }
    let [p50, p99] = ratios.map(|ratios| percentile(&ratios, 50));
    println!("  medians of {} rounds: p50 {p50:.2} x, p99 {p99:.2} x", rounds.len());
}

/// Runs `work` until the counterparty of `LAGGARD` has received all its messages; `seq` is the
/// MsgSeqNum(34) of its Logon(A).
fn while_resending<T>(
    address: SocketAddr,
    seq: u64,
    work: impl FnOnce(&AtomicBool) -> T,
) -> ((usize, Duration), T) {
    let done = Arc::new(AtomicBool::new(false));
    let reader = std::thread::spawn({
        let done = Arc::clone(&done);
        move || {
            let read = read_all(address, seq);
            done.store(true, Ordering::Release);
            read
        }
    });
    let work = work(&done);
    (reader.join().unwrap(), work)
}

/// The floor of the round trips: two threads that exchange bytes of an order's size, at the pace of
/// the orders.
struct Plain(TcpStream);

impl Plain {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        for end in [&stream, &far] {
            end.set_nodelay(true).unwrap();
        }
        std::thread::spawn(move || {
            let mut buffer = [0; 256];
            while let Ok(n @ 1..) = far.read(&mut buffer) {
                far.write_all(&buffer[..n]).unwrap();
            }
        });
        Self(stream)
    }

    fn round_trips(&mut self, done: Option<&AtomicBool>) -> Vec<f64> {
        let mut buffer = [b'x'; 100];
        paced(done, |_| {
            self.0.write_all(&buffer).unwrap();
            self.0.read_exact(&mut buffer).unwrap();
        })
    }
}

fn ns_each(begun: Instant, n: u64) -> u128 {
    begun.elapsed().as_nanos() / u128::from(n)
}

/// Sends orders one after another, until `done` is set, or a fixed number if `done` is `None`.
fn round_trips(
    client: &Engine,
    id: &SessionId,
    seen: &Receiver<()>,
    done: Option<&AtomicBool>,
) -> Vec<f64> {
    let handle = client.session(id).unwrap();
    paced(done, |n| {
        handle.send("D", |order| _ = order.uint(tag::CL_ORD_ID, n)).unwrap();
        seen.recv_timeout(LONG).unwrap();
    })
}

/// Runs `trip` repeatedly and returns the microseconds of each run. The function pauses between
/// runs, because a trader does not send all the time.
fn paced(done: Option<&AtomicBool>, mut trip: impl FnMut(u64)) -> Vec<f64> {
    let mut times = Vec::new();
    while done.map_or(times.len() < ROUND_TRIPS, |done| !done.load(Ordering::Acquire)) {
        let begun = Instant::now();
        trip(times.len() as u64);
        times.push(begun.elapsed().as_nanos() as f64 / 1_000.0);
        std::thread::sleep(Duration::from_micros(50));
    }
    times
}

fn percentile(times: &[f64], percent: usize) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or(f64::NAN)
}

/// Logs on as the counterparty of `LAGGARD`, requests all messages, and reads them. Returns the
/// number of bytes and the time.
fn read_all(address: SocketAddr, seq: u64) -> (usize, Duration) {
    let mut stream = TcpStream::connect(address).unwrap();
    let time = clock::now().utc;
    let mut bytes = Vec::new();
    let first = seq - 1;
    for (msg_type, seq, rest) in
        [("A", first, "98=0\x01108=0\x01"), ("2", first + 1, "7=1\x0116=0\x01")]
    {
        let mut one = Vec::new();
        let mut frame = FrameWriter::new(&mut one, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(b"49=LAGGARD\x0156=VENUE\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, time, Precision::Millis);
        frame.raw(rest.as_bytes());
        frame.finish().unwrap();
        bytes.extend(one);
    }
    let begun = Instant::now();
    stream.write_all(&bytes).unwrap();
    // The reader searches only for the last message, to save its CPU time.
    let last = format!("\x0134={MESSAGES}\x01").into_bytes();
    let (mut buffer, mut total, mut kept) = (vec![0; 1 << 18], 0, 0);
    loop {
        std::thread::sleep(COALESCED);
        let n = stream.read(&mut buffer[kept..]).unwrap();
        assert!(n > 0, "the connection was closed after {total} bytes");
        total += n;
        let end = kept + n;
        let tail = end.saturating_sub(1_000);
        if buffer[tail..end].windows(last.len()).any(|part| part == last) {
            return (total, begun.elapsed());
        }
        kept = last.len().min(end);
        buffer.copy_within(end - kept..end, 0);
    }
}

/// Returns the nanoseconds per message of reading all messages from the store.
fn reading(dir: &TempDir) -> f64 {
    let path = dir.path().join("VENUE").join("FIX.4.4-VENUE-LAGGARD");
    let (mut store, _) = FileStore::open(&path, Options::default(), 0).unwrap();
    let begun = Instant::now();
    let mut sum = 0_u64;
    for seq in 1..=MESSAGES {
        let stored = store.outbound(seq).unwrap().unwrap();
        sum = stored.bytes.iter().fold(sum, |sum, b| sum.wrapping_add(u64::from(*b)));
    }
    std::hint::black_box(sum);
    begun.elapsed().as_nanos() as f64 / MESSAGES as f64
}

/// Returns the anonymous memory of the process in KiB.
fn memory_kib() -> i64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
