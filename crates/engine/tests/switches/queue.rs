//! Tests messages that wait for a logon: across restarts, within limits, and until they expire.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::simulated::Simulation;
use transfix::{
    Action, BeginString, Durability, Engine, Now, Offline, Role, SendError, SessionHandle,
    SessionId, SessionNotice, SessionSettings, Settings, Timestamp, Unsent, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use crate::switches::wire::Wire;
use crate::switches::{LONG, venue};

/// Returns an application that reports the messages which are returned unsent.
fn unsent_recorder(sender: Sender<(String, SendError)>) -> App {
    App::new(|_, _| Ok(())).on_notice(move |notice, _| {
        if let SessionNotice::Unsent(unsent) = notice {
            sender.send((unsent.body.escape_ascii().to_string(), unsent.why)).unwrap();
        }
    })
}

fn queueing(dir: &Path) -> SessionSettings {
    venue(|s| {
        s.queue.offline = Offline::Queue;
        s.store.durability = Durability::Process;
        s.store.store_dir = dir.to_path_buf();
    })
}

/// An engine that stands for one process, with the messages that it has returned.
struct Process {
    engine: Engine,
    returned: Receiver<(String, SendError)>,
}

impl Process {
    fn start(settings: SessionSettings) -> Self {
        let (sender, returned) = channel();
        let settings = Settings::of(settings);
        let engine =
            Engine::start(&settings, |_| Box::new(unsent_recorder(sender.clone()))).unwrap();
        Self { engine, returned }
    }

    fn address(&self) -> SocketAddr {
        self.engine.listening()[0]
    }

    /// Returns a new handle each time, because a handle that is kept would keep the store open.
    fn session(&self) -> SessionHandle {
        self.engine.sessions().next().unwrap()
    }

    fn send(&self, id: &str) -> Result<(), SendError> {
        self.session().send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).map(drop)
    }

    fn stop(self) -> Vec<(String, SendError)> {
        self.engine.stop(Duration::ZERO);
        self.returned.try_iter().collect()
    }

    fn wait_for_the_end(&self) {
        while self.session().is_logged_on() {
            std::thread::yield_now();
        }
    }
}

/// Logs on with the number `seq`, and checks the next messages. The answer to a TestRequest(1) must
/// follow these.
fn log_on(address: SocketAddr, seq: u64, expected: &[&str]) -> Wire {
    let mut wire = Wire::connect(address, BeginString::Fix44);
    wire.send(&format!("35=A|34={seq}|98=0|108=30"));
    assert!(wire.next().starts_with("35=A|"));
    for expected in expected {
        assert_eq!(wire.next(), *expected);
    }
    wire.send(&format!("35=1|34={}|112=x", seq + 1));
    assert!(wire.next().starts_with("35=0|"));
    wire
}

#[test]
fn what_waits_outlives_the_process_and_is_sent_once() {
    let dir = TempDir::new();
    let process = Process::start(queueing(dir.path()));
    for id in ["a", "b"] {
        process.send(id).unwrap();
    }
    process.stop();
    let process = Process::start(queueing(dir.path()));
    assert_eq!(process.session().queued().len(), 2);
    process.send("c").unwrap();
    drop(log_on(process.address(), 1, &["35=D|34=2|11=a", "35=D|34=3|11=b", "35=D|34=4|11=c"]));
    process.stop();
    let process = Process::start(queueing(dir.path()));
    assert_eq!(process.session().queued(), []);
    drop(log_on(process.address(), 3, &[]));
}

#[test]
fn a_reset_of_the_numbers_leaves_what_waits() {
    let dir = TempDir::new();
    let process = Process::start(queueing(dir.path()));
    drop(log_on(process.address(), 1, &[]));
    process.wait_for_the_end();
    process.send("a").unwrap();
    process.stop();
    let process = Process::start(queueing(dir.path()));
    let mut wire = Wire::connect(process.address(), BeginString::Fix44);
    wire.send("35=A|34=1|98=0|108=30|141=Y");
    assert!(wire.next().starts_with("35=A|34=1|"));
    assert_eq!(wire.next(), "35=D|34=2|11=a");
}

#[test]
fn what_a_lost_connection_leaves_unsent_waits_too() {
    let dir = TempDir::new();
    let process = Process::start(queueing(dir.path()));
    let wire = log_on(process.address(), 1, &[]);
    process.session().operate(&Action::HoldSending {}).unwrap();
    process.send("a").unwrap();
    drop(wire);
    process.wait_for_the_end();
    process.stop();
    let process = Process::start(queueing(dir.path()));
    drop(log_on(process.address(), 3, &["35=D|34=4|11=a"]));
}

#[test]
fn a_queue_that_is_cleared_or_given_back_is_so_for_good() {
    for unsent in [Unsent::Keep, Unsent::Return] {
        let dir = TempDir::new();
        let settings = || {
            let mut settings = queueing(dir.path());
            settings.queue.unsent = unsent;
            settings
        };
        let process = Process::start(settings());
        process.send("a").unwrap();
        if unsent == Unsent::Keep {
            assert_eq!(process.session().queued().len(), 1);
            assert_eq!(process.session().operate(&Action::ClearQueued {}), Ok(()));
        }
        let back = process.stop();
        match unsent {
            Unsent::Keep => assert_eq!(back, []),
            _ => assert_eq!(back, [("11=a\\x01".to_owned(), SendError::Closed)]),
        }
        let process = Process::start(settings());
        assert_eq!(process.session().queued(), []);
    }
}

