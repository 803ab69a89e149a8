//! Tests bytes that look like TLS on a plain connection: a logged-on counterparty cannot forge log
//! lines with them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use transfix_codec::{Frame, FrameWriter, Limits, frame};

use super::*;

/// A TLS alert `handshake_failure` (RFC 8446 section 6), which a TLS port sends in answer to plain
/// bytes.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];

/// A counterparty over a plain socket.
struct Raw {
    stream: TcpStream,
    ours: &'static str,
    theirs: &'static str,
    next: u32,
}

impl Raw {
    fn of(stream: TcpStream, (ours, theirs): (&'static str, &'static str)) -> Self {
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self { stream, ours, theirs, next: 1 }
    }

    /// Sends these bytes, followed by this message, in one write.
    fn send(&mut self, before: &[u8], msg_type: &[u8], fields: &str) {
        let mut bytes = before.to_vec();
        let (ours, theirs, time) = (self.ours, self.theirs, transfix::clock::now().utc);
        let head = format!("49={ours}|56={theirs}|34={}|52={time}|", self.next);
        let mut frame = FrameWriter::new(&mut bytes, b"FIX.4.4", msg_type);
        frame.raw((head + fields).replace('|', "\x01").as_bytes());
        frame.finish().unwrap();
        self.next += 1;
        self.stream.write_all(&bytes).unwrap();
    }

    /// Reads until a message of this type arrives.
    fn wait_for(&mut self, msg_type: &str) {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 1_024]);
        let wanted = format!("\x0135={msg_type}\x01");
        loop {
            while let Frame::Whole(end) = frame::split(&bytes, Limits::default()) {
                let is_it = String::from_utf8_lossy(&bytes[..end]).contains(&wanted);
                bytes.drain(..end);
                if is_it {
                    return;
                }
            }
            let read = self.stream.read(&mut buffer).unwrap();
            assert!(read > 0, "closed before {msg_type}: {:?}", events::take());
            bytes.extend_from_slice(&buffer[..read]);
        }
    }

    /// Sends the TLS alert alone, and together with a message, and waits until the engine has read
    /// both. Returns the log lines.
    fn plant(mut self) -> Vec<String> {
        events::take();
        self.stream.write_all(&ALERT).unwrap();
        self.send(&[], b"1", "112=a|");
        self.wait_for("0");
        self.send(&ALERT, b"1", "112=b|");
        self.wait_for("0");
        events::take()
    }
}

fn only_skipped(lines: &[String]) {
    let skipped = lines.iter().filter(|line| line.contains("message=bytes were skipped")).count();
    assert!(skipped >= 2, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("uses TLS")), "{lines:#?}");
}

#[test]
fn an_acceptor_that_is_logged_on_is_not_said_to_speak_tls() {
    let _alone = alone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let firms = Firms::new();
    let mut settings = firms.initiator(listener.local_addr().unwrap());
    settings.tls = None;
    let client = Side::start(settings);
    let mut raw = Raw::of(listener.accept().unwrap().0, ("VENUE", "CLIENT"));
    raw.wait_for("A");
    raw.send(&[], b"A", "98=0|108=30|");
    assert_eq!(client.next(), "logon");
    only_skipped(&raw.plant());
}

#[test]
fn an_initiator_that_is_logged_on_is_not_said_to_speak_tls() {
    let _alone = alone();
    let firms = Firms::new();
    let mut settings = firms.acceptor("CLIENT");
    settings.tls = None;
    let venue = Side::start(settings);
    let mut raw = Raw::of(TcpStream::connect(venue.address()).unwrap(), ("CLIENT", "VENUE"));
    raw.send(&[], b"A", "98=0|108=30|");
    raw.wait_for("A");
    only_skipped(&raw.plant());
}
