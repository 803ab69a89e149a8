//! Measures the cost of a busy session for other sessions of the same worker:
//! `cargo bench -p transfix-bench --bench neighbours`. The busy session floods, or its callbacks
//! are slow. The benchmark `resend` measures a session whose counterparty requests a million
//! messages again.
//!
//! A quiet client sends an order 1 ms after each report. A loud client is idle, sends as fast as
//! its venue reads, or sends an order each millisecond that takes the application 200 µs. Slices
//! alternate between a floor, an engine with one worker, and an engine with application threads.
//! The floor is one epoll thread that echoes all bytes, with a read and a write for each socket in
//! turn.
//!
//! Both clients share a CPU, but only the venue's cost is of interest. The quiet client therefore
//! has a real-time priority on that CPU, which only root can set.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time, and paces what it measures")]

mod side;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use side::{CLIENT_CPU, NEWS, VENUE_CPU, median_us};
use transfix::{
    Application, BusinessReject, Engine, Message, SessionRef, Settings, pin_to_cpu, tag,
};

const ORDERS: usize = 500;
const ROUNDS: usize = 21;
const PACE: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_micros(200);
/// Number of orders in one write of the loud client.
const AT_ONCE: usize = 64;

/// The load of the loud client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loud {
    Silent,
    Floods,
    Slow,
}

const ALL: [Loud; 3] = [Loud::Silent, Loud::Floods, Loud::Slow];

fn work(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {}
}

/// Echoes the text of each order, slowly if the text says so.
struct Venue;

impl Application for Venue {
    fn on_message(
        &mut self,
        order: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let text = order.required(tag::TEXT)?;
        if text.starts_with(b"slow") {
            work(SLOW);
        }
        side::echo(order, session)
    }
}

fn venue(application_threads: usize) -> Engine {
    let sessions = ["QUIET", "LOUD"].map(side::bare_acceptor);
    let mut settings = Settings { sessions: sessions.to_vec(), ..Settings::default() };
    settings.engine.workers = 1;
    settings.engine.cpus = vec![VENUE_CPU];
    settings.engine.application_threads = application_threads;
    Engine::start(&settings, |_| Box::new(Venue)).unwrap()
}

/// Starts a bare thread that echoes all bytes, slowly if the text of the order says so.
fn floor() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let epoll = Arc::new(epoll::create(epoll::CreateFlags::empty()).unwrap());
    let (of_thread, sockets) = (Arc::clone(&epoll), Arc::new(Mutex::default()));
    let known: Arc<Mutex<BTreeMap<u64, TcpStream>>> = Arc::clone(&sockets);
    thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let mut known = known.lock().unwrap();
            let data = epoll::EventData::new_u64(n as u64);
            epoll::add(&epoll, &stream, data, epoll::EventFlags::IN).unwrap();
            known.insert(n as u64, stream);
        }
    });
    thread::spawn(move || {
        let _ = pin_to_cpu(VENUE_CPU);
        let data = epoll::EventData::new_u64(0);
        let mut events = [epoll::Event { flags: epoll::EventFlags::IN, data }; 8];
        let mut bytes = vec![0; 64 << 10];
        loop {
            let count = epoll::wait(&of_thread, &mut events[..], None).unwrap_or(0);
            for event in &events[..count] {
                let number = event.data.u64();
                let mut sockets = sockets.lock().unwrap();
                let Some(socket) = sockets.get_mut(&number) else { continue };
                let n = socket.read(&mut bytes).unwrap_or(0);
                if bytes[..n].windows(8).any(|text| text == b"\x0158=slow") {
                    work(SLOW);
                }
                if n == 0 || socket.write_all(&bytes[..n]).is_err() {
                    sockets.remove(&number);
                }
            }
        }
    });
    address
}

struct Client {
    name: &'static str,
    socket: TcpStream,
    next_num_out: u64,
}

impl Client {
    fn new(name: &'static str, address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut client = Self { name, socket, next_num_out: 1 };
        client.ask("A", b"98=0\x01108=3600\x01141=Y\x01");
        client
    }

    fn frame(&mut self, out: &mut Vec<u8>, msg_type: &str, fields: &[u8]) {
        side::frame(out, self.name, msg_type, self.next_num_out, fields);
        self.next_num_out += 1;
    }