#[test]
fn all_that_waits_counts_to_the_limit() {
    let dir = TempDir::new();
    let settings = || {
        let mut settings = queueing(dir.path());
        settings.queue.queued_bytes_max = 100;
        settings
    };
    let accepted =
        |process: &Process| (0..50).take_while(|_| process.send("0123456789").is_ok()).count();
    let process = Process::start(settings());
    assert_eq!(accepted(&process), 4, "each takes 28 bytes, and the last one passes the limit");
    assert!(matches!(process.send("x"), Err(SendError::WouldBlock { queued_bytes: 112 })));
    process.stop();
    let process = Process::start(settings());
    assert_eq!(accepted(&process), 0);
    process.session().operate(&Action::ClearQueued {}).unwrap();
    assert_eq!(accepted(&process), 4);
}

/// Returns the time `seconds` after noon.
fn at(seconds: u64) -> Now {
    let utc = Timestamp(1_795_262_400_000_000_000 + seconds as i64 * 1_000_000_000);
    Now { utc, monotonic_ns: seconds * 1_000_000_000 }
}

#[test]
fn what_has_waited_too_long_comes_back_also_to_a_later_process() {
    for (queue_expires_s, restarts) in [(60, false), (60, true), (0, false)] {
        let dir = TempDir::new();
        let id = SessionId::new(BeginString::Fix44, "CLIENT", "VENUE");
        let mut settings = SessionSettings::new(Role::Initiator, &id, "");
        settings.queue.offline = Offline::Queue;
        settings.queue.queue_expires = Duration::from_secs(queue_expires_s);
        settings.store.store_dir = dir.path().to_path_buf();
        let simulation = Simulation::default();
        let (sender, returned) = channel();
        let open =
            || simulation.session(&settings, Box::new(unsent_recorder(sender.clone()))).unwrap();
        let mut session = open();
        for (seconds, id) in [(0, "old"), (50, "new")] {
            let sent = session.send(at(seconds), "D", |b| _ = b.str(tag::CL_ORD_ID, id));
            sent.unwrap();
        }
        if restarts {
            drop(session);
            session = open();
        }
        session.connect(at(70));
        session.receive(at(70), &logon(at(70)));
        let sent = String::from_utf8(session.take_output()).unwrap();
        let back: Vec<_> = returned.try_iter().collect();
        if queue_expires_s == 0 {
            assert!(sent.contains("\x0111=old\x01") && back.is_empty(), "{sent}");
        } else {
            assert!(!sent.contains("\x0111=old\x01"), "{sent}");
            assert_eq!(back, [("11=old\\x01".to_owned(), SendError::Expired)]);
        }
        assert!(sent.contains("\x0111=new\x01"), "{sent}");
        drop(session);
        assert!(returned.try_iter().next().is_none());
    }
}

fn logon(now: Now) -> Vec<u8> {
    let mut out = Vec::new();
    let mut frame = transfix_codec::FrameWriter::new(&mut out, b"FIX.4.4", b"A");
    frame.raw(b"49=VENUE\x0156=CLIENT\x0134=1\x01");
    frame.header_timestamp(tag::SENDING_TIME, now.utc, transfix::Precision::Millis);
    frame.raw(b"98=0\x01108=30\x01");
    frame.finish().unwrap();
    out
}

#[test]
fn what_expires_comes_back_without_a_connection() {
    let dir = TempDir::new();
    let mut settings = queueing(dir.path());
    settings.queue.queue_expires = Duration::from_secs(1);
    let process = Process::start(settings);
    process.send("a").unwrap();
    let back = process.returned.recv_timeout(LONG).unwrap();
    assert_eq!(back, ("11=a\\x01".to_owned(), SendError::Expired));
    while !process.session().queued().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn what_waits_is_sent_although_nothing_more_is_queued() {
    for offline in [Offline::Refuse, Offline::Store] {
        let dir = TempDir::new();
        let process = Process::start(queueing(dir.path()));
        process.send("a").unwrap();
        process.send("b").unwrap();
        process.stop();
        let mut other = queueing(dir.path());
        other.queue.offline = offline;
        let process = Process::start(other);
        let mut wire = match offline {
            Offline::Refuse => log_on(process.address(), 1, &["35=D|34=2|11=a", "35=D|34=3|11=b"]),
            // With `store`, the messages get their numbers at once, and the counterparty requests
            // them.
            _ => {
                while process.session().next_numbers().1 < 3 {
                    std::thread::yield_now();
                }
                let mut wire = log_on(process.address(), 1, &[]);
                wire.send("35=2|34=3|7=1|16=2");
                for expected in ["35=D|34=1|43=Y|", "35=D|34=2|43=Y|"] {
                    assert!(wire.next().starts_with(expected), "{expected}");
                }
                wire
            }
        };
        wire.send("35=5|34=4");
        process.wait_for_the_end();
        process.stop();
        let process = Process::start(queueing(dir.path()));
        assert_eq!(process.session().queued(), []);
    }
}
