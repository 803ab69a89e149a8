//! How fast one session answers orders that come as fast as they can, by the messages that one turn
//! may take (`turn_messages_max`): `cargo bench -p transfix-bench --bench pipeline`.
//!
//! A plain socket writes orders without waiting; the venue stores and sends a report for each. The
//! limits take turns; each figure is a median over the rounds.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark speaks to its user")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use transfix::codec::FrameWriter;
use transfix::{
    Application, BeginString, BusinessReject, Engine, Message, Precision, Role, SessionId,
    SessionRef, SessionSettings, Settings, clock, tag,
};
use transfix_testkit::temp::TempDir;

const LIMITS: [u32; 7] = [8, 16, 32, 64, 128, 256, 1024];
const ORDERS: u64 = 50_000;
const ROUNDS: usize = 21;

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
        let sent = session.send("8", |report| {
            report.bytes(tag::CL_ORD_ID, id).uint(tag::ORDER_ID, 1).uint(tag::EXEC_ID, 1);
            report.char(tag::EXEC_TYPE, b'0').char(tag::ORD_STATUS, b'0').char(tag::SIDE, b'1');
            report.uint(tag::LEAVES_QTY, 5).uint(tag::CUM_QTY, 0).uint(tag::AVG_PX, 0);
            report.timestamp(tag::TRANSACT_TIME, now);
        });
        sent.map(drop).map_err(|error| BusinessReject::other(error.to_string()))
    }
}

fn main() {
    let mut took = LIMITS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        for (limit, took) in LIMITS.into_iter().zip(&mut took) {
            let ns = run(limit);
            // The first one warms up.
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

/// Nanoseconds from one order to the next.
fn run(limit: u32) -> f64 {
    let dir = TempDir::new();
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.store_dir = dir.path().to_owned();
    settings.threads.turn_messages_max = limit;
    let mut all = Settings::of(settings);
    all.engine.workers = 1;
    let venue = Engine::start(&all, |_| Box::new(Venue)).unwrap();
    let mut socket = TcpStream::connect(venue.listening()[0]).unwrap();
    socket.write_all(&frame("A", 1, b"98=0\x01108=30\x01")).unwrap();
    let mut reader = socket.try_clone().unwrap();
    let mut ends = Ends::default();
    ends.read(&mut reader, 1);
    let order = b"11=5000\x0121=1\x0155=EU\x0154=1\x0160=20261121-12:00:00.123\x0140=2\x0138=5\x01\
        59=0\x0144=30\x01";
    let orders: Vec<u8> = (0..ORDERS).flat_map(|n| frame("D", n + 2, order)).collect();
    let begun = Instant::now();
    let writer = std::thread::spawn(move || socket.write_all(&orders).unwrap());
    ends.read(&mut reader, ORDERS);
    let ns = begun.elapsed().as_nanos() as f64 / ORDERS as f64;
    writer.join().unwrap();
    drop(reader);
    venue.stop(0);
    ns
}

fn frame(msg_type: &str, seq: u64, fields: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
    frame.raw(b"49=CLIENT\x0156=VENUE\x01");
    frame.header_uint(tag::MSG_SEQ_NUM, seq);
    frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
    frame.raw(fields);
    frame.finish().unwrap();
    out
}

/// Counts messages by the starts of their CheckSum(10).
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
