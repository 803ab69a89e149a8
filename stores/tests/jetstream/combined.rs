//! Fleets together with other parts of the engine: templates, reloads, and many initiators.

use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transfix::{Action, Engine, ProxyKind, ProxySettings, Role, SessionHandle, Settings};
use transfix_gateway::Routes;
use transfix_stores::{Fleet, FleetOperator};
use transfix_testkit::proxy::{Kind, Proxy};
use transfix_testkit::temp::TempDir;

use super::events;
use super::fleet::{fleet_settings, start_counterparty, trade, until, wait_for};
use crate::server::Nats;
use crate::{Echo, LONG, settings};

/// Number of initiators of one gateway.
const MANY: usize = 1_000;

/// A gateway with an engine that a test may change.
struct Gateway {
    engine: Engine,
    fleet: Fleet,
    echo: Echo,
    _seen: Receiver<String>,
}

impl Gateway {
    /// Starts a gateway with these settings, whose fleet has a stream of its own.
    fn start(server: &Nats, (stream, name): (&str, &str), settings: &mut Settings) -> Self {
        settings.fleet = Some(fleet_settings(server, stream, name));
        FleetOperator::create(settings.fleet.as_ref().unwrap()).unwrap();
        let fleet = Fleet::join(settings).unwrap();
        let (sender, seen) = channel();
        let (echo, admitted) = (Echo(sender.clone()), Echo(sender));
        let builder = Engine::builder(settings).stores(fleet.stores());
        let builder = builder.admit(move |_| Some(Box::new(admitted.clone())));
        let engine = builder.start(|_| Box::new(echo.clone())).unwrap();
        fleet.begin(&engine).unwrap();
        Self { engine, fleet, echo, _seen: seen }
    }

    fn session(&self, them: &str) -> Option<SessionHandle> {
        self.engine.sessions().find(|session| *session.id().target_comp_id == *them)
    }

    fn is_logged_on(&self, them: &str) -> bool {
        self.session(them).is_some_and(|session| session.is_logged_on())
    }

    /// Waits until the gateway has this number of sessions.
    fn expect_sessions(&self, count: usize) {
        let wanted = format!("sessions: {count},");
        until(&wanted, || format!("{:?}", self.fleet).contains(&wanted));
    }
}

/// The first Logon(A) at a gateway makes the session of a template there, and takes it over with
/// its numbers.
pub(super) fn sessions_from_a_template_move(server: &Nats) {
    let start = |name| {
        let mut settings = Settings::of(settings(Role::Acceptor, "US", "*", "127.0.0.1:0"));
        settings.engine.created_sessions_idle = Duration::from_secs(1);
        Gateway::start(server, ("TEMPLATE", name), &mut settings)
    };
    let (names, dir) = (["a", "b"], TempDir::new());
    let gateways = names.map(start);
    for (round, at) in [0, 1, 0].into_iter().enumerate() {
        let address = gateways[at].engine.listening()[0].to_string();
        let client = settings(Role::Initiator, "MADE", "US", &address);
        let (client, seen) = start_counterparty(client, &dir);
        wait_for(&seen, "logon");
        let session = client.sessions().next().unwrap();
        for order in 0..3 {
            trade(&session, &seen, &format!("{round}.{order}"));
        }
        let made = gateways[at].session("MADE").unwrap();
        let (next_in, next_out) = session.next_numbers();
        assert_eq!(made.next_numbers(), (next_out, next_in));
        assert_eq!((next_in, next_out), (5 * round as u64 + 5, 5 * round as u64 + 5));
        drop((session, made));
        client.stop(LONG);
    }
    // A session without a connection leaves both gateways.
    for gateway in &gateways {
        gateway.expect_sessions(0);
        assert!(gateway.session("MADE").is_none());
    }
    for gateway in gateways {
        gateway.engine.stop(LONG);
    }
}

