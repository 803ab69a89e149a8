//! Tests stores on a disk that hangs. Only the session with such a store is delayed, and no byte is
//! sent before the device has stored it.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use transfix::{
    BeginString, Disconnect, Engine, Outcome, Role, SessionEvent, SessionId, SessionSettings,
    Settings, tag,
};
use transfix_store::{Durability, FileStore, Options, Store, StoreError};
use transfix_testkit::app::App;
use transfix_testkit::disk::{DiskFault, SimDisk};
use transfix_testkit::random::Random;

const LONG: Duration = Duration::from_secs(300);

/// Returns an application that answers orders with reports, and forwards events to the test.
fn echo(sender: Sender<String>) -> App {
    let sender_on_message = sender.clone();
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        if message.msg_type() == b"D" {
            let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, &id));
        }
        let _ = sender_on_message.send(id);
        Ok(())
    })
    .on_event(move |event, _| {
        if let SessionEvent::LoggedOn = event {
            let _ = sender.send("logon".to_owned());
        }
    })
}

fn settings(role: Role, us: &str, them: &str, address: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, us, them);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.validation.validate = false;
    settings.store.durability = transfix::Durability::Memory;
    settings.socket.reconnect_interval = Duration::from_millis(10);
    settings
}

fn options() -> Options {
    Options { durability: Durability::Power, ..Options::default() }
}

/// Starts two sessions in one thread, of which the session with `SLOW` has its store on this disk.
fn venue(disk: &SimDisk, seen: Sender<String>) -> Engine {
    let mut all = Settings::default();
    all.engine.workers = 1;
    for them in ["SLOW", "OTHER"] {
        all.sessions.push(settings(Role::Acceptor, "VENUE", them, "127.0.0.1:0"));
    }
    let disk = disk.clone();
    let options = options();
    let engine = Engine::builder(&all)
        .stores(move |session, now_ns| {
            if &*session.id().target_comp_id != "SLOW" {
                return Ok(None);
            }
            let opened = FileStore::open_on(disk.clone(), Path::new("/store"), options, now_ns);
            Ok(Some(Box::new(opened?.0)))
        })
        .start(|_| Box::new(echo(seen.clone())));
    engine.unwrap()
}

struct Client {
    engine: Engine,
    seen: Receiver<String>,
}

impl Client {
    fn start(us: &str, venue: &Engine) -> Self {
        let address = venue.listening()[0].to_string();
        let settings = Settings::of(settings(Role::Initiator, us, "VENUE", &address));
        let (sender, seen) = channel();
        let engine = Engine::start(&settings, |_| Box::new(echo(sender.clone()))).unwrap();
        let client = Self { engine, seen };
        client.expect("logon");
        client
    }

    fn send(&self, id: &str) {
        let handle = self.engine.sessions().next().unwrap();
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
    }

    fn expect(&self, expected: &str) {
        assert_eq!(self.seen.recv_timeout(LONG).unwrap(), expected);
    }
}

fn until(seen: &Receiver<String>, expected: &str) {
    while seen.recv_timeout(LONG).unwrap() != expected {}
}

#[test]
fn a_sync_that_hangs_holds_up_its_own_session_alone() {
    let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
    disk.allow_syncs(u64::MAX);
    let (sender, seen) = channel();
    let venue = venue(&disk, sender);
    let (slow, other) = (Client::start("SLOW", &venue), Client::start("OTHER", &venue));
    slow.send("a");
    slow.expect("a");
    disk.allow_syncs(0);
    for id in ["b", "c", "d"] {
        slow.send(id);
        until(&seen, id);
    }
    for n in 0..20 {
        other.send(&n.to_string());
        other.expect(&n.to_string());
    }
    assert_eq!(slow.seen.try_recv(), Err(TryRecvError::Empty), "nothing is on the device");
    disk.allow_syncs(u64::MAX);
    for id in ["b", "c", "d"] {
        slow.expect(id);
    }
    for engine in [slow.engine, other.engine, venue] {
        engine.stop(Duration::from_secs(5));
    }
}

/// Bytes that a failed sync may have lost are never sent. The counterparty sends its message again,
/// and gets one answer.
#[test]
fn nothing_is_lost_or_sent_twice_by_a_sync_that_fails() {
    let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
    disk.allow_syncs(u64::MAX);
    let (sender, seen) = channel();
    let venue = venue(&disk, sender);
    let slow = Client::start("SLOW", &venue);
    disk.allow_syncs(0);
    disk.set_fault(Some(DiskFault::FailingSync));
    slow.send("a");
    until(&seen, "a");
    disk.allow_syncs(u64::MAX);
    while !disk.has_failed() {
        std::thread::yield_now();
    }
    disk.set_fault(None);
    // After the failure, the connection ends and the engine reopens the store.
    slow.expect("logon");
    slow.send("b");
    slow.expect("a");
    slow.expect("b");
    for engine in [slow.engine, venue] {
        engine.stop(Duration::from_secs(5));
    }
}

/// A stop does not wait for a device that never answers. The session ends as failed, and its store
/// stays locked until the device completes its operation.
#[test]
fn a_device_that_never_answers_does_not_hold_up_the_stop() {
    let disk = SimDisk::new(Random::new(1), Box::new(|| ()));
    disk.allow_syncs(u64::MAX);
    let (sender, seen) = channel();
    let venue = venue(&disk, sender);
    let (slow, other) = (Client::start("SLOW", &venue), Client::start("OTHER", &venue));
    disk.allow_syncs(0);
    slow.send("a");
    until(&seen, "a");
    let outcomes = venue.stop(Duration::from_millis(100));
    let outcome_of =
        |them| &outcomes.iter().find(|of| &*of.id.target_comp_id == them).unwrap().outcome;
    assert_eq!(*outcome_of("SLOW"), Outcome::Failed);
    assert_eq!(*outcome_of("OTHER"), Outcome::Ended(Disconnect::LoggedOut));
    let open = || FileStore::open_on(disk.clone(), Path::new("/store"), options(), 0);
    assert!(matches!(open(), Err(StoreError::Locked { .. })), "the device still has it");
    disk.allow_syncs(u64::MAX);
    let store = loop {
        match open() {
            Ok((store, _)) => break store,
            Err(StoreError::Locked { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(store.numbers().next_in > 1);
    for engine in [slow.engine, other.engine] {
        engine.stop(Duration::from_secs(5));
    }
}
