//! Many connections that begin TLS and stop: an honest session continues, honest logons succeed,
//! and all resources are freed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use transfix_transport::tls::{Client, ClientOptions};
use transfix_transport::{Stream, memory};

use super::*;

/// The point at which an attacking connection stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Sends nothing.
    Silence,
    HalfHello,
    /// The connection sends a ClientHello, and the server's answer is never answered.
    Hello,
    Garbage,
    /// The connection sends a part of a record of maximum length.
    LongRecord,
}

const STAGES: [Stage; 5] =
    [Stage::Silence, Stage::HalfHello, Stage::Hello, Stage::Garbage, Stage::LongRecord];
/// The number of connections per stage, and the number that may wait.
const STRANGERS: usize = 300;
const ROOM: usize = 50;

/// Returns the first bytes of a client, which anyone may record and send again.
fn hello(firms: &Firms) -> Vec<u8> {
    let mut options = ClientOptions::default();
    options.files.ca = vec![firms.authority.ca.clone()];
    options.server_name = "venue.example".to_owned();
    let (ours, mut theirs) = memory::pipe(1 << 16);
    let mut stream = Client::new(options).unwrap().connect(Box::new(ours)).unwrap();
    stream.shake_hands().unwrap_err();
    let mut bytes = vec![0; 1 << 16];
    let n = theirs.read(&mut bytes).unwrap();
    bytes.truncate(n);
    bytes
}

fn bytes(stage: Stage, hello: &[u8]) -> Vec<u8> {
    match stage {
        Stage::Silence => Vec::new(),
        Stage::HalfHello => hello[..hello.len() / 2].to_vec(),
        Stage::Hello => hello.to_vec(),
        Stage::Garbage => b"GET / HTTP/1.1\r\n\r\n".repeat(20),
        Stage::LongRecord => [&[22, 3, 1, 64, 0][..], &[1; 10_000]].concat(),
    }
}

/// Connects from an address that no honest client uses, and sends these bytes.
fn stranger(to: SocketAddr, bytes: &[u8]) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LONG)).unwrap();
    // An error is ignored, because the server may already have closed the connection.
    let _ = stream.write_all(bytes);
    stream
}

/// Returns the number of open files of this process.
fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Starts an acceptor with two honest sessions: one stays connected, and the other connects again
/// and again.
fn start(firms: &Firms, room: usize) -> (Engine, Receiver<String>) {
    let sessions = ["CLIENT", "COMER"].map(|client| {
        let mut settings = firms.acceptor(client);
        settings.protocol.logon_timeout = Duration::from_secs(2);
        settings
    });
    let mut settings = Settings { sessions: sessions.to_vec(), ..Settings::default() };
    settings.engine.pending_per_address_max = room;
    let (sender, seen) = channel();
    let engine = Engine::start(&settings, |_| Box::new(recorder(sender.clone()))).unwrap();
    (engine, seen)
}

fn comer(firms: &Firms, to: SocketAddr) -> Side {
    let mut settings = firms.initiator(to);
    settings.sender_comp_id = "COMER".to_owned();
    settings.protocol.reset_on.logon = true;
    Side::start(settings)
}

#[test]
fn who_stops_in_a_handshake_costs_nobody_else_and_all_comes_back() {
    let _alone = alone();
    let firms = Firms::new();
    let hello = hello(&firms);
    let (venue, _seen) = start(&firms, ROOM);
    let to = venue.listening()[0];
    let honest = Side::start(firms.initiator(to));
    assert_eq!(honest.next(), "logon");
    let mut before = None;
    // The first round may allocate lasting buffers, so the second round shows leaks.
    for round in 0..2 {
        for stage in STAGES {
            events::take();
            let bytes = bytes(stage, &hello);
            let all: Vec<_> = (0..STRANGERS).map(|_| stranger(to, &bytes)).collect();
            honest.send("in the middle of it");
            assert_eq!(honest.next(), "in the middle of it", "{stage:?}");
            let comer = comer(&firms, to);
            assert_eq!(comer.next(), "logon", "{stage:?}");
            drop(comer.engine.stop(Duration::from_secs(10)));
            // Each connection ends, because it is displaced by newer ones, its bytes are refused,
            // or its time is over.
            for mut stream in all {
                let mut read = Vec::new();
                let _ = stream.read_to_end(&mut read);
                let _ = stream.shutdown(Shutdown::Both);
            }
            let lines = events::take();
            let strange: Vec<_> = lines.iter().filter(|line| line.contains("127.0.0.2")).collect();
            assert!(strange.len() <= 40, "{stage:?}: {} lines: {strange:#?}", strange.len());
        }
        let now = (open_files(), resident_kib());
        match before {
            None => before = Some(now),
            Some((files, kib)) => {
                // The limit allows for connections that are still closing.
                assert!(now.0 <= files + 20, "round {round}: {files} files, then {}", now.0);
                assert!(now.1 <= kib + 8_192, "round {round}: {kib} KiB, then {}", now.1);
            }
        }
    }
    honest.send("behind all of it");
    assert_eq!(honest.next(), "behind all of it");
}

#[test]
fn who_begins_handshakes_without_end_leaves_the_thread_to_others() {
    let _alone = alone();
    let firms = Firms::new();
    let hello = hello(&firms);
    let (venue, _seen) = start(&firms, 500);
    let to = venue.listening()[0];
    // Opens far more connections than one source may have.
    let all: Vec<_> = (0..1_000).map(|_| stranger(to, &hello)).collect();
    let begun = Instant::now();
    let comer = comer(&firms, to);
    assert_eq!(comer.next(), "logon");
    let logged_on = begun.elapsed();
    // Connections that wait for handshake time have no answer yet, although they came earlier.
    let answered = all.iter().filter(|stream| {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.peek(&mut [0]), Ok(1..))
    });
    let answered = answered.count();
    assert!(answered < 900, "{answered} of 1000 were answered before, in {logged_on:?}");
    drop(comer.engine.stop(Duration::from_secs(10)));
}