/// Both gateways are reloaded while sessions trade. A session that stays is not interrupted, and
/// one that is changed or added continues at exactly one gateway.
pub(super) fn a_reload_leaves_each_session_at_one_gateway(server: &Nats) {
    let dirs = ["CHANGED", "ADDED", "KEPT", "REMOVED"].map(|_| TempDir::new());
    let [changed_dir, added_dir, kept_dir, removed_dir] = &dirs;
    let venue =
        |us, dir| start_counterparty(settings(Role::Acceptor, us, "US", "127.0.0.1:0"), dir);
    let ((changed, of_changed), (added, of_added)) =
        (venue("CHANGED", changed_dir), venue("ADDED", added_dir));
    let initiator = |them, venue: &Engine| {
        settings(Role::Initiator, "US", them, &venue.listening()[0].to_string())
    };
    let acceptor = |them| settings(Role::Acceptor, "US", them, "127.0.0.1:0");
    let first = Settings {
        sessions: vec![initiator("CHANGED", &changed), acceptor("KEPT"), acceptor("REMOVED")],
        ..Settings::default()
    };
    let mut of = [first.clone(), first.clone()];
    let mut gateways = [("a", 0), ("b", 1)]
        .map(|(name, at)| Gateway::start(server, ("RELOAD", name), &mut of[at]));
    let address = gateways[0].engine.listening()[0].to_string();
    let client = |us, dir| start_counterparty(settings(Role::Initiator, us, "US", &address), dir);
    let ((kept, of_kept), (removed, of_removed)) =
        (client("KEPT", kept_dir), client("REMOVED", removed_dir));
    for seen in [&of_changed, &of_kept, &of_removed] {
        wait_for(seen, "logon");
    }
    let [of_venue, session] = [&changed, &kept].map(|engine| engine.sessions().next().unwrap());
    trade(&of_venue, &of_changed, "1");

    for (gateway, from) in gateways.iter_mut().zip(&mut of) {
        let mut to = first.clone();
        to.fleet.clone_from(&from.fleet);
        to.sessions[0].protocol.heart_bt_int = Duration::from_secs(7);
        to.sessions[2] = initiator("ADDED", &added);
        Fleet::prepare(&mut to).unwrap();
        let Gateway { engine, echo, .. } = gateway;
        let reloaded = engine.reload(from, &to, LONG, |_| Box::new(echo.clone())).unwrap();
        assert!(reloaded.failed.is_empty(), "{:?}", reloaded.failed);
        *from = reloaded.settings;
    }
    let count = |them| gateways.iter().filter(|one| one.is_logged_on(them)).count();
    for (them, seen) in [("CHANGED", &of_changed), ("ADDED", &of_added)] {
        until(them, || count(them) == 1);
        let venue = if them == "ADDED" { &added } else { &changed };
        trade(&venue.sessions().next().unwrap(), seen, "2");
    }
    assert_eq!(of_venue.status().heart_bt_int, Some(Duration::from_secs(7)));
    trade(&session, &of_kept, "3");
    assert_eq!(session.counters().logons, 1, "the session that stays is not interrupted");
    for gateway in &gateways {
        gateway.expect_sessions(3);
        assert!(gateway.session("REMOVED").is_none());
    }
    for them in ["CHANGED", "ADDED"] {
        assert_eq!(count(them), 1, "{them}");
    }
    drop((of_venue, session));
    for engine in [removed, kept] {
        engine.stop(LONG);
    }
    for gateway in gateways {
        gateway.engine.stop(LONG);
    }
    for engine in [changed, added] {
        engine.stop(LONG);
    }
}

/// A gateway loses its way to the venue, and answers the other gateway. The other one connects.
pub(super) fn an_initiator_moves_to_a_gateway_that_can_connect(server: &Nats) {
    let dir = TempDir::new();
    let venue = settings(Role::Acceptor, "FAR", "US", "127.0.0.1:0");
    let (venue, seen) = start_counterparty(venue, &dir);
    let initiator = settings(Role::Initiator, "US", "FAR", &venue.listening()[0].to_string());
    let mut of = [Settings::of(initiator.clone()), Settings::of(initiator)];
    let proxy = Proxy::start(([127, 0, 0, 1], 0).into(), Kind::Http(None));
    let address = proxy.address().to_string();
    of[0].sessions[0].proxy = Some(ProxySettings::new(ProxyKind::Http, &address));
    let [of_first, of_second] = &mut of;
    let first = Gateway::start(server, ("WAY", "a"), of_first);
    wait_for(&seen, "logon");
    let second = Gateway::start(server, ("WAY", "b"), of_second);
    let session = venue.sessions().next().unwrap();
    trade(&session, &seen, "1");
    drop(proxy);
    session.operate(&Action::Disconnect {}).unwrap();
    until("the logon of the other gateway", || second.is_logged_on("FAR"));
    events::expect(
        2,
        "FIX.4.4:US->FAR",
        ("a", "b"),
        "gateway a cannot connect to the counterparty",
    );
    until("the first gateway stands by", || !first.session("FAR").unwrap().status().enabled);
    trade(&session, &seen, "2");
    assert_eq!(session.counters().logons, 2);
    drop(session);
    for gateway in [first, second] {
        gateway.engine.stop(LONG);
    }
    venue.stop(LONG);
}

/// The routes of `transfix gateway` need files of one machine, so they are refused.
pub(super) fn routes_are_refused(server: &Nats) {
    let mut all = Settings::of(settings(Role::Acceptor, "US", "ROUTED", "127.0.0.1:0"));
    all.fleet = Some(fleet_settings(server, "ROUTES", "a"));
    let open = |all: &Settings| transfix_gateway::Gateway::open(Routes::default(), all, |_| ());
    let refused = open(&all).unwrap_err();
    assert!(refused.contains("[fleet]: routes work on one machine only"), "{refused}");
    all.fleet = None;
    open(&all).unwrap().end();
}

/// A gateway reads the owners of many initiators at the same time. No venue listens, so all of them
/// are enabled, and none connects.
pub(super) fn a_gateway_takes_a_thousand_initiators(server: &Nats) {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut all = Settings::default();
    for number in 0..MANY {
        let mut session = settings(Role::Initiator, "US", &format!("VENUE{number}"), &closed);
        session.socket.reconnect_interval = Duration::from_secs(60);
        all.sessions.push(session);
    }
    let gateway = Gateway::start(server, ("MANY", "a"), &mut all);
    let are_enabled = || gateway.engine.sessions().all(|session| session.status().enabled);
    let passed = until("all initiators are enabled", are_enabled);
    println!("{MANY} initiators were enabled in {passed:?}");
    gateway.engine.stop(Duration::ZERO);
}
