//! What a thread that reads state, numbers, times and counts of a session in a loop costs that
//! session: `cargo bench -p transfix-bench --bench observed`.
//!
//! A plain socket sends an order 1 ms after each report; the venue stores and sends a report for
//! each.
//! Slices take turns in which nobody watches, a thread loops over a number of its own, and a thread
//! reads all that a handle tells without a lock. The second one is the measure: a thread that loops
//! takes a core from others, whatever it reads.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use transfix::codec::FrameWriter;
use transfix::{
    Application, BeginString, BusinessReject, Engine, Message, Mode, Precision, Role,
    SessionHandle, SessionId, SessionRef, SessionSettings, Settings, clock, tag,
};
use transfix_testkit::temp::TempDir;

const ORDERS: usize = 500;
const ROUNDS: usize = 31;
const PACE: Duration = Duration::from_millis(1);

/// Answers each order by a report with the same ClOrdID(11).
struct Venue;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = order.required(tag::CL_ORD_ID)?;
        let now = session.now().utc;
        session.send("8", |report| {
            report.bytes(tag::CL_ORD_ID, id).uint(tag::ORDER_ID, 1).uint(tag::EXEC_ID, 1);
            report.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0').char(tag::SIDE, b'1');
            report.uint(tag::LEAVES_QTY, 5).uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
            report.timestamp(tag::TRANSACT_TIME, now);
        })?;
        Ok(())
    }
}

/// Who else runs.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nobody,
    Loop,
    Reader,
}

const ALL: [Beside; 3] = [Beside::Nobody, Beside::Loop, Beside::Reader];

fn main() {
    for mode in [Mode::Pool, Mode::Spin] {
        let mut client = Client::new(mode);
        let mut found = ALL.map(|_| (Vec::new(), Vec::new()));
        let mut reads = 0;
        for round in 0..ROUNDS {
            for (beside, (p50, p99)) in ALL.into_iter().zip(&mut found) {
                let (mut ns, looks) = client.slice(beside);
                ns.sort_unstable();
                // The first one warms up.
                if round > 0 {
                    p50.push(ns[ns.len() / 2]);
                    p99.push(ns[ns.len() * 99 / 100]);
                    reads += if matches!(beside, Beside::Reader) { looks } else { 0 };
                }
            }
        }
        let slices = ROUNDS - 1;
        println!("{mode:?}: medians of {slices} slices of {ORDERS} orders, in µs; {reads} reads");
        for (beside, (p50, p99)) in ALL.into_iter().zip(&mut found) {
            println!("{:<8} p50 {:>7.1}  p99 {:>7.1}", format!("{beside:?}"), us(p50), us(p99));
        }
    }
}

fn us(ns: &mut [u64]) -> f64 {
    ns.sort_unstable();
    ns[ns.len() / 2] as f64 / 1_000.0
}

/// A client of a venue of one session.
struct Client {
    venue: Engine,
    socket: TcpStream,
    next_num_out: u64,
    _dir: TempDir,
}

impl Client {
    fn new(mode: Mode) -> Self {
        let dir = TempDir::new();
        let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
        let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
        settings.store.store_dir = dir.path().to_owned();
        settings.threads.mode = mode;
        let mut all = Settings::of(settings);
        all.engine.workers = 1;
        let venue = Engine::start(&all, |_| Box::new(Venue)).unwrap();
        let socket = TcpStream::connect(venue.listening()[0]).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client = Self { venue, socket, next_num_out: 1, _dir: dir };
        client.ask("A", b"98=0\x01108=30\x01");
        client
    }

    /// Sends one message and waits for the answer, which comes in one piece.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(b"49=CLIENT\x0156=VENUE\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, self.next_num_out);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(fields);
        frame.finish().unwrap();
        self.next_num_out += 1;
        self.socket.write_all(&out).unwrap();
        let mut answer = [0; 4096];
        assert!(self.socket.read(&mut answer).unwrap() > 0, "the venue has closed");
    }

    /// Nanoseconds of each round trip, and how often the thread beside them has looped.
    fn slice(&mut self, beside: Beside) -> (Vec<u64>, u64) {
        let order = b"11=5000\x0121=1\x0155=EU\x0154=1\x0160=20261121-12:00:00.123\x0140=2\x01\
            38=5\x0159=0\x0144=30\x01";
        let is_over = Arc::new(AtomicBool::new(false));
        let session = self.venue.sessions().next().unwrap();
        let thread = watch(beside, session, Arc::clone(&is_over));
        let ns = (0..ORDERS)
            .map(|_| {
                thread::sleep(PACE);
                let begun = Instant::now();
                self.ask("D", order);
                begun.elapsed().as_nanos() as u64
            })
            .collect();
        is_over.store(true, Ordering::Relaxed);
        (ns, thread.map_or(0, |thread| thread.join().unwrap()))
    }
}

fn watch(
    beside: Beside,
    session: SessionHandle,
    is_over: Arc<AtomicBool>,
) -> Option<JoinHandle<u64>> {
    let own = AtomicU64::new(0);
    let look = move || match beside {
        Beside::Reader => {
            black_box((session.state(), session.next_numbers(), session.queued_bytes()));
            black_box((session.last_received(), session.last_sent(), session.counters()));
        }
        _ => _ = black_box(own.fetch_add(1, Ordering::Relaxed)),
    };
    let run = move || {
        let mut looks = 0;
        while !is_over.load(Ordering::Relaxed) {
            look();
            looks += 1;
        }
        looks
    };
    (!matches!(beside, Beside::Nobody)).then(|| thread::spawn(run))
}
