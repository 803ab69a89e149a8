//! Runs the examples together in one process, for instance a client that trades with the venue
//! through the router.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/acceptor.rs"]
mod acceptor;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/echo_server.rs"]
mod echo_server;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/gateway_client/main.rs"]
mod gateway_client;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/latency_pair.rs"]
mod latency_pair;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/router.rs"]
mod router;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/scheduled_pair.rs"]
mod scheduled_pair;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/simple_server.rs"]
mod simple_server;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/typed.rs"]
mod typed;
#[allow(dead_code, reason = "its main is not called here")]
#[path = "../examples/venue.rs"]
mod venue;

use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::schedule::Schedule;
use transfix::{
    Application, BeginString, BusinessReject, Disconnect, Durability, Engine, Message, Outcome,
    ResetPolicy, Role, Secret, SessionEvent, SessionHandle, SessionId, SessionRef, SessionSettings,
    Settings, clock, tag,
};
use transfix_codec::FrameWriter;

const LONG: Duration = Duration::from_secs(300);
const ORDERS: u64 = 100;

struct Client {
    events: Sender<String>,
}

impl Application for Client {
    fn on_message(
        &mut self,
        message: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        let shown = [tag::MSG_TYPE, tag::CL_ORD_ID, tag::BUSINESS_REJECT_REASON];
        let fields = message.fields().filter(|f| shown.contains(&f.tag));
        let line: Vec<_> =
            fields.map(|f| format!("{}={}", f.tag, f.value.escape_ascii())).collect();
        self.events.send(line.join("|")).unwrap();
        Ok(())
    }

    fn on_event(&mut self, event: SessionEvent<'_>, _: &mut SessionRef<'_>) {
        if let SessionEvent::LoggedOn = event {
            self.events.send("logon".to_owned()).unwrap();
        }
    }
}

fn client(counterparty: &str, address: &str) -> (Engine, SessionHandle, Receiver<String>) {
    client_with(counterparty, address, |_| {})
}

fn client_with(
    counterparty: &str,
    address: &str,
    change: impl FnOnce(&mut SessionSettings),
) -> (Engine, SessionHandle, Receiver<String>) {
    let id = SessionId::new(BeginString::Fix44, "CLIENT", counterparty);
    let mut settings = SessionSettings::new(Role::Initiator, &id, address);
    settings.store.durability = Durability::Memory;
    settings.protocol.reset_on = ResetPolicy::LOGON;
    settings.socket.reconnect_interval = Duration::from_millis(10);
    change(&mut settings);
    let (events, received) = channel();
    let engine =
        Engine::start(&Settings::of(settings), |_| Box::new(Client { events: events.clone() }));
    let engine = engine.unwrap();
    let session = engine.session(&id).unwrap();
    (engine, session, received)
}

fn order(session: &SessionHandle, n: u64) {
    let sent = session.send("D", |order| {
        order
            .str(tag::CL_ORD_ID, &format!("order{n}"))
            .str(tag::SYMBOL, "EUR/USD")
            .char(tag::SIDE, b'1')
            .timestamp(tag::TRANSACT_TIME, clock::now().utc)
            .uint(tag::ORDER_QTY, 100)
            .char(tag::ORD_TYPE, b'1');
    });
    sent.unwrap();
}

#[test]
fn a_client_trades_through_the_router() {
    // Reserves a port at which nothing listens until the venue starts.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let venue_address = port.local_addr().unwrap().to_string();
    drop(port);
    let mut settings = router::settings("127.0.0.1:0", &venue_address);
    settings.sessions[1].socket.reconnect_interval = Duration::from_millis(10);
    let router = router::start(&settings).unwrap();
    let (client, session, events) = client("ROUTER", &router.listening()[0].to_string());
    let next = || events.recv_timeout(LONG).unwrap();
    assert_eq!(next(), "logon");
    order(&session, 0);
    assert_eq!(next(), "35=j|380=4", "the venue is not there yet");

    let settings = acceptor::settings(&venue_address);
    let venue = Engine::start(&settings, |_| Box::new(acceptor::Venue::default())).unwrap();
    let to_venue = router.sessions().nth(1).unwrap();
    while !to_venue.is_logged_on() {
        std::thread::yield_now();
    }
    for n in 0..ORDERS {
        order(&session, n);
    }
    for n in 0..ORDERS {
        assert_eq!(next(), format!("35=8|11=order{n}"));
    }
    let outcomes = client.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
    assert_eq!(
        router.stop(Duration::from_secs(20))[1].outcome,
        Outcome::Ended(Disconnect::LoggedOut)
    );
    drop(venue);
}

