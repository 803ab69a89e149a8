//! The test suite for stores, the rule of one writer, and an engine over each store, with real
//! servers.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod gateways;
mod jetstream;
mod pair;
mod server;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use gateways::orders_are_answered_once_whatever_happens;
use server::{Disconnects, Postgres, Redis, Server};
use transfix::codec::FrameWriter;
use transfix::{
    Application, BeginString, BusinessReject, Engine, Message, Precision, Role, SessionEvent,
    SessionId, SessionNotice, SessionRef, SessionSettings, SessionView, Settings, clock, tag,
};
use transfix_store::{Committed, Kind, Record, Store, StoreError};
use transfix_testkit::laws::{Patient, lasting_store_laws, store_laws};
use transfix_testkit::temp::TempDir;

const LONG: Duration = Duration::from_secs(20);

fn laws(server: &impl Server) {
    store_laws(5, || server.open(&server.fresh_name(), 5).unwrap());
    lasting_store_laws(5, || {
        let name = server.fresh_name();
        move || server.open(&name, 5).unwrap()
    });
}

fn order(seq: u64) -> Record<'static> {
    Record::Outbound { seq, kind: Kind::Application, bytes: b"8=FIX.4.4" }
}

/// Commits, and waits until the commit is durable.
fn commit(store: &mut dyn Store) -> Result<(), StoreError> {
    let Committed::Pending(ticket) = store.commit()? else { return Ok(()) };
    while store.safe()? < ticket {
        std::thread::yield_now();
    }
    Ok(())
}

fn the_last_opener_writes(server: &impl Server) {
    let name = server.fresh_name();
    let mut first = Patient(server.open(&name, 1).unwrap());
    first.put(2, order(1)).unwrap();
    commit(&mut first).unwrap();
    let mut second = Patient(server.open(&name, 3).unwrap());
    assert_eq!(second.numbers().next_out, 2);
    first.put(4, order(2)).unwrap();
    let refused = commit(&mut first).unwrap_err().to_string();
    assert!(refused.contains("another process has taken this store over"), "{refused}");
    assert!(first.put(4, order(2)).is_err(), "poisoned");
    second.put(5, Record::NextIn(7)).unwrap();
    commit(&mut second).unwrap();
    // The first store takes the session over again, with the changes that the other store has made.
    first.refresh().unwrap();
    assert_eq!((first.numbers().next_in, first.numbers().next_out), (7, 2));
    assert!(first.outbound(1).unwrap().is_some() && first.outbound(2).unwrap().is_none());
    first.put(6, order(2)).unwrap();
    commit(&mut first).unwrap();
    second.put(7, Record::NextIn(8)).unwrap();
    assert!(commit(&mut second).is_err());
}

/// A standby reads only, until it takes the session over.
fn a_standby_writes_after_it_takes_over(server: &impl Server) {
    let name = server.fresh_name();
    let mut first = Patient(server.stand_by(&name, 1).unwrap());
    first.put(2, order(1)).unwrap();
    let refused = commit(&mut first).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
    first.refresh().unwrap();
    first.put(2, order(1)).unwrap();
    commit(&mut first).unwrap();
    let mut second = Patient(server.stand_by(&name, 3).unwrap());
    assert_eq!(second.numbers(), first.numbers());
    assert!(second.outbound(1).unwrap().is_some());
    for _ in 0..2 {
        second.put(4, order(2)).unwrap();
        let refused = commit(&mut second).unwrap_err();
        assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
        second.reopen().unwrap();
    }
    first.put(5, order(2)).unwrap();
    commit(&mut first).unwrap();
    second.refresh().unwrap();
    assert_eq!(second.numbers(), first.numbers());
    second.put(6, order(3)).unwrap();
    commit(&mut second).unwrap();
    first.put(7, order(3)).unwrap();
    let refused = commit(&mut first).unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
}

/// A take-over for which the engine no longer waits does not happen later.
fn an_abandoned_take_over_takes_nothing(server: &impl Server) {
    let name = server.fresh_name();
    let mut owner = Patient(server.open(&name, 1).unwrap());
    let mut standby = Patient(server.stand_by(&name, 2).unwrap());
    server.signal("STOP");
    standby.put(3, order(1)).unwrap();
    let committed = standby.commit();
    let refreshed = standby.refresh();
    server.signal("CONT");
    assert!(committed.is_ok() && refreshed.is_err());
    while standby.reopen().is_err() {}
    owner.put(4, order(1)).unwrap();
    commit(&mut owner).unwrap();
}

