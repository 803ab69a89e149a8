//! Gateways of a fleet: a session at one of them is refused at another one, handed over, drained,
//! and moved.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix::{
    Action, Admin, ClientCertificate, Disconnect, Engine, FleetSettings, Mode, Role, SessionHandle,
    SessionSettings, Settings, TlsSettings, clock, tag,
};
use transfix_store::{Record, Store};
use transfix_stores::{Fleet, FleetOperator, GatewayStatus};
use transfix_testkit::certificates::{Authority, Valid};
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use super::events;
use crate::server::Nats;
use crate::{Echo, LONG, commit, order, settings};

/// Time limit for a change. The election of a leader takes 9 s, and a request 12 s.
const LIMIT: Duration = Duration::from_secs(60);

/// A way to run the sessions of a gateway. Each way has a stream of its own, with this name.
pub(super) struct Way {
    pub(super) name: &'static str,
    mode: Mode,
    application_threads: usize,
    /// TLS of both sides, which verify each other.
    tls: Option<TlsSettings>,
}

/// Returns all threads that may drive a session and its application, and a session over TLS.
pub(super) fn ways(dir: &TempDir) -> Vec<Way> {
    let authority = Authority::new(dir.path(), "authority");
    let own = authority.sign(&["127.0.0.1"], 1, Valid::Now);
    let tls = TlsSettings {
        certificate: Some(own.certificate),
        key: Some(own.key),
        ca: vec![authority.ca],
        ..TlsSettings::default()
    };
    let way = |name, mode| Way { name, mode, application_threads: 0, tls: None };
    vec![
        way("POOL", Mode::Pool),
        way("DEDICATED", Mode::Dedicated),
        Way { application_threads: 2, ..way("APPLICATION", Mode::Pool) },
        way("SPIN", Mode::Spin),
        way("POLLED", Mode::Polled),
        Way { tls: Some(tls), ..way("TLS", Mode::Pool) },
    ]
}

impl Way {
    /// Returns the CompID of the counterparty of gateways with this role.
    fn them(&self, role: Role) -> String {
        let test = if role == Role::Acceptor { "HANDED" } else { "MOVED" };
        format!("{test}-{}", self.name)
    }

    fn tls(&self, role: Role) -> Option<TlsSettings> {
        let client_certificate = match role {
            Role::Acceptor => ClientCertificate::Required,
            Role::Initiator => ClientCertificate::Ignored,
        };
        self.tls.clone().map(|tls| TlsSettings { client_certificate, ..tls })
    }
}

/// A gateway in this process. A thread polls its engine until it is stopped.
struct Gateway {
    stop: Sender<()>,
    thread: JoinHandle<()>,
    admin: Admin,
    fleet: Fleet,
    seen: Receiver<String>,
}

pub(super) fn fleet_settings(server: &Nats, stream: &str, gateway: &str) -> FleetSettings {
    FleetSettings {
        gateway: gateway.to_owned(),
        brokers: server.urls().split(',').map(str::to_owned).collect(),
        stream: stream.to_owned(),
        // A busy machine answers late. An operator always waits for the whole time.
        answer: Duration::from_secs(if gateway == "-" { 1 } else { 4 }),
        ..FleetSettings::default()
    }
}

impl Gateway {
    fn start(server: &Nats, way: &Way, (name, role): (&str, Role), address: &str) -> Self {
        let mut settings = Settings::of(settings(role, "US", &way.them(role), address));
        settings.fleet = Some(fleet_settings(server, way.name, name));
        settings.sessions[0].threads.mode = way.mode;
        settings.sessions[0].tls = way.tls(role);
        settings.engine.application_threads = way.application_threads;
        let fleet = Fleet::join(&mut settings).unwrap();
        let (sender, seen) = channel();
        let engine = Engine::builder(&settings).stores(fleet.stores());
        let engine = engine.start(|_| Box::new(Echo(sender.clone()))).unwrap();
        fleet.begin(&engine).unwrap();
        let admin = engine.admin();
        let (stop, is_stopped) = channel();
        let thread = thread::spawn(move || poll(engine, &is_stopped));
        Self { stop, thread, admin, fleet, seen }
    }