#[test]
fn a_client_trades_with_the_typed_venue() {
    let settings = typed::settings("127.0.0.1:0");
    let venue = Engine::start(&settings, |_| Box::new(typed::Venue::default())).unwrap();
    let (client, session, events) = client("VENUE", &venue.listening()[0].to_string());
    let next = || events.recv_timeout(LONG).unwrap();
    assert_eq!(next(), "logon");
    order(&session, 1);
    assert_eq!(next(), "35=8|11=order1", "it passes the validation of FIX 4.4");
    session
        .send("F", |cancel| {
            cancel
                .str(tag::ORIG_CL_ORD_ID, "order1")
                .str(tag::CL_ORD_ID, "order2")
                .str(tag::SYMBOL, "EUR/USD")
                .char(tag::SIDE, b'1')
                .timestamp(tag::TRANSACT_TIME, clock::now().utc);
        })
        .unwrap();
    assert_eq!(next(), "35=j|380=3", "no method takes it");
    let outcomes = client.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
    drop(venue);
}

#[test]
fn the_echo_server_sends_back_what_those_send_who_know_the_password() {
    let settings = echo_server::settings("127.0.0.1:0", Some(("user", "secret")));
    let server = echo_server::start(&settings).unwrap();
    let address = server.listening()[0].to_string();
    let log_on = |password: &'static str| {
        client_with("SERVER", &address, |session| {
            session.logon.username = Some("user".to_owned());
            session.logon.password = Some(Secret::new(password.to_owned()));
        })
    };
    let (stranger, session, events) = log_on("guess");
    while session.counters().messages_in == 0 {
        std::thread::yield_now();
    }
    assert!(!session.is_logged_on() && events.try_recv().is_err(), "a Logout(5), and no logon");
    drop(stranger);
    let (client, session, events) = log_on("secret");
    let next = || events.recv_timeout(LONG).unwrap();
    assert_eq!(next(), "logon");
    order(&session, 7);
    assert_eq!(next(), "35=D|11=order7");
    let outcomes = client.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
    drop(server);
}

#[test]
fn the_latency_pair_answers_each_order_after_the_warm_up() {
    let settings = latency_pair::settings(Role::Acceptor, "127.0.0.1:0", false);
    let server = Engine::start(&settings, |_| Box::new(latency_pair::Server::new())).unwrap();
    let address = server.listening()[0].to_string();
    let settings = latency_pair::settings(Role::Initiator, &address, false);
    let (sender, times) = latency_pair::start_sender(&settings, 20, 50).unwrap();
    let times = times.recv_timeout(LONG).unwrap();
    assert_eq!(times.len(), 50);
    assert!(times.iter().all(|ns| *ns > 0), "{times:?}");
    // The counters include the Logon(A), the warm-up messages and the orders.
    let counters = server.sessions().next().unwrap().counters();
    assert_eq!(counters.messages_in, 1 + 20 + 50);
    sender.stop(Duration::from_secs(20));
}

