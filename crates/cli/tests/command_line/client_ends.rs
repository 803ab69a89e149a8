//! How `transfix connect` ends: missing messages count as a failure, and the error names the latest
//! reason.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use transfix::{Precision, clock, tag};
use transfix_codec::{Frame, FrameWriter, Limits, frame};
use transfix_testkit::temp::TempDir;

use crate::command_line::running::{Program, write_client};

/// The venue's side of a connection, played by the test.
struct Venue {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Venue {
    fn accept(listener: &TcpListener) -> Self {
        Self { socket: listener.accept().unwrap().0, read: Vec::new() }
    }

    fn next(&mut self) -> String {
        loop {
            if let Frame::Whole(end) = frame::split(&self.read, Limits::default()) {
                return String::from_utf8(self.read.drain(..end).collect()).unwrap();
            }
            let mut buffer = [0; 1024];
            match self.socket.read(&mut buffer).unwrap() {
                0 => return String::new(),
                n => self.read.extend_from_slice(&buffer[..n]),
            }
        }
    }

    fn say(&mut self, msg_type: &str, seq: u64, rest: &str) {
        let mut out = Vec::new();
        let mut frame = FrameWriter::new(&mut out, b"FIX.4.4", msg_type.as_bytes());
        frame.raw(b"49=VENUE\x0156=CLIENT\x01");
        frame.header_uint(tag::MSG_SEQ_NUM, seq);
        frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
        frame.raw(rest.as_bytes());
        frame.finish().unwrap();
        self.socket.write_all(&out).unwrap();
    }

    /// Accepts a connection and its logon.
    fn logged_on(listener: &TcpListener, seq: u64) -> Self {
        let mut venue = Self::accept(listener);
        assert!(venue.next().contains("\x0135=A\x01"));
        venue.say("A", seq, "98=0\x01108=30\x01");
        venue
    }
}

fn client(listener: &TcpListener) -> (TempDir, Program) {
    let dir = TempDir::new();
    let address = listener.local_addr().unwrap().to_string();
    write_client(&dir, &address, "reconnect_interval_ms = 10\nreconnect_interval_max_ms = 10\n");
    let program = Program::start(&dir, &["connect", "client.toml", "--quiet"]);
    (dir, program)
}

fn quit(client: &mut Program) -> (Option<i32>, String) {
    writeln!(client.commands, "quit").unwrap();
    client.ended()
}

#[test]
fn messages_missing_below_the_logout_are_no_good_end() {
    for missing in [0, 3] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_dir, mut client) = client(&listener);
        let mut venue = Venue::logged_on(&listener, 1);
        client.wait_for("logged on");
        drop(listener);
        venue.say("5", 2 + missing, "58=closed\x01");
        client.wait_for("ended: logged out");
        let (code, told) = quit(&mut client);
        let words =
            "messages of the counterparty with MsgSeqNum(34) 2 to 4 are missing; log on again";
        assert_eq!((code, told.contains(words)), (Some(i32::from(missing > 0)), missing > 0));
    }
}

#[test]
fn the_newest_reason_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_dir, mut client) = client(&listener);
    drop(Venue::logged_on(&listener, 1));
    client.wait_for("ended: the connection was lost");
    let mut venue = Venue::accept(&listener);
    assert!(venue.next().contains("\x0135=A\x01"));
    venue.say("5", 2, "58=closed for today\x01");
    drop(listener);
    client.wait_for("closed for today");
    drop(venue);
    client.wait_for_error("connection failed");
    let (code, told) = quit(&mut client);
    let reason = told.lines().find(|line| line.starts_with("transfix connect: ")).unwrap();
    assert_eq!(code, Some(1));
    assert!(
        reason.contains("the session did not end with an orderly logout: 127.0.0.1:"),
        "{reason}"
    );
    assert!(reason.contains("refused"), "{reason}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_dir, mut client) = self::client(&listener);
    let mut venue = Venue::logged_on(&listener, 1);
    client.wait_for("logged on");
    venue.socket.shutdown(std::net::Shutdown::Both).unwrap();
    client.wait_for("ended: the connection was lost");
    venue = Venue::accept(&listener);
    assert!(venue.next().contains("\x0135=A\x01"));
    venue.say("5", 2, "58=closed for today\x01");
    client.wait_for("closed for today");
    let (code, told) = quit(&mut client);
    assert_eq!(code, Some(1));
    let reason = told.lines().find(|line| line.starts_with("transfix connect: ")).unwrap();
    assert!(reason.contains("the session did not end with an orderly logout: "), "{reason}");
    assert!(!reason.contains("the connection was lost"), "{reason}");
}
