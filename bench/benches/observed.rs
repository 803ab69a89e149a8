//! Measures the cost of a thread that observes a session:
//! `cargo bench -p transfix-bench --bench observed`. The thread reads state, numbers, times and
//! counts of the session in a loop.
//!
//! A plain socket sends an order 1 ms after each report; the venue stores each order and sends a
//! report. Slices alternate between no observer, a thread that loops without reading the session,
//! and a thread that reads all values that a handle offers without a lock. The looping thread is
//! the reference, because any looping thread takes a core from the session.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod side;

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use side::{ORDER, Reports, median_us};
use transfix::{Engine, Mode, SessionHandle, Settings};
use transfix_testkit::temp::TempDir;

const ORDERS: usize = 500;
const ROUNDS: usize = 31;
const PACE: Duration = Duration::from_millis(1);

/// The additional thread that runs next to the session.
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
                // Round 0 is a warm-up and is not counted.
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
            println!(
                "{:<8} p50 {:>7.1}  p99 {:>7.1}",
                format!("{beside:?}"),
                median_us(p50),
                median_us(p99)
            );
        }
    }
}

/// A client of a venue with one session.
struct Client {
    venue: Engine,
    socket: TcpStream,
    next_num_out: u64,
    _dir: TempDir,
}

impl Client {
    fn new(mode: Mode) -> Self {
        let dir = TempDir::new();
        let mut settings = side::acceptor("CLIENT");
        settings.store.store_dir = dir.path().to_owned();
        settings.threads.mode = mode;
        let mut all = Settings::of(settings);
        all.engine.workers = 1;
        let venue = Engine::start(&all, |_| Box::new(Reports)).unwrap();
        let socket = TcpStream::connect(venue.listening()[0]).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client = Self { venue, socket, next_num_out: 1, _dir: dir };
        client.ask("A", b"98=0\x01108=30\x01");
        client
    }

    /// Sends one message and waits for the answer, which arrives in one piece.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        side::frame(&mut out, "CLIENT", msg_type, self.next_num_out, fields);
        self.next_num_out += 1;
        self.socket.write_all(&out).unwrap();
        let mut answer = [0; 4096];
        assert!(self.socket.read(&mut answer).unwrap() > 0, "the venue has closed");
    }

    /// Returns the nanoseconds of each round trip, and the loop count of the additional thread.
    fn slice(&mut self, beside: Beside) -> (Vec<u64>, u64) {
        let is_over = Arc::new(AtomicBool::new(false));
        let session = self.venue.sessions().next().unwrap();
        let thread = watch(beside, session, Arc::clone(&is_over));
        let ns = (0..ORDERS)
            .map(|_| {
                thread::sleep(PACE);
                let begun = Instant::now();
                self.ask("D", ORDER);
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
            black_box(session.counters());
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