    /// Sends one message and waits for the answer, which arrives in one piece.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        self.frame(&mut out, msg_type, fields);
        self.socket.write_all(&out).unwrap();
        let mut answer = [0; 4096];
        assert!(self.socket.read(&mut answer).unwrap() > 0, "the venue has closed");
    }

    /// Sends the load `how` until `is_over` is set.
    fn make_noise(mut self, how: Loud, is_over: &AtomicBool) {
        if how == Loud::Silent {
            return;
        }
        let mut answers = self.socket.try_clone().unwrap();
        let reader = thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while matches!(answers.read(&mut bytes), Ok(1..)) {}
        });
        let mut out = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            out.clear();
            if how == Loud::Slow {
                self.frame(&mut out, "B", b"58=slow, as it is\x01");
                thread::sleep(PACE);
            }
            while how == Loud::Floods && out.len() < AT_ONCE * 100 {
                self.frame(&mut out, "B", NEWS);
            }
            self.socket.write_all(&out).unwrap();
        }
        self.socket.shutdown(Shutdown::Both).unwrap();
        reader.join().unwrap();
    }
}

/// Gives the calling thread the highest priority on its CPU until dropped.
struct First(String);

impl First {
    /// Gives the priority, or returns `None` if the system forbids it.
    fn of_its_cpu() -> Option<Self> {
        let first = Self(rustix::thread::gettid().as_raw_nonzero().to_string());
        first.schedule(&["--fifo", "--pid", "1"]).then_some(first)
    }

    fn schedule(&self, how: &[&str]) -> bool {
        let set = Command::new("chrt").args(how).arg(&self.0).stderr(Stdio::null()).status();
        set.is_ok_and(|status| status.success())
    }
}

impl Drop for First {
    fn drop(&mut self) {
        assert!(self.schedule(&["--other", "--pid", "0"]), "a priority can be given back");
    }
}

/// Returns the nanoseconds of each round trip of a quiet client while a loud client sends the load
/// `how`.
fn slice(address: SocketAddr, how: Loud) -> Vec<u64> {
    let mut quiet = Client::new("QUIET", address);
    let loud = Client::new("LOUD", address);
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    let loud = thread::spawn(move || loud.make_noise(how, &told));
    let first = First::of_its_cpu();
    let round_trip = |_| {
        thread::sleep(PACE);
        let begun = Instant::now();
        quiet.ask("B", NEWS);
        begun.elapsed().as_nanos() as u64
    };
    let mut ns: Vec<u64> = (0..ORDERS).map(round_trip).collect();
    drop(first);
    is_over.store(true, Ordering::Relaxed);
    loud.join().unwrap();
    // The session must be free, because the next slice logs on again.
    drop(quiet);
    thread::sleep(Duration::from_millis(50));
    ns.sort_unstable();
    ns
}

fn main() {
    let _ = pin_to_cpu(CLIENT_CPU);
    let engines = [0, 2].map(venue);
    let addresses = [floor(), engines[0].listening()[0], engines[1].listening()[0]];
    let names = ["floor", "engine", "engine, application_threads = 2"];
    let mut found: BTreeMap<(usize, usize), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    for round in 0..ROUNDS {
        for (a, address) in addresses.into_iter().enumerate() {
            for (b, how) in ALL.into_iter().enumerate() {
                let ns = slice(address, how);
                // Round 0 is a warm-up and is not counted.
                if round > 0 {
                    let (p50, p99) = found.entry((a, b)).or_default();
                    p50.push(ns[ns.len() / 2]);
                    p99.push(ns[ns.len() * 99 / 100]);
                }
            }
        }
    }
    if First::of_its_cpu().is_none() {
        println!("its client runs beside the loud one as the system likes (no root, or no chrt)");
    }
    println!("a quiet session, medians of {} slices of {ORDERS} orders, in µs", ROUNDS - 1);
    for (a, name) in names.into_iter().enumerate() {
        let alone = median_us(&mut found.get_mut(&(a, 0)).unwrap().1);
        for (b, how) in ALL.into_iter().enumerate() {
            let (p50, p99) = found.get_mut(&(a, b)).unwrap();
            let (p50, p99) = (median_us(p50), median_us(p99));
            let ratio = p99 / alone;
            println!(
                "{name:<32} beside {:<7} p50 {p50:>7.1}  p99 {p99:>7.1}  {ratio:.2} x alone",
                format!("{how:?}")
            );
        }
    }
}
