//! Measures the cost of TLS:
//! `cargo bench -p transfix-bench --bench tls [-- round-trip|handshakes|flood]`.
//!
//! Round trips: a client sends an order as soon as the previous report arrives. Slices alternate
//! between floors and engines, with the same client. A floor is a bare thread that echoes all
//! bytes, with and without rustls. Engines sleep in epoll or spin.
//!
//! Handshakes: the CPU time of the accepting thread for each handshake.
//!
//! Flood: the time of honest logons while an attacker sends incomplete handshakes at full speed.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time, and paces what it measures")]

mod side;

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use side::{CLIENT_CPU, Echo, NEWS, VENUE_CPU, median};
use transfix::{ClientCertificate, Engine, Mode, Settings, TlsSettings, pin_to_cpu};
use transfix_testkit::certificates::{Authority, Signed, Valid};
use transfix_testkit::temp::TempDir;

const ORDERS: usize = 1_000;
const ROUNDS: usize = 31;
const HANDSHAKES: usize = 300;
const LOGONS: usize = 200;
const BURSTS: usize = 9;
const AT_ONCE: usize = 900;

/// A certificate authority, and certificates of both sides.
struct Firms {
    _dir: TempDir,
    authority: Authority,
    venue: Signed,
    client: Signed,
}

impl Firms {
    fn new() -> Self {
        let dir = TempDir::new();
        let authority = Authority::new(dir.path(), "authority");
        let venue = authority.sign(&["venue.example"], 1, Valid::Now);
        let client = authority.sign(&["client.example"], 2, Valid::Now);
        Self { _dir: dir, authority, venue, client }
    }

    fn client(&self, shows: bool) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&self.authority.ca).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(match shows {
            true => {
                let (chain, key) = files(&self.client);
                config.with_client_auth_cert(chain, key).unwrap()
            }
            false => config.with_no_client_auth(),
        })
    }

    fn server(&self) -> Arc<ServerConfig> {
        let (chain, key) = files(&self.venue);
        let config = ServerConfig::builder().with_no_client_auth();
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    fn tls(&self, asks: bool) -> TlsSettings {
        let mut tls = TlsSettings {
            certificate: Some(self.venue.certificate.clone()),
            key: Some(self.venue.key.clone()),
            ..TlsSettings::default()
        };
        if asks {
            tls.client_certificate = ClientCertificate::Required;
            tls.ca = vec![self.authority.ca.clone()];
        }
        tls
    }
}

fn files(of: &Signed) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let chain = CertificateDer::from_pem_file(&of.certificate).unwrap();
    (vec![chain], PrivateKeyDer::from_pem_file(&of.key).unwrap())
}

fn venue(mode: Mode, tls: Option<TlsSettings>) -> Engine {
    let sessions = ["TRADER", "COMER"].map(|client| {
        let mut settings = side::bare_acceptor(client);
        settings.tls.clone_from(&tls);
        settings.threads.mode = mode;
        if mode == Mode::Spin {
            settings.threads.cpu = Some(VENUE_CPU);
        }
        settings
    });
    // Only one session runs in mode `spin`, because a second spinning thread would take its CPU.
    let wanted = if mode == Mode::Spin { &sessions[..1] } else { &sessions[..] };
    let mut settings = Settings { sessions: wanted.to_vec(), ..Settings::default() };
    settings.engine.workers = 1;
    settings.engine.cpus = vec![VENUE_CPU];
    settings.engine.pending_per_address_max = 1_000;
    Engine::start(&settings, |_| Box::new(Echo)).unwrap()
}

