//! Gateways of a fleet: a session at one of them is refused at another one, handed over, drained,
//! and moved.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transfix::{
    Action, Disconnect, Engine, FleetSettings, Mode, Role, SessionHandle, Settings, clock, tag,
};
use transfix_store::{Record, Store};
use transfix_stores::{Fleet, FleetOperator, GatewayStatus};
use transfix_testkit::laws::Patient;
use transfix_testkit::temp::TempDir;

use crate::server::Nats;
use crate::{Echo, LONG, commit, order, settings};

/// A way to run the sessions of a gateway: its name, and the settings that it changes.
pub(super) type Way = (&'static str, fn(&mut Settings));

/// All threads that may drive a session and its application.
pub(super) const WAYS: [Way; 3] = [
    ("POOL", |_| ()),
    ("DEDICATED", |settings| settings.sessions[0].threads.mode = Mode::Dedicated),
    ("APPLICATION", |settings| settings.engine.application_threads = 2),
];

/// A gateway in this process.
struct Gateway {
    engine: Engine,
    fleet: Fleet,
    seen: Receiver<String>,
}

fn fleet_settings(server: &Nats, gateway: &str) -> FleetSettings {
    FleetSettings {
        gateway: gateway.to_owned(),
        brokers: server.urls().split(',').map(str::to_owned).collect(),
        ..FleetSettings::default()
    }
}

impl Gateway {
    fn start(server: &Nats, (name, change): Way, role: Role, them: &str, address: &str) -> Self {
        let mut settings = Settings::of(settings(role, "US", them, address));
        settings.fleet = Some(fleet_settings(server, name));
        change(&mut settings);
        let fleet = Fleet::join(&mut settings).unwrap();
        let (sender, seen) = channel();
        let engine = Engine::builder(&settings).stores(fleet.stores());
        let engine = engine.start(|_| Box::new(Echo(sender.clone()))).unwrap();
        fleet.begin(&engine).unwrap();
        Self { engine, fleet, seen }
    }

    fn session(&self) -> SessionHandle {
        self.engine.sessions().next().unwrap()
    }

    fn address(&self) -> String {
        self.engine.listening()[0].to_string()
    }
}

/// Starts an initiator of the counterparty `them` with a store of its own.
fn counterparty(them: &str, dir: &TempDir, address: &str) -> (Engine, Receiver<String>) {
    let mut settings = settings(Role::Initiator, them, "US", address);
    settings.store.store_dir = dir.path().to_owned();
    let (sender, seen) = channel();
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(Echo(sender.clone())));
    (engine.unwrap(), seen)
}

fn until(what: &str, is_true: impl Fn() -> bool) -> Duration {
    let begin = clock::now().monotonic_ns;
    loop {
        let passed = Duration::from_nanos(clock::now().monotonic_ns - begin);
        if is_true() {
            return passed;
        }
        assert!(passed < LONG, "{what}");
        std::thread::yield_now();
    }
}

fn wait_for(seen: &Receiver<String>, wanted: &str) {
    while seen.recv_timeout(LONG).unwrap_or_else(|_| panic!("{wanted} has not come")) != wanted {}
}

/// A counterparty that is connected to one gateway is refused at another one. After its logout, the
/// other gateway continues the session.
pub(super) fn a_connected_session_is_refused_elsewhere_and_then_handed_over(
    server: &Nats,
    (way, change): Way,
) {
    let them = format!("HANDED-{way}");
    let gateways = ["a", "b"]
        .map(|name| Gateway::start(server, (name, change), Role::Acceptor, &them, "127.0.0.1:0"));
    let dir = TempDir::new();
    let (first, seen) = counterparty(&them, &dir, &gateways[0].address());
    wait_for(&seen, "logon");
    let handle = first.sessions().next().unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "1")).unwrap();
    wait_for(&seen, "1");
    let other_dir = TempDir::new();
    let (second, refused) = counterparty(&them, &other_dir, &gateways[1].address());
    wait_for(&refused, &Disconnect::LogonUnanswered.to_string());
    let at_other = gateways[1].session();
    let end = || at_other.status().last_end.map(|end| end.reason);
    until("the refusal", || end() == Some(Disconnect::InUse));
    assert_eq!(at_other.store_failure(), None, "the store of a refused session works");
    second.stop(LONG);
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "2")).unwrap();
    wait_for(&seen, "2");
    drop(handle);
    first.stop(LONG);
    until("the logout", || !gateways[0].session().is_logged_on());
    let (third, seen) = counterparty(&them, &dir, &gateways[1].address());
    wait_for(&seen, "logon");
    let handle = third.sessions().next().unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "3")).unwrap();
    wait_for(&seen, "3");
    assert_eq!(gateways[1].session().next_numbers(), handle.next_numbers());
    assert_eq!(gateways[1].seen.try_iter().filter(|line| line == "3").count(), 1);
    drop(handle);
    third.stop(LONG);
    for gateway in gateways {
        gateway.engine.stop(LONG);
    }
}