/// If the server interrupts the connection, the store reconnects.
fn a_cut_connection_is_made_again(server: &impl Disconnects) {
    let name = server.fresh_name();
    let mut store = Patient(server.open(&name, 1).unwrap());
    store.put(2, order(1)).unwrap();
    commit(&mut store).unwrap();
    server.cut();
    store.put(3, order(2)).unwrap();
    assert!(commit(&mut store).is_err());
    assert!(store.outbound(1).is_err(), "nobody knows what is there");
    store.reopen().unwrap();
    assert_eq!(store.numbers().next_out, 2);
    store.put(4, order(2)).unwrap();
    commit(&mut store).unwrap();
    assert!(store.outbound(2).unwrap().is_some());
    // Another process owns the session, so this store can read but not write.
    server.cut();
    store.put(5, order(3)).unwrap();
    assert!(commit(&mut store).is_err());
    let mut other = Patient(server.open(&name, 6).unwrap());
    store.reopen().unwrap();
    assert_eq!(store.numbers().next_out, 3);
    store.put(7, order(3)).unwrap();
    assert!(commit(&mut store).is_err());
    other.put(8, order(3)).unwrap();
    commit(&mut other).unwrap();
}

/// A resend finds all messages, even if they are more than one read returns.
fn a_long_resend_finds_all(server: &impl Server) {
    let mut store = Patient(server.open(&server.fresh_name(), 1).unwrap());
    for seq in 1..=1_000 {
        let bytes = seq.to_string().into_bytes();
        store.put(seq, Record::Outbound { seq, kind: Kind::Admin, bytes: &bytes }).unwrap();
    }
    store.put(1, Record::NextOut(1_200)).unwrap();
    commit(&mut store).unwrap();
    for seq in 1..1_200 {
        let found = store.outbound(seq).unwrap().map(|found| found.bytes.to_vec());
        assert_eq!(found, (seq <= 1_000).then(|| seq.to_string().into_bytes()), "{seq}");
    }
    store.put(2, order(1_200)).unwrap();
    commit(&mut store).unwrap();
    assert!(store.outbound(1_200).unwrap().is_some(), "written after what was read ahead");
}

/// An application that answers each order with a report, and passes received messages to the test.
#[derive(Clone)]
struct Echo(Sender<String>);

impl Application for Echo {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        session: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        if message.msg_type() == b"D" {
            let _ = session.send("8", |report| _ = report.str(tag::CL_ORD_ID, &id));
        }
        self.0.send(id).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.0.send("logon".to_owned()).unwrap();
        }
    }

    fn on_notice(&mut self, notice: SessionNotice<'_>, _: &SessionView<'_>) {
        if let SessionNotice::Disconnected(end) = notice {
            let _ = self.0.send(end.reason.to_string());
        }
    }
}

fn settings(role: Role, us: &str, them: &str, address: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, us, them);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.validation.validate = false;
    settings.store.refresh_on_logon = role == Role::Acceptor;
    settings.socket.reconnect_interval = Duration::from_millis(10);
    settings
}

fn venue<S: Server + 'static>(server: &Arc<S>, name: &str) -> (Engine, Receiver<String>) {
    let settings = Settings::of(settings(Role::Acceptor, "VENUE", "CLIENT", "127.0.0.1:0"));
    let (sender, seen) = channel();
    let (server, name) = (Arc::clone(server), name.to_owned());
    let engine = Engine::builder(&settings)
        .stores(move |_, now_ns| server.stand_by(&name, now_ns).map(Some))
        .start(|_| Box::new(Echo(sender.clone())));
    (engine.unwrap(), seen)
}

fn client(dir: &TempDir, venue: &Engine, next_in: Option<u64>) -> (Engine, Receiver<String>) {
    client_named("CLIENT", dir, venue, next_in)
}