/// Starts a bare echo thread, which serves one connection after another.
fn echo(spins: bool, tls: Option<Arc<ServerConfig>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let _ = pin_to_cpu(VENUE_CPU);
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            stream.set_nonblocking(true).unwrap();
            let epoll = epoll::create(epoll::CreateFlags::empty()).unwrap();
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(0), flags).unwrap();
            let wait = || {
                let data = epoll::EventData::new_u64(0);
                let mut events = [epoll::Event { flags: epoll::EventFlags::IN, data }; 1];
                if !spins {
                    let _ = epoll::wait(&epoll, &mut events[..], None);
                }
            };
            // The client has disconnected, so the thread serves the next connection.
            let _ = match &tls {
                Some(config) => {
                    echo_tls(stream, ServerConnection::new(Arc::clone(config)).unwrap(), wait)
                }
                None => echo_plain(stream, wait),
            };
        }
    });
    address
}

fn echo_plain(mut stream: TcpStream, wait: impl Fn()) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => stream.write_all(&bytes[..n])?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(),
            Err(error) => return Err(error),
        }
    }
}

fn echo_tls(mut stream: TcpStream, mut tls: ServerConnection, wait: impl Fn()) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        match tls.read_tls(&mut stream) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                tls.process_new_packets().map_err(io::Error::other)?;
                if let Ok(n) = tls.reader().read(&mut bytes) {
                    tls.writer().write_all(&bytes[..n])?;
                }
                while tls.wants_write() {
                    tls.write_tls(&mut stream)?;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(),
            Err(error) => return Err(error),
        }
    }
}

/// A connection with or without TLS.
enum Line {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<ClientConnection, TcpStream>>),
}