/// Returns the gateway that has the session, as the gateways say.
fn owner(gateways: &[GatewayStatus]) -> Option<&str> {
    let mut owners = gateways.iter().filter(|one| one.sessions.iter().any(|s| s.is_owner));
    let owner = owners.next()?;
    assert!(owners.next().is_none(), "one owner: {gateways:?}");
    Some(&owner.gateway)
}

/// One gateway connects, although two have the session. An operator moves the session, and drains a
/// gateway; the other one connects within a short time.
pub(super) fn an_initiator_connects_from_one_gateway(server: &Nats, (way, change): Way) {
    let them = format!("MOVED-{way}");
    let dir = TempDir::new();
    let mut of_venue = settings(Role::Acceptor, &them, "US", "127.0.0.1:0");
    of_venue.store.store_dir = dir.path().to_owned();
    of_venue.store.refresh_on_logon = false;
    let (sender, seen) = channel();
    let venue = Engine::start(&Settings::of(of_venue), |_| Box::new(Echo(sender.clone()))).unwrap();
    let address = venue.listening()[0].to_string();
    let gateways = ["a", "b"]
        .map(|name| Gateway::start(server, (name, change), Role::Initiator, &them, &address));
    let name = format!("FIX.4.4:US->{them}");
    wait_for(&seen, "logon");
    let operator = FleetOperator::connect(&fleet_settings(server, "-")).unwrap();
    let is_on = |gateway: &Gateway| gateway.session().is_logged_on();
    until("a logon", || gateways.iter().filter(|one| is_on(one)).count() == 1);
    let names = ["a", "b"];
    let first = gateways.iter().position(is_on).unwrap();
    let (first, second) = (names[first], names[1 - first]);
    assert_eq!(owner(&operator.gateways().unwrap()), Some(first));
    let order = |gateway: &Gateway, id: &str| {
        let session = gateway.session();
        session.send("D", |order| _ = order.str(tag::CL_ORD_ID, id)).unwrap();
        wait_for(&seen, id);
    };
    let by_name = |name: &str| &gateways[usize::from(name == "b")];
    order(by_name(first), "1");

    operator.move_session(&name, second).unwrap();
    let moved = until("the logon at the other gateway", || is_on(by_name(second)));
    assert_eq!(owner(&operator.gateways().unwrap()), Some(second));
    order(by_name(second), "2");

    operator.drain(second).unwrap();
    let drained = until("the logon after the drain", || is_on(by_name(first)));
    assert_eq!(owner(&operator.gateways().unwrap()), Some(first));
    order(by_name(first), "3");
    println!("logged on {moved:?} after a move, {drained:?} after a drain");
    let refused = operator.move_session(&name, second).unwrap_err().to_string();
    assert!(refused.contains("is drained"), "{refused}");
    operator.resume(second).unwrap();
    operator.move_session(&name, second).unwrap();
    until("the logon after the resume", || is_on(by_name(second)));
    // An operator's logout outlives a drain.
    let session = by_name(second).session();
    session.operate(&Action::LogOut { text: String::new() }).unwrap();
    until("the logout", || !session.is_logged_on());
    operator.drain(second).unwrap();
    operator.resume(second).unwrap();
    assert_eq!(owner(&operator.gateways().unwrap()), Some(second));
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
    let [a, b] = gateways;
    let (present, next) = if second == "a" { (a, b) } else { (b, a) };
    present.engine.stop(LONG);
    drop(present.fleet);
    until("the logon after the stop", || next.session().is_logged_on());
    next.engine.stop(LONG);
    venue.stop(LONG);
}

/// Messages older than `delete_after` leave the stream with a later commit. Queued messages stay.
pub(super) fn messages_are_deleted_after_their_time(server: &Nats) {
    const DAY: u64 = 24 * 60 * 60 * 1_000_000_000;
    let mut settings = Settings::of(settings(Role::Acceptor, "US", "KEPT", "127.0.0.1:0"));
    let delete_after = Duration::from_nanos(2 * DAY);
    settings.fleet = Some(FleetSettings { delete_after, ..fleet_settings(server, "a") });
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