    fn session(&self) -> SessionHandle {
        self.admin.handles().remove(0)
    }

    fn address(&self) -> String {
        self.admin.listening()[0].to_string()
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
        drop(self.fleet);
    }
}

/// Polls an engine until it is to stop. Only the mode `polled` needs this.
fn poll(mut engine: Engine, is_stopped: &Receiver<()>) {
    while is_stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
        while engine.poll() {}
    }
    engine.stop(LONG);
}

/// Starts a counterparty of the gateways with a store of its own.
fn counterparty(
    way: &Way,
    (role, dir): (Role, &TempDir),
    address: &str,
) -> (Engine, Receiver<String>) {
    let of_gateways = if role == Role::Acceptor { Role::Initiator } else { Role::Acceptor };
    let mut settings = settings(role, &way.them(of_gateways), "US", address);
    settings.tls = way.tls(role);
    start_counterparty(settings, dir)
}

pub(super) fn start_counterparty(
    mut settings: SessionSettings,
    dir: &TempDir,
) -> (Engine, Receiver<String>) {
    settings.store.store_dir = dir.path().to_owned();
    settings.store.refresh_on_logon = false;
    let (sender, seen) = channel();
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(Echo(sender.clone())));
    (engine.unwrap(), seen)
}

pub(super) fn until(what: &str, is_true: impl Fn() -> bool) -> Duration {
    let begin = clock::now().monotonic_ns;
    loop {
        let passed = Duration::from_nanos(clock::now().monotonic_ns - begin);
        if is_true() {
            return passed;
        }
        assert!(passed < LIMIT, "{what}");
        thread::park_timeout(Duration::from_millis(1));
    }
}

pub(super) fn wait_for(seen: &Receiver<String>, wanted: &str) {
    while seen.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{wanted} has not come")) != wanted {}
}

/// Sends an order, and waits for its answer.
pub(super) fn trade(session: &SessionHandle, seen: &Receiver<String>, id: &str) {
    session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
    wait_for(seen, id);
}

/// A counterparty that is connected to one gateway is refused at another one. After its logout, the
/// other gateway continues the session.
pub(super) fn a_connected_session_is_refused_elsewhere_and_then_handed_over(
    server: &Nats,
    way: &Way,
) {
    let start = |name| Gateway::start(server, way, (name, Role::Acceptor), "127.0.0.1:0");
    let gateways = ["a", "b"].map(start);
    let dir = TempDir::new();
    let connect = |dir, at: &Gateway| counterparty(way, (Role::Initiator, dir), &at.address());
    let (first, seen) = connect(&dir, &gateways[0]);
    wait_for(&seen, "logon");
    let handle = first.sessions().next().unwrap();
    trade(&handle, &seen, "1");
    let other_dir = TempDir::new();
    let (second, refused) = connect(&other_dir, &gateways[1]);
    wait_for(&refused, &Disconnect::LogonUnanswered.to_string());
    let at_other = gateways[1].session();
    let end = || at_other.status().last_end.map(|end| end.reason);
    until("the refusal", || end() == Some(Disconnect::InUse));
    assert_eq!(at_other.store_failure(), None, "the store of a refused session works");
    second.stop(LONG);
    trade(&handle, &seen, "2");
    drop(handle);
    first.stop(LONG);
    until("the logout", || !gateways[0].session().is_logged_on());
    let (third, seen) = connect(&dir, &gateways[1]);
    wait_for(&seen, "logon");
    let handle = third.sessions().next().unwrap();
    trade(&handle, &seen, "3");
    assert_eq!(gateways[1].session().next_numbers(), handle.next_numbers());
    assert_eq!(gateways[1].seen.try_iter().filter(|line| line == "3").count(), 1);
    let why = "gateway a is not connected with the counterparty";
    events::expect(2, &gateways[0].session().id().to_string(), ("a", "b"), why);
    drop(handle);
    // An operator's logout holds at all gateways, until an operator moves the session.
    gateways[1].session().operate(&Action::LogOut { text: String::new() }).unwrap();
    third.stop(LONG);
    let at_first = gateways[0].session();
    let refused = at_first.counters().disconnects;
    let (fourth, seen) = connect(&dir, &gateways[0]);
    until("the refusals", || at_first.counters().disconnects >= refused + 3);
    assert_eq!(at_first.status().last_end.map(|end| end.reason), Some(Disconnect::InUse));
    let operator = FleetOperator::connect(&fleet_settings(server, way.name, "-")).unwrap();
    operator.move_session(&at_first.id().to_string(), "a").unwrap();
    wait_for(&seen, "logon");
    trade(&fourth.sessions().next().unwrap(), &seen, "4");
    fourth.stop(LONG);
    gateways.into_iter().for_each(Gateway::stop);
}