#[test]
fn the_simple_server_knows_its_users_at_each_address() {
    let read = |line: &str| simple_server::Options::read(line.split(' ').map(str::to_owned));
    for (line, wrong) in [
        ("--listen", "--listen needs a value"),
        ("--user desk", "--user needs NAME:PASSWORD"),
        ("--logon-timeout-ms soon", "--logon-timeout-ms: invalid digit"),
        ("--check", "--check is no option"),
    ] {
        let error = read(line).unwrap_err();
        assert!(error.starts_with(wrong), "{error}");
    }
    let options = read("--listen 127.0.0.1:0 --listen 127.0.0.2:0 --user desk:a:b --no-check");
    let server = simple_server::start(options.unwrap()).unwrap();
    for (n, counterparty) in [(0, "SERVER"), (1, "SERVER2")] {
        let address = server.listening()[n].to_string();
        let log_on = |password: &'static str| {
            client_with(counterparty, &address, |session| {
                session.logon.username = Some("desk".to_owned());
                session.logon.password = Some(Secret::new(password.to_owned()));
            })
        };
        let (stranger, session, events) = log_on("a");
        while session.counters().messages_in == 0 {
            std::thread::yield_now();
        }
        assert!(!session.is_logged_on() && events.try_recv().is_err(), "a Logout(5), no logon");
        drop(stranger);
        let (client, session, events) = log_on("a:b");
        assert_eq!(events.recv_timeout(LONG).unwrap(), "logon");
        session.send("D", |order| _ = order.uint(tag::CL_ORD_ID, 1)).unwrap();
        let id = SessionId::new(BeginString::Fix44, counterparty, "CLIENT");
        let taken = server.session(&id).unwrap();
        while taken.counters().messages_in < 2 {
            std::thread::yield_now();
        }
        let outcomes = client.stop(Duration::from_secs(20));
        assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
    }
}

#[test]
fn the_gateway_client_waits_for_each_answer_or_for_none() {
    let settings = acceptor::settings("127.0.0.1:0");
    let venue = Engine::start(&settings, |_| Box::new(acceptor::Venue::default())).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/gateway_client/settings.toml");
    let mut settings = Settings::load(path).unwrap();
    settings.sessions[0].address = venue.listening()[0].to_string();
    let gateway = gateway_client::Gateway::log_on(&settings).unwrap();
    for number in 1..=3 {
        let answer = gateway.ask(number).unwrap();
        assert!(answer.starts_with(&format!("order {number} has OrdStatus(39) ")), "{answer}");
    }
    gateway.send(4).unwrap();
    gateway.send(5).unwrap();
    for number in [4, 5] {
        let told = gateway.next().unwrap();
        assert!(told.starts_with(&format!("order {number} has ")), "{told}");
    }
    gateway.log_out();
    let to_client = venue.sessions().next().unwrap();
    while to_client.is_logged_on() {
        std::thread::yield_now();
    }
    assert_eq!(to_client.counters().messages_in, 1 + 5 + 1, "Logon(A), orders, Logout(5)");
}

#[test]
fn the_scheduled_pair_meets_in_each_window() {
    let usual = scheduled_pair::settings(Role::Acceptor, "", scheduled_pair::HOURS);
    assert!(Schedule::new(usual.sessions[0].schedule.as_ref().unwrap()).is_ok());
    // Each minute of this hour and the next one has two windows of two seconds. The test therefore
    // works at the end of a minute, an hour or a day, and a day may have more windows than the test
    // needs.
    let second = clock::now().utc.0 / 1_000_000_000;
    let hour = second / 3_600 % 24;
    let cron = |after: [i64; 2]| {
        let [one, other] = after.map(|after| (second + after) % 60);
        format!("{one},{other} * {hour},{} * * *", (hour + 1) % 24)
    };
    let (open, close) = (cron([3, 7]), cron([5, 9]));
    let hours = [&*open, &*close, "UTC"];
    let settings = scheduled_pair::settings(Role::Acceptor, "127.0.0.1:0", hours);
    let (server, at_server) = scheduled_pair::start(&settings).unwrap();
    let address = server.listening()[0].to_string();
    let mut settings = scheduled_pair::settings(Role::Initiator, &address, hours);
    settings.sessions[0].socket.reconnect_interval = Duration::from_millis(10);
    let (_client, at_client) = scheduled_pair::start(&settings).unwrap();
    for events in [at_server, at_client] {
        let mut windows = 0;
        while windows < 2 {
            // A connection that arrives as the window closes is refused, so the logon may fail
            // once.
            let event = events.recv_timeout(LONG).unwrap();
            if event.starts_with("logged on") {
                assert_eq!(event, "logged on; next numbers 2 and 2", "they begin again at 1");
                assert!(events.recv_timeout(LONG).unwrap().starts_with("disconnected: "));
                windows += 1;
            }
        }
    }
}

