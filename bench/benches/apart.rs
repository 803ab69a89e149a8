//! Measures the cost of calling the application, and of sending, in a thread other than the
//! session's: `cargo bench -p transfix-bench --bench apart`.
//!
//! One thread is both client and session. The thread writes an order into a loopback socket, polls
//! the session (mode `polled`) until the report arrives, and reads the report. Two CPUs therefore
//! suffice for a spinning application thread. Slices alternate between two sessions and a floor.
//! The first session calls its application itself. The second session's application runs in a
//! separate thread, which also sends. The floor is a number that two threads pass to each other.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod side;

use std::hint::spin_loop;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use side::{NEWS, median};
use transfix::{Application, BusinessReject, Engine, Message, Mode, SessionRef, Settings, clock};

const ORDERS: usize = 2_000;
const ROUNDS: usize = 31;

/// Echoes the text of each order, and records the time at which the application was called.
struct Venue(Called);

/// Time of the latest application call, in nanoseconds of the monotonic clock.
type Called = Arc<AtomicU64>;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.0.store(clock::monotonic_ns(), Ordering::Release);
        side::echo(order, session)
    }
}

struct Both {
    engine: Engine,
    called: Called,
    socket: TcpStream,
    next_num_out: u64,
}

impl Both {
    fn new(application_threads: usize) -> Self {
        let mut settings = side::bare_acceptor("CLIENT");
        settings.threads.mode = Mode::Polled;
        let mut settings = Settings::of(settings);
        settings.engine.application_threads = application_threads;
        settings.engine.application_spin = Duration::from_millis(50);
        let called = Called::default();
        let engine = Engine::start(&settings, |_| Box::new(Venue(Arc::clone(&called)))).unwrap();
        let socket = TcpStream::connect(engine.listening()[0]).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut both = Self { engine, called, socket, next_num_out: 1 };
        both.ask("A", b"98=0\x01108=3600\x01");
        both
    }

    /// Sends one message, and polls the session until the answer arrives.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        side::frame(&mut out, "CLIENT", msg_type, self.next_num_out, fields);
        self.next_num_out += 1;
        self.socket.write_all(&out).unwrap();
        let mut answer = [0; 4096];
        loop {
            self.engine.poll();
            match self.socket.read(&mut answer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                n => return assert!(n.unwrap() > 0, "the venue has closed"),
            }
        }
    }

    /// Returns two medians: from the write of an order to the callback, and of the whole round
    /// trip.
    fn slice(&mut self) -> [f64; 2] {
        let [mut calls, mut trips] = [Vec::new(), Vec::new()];
        for _ in 0..ORDERS {
            let begun = clock::monotonic_ns();
            self.ask("B", NEWS);
            trips.push((clock::monotonic_ns() - begun) as f64);
            calls.push((self.called.load(Ordering::Acquire) - begun) as f64);
        }
        [median(calls), median(trips)]
    }
}

/// Returns half the time in which a number passes to another thread and back.
fn floor() -> f64 {
    let number = Arc::new(AtomicU64::new(0));
    let other = Arc::clone(&number);
    let count = 2 * ORDERS as u64;
    let thread = thread::spawn(move || {
        for n in (1..count).step_by(2) {
            while other.load(Ordering::Acquire) != n {
                spin_loop();
            }
            other.store(n + 1, Ordering::Release);
        }
    });
    let mut ns: Vec<u64> = (0..count)
        .step_by(2)
        .map(|n| {
            let begun = Instant::now();
            number.store(n + 1, Ordering::Release);
            while number.load(Ordering::Acquire) != n + 2 {
                spin_loop();
            }
            begun.elapsed().as_nanos() as u64
        })
        .collect();
    thread.join().unwrap();
    ns.sort_unstable();
    ns[ns.len() / 2] as f64 / 2.0
}

fn main() {
    let mut floors = Vec::new();
    let mut found = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let passed = floor();
        // The two sessions run one after another, because a spinning thread would take the CPU from
        // the other session.
        let slices = [0, 1].map(|application_threads| Both::new(application_threads).slice());
        // Round 0 is a warm-up and is not counted.
        if round > 0 {
            floors.push(passed);
            found.iter_mut().zip(slices).for_each(|(all, slice)| all.push(slice));
        }
    }
    println!("medians of {} slices of {ORDERS} orders, in ns", ROUNDS - 1);
    println!("floor: a number to another thread    {:>7.0}", median(floors));
    for (all, name) in found.iter().zip(["called by the session", "called in another thread"]) {
        let [to_callback, whole] =
            [0, 1].map(|n| median(all.iter().map(|slice| slice[n]).collect()));
        println!("{name:<26} write to callback {to_callback:>7.0}  round trip {whole:>7.0}");
    }
}