/// Waits until this gateway alone has the session, as the gateways say. The former owner may not
/// know yet that it has lost the session.
fn expect_owner(operator: &FleetOperator, wanted: &str) {
    let is_owner = |gateway: &GatewayStatus| gateway.sessions.iter().any(|one| one.is_owner);
    until(&format!("{wanted} is the owner"), || {
        let gateways = operator.gateways().unwrap();
        let owners = gateways.iter().filter(|gateway| is_owner(gateway));
        owners.map(|owner| &*owner.gateway).eq([wanted])
    });
}

/// One gateway connects, although two have the session. An operator moves the session, and drains a
/// gateway; the other one connects within a short time.
pub(super) fn an_initiator_connects_from_one_gateway(server: &Nats, way: &Way) {
    let dir = TempDir::new();
    let (venue, seen) = counterparty(way, (Role::Acceptor, &dir), "127.0.0.1:0");
    let address = venue.listening()[0].to_string();
    let start = |name| Gateway::start(server, way, (name, Role::Initiator), &address);
    let gateways = ["a", "b"].map(start);
    let name = &gateways[0].session().id().to_string();
    wait_for(&seen, "logon");
    let operator = FleetOperator::connect(&fleet_settings(server, way.name, "-")).unwrap();
    let is_on = |gateway: &Gateway| gateway.session().is_logged_on();
    until("a logon", || gateways.iter().filter(|one| is_on(one)).count() == 1);
    let names = ["a", "b"];
    let first = gateways.iter().position(is_on).unwrap();
    let (first, second) = (names[first], names[1 - first]);
    expect_owner(&operator, first);
    let by_name = |name: &str| &gateways[usize::from(name == "b")];
    trade(&by_name(first).session(), &seen, "1");

    operator.move_session(name, second).unwrap();
    let moved = until("the logon at the other gateway", || is_on(by_name(second)));
    expect_owner(&operator, second);
    trade(&by_name(second).session(), &seen, "2");
    let why = format!("gateway {first} was asked to release it");
    events::expect(2, name, (first, second), &why);

    operator.drain(second).unwrap();
    let drained = until("the logon after the drain", || is_on(by_name(first)));
    expect_owner(&operator, first);
    trade(&by_name(first).session(), &seen, "3");
    events::expect(2, name, (second, first), &format!("gateway {second} is drained"));
    println!("{}: logged on {moved:?} after a move, {drained:?} after a drain", way.name);
    let refused = operator.move_session(name, second).unwrap_err().to_string();
    assert!(refused.contains("is drained"), "{refused}");
    operator.resume(second).unwrap();
    operator.move_session(name, second).unwrap();
    until("the logon after the resume", || is_on(by_name(second)));
    // An operator's logout outlives a drain.
    let session = by_name(second).session();
    session.operate(&Action::LogOut { text: String::new() }).unwrap();
    until("the logout", || !session.is_logged_on());
    operator.drain(second).unwrap();
    operator.resume(second).unwrap();
    expect_owner(&operator, second);
    assert!(!session.status().enabled && !is_on(by_name(first)));
    session.operate(&Action::LogOn {}).unwrap();
    until("the logon", || session.is_logged_on());
    let refused = operator.drain("c").unwrap_err().to_string();
    assert!(refused.contains("does not answer; these answer: a, b"), "{refused}");

    // The venue has each message once: its numbers are those of the session.
    until("equal numbers", || {
        let (next_in, next_out) = venue.sessions().next().unwrap().next_numbers();
        by_name(second).session().next_numbers() == (next_out, next_in)
    });
    drop(session);
    let [a, b] = gateways;
    let (present, next) = if second == "a" { (a, b) } else { (b, a) };
    present.stop();
    until("the logon after the stop", || next.session().is_logged_on());
    events::expect(1, name, (second, first), &format!("gateway {second} is gone"));
    next.stop();
    venue.stop(LONG);
}

