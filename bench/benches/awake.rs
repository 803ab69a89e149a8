//! Measures the gain of `spin_us`, the time for which a thread spins before it sleeps; a spinning
//! thread needs no wake-up. `cargo bench -p transfix-bench --bench awake`.
//!
//! A spinning plain socket sends an order as soon as the previous report arrives. Slices alternate
//! between floors and venues with different spin times. A floor is a bare thread that echoes the
//! same bytes; the thread waits in epoll, or spins.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod side;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use side::{CLIENT_CPU, Echo, NEWS, VENUE_CPU, median_us};
use transfix::{Engine, Settings, pin_to_cpu};

const ORDERS: usize = 2_000;
const ROUNDS: usize = 31;

fn main() {
    // Two threads that spin on the same CPU would block each other.
    let _ = pin_to_cpu(CLIENT_CPU);
    let venues = [0, 50].map(venue);
    let [sleeps, looks] = [false, true].map(echo);
    let addresses = [sleeps, venues[0].listening()[0], looks, venues[1].listening()[0]];
    let names = ["floor: sleeps", "pool, spin_us = 0", "floor: looks", "pool, spin_us = 50"];
    let mut clients = addresses.map(Client::new);
    let mut found = names.map(|_| (Vec::new(), Vec::new()));
    for round in 0..ROUNDS {
        for (client, (p50, p99)) in clients.iter_mut().zip(&mut found) {
            let mut ns: Vec<_> = (0..ORDERS).map(|_| client.round_trip()).collect();
            ns.sort_unstable();
            // Round 0 is a warm-up and is not counted.
            if round > 0 {
                p50.push(ns[ns.len() / 2]);
                p99.push(ns[ns.len() * 99 / 100]);
            }
        }
    }
    println!("medians of {} slices of {ORDERS} round trips, in µs", ROUNDS - 1);
    for (name, (p50, p99)) in names.iter().zip(&mut found) {
        println!("{name:<24} p50 {:>7.1}  p99 {:>7.1}", median_us(p50), median_us(p99));
    }
}

fn venue(spin_us: u64) -> Engine {
    let mut settings = side::bare_acceptor("CLIENT");
    settings.threads.spin = Duration::from_micros(spin_us);
    let mut settings = Settings::of(settings);
    settings.engine.cpus = vec![VENUE_CPU];
    Engine::start(&settings, |_| Box::new(Echo)).unwrap()
}

/// Starts a bare echo thread. With `looks`, the thread spins, and sleeps after 50 µs without bytes,
/// so that other threads get the core.
fn echo(looks: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let _ = pin_to_cpu(VENUE_CPU);
        let mut stream = listener.accept().unwrap().0;
        stream.set_nodelay(true).unwrap();
        let epoll = epoll::create(epoll::CreateFlags::empty()).unwrap();
        let (data, flags) = (epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        epoll::add(&epoll, &stream, data, flags).unwrap();
        let mut events = [epoll::Event { flags, data }];
        let mut bytes = [0; 4096];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let begun = Instant::now();
            let is_late = || begun.elapsed() >= Duration::from_micros(50);
            while looks && epoll::wait(&epoll, &mut events[..], Some(&now)) == Ok(0) && !is_late() {
            }
            epoll::wait(&epoll, &mut events[..], None).unwrap();
            let n = stream.read(&mut bytes).unwrap();
            if n == 0 {
                return;
            }
            stream.write_all(&bytes[..n]).unwrap();
        }
    });
    address
}

struct Client {
    socket: TcpStream,
    next_num_out: u64,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut client = Self { socket, next_num_out: 1 };
        client.ask("A", b"98=0\x01108=3600\x01");
        client
    }

    /// Returns the nanoseconds until the answer arrives.
    fn round_trip(&mut self) -> u64 {
        let begun = Instant::now();
        self.ask("B", NEWS);
        begun.elapsed().as_nanos() as u64
    }

    /// Sends one message and waits for the answer, which arrives in one piece.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        side::frame(&mut out, "CLIENT", msg_type, self.next_num_out, fields);
        self.next_num_out += 1;
        self.socket.write_all(&out).unwrap();
        let mut answer = [0; 4096];
        loop {
            match self.socket.read(&mut answer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                n => return assert!(n.unwrap() > 0, "the venue has closed"),
            }
        }
    }
}