fn client_named(
    us: &str,
    dir: &TempDir,
    venue: &Engine,
    next_in: Option<u64>,
) -> (Engine, Receiver<String>) {
    let address = venue.listening()[0].to_string();
    let mut session = settings(Role::Initiator, us, "VENUE", &address);
    session.store.store_dir = dir.path().to_owned();
    if let Some(next) = next_in {
        let path = dir.path().join("FIX.4.4-CLIENT-VENUE");
        let (mut store, _) = transfix_store::FileStore::open(&path, Default::default(), 0).unwrap();
        store.put(1, Record::NextIn(next)).unwrap();
        store.commit().unwrap();
    }
    let (sender, seen) = channel();
    let engine = Engine::start(&Settings::of(session), |_| Box::new(Echo(sender.clone())));
    (engine.unwrap(), seen)
}

fn expect(seen: &Receiver<String>, expected: &[&str]) {
    for expected in expected {
        assert_eq!(&seen.recv_timeout(LONG).unwrap(), expected);
    }
}

fn logon(seq: u64, encrypt_method: &str) -> Vec<u8> {
    let mut logon = Vec::new();
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    frame.raw(format!("49=CLIENT\x0156=VENUE\x0134={seq}\x01").as_bytes());
    frame.header_timestamp(tag::SENDING_TIME, clock::now().utc, Precision::Millis);
    frame.raw(format!("{encrypt_method}\x01108=30\x01").as_bytes());
    frame.finish().unwrap();
    logon
}

/// Sends a Logon(A) with correct CompIDs and an unsupported EncryptMethod(98).
fn refused_logon(venue: &Engine) {
    let mut stream = TcpStream::connect(venue.listening()[0]).unwrap();
    stream.write_all(&logon(99, "98=1")).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("\x0135=A\x01"));
}

/// Two engines alternate as owner of a session's store. The first engine trades; the second
/// continues with its numbers and resends its messages. The first engine is still running, but can
/// no longer write the store.
fn engines_take_turns<S: Server + 'static>(server: &Arc<S>) {
    let (name, dir) = (server.fresh_name(), TempDir::new());
    let (first, _seen_first) = venue(server, &name);
    let (trader, seen) = client(&dir, &first, None);
    expect(&seen, &["logon"]);
    let handle = trader.sessions().next().unwrap();
    for id in ["a", "b"] {
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
    }
    expect(&seen, &["a", "b"]);
    drop(handle);
    trader.stop(Duration::from_secs(5));

    let (second, _seen_second) = venue(server, &name);
    // The client requests both reports again, and the second engine reads them from the database.
    let (trader, seen) = client(&dir, &second, Some(2));
    expect(&seen, &["logon", "a", "b"]);
    let handle = trader.sessions().next().unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "c")).unwrap();
    expect(&seen, &["c"]);
    drop(handle);
    trader.stop(Duration::from_secs(5));

    // At the next logon, the first engine takes the store over again, with the numbers of the
    // second engine.
    let (trader, seen) = client(&dir, &first, None);
    expect(&seen, &["logon"]);
    let handle = trader.sessions().next().unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "d")).unwrap();
    expect(&seen, &["d"]);

    // If the standby refuses a Logon(A), it does not take the store over.
    refused_logon(&second);
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "f")).unwrap();
    expect(&seen, &["f"]);

    // Another process takes the store over during trading, so the engine's next commit is refused
    // and its messages are not sent. The engine becomes a standby, and continues when the
    // counterparty reconnects.
    drop(server.open(&name, 0).unwrap());
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "e")).unwrap();
    while seen.recv_timeout(LONG).unwrap() != "logon" {}
    expect(&seen, &["e"]);
    drop(handle);
    for engine in [trader, first, second] {
        engine.stop(Duration::from_secs(5));
    }
}

