//! Measures how fast one session answers orders at full speed, for several limits of messages per
//! turn (`turn_messages_max`): `cargo bench -p transfix-bench --bench pipeline`.
//!
//! A plain socket writes orders without waiting; the venue stores each order and sends a report.
//! Slices with different limits alternate. Each figure is a median over the rounds.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod side;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use side::{ORDER, Reports};
use transfix::{Engine, Settings};
use transfix_testkit::temp::TempDir;

const LIMITS: [u32; 7] = [8, 16, 32, 64, 128, 256, 1024];
const ORDERS: u64 = 50_000;
const ROUNDS: usize = 21;

fn main() {
    let mut took = LIMITS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (limit, took) in LIMITS.into_iter().zip(&mut took) {
            let ns = run(limit);
            // Round 0 is a warm-up and is not counted.
            if round > 0 {
                took.push(ns);
            }
        }
    }
    println!("turn_messages_max, ns a message (median, least of {} rounds)", ROUNDS - 1);
    for (limit, took) in LIMITS.into_iter().zip(&mut took) {
        took.sort_by(f64::total_cmp);
        println!("{limit:>5} {:>7.0} {:>7.0}", took[took.len() / 2], took[0]);
    }
}

/// Returns the average nanoseconds for each order.
fn run(limit: u32) -> f64 {
    let dir = TempDir::new();
    let mut settings = side::acceptor("CLIENT");
    settings.store.store_dir = dir.path().to_owned();
    settings.threads.turn_messages_max = limit;
    let mut all = Settings::of(settings);
    all.engine.workers = 1;
    let venue = Engine::start(&all, |_| Box::new(Reports)).unwrap();
    let mut socket = TcpStream::connect(venue.listening()[0]).unwrap();
    let mut logon = Vec::new();
    side::frame(&mut logon, "CLIENT", "A", 1, b"98=0\x01108=30\x01");
    socket.write_all(&logon).unwrap();
    let mut reader = socket.try_clone().unwrap();
    let mut ends = Ends::default();
    ends.read(&mut reader, 1);
    let mut orders = Vec::new();
    (0..ORDERS).for_each(|n| side::frame(&mut orders, "CLIENT", "D", n + 2, ORDER));
    let begun = Instant::now();
    let writer = std::thread::spawn(move || socket.write_all(&orders).unwrap());
    ends.read(&mut reader, ORDERS);
    let ns = begun.elapsed().as_nanos() as f64 / ORDERS as f64;
    writer.join().unwrap();
    drop(reader);
    venue.stop(Duration::ZERO);
    ns
}

/// Counts the messages in a stream of bytes by their CheckSum(10) tags.
#[derive(Default)]
struct Ends {
    last: [u8; 3],
}

impl Ends {
    fn read(&mut self, socket: &mut TcpStream, messages: u64) {
        let (mut buffer, mut seen) = (vec![0; 256 << 10], 0);
        while seen < messages {
            let n = socket.read(&mut buffer[3..]).unwrap();
            assert!(n > 0, "the venue has closed");
            buffer[..3].copy_from_slice(&self.last);
            let ends = buffer[..n + 3].windows(4).filter(|bytes| *bytes == b"\x0110=");
            seen += ends.count() as u64;
            self.last.copy_from_slice(&buffer[n..n + 3]);
        }
    }
}