/// Messages older than `delete_after` leave the stream with a later commit. Queued messages stay.
pub(super) fn messages_are_deleted_after_their_time(server: &Nats) {
    const DAY: u64 = 24 * 60 * 60 * 1_000_000_000;
    let mut settings = Settings::of(settings(Role::Acceptor, "US", "KEPT", "127.0.0.1:0"));
    let delete_after = Duration::from_nanos(2 * DAY);
    settings.fleet = Some(FleetSettings { delete_after, ..fleet_settings(server, "FIX", "a") });
    let fleet = Fleet::join(&mut settings).unwrap();
    let engine = Engine::builder(&settings).stores(fleet.stores());
    let engine = engine.start(|_| Box::new(Echo(channel().0))).unwrap();
    fleet.begin(&engine).unwrap();

    let aged = crate::settings(Role::Acceptor, "US", "AGED", "127.0.0.1:0");
    let open = || Patient(fleet.stores()(&aged, 1).unwrap().unwrap());
    let mut store = open();
    store.refresh().unwrap();
    let mut commit_at = |hour: u64, record: Record<'_>| {
        store.put(hour * DAY / 24, record).unwrap();
        commit(&mut store).unwrap();
    };
    // A message each hour, for ten days.
    for hour in 1..240 {
        if hour == 140 {
            commit_at(hour, Record::Queued { ticket: 7, bytes: b"waits" });
        }
        commit_at(hour, order(hour));
    }
    let name = aged.id().to_string();
    assert_eq!(server.records(&name), 101, "from the queued message on");
    let found = |store: &mut Patient<Box<dyn Store>>, seq| store.outbound(seq).unwrap().is_some();
    assert!(!found(&mut store, 139) && (140..240).all(|seq| found(&mut store, seq)));
    assert_eq!(store.queued(0).unwrap().unwrap().bytes, b"waits");

    // Another process takes the session over, and sends the queued message.
    let mut store = open();
    store.refresh().unwrap();
    assert_eq!((store.numbers().next_out, found(&mut store, 139)), (240, false));
    store.put(240 * DAY / 24, Record::Unqueued(7)).unwrap();
    commit(&mut store).unwrap();
    store.put(243 * DAY / 24, order(240)).unwrap();
    commit(&mut store).unwrap();
    assert_eq!(server.records(&name), 45 + 3, "two days, a take-over and a removal");
    assert!(!found(&mut open(), 194) && (195..241).all(|seq| found(&mut store, seq)));

    // Nothing but the newest record is left after a long pause.
    store.put(20 * DAY, order(241)).unwrap();
    commit(&mut store).unwrap();
    assert_eq!(server.records(&name), 1);
    assert!(!found(&mut open(), 240) && found(&mut store, 241));
    assert_eq!(open().numbers().next_out, 242);
    engine.stop(LONG);
}