/// If a counterparty logs on to a session whose server does not answer, another session of the same
/// thread continues. The logon is answered when the server answers again.
fn a_logon_waits_for_its_server_alone<S: Server + 'static>(server: &Arc<S>) {
    let dirs = [TempDir::new(), TempDir::new()];
    let mut all = Settings::default();
    all.engine.workers = 1;
    for them in ["CLIENT", "OTHER"] {
        let mut session = settings(Role::Acceptor, "VENUE", them, "127.0.0.1:0");
        session.store.store_dir = dirs[0].path().to_owned();
        session.store.refresh_on_logon = them == "CLIENT";
        all.sessions.push(session);
    }
    let (name, database) = (server.fresh_name(), Arc::clone(server));
    let (sender, _seen_here) = channel();
    let engine = Engine::builder(&all)
        .stores(move |session, now_ns| match &*session.id().target_comp_id {
            "CLIENT" => database.open(&name, now_ns).map(Some),
            _ => Ok(None),
        })
        .start(|_| Box::new(Echo(sender.clone())));
    let engine = engine.unwrap();
    let (other, other_seen) = client_named("OTHER", &dirs[1], &engine, None);
    expect(&other_seen, &["logon"]);
    server.signal("STOP");
    let mut stream = TcpStream::connect(engine.listening()[0]).unwrap();
    stream.write_all(&logon(1, "98=0")).unwrap();
    let handle = other.sessions().next().unwrap();
    for n in 0..3 {
        let id = n.to_string();
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, &id)).unwrap();
        expect(&other_seen, &[&id]);
    }
    stream.set_nonblocking(true).unwrap();
    let early = stream.read(&mut [0; 1]);
    server.signal("CONT");
    assert!(early.is_err(), "the Logon(A) is answered without the store");
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = [0; 64];
    let n = stream.read(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer[..n]).contains("\x0135=A\x01"));
    drop((stream, handle));
    for engine in [other, engine] {
        engine.stop(Duration::from_secs(5));
    }
}

/// A server that does not answer delays only its own session. The pending work is done once, after
/// the server answers again.
fn a_stopped_server_holds_up_its_own_session<S: Server + 'static>(server: &Arc<S>) {
    let dirs = [TempDir::new(), TempDir::new(), TempDir::new()];
    let mut all = Settings::default();
    // Both sessions run in the same thread.
    all.engine.workers = 1;
    for them in ["CLIENT", "OTHER"] {
        let mut session = settings(Role::Acceptor, "VENUE", them, "127.0.0.1:0");
        session.store.store_dir = dirs[0].path().to_owned();
        session.store.refresh_on_logon = false;
        all.sessions.push(session);
    }
    let (name, database) = (server.fresh_name(), Arc::clone(server));
    let (sender, _seen_here) = channel();
    let engine = Engine::builder(&all)
        .stores(move |session, now_ns| match &*session.id().target_comp_id {
            "CLIENT" => database.open(&name, now_ns).map(Some),
            _ => Ok(None),
        })
        .start(|_| Box::new(Echo(sender.clone())));
    let engine = engine.unwrap();
    let (trader, seen) = client(&dirs[1], &engine, None);
    let (other, other_seen) = client_named("OTHER", &dirs[2], &engine, None);
    for seen in [&seen, &other_seen] {
        expect(seen, &["logon"]);
    }
    let send = |engine: &Engine, id: &str| {
        let handle = engine.sessions().next().unwrap();
        handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
    };
    send(&trader, "a");
    expect(&seen, &["a"]);
    server.signal("STOP");
    send(&trader, "b");
    for n in 0..3 {
        // Each message of this session arrives while the other session cannot send anything.
        let id = n.to_string();
        send(&other, &id);
        expect(&other_seen, &[&id]);
    }
    let early = seen.try_recv();
    server.signal("CONT");
    assert!(early.is_err(), "{early:?} is not saved");
    send(&trader, "c");
    // On a busy machine, the server may be suspended for longer than the store's timeout. The
    // session then logs on again.
    let mut ids = Vec::new();
    while ids.last().is_none_or(|id| id != "c") {
        ids.push(seen.recv_timeout(LONG).unwrap());
        ids.retain(|id| id == "b" || id == "c");
    }
    assert_eq!(ids, ["b", "c"]);
    for engine in [trader, other, engine] {
        engine.stop(Duration::from_secs(5));
    }
    assert!(seen.try_recv().is_ok_and(|end| end != "b" && end != "c"), "once");
}

fn all<S: Disconnects + 'static>(server: S) -> Arc<S> {
    let server = Arc::new(server);
    laws(&*server);
    the_last_opener_writes(&*server);
    a_standby_writes_after_it_takes_over(&*server);
    a_long_resend_finds_all(&*server);
    a_cut_connection_is_made_again(&*server);
    engines_take_turns(&server);
    a_stopped_server_holds_up_its_own_session(&server);
    a_logon_waits_for_its_server_alone(&server);
    server
}

#[test]
fn postgres() {
    an_abandoned_take_over_takes_nothing(&*all(Postgres::start()));
}

#[test]
fn redis() {
    let server = all(Redis::start());
    orders_are_answered_once_whatever_happens(&*server, |_| ());
}
