//! Measures the cost of the administration for a watched session:
//! `cargo bench -p transfix-bench --bench administered`.
//!
//! A plain socket sends an order 1 ms after each report, the pace of the page "Latency2". The venue
//! stores each order and sends a report. Slices with and without administration alternate. A slice
//! without administration measures no latency stages. With administration the venue measures
//! stages, and browsers show the session, the table of sessions and the events, at the console's
//! own intervals. Prometheus scrapes every second.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod side;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use side::{ORDER, Reports, median};
use transfix::{AdminSettings, Engine, Mode, Settings};
use transfix_admin::users::{Role, Users};
use transfix_admin::{AdminServer, EventRing, Extras};
use transfix_testkit::temp::TempDir;

/// Number of orders at the start of a slice that are not measured.
const WARM_UP: usize = 200;
const ORDERS: usize = 1_000;
const ROUNDS: usize = 31;
const PACE: Duration = Duration::from_millis(1);

/// The requests of the console and Prometheus, with their intervals.
const LOOKS: [(&str, Duration); 5] = [
    ("/api/sessions", Duration::from_secs(1)),
    ("/api/sessions/{id}", Duration::from_secs(1)),
    ("/api/sessions/{id}/messages?limit=200", Duration::from_secs(2)),
    ("/api/engine", Duration::from_secs(2)),
    ("/metrics", Duration::from_secs(1)),
];

fn main() {
    for mode in [Mode::Pool, Mode::Spin] {
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        let (mut off, mut on) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let mut looks = 0;
        for round in 0..ROUNDS {
            // The slice that runs first changes from round to round, so that neither kind always
            // runs on a warm machine.
            let mut times = [(0.0, 0.0); 2];
            for n in [round % 2, (round + 1) % 2] {
                let (ns, looked) = slice(mode, n == 1);
                times[n] = (percentile(&ns, 50), percentile(&ns, 99));
                looks += looked;
            }
            for (all, (of_50, of_99)) in [&mut off, &mut on].into_iter().zip(times) {
                all[0].push(of_50);
                all[1].push(of_99);
            }
            p50.push(times[1].0 / times[0].0);
            p99.push(times[1].1 / times[0].1);
        }
        println!("{mode:?}: medians of {ROUNDS} pairs of slices of {ORDERS} orders; {looks} looks");
        for (name, [of_50, of_99]) in [("off", off), ("on", on)] {
            println!("{name:<6} p50 {:>7.1} µs  p99 {:>7.1} µs", median(of_50), median(of_99));
        }
        println!("ratio  p50 {:>7.3}     p99 {:>7.3}", median(p50), median(p99));
    }
}

/// Returns the sorted round trips in nanoseconds, and the number of administration requests.
fn slice(mode: Mode, is_on: bool) -> (Vec<u64>, usize) {
    let dir = TempDir::new();
    let mut settings = side::acceptor("CLIENT");
    settings.store.store_dir = dir.path().to_owned();
    settings.threads.mode = mode;
    settings.latency_points = is_on;
    let mut all = Settings::of(settings);
    all.engine.workers = 1;
    let venue = Engine::start(&all, |_| Box::new(Reports)).unwrap();
    let audience = is_on.then(|| Audience::new(&venue, dir.path()));
    let mut socket = TcpStream::connect(venue.listening()[0]).unwrap();
    socket.set_nodelay(true).unwrap();
    let mut next_num_out = 1;
    let mut ask = |msg_type: &str, fields: &[u8]| {
        let mut out = Vec::new();
        side::frame(&mut out, "CLIENT", msg_type, next_num_out, fields);
        next_num_out += 1;
        socket.write_all(&out).unwrap();
        assert!(socket.read(&mut [0; 4096]).unwrap() > 0, "the venue has closed");
    };
    ask("A", b"98=0\x01108=30\x01");
    let mut ns: Vec<_> = (0..WARM_UP + ORDERS)
        .map(|_| {
            thread::sleep(PACE);
            let begun = Instant::now();
            ask("D", ORDER);
            begun.elapsed().as_nanos() as u64
        })
        .skip(WARM_UP)
        .collect();
    ns.sort_unstable();
    (ns, audience.map_or(0, Audience::leaves))
}

fn percentile(sorted: &[u64], percent: usize) -> f64 {
    sorted[sorted.len() * percent / 100] as f64 / 1_000.0
}

/// Threads that send requests to the administration, like browsers and Prometheus.
struct Audience {
    is_over: Arc<AtomicBool>,
    looks: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
    _server: AdminServer,
}

impl Audience {
    fn new(venue: &Engine, dir: &Path) -> Self {
        let users_file = dir.join("users.toml");
        let mut users = Users::default();
        let token = users.add_token("bench", Role::Viewer).unwrap();
        users.save(&users_file).unwrap();
        let address = "127.0.0.1:0".to_owned();
        let settings = AdminSettings { address, users_file, ..AdminSettings::default() };
        let extras = Extras::new(EventRing::default());
        let server = AdminServer::start(&settings, &venue.admin(), extras).unwrap();
        let at = server.address();
        let (is_over, looks) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let id = venue.sessions().next().unwrap().id().to_string();
        let id = id.replace('>', "%3E").replace(':', "%3A");
        let mut threads = Vec::new();
        for (path, each) in LOOKS {
            let (is_over, looks) = (Arc::clone(&is_over), Arc::clone(&looks));
            let request = request(&path.replace("{id}", &id), at, &token);
            threads.push(thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = answer(at, &request);
                    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
                    looks.fetch_add(1, Ordering::Relaxed);
                    thread::park_timeout(each);
                }
            }));
        }
        let stream = request("/api/events/stream", at, &token);
        threads.push(thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || {
                let mut socket = TcpStream::connect(at).unwrap();
                socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
                socket.write_all(stream.as_bytes()).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let _ = socket.read(&mut [0; 4096]);
                }
            }
        }));
        Self { is_over, looks, threads, _server: server }
    }

    /// Stops the clients and returns the number of their requests.
    fn leaves(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.thread().unpark();
            thread.join().unwrap();
        }
        self.looks.load(Ordering::Relaxed)
    }
}

fn request(path: &str, at: SocketAddr, token: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    )
}

fn answer(at: SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(at).unwrap();
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