/// Returns the example files with a `main` that starts an engine, because users copy these.
fn programs() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { path.join("main.rs") } else { path }).collect()
}

#[test]
fn every_example_shows_the_events() {
    let programs = programs();
    assert!(programs.len() >= 11, "{programs:?}");
    for path in programs {
        let text = std::fs::read_to_string(&path).unwrap();
        if text.contains("simulated::Pair") {
            // This example starts no engine, so it logs nothing.
            continue;
        }
        let subscribes = text.find("tracing_subscriber::fmt()");
        let starts = text.rfind("start(");
        assert!(subscribes.is_some() && starts.is_some(), "{}", path.display());
    }
}

#[test]
fn the_readme_has_the_example_venue() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    let example = std::fs::read_to_string(root.join("examples/venue.rs")).unwrap();
    let (_, venue) = example.split_once("\n\n").unwrap();
    let venue = venue.replace("pub(crate) ", "");
    let block = format!("```rust\n{venue}```");
    let (before, _) = readme.split_once(&block).expect("copy examples/venue.rs into it");
    // The limit of lines includes the manifest, because a new user reads both.
    let lines = manifest_of(before).lines().count() + venue.lines().count();
    assert!(lines <= 42, "{lines} lines");
}

/// Returns the first manifest in a page of documentation, or the rest of the page without a closing
/// line.
fn manifest_of(page: &str) -> String {
    let mut blocks = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.find(|block| block.contains("[dependencies]")).unwrap().to_owned()
}

/// The manifests in the documentation name only dependencies and features that exist.
#[test]
fn the_manifests_of_the_pages_name_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let workspace: toml::Table = read("Cargo.toml").parse().unwrap();
    let versions = &workspace["workspace"]["dependencies"];
    for page in ["README.md", "book/src/first-program.md"] {
        let manifest: toml::Table = manifest_of(&read(page)).parse().unwrap();
        let dependencies = &manifest["dependencies"];
        let path = dependencies["transfix"]["path"].as_str().unwrap();
        let path = path.strip_prefix("../transfix/").unwrap();
        let package: toml::Table = read(&format!("{path}/Cargo.toml")).parse().unwrap();
        assert_eq!(package["package"]["name"].as_str(), Some("transfix"), "{page}");
        let version = dependencies["tracing-subscriber"].as_str().unwrap();
        let ours = &versions["tracing-subscriber"];
        let ours = ours.get("version").unwrap_or(ours).as_str().unwrap();
        assert_eq!(version, ours, "{page}");
    }
}

/// The output of a log subscriber, which forwards each line to the test.
#[derive(Clone)]
struct Lines(Sender<String>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // The send fails after the test has received the expected line.
        let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_refused_counterparty_is_an_event_with_its_comp_ids() {
    let (sender, lines) = channel();
    let lines_of = Lines(sender);
    tracing_subscriber::fmt().with_writer(move || lines_of.clone()).with_ansi(false).init();
    let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(venue::Venue)).unwrap();
    let mut client = TcpStream::connect(engine.listening()[0]).unwrap();
    let mut logon = Vec::new();
    let mut frame = FrameWriter::new(&mut logon, b"FIX.4.4", b"A");
    frame.raw(b"34=1\x0149=NOBODY\x0152=20261121-09:28:25\x0156=VENUE\x0198=0\x01108=30\x01");
    frame.finish().unwrap();
    client.write_all(&logon).unwrap();
    let refused = "closed: the Logon(A) matches no configured session";
    let line = loop {
        let line = lines.recv_timeout(LONG).unwrap();
        if line.contains(refused) {
            break line;
        }
    };
    assert!(line.contains("NOBODY") && line.contains("WARN"), "{line}");
    engine.stop(Duration::ZERO);
}