impl Line {
    fn connect(to: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_nodelay(true).unwrap();
        let Some(config) = tls else { return Self::Plain(stream) };
        let name = ServerName::try_from("venue.example").unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut tls = rustls::StreamOwned::new(tls, stream);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock).unwrap();
        }
        Self::Tls(Box::new(tls))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(stream) => stream.write_all(bytes).unwrap(),
            Self::Tls(stream) => {
                stream.write_all(bytes).unwrap();
                stream.flush().unwrap();
            }
        }
    }

    /// Reads some bytes, in a spin loop until they arrive.
    fn read(&mut self, bytes: &mut [u8]) -> usize {
        loop {
            let read = match self {
                Self::Plain(stream) => stream.read(bytes),
                Self::Tls(stream) => stream.read(bytes),
            };
            match read {
                Ok(n) => return n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

struct Client {
    name: &'static str,
    line: Line,
    next_num_out: u64,
}

impl Client {
    fn log_on(name: &'static str, to: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Self {
        let line = Line::connect(to, tls);
        line.socket().set_nonblocking(true).unwrap();
        let mut client = Self { name, line, next_num_out: 1 };
        client.ask("A", b"98=0\x01108=3600\x01141=Y\x01");
        client
    }

    /// Sends one message and waits for the answer, which arrives in one piece.
    fn ask(&mut self, msg_type: &str, fields: &[u8]) {
        let mut out = Vec::new();
        side::frame(&mut out, self.name, msg_type, self.next_num_out, fields);
        self.next_num_out += 1;
        self.line.write(&out);
        assert!(self.line.read(&mut [0; 4096]) > 0, "the venue has closed");
    }

    fn round_trip(&mut self) -> u64 {
        let begun = Instant::now();
        self.ask("B", NEWS);
        begun.elapsed().as_nanos() as u64
    }
}

fn round_trips(firms: &Firms) {
    let _ = pin_to_cpu(CLIENT_CPU);
    let config = firms.client(false);
    for (spins, mode, how) in [(false, Mode::Pool, "sleeps"), (true, Mode::Spin, "spins")] {
        let mut found = [const { (Vec::new(), Vec::new()) }; 4];
        for round in 0..ROUNDS {
            for (n, (p50, p99)) in found.iter_mut().enumerate() {
                let (is_tls, is_ours) = (n >= 2, n % 2 == 1);
                // Each contestant starts only for its own slice, because a spinning contestant
                // would disturb the others.
                let engine = is_ours.then(|| venue(mode, is_tls.then(|| firms.tls(false))));
                let address = match &engine {
                    Some(engine) => engine.listening()[0],
                    None => echo(spins, is_tls.then(|| firms.server())),
                };
                let mut client = Client::log_on("TRADER", address, is_tls.then_some(&config));
                for _ in 0..ORDERS / 5 {
                    client.round_trip();
                }
                let mut ns: Vec<_> = (0..ORDERS).map(|_| client.round_trip()).collect();
                client.line.socket().shutdown(Shutdown::Both).unwrap();
                ns.sort_unstable();
                // Round 0 is a warm-up and is not counted.
                if round > 0 {
                    p50.push(ns[ns.len() / 2] as f64 / 1_000.0);
                    p99.push(ns[ns.len() * 99 / 100] as f64 / 1_000.0);
                }
            }
        }
        println!("{how}: medians of {} slices of {ORDERS} round trips, in µs", ROUNDS - 1);
        let names = ["plain floor", "plain engine", "rustls floor", "TLS engine"];
        for (n, name) in names.into_iter().enumerate() {
            let floor = n / 2 * 2;
            let ratio =
                |a: &[f64], b: &[f64]| median(a.iter().zip(b).map(|(a, b)| a / b).collect());
            let (ours, theirs) = (&found[n], &found[floor]);
            println!(
                "  {name:<13} p50 {:>6.1}  p99 {:>6.1}   of its floor: p50 {:.2}  p99 {:.2}",
                median(ours.0.clone()),
                median(ours.1.clone()),
                ratio(&ours.0, &theirs.0),
                ratio(&ours.1, &theirs.1)
            );
        }
    }
}

/// Returns the CPU time of the accepting thread so far, in nanoseconds.
fn accepting_ns() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let named = |task: &std::path::PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "tfx-accept")
    };
    let times = tasks.filter(named).map(|task| {
        let text = fs::read_to_string(task.join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    times.sum()
}

fn handshakes(firms: &Firms) {
    println!("CPU time of the accepting thread for a connection, medians of 10 slices, in µs");
    let kinds = [
        ("plain", None, false),
        ("full, no certificate asked for", Some(false), false),
        ("full, certificates of both", Some(true), false),
        ("resumed", Some(true), true),
    ];
    for (name, tls, resumes) in kinds {
        let engine = venue(Mode::Pool, tls.map(|asks| firms.tls(asks)));
        let address = engine.listening()[0];
        let mut config = firms.client(true);
        let mut times = Vec::new();
        for _ in 0..10 {
            let begun_ns = accepting_ns();
            for _ in 0..HANDSHAKES / 10 {
                if !resumes {
                    config = firms.client(true);
                }
                let mut line = Line::connect(address, tls.map(|_| &config));
                // The engine disconnects at these bytes, after its work for the handshake.
                line.write(b"8=X");
                let _ = match &mut line {
                    Line::Plain(stream) => stream.read(&mut [0; 64]),
                    Line::Tls(stream) => stream.read(&mut [0; 64]),
                };
            }
            let took_ns = accepting_ns() - begun_ns;
            times.push(took_ns as f64 / 1_000.0 / (HANDSHAKES / 10) as f64);
        }
        let us = median(times);
        println!("  {name:<32} {us:>7.1}   {:>6.0} a second", 1_000_000.0 / us);
    }
}

/// Returns the first message of a TLS handshake, which anyone may record and replay.
fn client_hello(firms: &Firms) -> Vec<u8> {
    let name = ServerName::try_from("venue.example").unwrap();
    let mut tls = ClientConnection::new(firms.client(false), name).unwrap();
    let mut hello = Vec::new();
    tls.write_tls(&mut hello).unwrap();
    hello
}

/// Sends incomplete handshakes from another address until `is_over` is set. Returns the number of
/// handshakes.
fn attack(address: SocketAddr, hello: &[u8], is_over: &AtomicBool) -> usize {
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = stranger(address) else { continue };
        if stream.write_all(hello).is_ok() {
            sent += 1;
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let _ = stream.read(&mut [0; 64]);
        }
    }
    sent
}

/// Sends a burst of incomplete handshakes from one address, followed by one honest logon.
fn burst(firms: &Firms) {
    let (config, hello) = (firms.client(true), client_hello(firms));
    let engine = venue(Mode::Pool, Some(firms.tls(true)));
    let address = engine.listening()[0];
    let mut ms: Vec<f64> = Vec::new();
    for _ in 0..BURSTS {
        let all: Vec<_> = (0..AT_ONCE).map(|_| stranger(address).unwrap()).collect();
        all.iter().for_each(|mut stream| stream.write_all(&hello).unwrap());
        let begun = Instant::now();
        let mut comer = Client::log_on("COMER", address, Some(&config));
        ms.push(begun.elapsed().as_nanos() as f64 / 1e6);
        comer.ask("5", b"");
        drop(all);
        // After this time the address may start handshakes again.
        thread::sleep(Duration::from_millis(1_500));
    }
    ms.sort_unstable_by(f64::total_cmp);
    println!(
        "a logon behind {AT_ONCE} beginnings of handshakes: p50 {:.0} ms, max {:.0} ms",
        ms[ms.len() / 2],
        ms[ms.len() - 1]
    );
}

/// Connects from an address that the honest clients do not use.
fn stranger(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into())?;
    // A reset leaves no port in TIME_WAIT, so that the ports do not run out.
    socket.set_linger(Some(Duration::ZERO))?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn flood(firms: &Firms) {
    burst(firms);
    println!("{LOGONS} honest logons over TLS and a session that trades, in µs");
    let (config, hello) = (firms.client(true), Arc::new(client_hello(firms)));
    let engine = venue(Mode::Pool, Some(firms.tls(true)));
    let address = engine.listening()[0];
    for attackers in [0, 1, 4] {
        let is_over = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..attackers)
            .map(|_| {
                let (hello, is_over, sent) =
                    (Arc::clone(&hello), Arc::clone(&is_over), Arc::clone(&sent));
                thread::spawn(move || {
                    sent.fetch_add(attack(address, &hello, &is_over), Ordering::Relaxed)
                })
            })
            .collect();
        let mut trader = Client::log_on("TRADER", address, Some(&config));
        let (mut logons, mut trips) = (Vec::new(), Vec::new());
        let (begun, begun_ns) = (Instant::now(), accepting_ns());
        for _ in 0..LOGONS {
            thread::sleep(Duration::from_millis(5));
            let begun = Instant::now();
            let mut comer = Client::log_on("COMER", address, Some(&config));
            logons.push(begun.elapsed().as_nanos() as f64 / 1_000.0);
            trips.push(trader.round_trip() as f64 / 1_000.0);
            comer.ask("5", b"");
        }
        let (seconds, busy_ns) = (begun.elapsed().as_secs_f64(), accepting_ns() - begun_ns);
        trader.ask("5", b"");
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
        let [logons, trips] = [logons, trips].map(|mut all| {
            all.sort_unstable_by(f64::total_cmp);
            [50, 99, 100].map(|p| all[(all.len() * p / 100).min(all.len() - 1)])
        });
        println!(
            "  {attackers} attackers: logon p50 {:.0} p99 {:.0} max {:.0}; round trip p50 {:.0} \
             p99 {:.0} max {:.0}; {:.0} beginnings a second, accepting thread busy for {:.0} %",
            logons[0],
            logons[1],
            logons[2],
            trips[0],
            trips[1],
            trips[2],
            sent.load(Ordering::Relaxed) as f64 / seconds,
            busy_ns as f64 / 1e7 / seconds
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let firms = Firms::new();
    for (name, part) in
        [("handshakes", handshakes as fn(&Firms)), ("flood", flood), ("round-trip", round_trips)]
    {
        if is_wanted(name) {
            part(&firms);
        }
    }
}
