//! Tests what an unknown peer that connects to the port can cost: one connection and a few log
//! lines.
//!
//! The tests run one after the other, because they read the log events of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod events;
mod socket;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineSettings, LogSettings,
    LogonRefusal, Message, Offline, Role, Secret, SendOptions, SessionId, SessionNotice,
    SessionRef, SessionSettings, Settings, ThreadLost, Unsent, tag,
};
use transfix_codec::shown::is_hidden;
use transfix_testkit::app::App;
use transfix_testkit::program::Haproxy;
use transfix_testkit::proxy::{self, Header, Proxy};
use transfix_testkit::temp::TempDir;

use socket::Socket;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    events::listen();
    alone
}

/// Returns an application that reports each message which is returned unsent.
fn unsent_recorder(sender: Sender<()>) -> App {
    App::new(|_, _| Ok(())).on_notice(move |notice, _| {
        if let SessionNotice::Unsent(_) = notice {
            sender.send(()).unwrap();
        }
    })
}

fn venue(client: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", client);
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.store.durability = Durability::Memory;
    settings
}

fn start(engine: EngineSettings) -> (Engine, SocketAddr) {
    let settings = Settings { engine, sessions: vec![venue("CLIENT")], ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    (engine, address)
}

fn logs_on(address: SocketAddr, client: &str) -> Socket {
    let mut socket = Socket::connect(address);
    socket.log_on(client);
    assert!(socket.next().contains("\x0135=A\x01"), "{client} is not let in");
    socket
}

#[test]
fn a_judgement_that_panics_or_takes_long_costs_its_connection_alone() {
    let _alone = alone();
    let (blocked, waits) = channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    let settings = Settings::of(venue("*"));
    let builder = Engine::builder(&settings).admit(move |id| {
        match &*id.target_comp_id {
            "WILD" => panic!("a bug of the application"),
            // Waits until the test ends the wait.
            "SLOW" => _ = waits.lock().unwrap().recv(),
            _ => {}
        }
        Some(Box::new(App::silent()))
    });
    let engine = builder.start(|_| unreachable!("there is only a template")).unwrap();
    let address = engine.listening()[0];
    let mut slow = Socket::connect(address);
    slow.log_on("SLOW");
    // If FAST can log on, SLOW's Logon(A) is being judged at the same time.
    logs_on(address, "FAST");
    events::take();
    let mut again = Socket::connect(address);
    again.log_on("SLOW");
    assert_eq!(again.next(), "");
    let lines = events::take();
    let told = lines
        .iter()
        .any(|line| line.contains("an earlier Logon(A) of the counterparty is still being judged"));
    assert!(told, "{lines:#?}");
    for round in 0..5 {
        let mut wild = Socket::connect(address);
        wild.log_on("WILD");
        assert_eq!(wild.next(), "", "round {round}");
        logs_on(address, &format!("C{round}"));
    }
    blocked.send(()).unwrap();
    assert!(slow.next().contains("\x0135=A\x01"), "it only had to wait");
    let found: Vec<_> = engine.sessions().map(|s| s.id().target_comp_id.to_string()).collect();
    assert_eq!(found, ["C0", "C1", "C2", "C3", "C4", "FAST", "SLOW"], "with those from templates");
}

/// Returns the settings of a session at `address`, to which its counterparty may connect from the
/// addresses `from`.
fn venue_for(client: &str, from: &str, address: SocketAddr) -> SessionSettings {
    let mut settings = venue(client);
    settings.address = address.to_string();
    settings.allow_from = from.split_whitespace().map(str::to_owned).collect();
    settings
}

/// Starts a venue with these sessions and templates. Each name has the addresses from which it may
/// connect.
fn start_for(clients: &[(&str, &str)], engine: EngineSettings) -> (Engine, SocketAddr) {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let sessions = clients.iter().map(|(client, from)| venue_for(client, from, address));
    let settings = Settings { engine, sessions: sessions.collect(), ..Settings::default() };
    let builder = Engine::builder(&settings).admit(|_| Some(Box::new(App::silent())));
    (builder.start(|_| Box::new(App::silent())).unwrap(), address)
}

#[test]
fn an_address_that_no_session_allows_is_closed_at_once() {
    let _alone = alone();
    let limits = EngineSettings { pending_connections_max: 1, ..EngineSettings::default() };
    let clients = [("CLIENT", "127.0.0.1 ::1"), ("OTHER", "127.0.1.0/24")];
    let (mut engine, address) = start_for(&clients, limits);
    let mut waits = Socket::connect(address);
    let begin = b"8=FIX.4.4\x01".len();
    let logon = waits.frame("CLIENT", "A", 1, "98=0\x01108=30\x01141=Y\x01");
    waits.write(&logon[..begin]);
    events::take();
    for _ in 0..100 {
        assert_eq!(Socket::connect_from("127.0.0.2", address).next(), "", "not one byte");
    }
    let lines = events::take();
    let why = |line: &&String| line.contains("the address is not in `allow_from` of any session");
    let told: Vec<_> = lines.iter().filter(why).collect();
    assert!(told.iter().all(|line| line.contains("peer=127.0.0.2 ")), "{told:#?}");
    assert_eq!(told.len(), 10, "some lines tell of all");
    waits.write(&logon[begin..]);
    assert!(waits.next().contains("\x0135=A\x01"), "they have taken no place of a connection");
    // A session added later has its own list of addresses.
    let more = venue_for("LATER", "127.0.0.2", address);
    let id = more.id();
    engine.add(&more, Box::new(App::silent())).unwrap();
    let mut later = Socket::connect_from("127.0.0.2", address);
    later.log_on("LATER");
    assert!(later.next().contains("\x0135=A\x01"));
    engine.remove(&id, "", Duration::from_secs(5)).unwrap();
    assert_eq!(Socket::connect_from("127.0.0.2", address).next(), "", "closed again");
}

#[test]
fn a_session_is_not_there_for_an_address_that_it_does_not_allow() {
    let _alone = alone();
    let clients = [("CLIENT", "127.0.0.1"), ("OTHER", "127.0.0.2"), ("*", "127.0.0.3")];
    let (_engine, address) = start_for(&clients, EngineSettings::default());
    events::take();
    for (client, from) in [("CLIENT", "127.0.0.2"), ("NEW", "127.0.0.1"), ("NEW", "127.0.0.2")] {
        let mut stranger = Socket::connect_from(from, address);
        stranger.log_on(client);
        assert_eq!(stranger.next(), "", "{client} from {from}: as if there were no such session");
        let lines = events::take();
        let tells = |line: &String| {
            line.contains("the address is not in `allow_from` of the session")
                && line.contains(&format!("peer={from} "))
                && line.contains(&format!("{client}->VENUE"))
        };
        assert!(lines.iter().any(tells), "{client} from {from}: {lines:#?}");
    }
    for (client, from) in [("CLIENT", "127.0.0.1"), ("OTHER", "127.0.0.2"), ("NEW", "127.0.0.3")] {
        let mut socket = Socket::connect_from(from, address);
        socket.log_on(client);
        assert!(socket.next().contains("\x0135=A\x01"), "{client} from {from}");
    }
}

/// Starts a venue that trusts proxies at 127.0.0.8. Its only session allows the address 127.0.0.3.
fn start_behind_proxies() -> (Engine, SocketAddr) {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut session = venue_for("CLIENT", "127.0.0.3", address);
    session.proxy_protocol_from = vec!["127.0.0.8".to_owned()];
    (Engine::start(&Settings::of(session), |_| Box::new(App::silent())).unwrap(), address)
}

#[test]
fn a_proxy_says_for_whom_it_connects() {
    let _alone = alone();
    let (_engine, address) = start_behind_proxies();
    let no_address = "the address is not in `allow_from` of any session";
    let no_header =
        "the proxy, an address of proxy_protocol_from, did not name the address of its client";
    for (from, header, outcome) in [
        ("127.0.0.8", "PROXY TCP4 127.0.0.3 127.0.0.1 40000 9880\r\n", Ok(())),
        ("127.0.0.3", "", Ok(())),
        ("127.0.0.8", "PROXY TCP4 127.0.0.4 127.0.0.1 1 2\r\n", Err(("127.0.0.4", no_address))),
        ("127.0.0.8", "PROXY UNKNOWN\r\n", Err(("127.0.0.8", no_address))),
        ("127.0.0.8", "", Err(("127.0.0.8", no_header))),
        ("127.0.0.8", "PROXY TCP4 127.0.0.3\r\n", Err(("127.0.0.8", no_header))),
        // The venue does not accept a PROXY header from any other address.
        (
            "127.0.0.3",
            "PROXY TCP4 127.0.0.3 127.0.0.1 40000 9880\r\n",
            Err(("127.0.0.3", "the first bytes are no FIX message")),
        ),
        (
            "127.0.0.4",
            "PROXY TCP4 127.0.0.3 127.0.0.1 40000 9880\r\n",
            Err(("127.0.0.4", no_address)),
        ),
    ] {
        events::take();
        let mut socket = Socket::connect_from(from, address);
        let bytes = [header.as_bytes(), &socket.logon("CLIENT")].concat();
        let (first, rest) = bytes.split_at(7);
        socket.write(first);
        socket.write(rest);
        let answer = socket.next();
        match outcome {
            Ok(()) => {
                assert!(answer.contains("\x0135=A\x01"), "{from} {header}: {:?}", events::take());
                socket.log_out("CLIENT");
            }
            Err((peer, why)) => {
                assert_eq!(answer, "", "{from} {header}");
                let lines = events::take();
                let peer = format!("peer={peer} ");
                let told = lines.iter().any(|line| line.contains(why) && line.contains(&peer));
                assert!(told, "{from} {header}: {lines:#?}");
            }
        }
    }
    // A connection that is closed before it sends anything is not logged.
    events::take();
    drop(Socket::connect_from("127.0.0.8", address));
    logs_on_from("127.0.0.3", address).log_out("CLIENT");
    let lines = events::take();
    assert!(!lines.iter().any(|line| line.contains("closed: ")), "{lines:#?}");
}

fn logs_on_from(from: &str, address: SocketAddr) -> Socket {
    let mut socket = Socket::connect_from(from, address);
    socket.log_on("CLIENT");
    assert!(socket.next().contains("\x0135=A\x01"), "nobody is let in from {from}");
    socket
}

/// A client can log on through the proxy, and an unknown peer behind the same proxy is refused.
fn comes_through(proxy: SocketAddr, header: Header) {
    logs_on_from("127.0.0.3", proxy).log_out("CLIENT");
    events::take();
    let mut stranger = Socket::connect_from("127.0.0.4", proxy);
    stranger.log_on("CLIENT");
    assert_eq!(stranger.next(), "", "{header:?}");
    let lines = events::take();
    assert!(lines.iter().any(|line| line.contains("peer=127.0.0.4 ")), "{header:?}: {lines:#?}");
}

#[test]
fn a_proxy_that_runs_says_for_whom_it_connects() {
    let _alone = alone();
    let (_engine, to) = start_behind_proxies();
    for header in [Header::V1, Header::V2] {
        let from = Ipv4Addr::new(127, 0, 0, 8);
        let kind = proxy::Kind::Announcing { from, to, header };
        let proxy = Proxy::start((from, 0).into(), kind);
        comes_through(proxy.address(), header);
    }
}

#[test]
#[ignore = "needs haproxy: cargo xtask peers programs"]
fn haproxy_says_for_whom_it_connects() {
    let _alone = alone();
    let (_engine, address) = start_behind_proxies();
    for header in [Header::V1, Header::V2] {
        let haproxy = Haproxy::start(Ipv4Addr::new(127, 0, 0, 8), address, header);
        comes_through(haproxy.address(), header);
    }
}

#[test]
fn connections_of_one_proxy_are_counted_by_those_whom_it_names() {
    let _alone = alone();
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut session = venue_for("CLIENT", "", address);
    session.proxy_protocol_from = vec!["127.0.0.8/32".to_owned()];
    let engine = EngineSettings { pending_per_address_max: 3, ..EngineSettings::default() };
    let settings = Settings { engine, sessions: vec![session], ..Settings::default() };
    let _engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let come = |for_whom: &str| {
        let mut socket = Socket::connect_from("127.0.0.8", address);
        socket.write(format!("PROXY TCP4 {for_whom} 127.0.0.1 1 2\r\n").as_bytes());
        socket
    };
    let mut early = come("192.0.2.1");
    let mut strangers: Vec<_> = (0..10).map(|_| come("192.0.2.2")).collect();
    for stranger in &mut strangers[..7] {
        assert_eq!(stranger.next(), "", "it has made room for another one of its own");
    }
    early.log_on("CLIENT");
    assert!(early.next().contains("\x0135=A\x01"));
}

/// Returns limits with two free failed logons; the third makes the next logon wait.
fn strict() -> EngineSettings {
    EngineSettings {
        failed_logons_max: 2,
        failed_logon_delay_max: Duration::from_millis(300),
        ..EngineSettings::default()
    }
}

fn with_password(from: &str, client: &str, password: &str, address: SocketAddr) -> Socket {
    let mut socket = Socket::connect_from(from, address);
    let rest = format!("98=0\x01108=30\x01141=Y\x01554={password}\x01");
    let logon = socket.frame(client, "A", 1, &rest);
    socket.write(&logon);
    socket
}

/// Returns the log lines since the last call about logons that had to wait, sorted by name.
fn held() -> Vec<String> {
    let lines = events::take();
    lines
        .into_iter()
        .filter(|line| line.contains("a Logon(A) is delayed, because many logons have failed"))
        .collect()
}

#[test]
fn where_many_logons_have_failed_the_next_one_waits() {
    let _alone = alone();
    let sessions = ["CLIENT", "OTHER"].map(|client| {
        let mut session = venue(client);
        session.address = "127.0.0.1:0".to_owned();
        session.logon.expected_password = Some(Secret::new("sesame".to_owned()));
        session
    });
    let settings =
        Settings { engine: strict(), sessions: sessions.to_vec(), ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    let fails = |from: &str, client: &str| {
        let mut socket = with_password(from, client, "guess", address);
        assert!(socket.next().contains("Username(553) or Password(554) is wrong"));
        assert_eq!(socket.next(), "");
    };
    let comes_in = |from: &str, client: &str| {
        let mut socket = with_password(from, client, "sesame", address);
        // A message that arrives while the logon waits is not lost.
        let question = socket.frame(client, "1", 2, "112=are you there\x01");
        socket.write(&question);
        assert!(socket.next().contains("\x0135=A\x01"), "{client} from {from}");
        assert!(socket.next().contains("\x01112=are you there\x01"), "{client} from {from}");
        socket.log_out_at(client, 3);
    };
    events::take();
    comes_in("127.0.0.9", "CLIENT");
    (0..2).for_each(|_| fails("127.0.0.2", "CLIENT"));
    assert_eq!(held(), [""; 0], "two are free");
    fails("127.0.0.2", "CLIENT");
    fails("127.0.0.2", "CLIENT");
    let lines = held();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for line in &lines {
        assert!(line.contains("peer=127.0.0.2 ") && line.contains("CLIENT->VENUE"), "{line}");
        assert!(line.contains(" wait_ms=") && !line.contains("guess"), "{line}");
    }
    comes_in("127.0.0.9", "CLIENT");
    comes_in("127.0.0.2", "OTHER");
    assert_eq!(held(), [""; 0], "nobody waits for the failures of others");
    comes_in("127.0.0.3", "CLIENT");
    assert_eq!(held().len(), 1, "from there it has never logged on");
    comes_in("127.0.0.2", "CLIENT");
    assert_eq!(held().len(), 1);
    comes_in("127.0.0.2", "CLIENT");
    assert_eq!(held(), [""; 0], "it has logged on from there");
}

#[test]
fn a_wait_of_ours_is_not_the_counterpartys_lateness() {
    let _alone = alone();
    let mut session = venue("CLIENT");
    session.logon.expected_password = Some(Secret::new("sesame".to_owned()));
    session.protocol.logon_timeout = Duration::from_secs(1);
    let engine = EngineSettings {
        failed_logons_max: 1,
        failed_logon_delay_max: Duration::from_secs(2),
        ..EngineSettings::default()
    };
    let settings = Settings { engine, sessions: vec![session], ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    // After the last failed logon, the next one must wait two seconds.
    for _ in 0..4 {
        assert_ne!(with_password("127.0.0.2", "CLIENT", "guess", address).next(), "");
    }
    let mut honest = with_password("127.0.0.3", "CLIENT", "sesame", address);
    assert!(honest.next().contains("\x0135=A\x01"), "{:#?}", events::take());
}

#[test]
fn a_password_is_checked_by_its_hash() {
    let _alone = alone();
    let hash = transfix::hash_password("sesame").unwrap();
    let sessions = ["CLIENT", "OTHER", "*"].map(|client| {
        let mut session = venue(client);
        session.logon.expected_password_hash = Some(hash.clone());
        session
    });
    // A logon that waits because of earlier failures then also waits for its password check.
    let limits = EngineSettings { failed_logon_delay_max: Duration::from_millis(20), ..strict() };
    let settings = Settings { engine: limits, sessions: sessions.to_vec(), ..Settings::default() };
    let builder = Engine::builder(&settings).admit(|_| Some(Box::new(App::silent())));
    let engine = builder.start(|_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    events::take();
    let wrong = "Username(553) or Password(554) is wrong";
    for client in ["CLIENT", "NEW"] {
        for password in ["guess", "", hash.reveal()] {
            let mut socket = with_password("127.0.0.2", client, password, address);
            assert!(socket.next().contains(wrong), "{client} {password}");
            assert_eq!(socket.next(), "", "{client} {password}");
        }
        let mut without = Socket::connect(address);
        without.log_on(client);
        assert!(without.next().contains(wrong), "{client}");
    }
    // Several logons from one address at the same time are checked one after the other, and none is
    // lost. A connection that disconnects before its turn is skipped.
    let gone = with_password("127.0.0.2", "CLIENT", "guess", address);
    let all = ["CLIENT", "OTHER", "NEW", "NEWER"];
    let mut sockets = all.map(|client| with_password("127.0.0.2", client, "sesame", address));
    drop(gone);
    for (client, socket) in all.iter().zip(&mut sockets) {
        assert!(socket.next().contains("\x0135=A\x01"), "{client}: {:#?}", events::take());
    }
    let lines = events::take();
    let told = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(!told("sesame") && !told("guess") && !told("argon2"), "{lines:#?}");
}

/// Returns the memory of this process in KiB.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn many_passwords_take_the_memory_of_one_check() {
    let _alone = alone();
    let hash = transfix::hash_password("sesame").unwrap();
    let session = |n: usize| {
        let mut session = venue(&format!("C{n}"));
        session.logon.expected_password_hash = Some(hash.clone());
        // The logons wait as long as needed, because their password checks run one after the other.
        session.protocol.logon_timeout = Duration::from_secs(300);
        session
    };
    let sessions = (0..60).map(session).collect();
    let settings = Settings { sessions, ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    let all = |password: &str, mark: &str| {
        let come =
            |n: usize| with_password(&format!("127.0.2.{n}"), &format!("C{n}"), password, address);
        let mut sockets: Vec<_> = (1..60).map(come).collect();
        for socket in &mut sockets {
            let answer = socket.next();
            assert!(answer.contains(mark), "{answer}");
        }
    };
    let before_kib = memory_kib();
    all("guess", "Username(553) or Password(554) is wrong");
    all("sesame", "\x0135=A\x01");
    let grown_kib = memory_kib().saturating_sub(before_kib);
    assert!(grown_kib < 40 << 10, "{grown_kib} KiB for checks of 19 MiB, one after the other");
}

#[test]
fn a_reset_gives_back_the_memory_of_what_was_sent() {
    const TEXT_BYTES: usize = 500_000;
    let _alone = alone();
    let (_engine, address) = start(EngineSettings::default());
    let before_kib = memory_kib();
    let text = "x".repeat(TEXT_BYTES);
    let mut socket = logs_on(address, "CLIENT");
    for seq in 2..82 {
        let request = socket.frame("CLIENT", "1", seq, &format!("112={text}\x01"));
        socket.write(&request);
        assert!(socket.next().len() > TEXT_BYTES);
    }
    let kept_kib = memory_kib() - before_kib;
    assert!(kept_kib > 38 << 10, "{kept_kib} KiB: a store in memory keeps what it sent");
    socket.log_out_at("CLIENT", 82);
    // This logon resets the numbers, which frees the stored messages.
    let _socket = logs_on(address, "CLIENT");
    // Tolerates old memory for a while, because a helper thread may still use it.
    let kept_kib = || memory_kib().saturating_sub(before_kib);
    let mut looks = 0;
    while kept_kib() >= 8 << 10 {
        looks += 1;
        assert!(looks < 100_000, "{} KiB are kept of what nobody can ask for", kept_kib());
        std::thread::yield_now();
    }
}

#[test]
fn a_reset_tells_which_stored_messages_are_not_sent() {
    let _alone = alone();
    let mut settings = venue("CLIENT");
    settings.queue.offline = Offline::Store;
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(App::silent())).unwrap();
    let (address, handle) = (engine.listening()[0], engine.sessions().next().unwrap());
    let send = |count: u64| {
        for _ in 0..count {
            let stored = SendOptions { stored: true, ..SendOptions::default() };
            let sent = handle.send_with(stored, "B", |news| _ = news.str(tag::TEXT, "x"));
            assert!(sent.is_ok(), "{sent:?}");
        }
    };
    let mut socket = logs_on(address, "CLIENT");
    for (sent, stored, told) in [(0, 3, "first=2 last=4"), (2, 1, "first=4 last=4"), (1, 0, "")] {
        // Messages sent during a logon are not reported.
        send(sent);
        (0..sent).for_each(|_| assert!(socket.next().contains("\x0135=B\x01")));
        drop(socket);
        while handle.is_logged_on() {
            std::thread::yield_now();
        }
        send(stored);
        events::take();
        socket = logs_on(address, "CLIENT");
        let lines = events::take();
        let gone: Vec<_> = lines.iter().filter(|line| line.contains("stored without")).collect();
        assert_eq!(gone.len(), usize::from(stored > 0), "{lines:#?}");
        assert!(gone.iter().all(|line| line.contains(told)), "{gone:#?}");
    }
}

#[test]
fn a_logon_that_is_judged_takes_no_place_of_a_session() {
    let _alone = alone();
    let (blocked, waits) = channel::<()>();
    let waits = Arc::new(Mutex::new(waits));
    let engine = EngineSettings { created_sessions_max: 1, ..EngineSettings::default() };
    let settings = Settings { engine, sessions: vec![venue("*")], ..Settings::default() };
    let builder = Engine::builder(&settings).admit(move |id| {
        if &*id.target_comp_id != "FAST" {
            // Waits until the test ends the wait.
            let _ = waits.lock().unwrap().recv();
        }
        Some(Box::new(App::silent()))
    });
    let engine = builder.start(|_| unreachable!("there is only a template")).unwrap();
    let address = engine.listening()[0];
    let mut slow = Socket::connect(address);
    slow.log_on("SLOW");
    let fast = logs_on(address, "FAST");
    blocked.send(()).unwrap();
    assert_eq!(slow.next(), "", "there is one place");
    fast.log_out("FAST");
    let found: Vec<_> = engine.sessions().map(|s| s.id().target_comp_id.to_string()).collect();
    assert_eq!(found, ["FAST"]);
}

#[test]
fn unknown_names_from_an_address_hold_up_no_session_behind_it() {
    let _alone = alone();
    let clients = ["DESK1", "DESK2", "DESK3", "DESK4", "DESK5", "DESK6"];
    let sessions = clients.map(|client| (client, ""));
    let all: Vec<_> = sessions.into_iter().chain([("*", "127.0.0.7")]).collect();
    let (_engine, address) = start_for(&all, strict());
    let comes_in = |from: &str, client: &str| {
        let mut socket = Socket::connect_from(from, address);
        socket.log_on(client);
        assert!(socket.next().contains("\x0135=A\x01"), "{client} from {from}");
        socket.log_out(client);
    };
    let asks_for = |from: &str, venue: &str| {
        let mut socket = Socket::connect_from(from, address);
        let logon = String::from_utf8(socket.logon("NOBODY")).unwrap().replace("VENUE", venue);
        socket.write(logon.as_bytes());
        assert_eq!(socket.next(), "");
    };
    events::take();
    for from in ["127.0.0.2", "127.0.0.7"] {
        // Fails often enough to reach the longest wait.
        (0..10).for_each(|name| asks_for(from, &format!("MENU{name}")));
        clients.iter().for_each(|client| comes_in(from, client));
        assert_eq!(held(), [""; 0], "none of these has logged on from {from} before");
    }
    comes_in("127.0.0.7", "NEW");
    assert_eq!(held().len(), 1, "who gets a session from a template waits, and gets it");
    comes_in("127.0.0.7", "NEW");
    assert_eq!(held(), [""; 0], "it has a session now");
}

#[test]
fn one_unknown_name_again_and_again_is_one_failure() {
    let _alone = alone();
    let (_engine, address) = start_for(&[("*", "127.0.0.7")], strict());
    let asks_for = |venue: &str| {
        let mut socket = Socket::connect_from("127.0.0.7", address);
        let logon = String::from_utf8(socket.logon("CLIENT")).unwrap().replace("VENUE", venue);
        socket.write(logon.as_bytes());
        assert_eq!(socket.next(), "");
    };
    let comes_in = |client: &str| {
        let mut socket = Socket::connect_from("127.0.0.7", address);
        socket.log_on(client);
        assert!(socket.next().contains("\x0135=A\x01"), "{client}");
        socket.log_out(client);
    };
    events::take();
    (0..10).for_each(|_| asks_for("MENUE"));
    comes_in("NEW");
    assert_eq!(held(), [""; 0]);
    ["MENU2", "MENU3"].into_iter().for_each(asks_for);
    comes_in("NEWER");
    assert_eq!(held().len(), 1);
}

/// Returns an application that refuses a Logon(A) if the Logon(A) demands it.
fn choosy() -> App {
    App::new(|_, _| Ok(())).judge_logon(|logon, _| match logon.raw(tag::TEXT) {
        Some(b"refuse") => Err(LogonRefusal::new("as you wish")),
        Some(_) => panic!("a bug of the application"),
        None => Ok(()),
    })
}

#[test]
fn every_refused_logon_is_counted() {
    let _alone = alone();
    let mut session = venue("CLIENT");
    session.allow_from = vec!["127.0.0.1".to_owned()];
    session.address =
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    session.logon.expected_password_hash = Some(transfix::hash_password("sesame").unwrap());
    // The address of the other session is allowed at the acceptor too, so that the connection gets
    // as far as the Logon(A).
    let mut other = venue("OTHER");
    other.address.clone_from(&session.address);
    let settings = Settings { sessions: vec![session, other], ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(choosy())).unwrap();
    let address = engine.listening()[0];
    let handle = engine.sessions().find(|one| &*one.id().target_comp_id == "CLIENT").unwrap();
    let right = "98=0\x01108=30\x01554=sesame\x01";
    let comes = |from: &str, seq: u64, rest: &str| {
        let mut socket = Socket::connect_from(from, address);
        let logon = socket.frame("CLIENT", "A", seq, rest);
        socket.write(&logon);
        socket
    };
    let mut first = comes("127.0.0.1", 1, right);
    assert!(first.next().contains("\x0135=A\x01"));
    first.log_out("CLIENT");
    let cases = [
        ("a wrong password", "127.0.0.1", 3, "98=0\x01108=30\x01554=guess\x01".to_owned()),
        ("another address", "127.0.0.2", 3, right.to_owned()),
        ("the application", "127.0.0.1", 3, format!("{right}58=refuse\x01")),
        ("an application that panics", "127.0.0.1", 3, format!("{right}58=panic\x01")),
        ("a number that is too low", "127.0.0.1", 1, right.to_owned()),
        ("no HeartBtInt(108)", "127.0.0.1", 3, "98=0\x01554=sesame\x01".to_owned()),
        ("encryption", "127.0.0.1", 3, right.replace("98=0", "98=2")),
    ];
    for (n, (what, from, seq, rest)) in cases.iter().enumerate() {
        let mut socket = comes(from, *seq, rest);
        while !socket.next().is_empty() {}
        let counted = || handle.status().counters.logons_refused;
        // The connection ends before the refusal is counted.
        let until_ns = transfix::clock::monotonic_ns() + 20_000_000_000;
        while counted() < n as u64 + 1 && transfix::clock::monotonic_ns() < until_ns {
            std::thread::yield_now();
        }
        assert_eq!(counted(), n as u64 + 1, "{what}: {:#?}", events::take());
    }
    assert_eq!(handle.status().counters.logons, 1);
}

/// Panics at a Logon(A) with a password.
fn fragile() -> App {
    App::new(|_, _| Ok(())).judge_logon(|logon, _| {
        assert!(logon.raw(tag::PASSWORD).is_none(), "a bug of the application");
        Ok(())
    })
}

#[test]
fn a_judgement_that_panics_does_not_cost_the_session() {
    let _alone = alone();
    let settings = Settings::of(venue("CLIENT"));
    let engine = Engine::start(&settings, |_| Box::new(fragile())).unwrap();
    let address = engine.listening()[0];
    for _ in 0..3 {
        let mut wild = Socket::connect(address);
        let logon = wild.frame("CLIENT", "A", 1, "98=0\x01108=30\x01554=x\x01141=Y\x01");
        wild.write(&logon);
        assert!(wild.next().contains("\x0158=not available\x01"));
        assert_eq!(wild.next(), "");
        logs_on(address, "CLIENT").log_out("CLIENT");
    }
}

#[test]
fn honest_logons_come_through_while_silent_connections_are_renewed() {
    let _alone = alone();
    for engine in [
        EngineSettings { pending_connections_max: 40, ..EngineSettings::default() },
        EngineSettings { pending_per_address_max: 40, ..EngineSettings::default() },
    ] {
        let (_engine, address) = start(engine);
        let mut silent: Vec<_> = (0..100).map(|_| Socket::connect(address)).collect();
        let mut half = Socket::connect(address);
        half.write(b"8=FIX.4.4\x019=70\x01");
        for _ in 0..10 {
            silent.extend((0..100).map(|_| Socket::connect(address)));
            logs_on(address, "CLIENT").log_out("CLIENT");
        }
        assert_eq!(silent[0].next(), "", "the oldest has made room");
    }
}

/// Blocks in each message until the test ends the wait.
struct Stuck {
    entered: Sender<()>,
    waits: Receiver<()>,
}

impl Application for Stuck {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        self.entered.send(()).unwrap();
        // Waits until the test ends the wait.
        let _ = self.waits.recv();
        Ok(())
    }
}

#[test]
fn connections_do_not_pile_up_before_a_worker_that_is_busy() {
    let _alone = alone();
    let (entered, is_busy) = channel();
    let (blocked, waits) = channel();
    let settings = Settings::of(venue("CLIENT"));
    let mut stuck = Some(Stuck { entered, waits });
    let engine = Engine::start(&settings, |_| Box::new(stuck.take().unwrap())).unwrap();
    // This order of drops matters if the test fails: `blocked` before the engine, which waits for
    // its worker.
    let blocked = blocked;
    let address = engine.listening()[0];
    let mut first = logs_on(address, "CLIENT");
    let order = first.frame("CLIENT", "B", 2, "148=news\x0133=1\x0158=text\x01");
    first.write(&order);
    is_busy.recv().unwrap();
    let (closed, ends) = channel();
    let second = || {
        let mut second = Socket::connect(address);
        second.log_on("CLIENT");
        let closed = closed.clone();
        std::thread::spawn(move || closed.send(second.next()).unwrap())
    };
    let all: Vec<_> = (0..100).map(|_| second()).collect();
    // A thread ends when its socket has received nothing for a long time. The end of the last
    // thread ends this wait.
    drop(closed);
    for n in 1..100 {
        assert_eq!(ends.recv().as_deref(), Ok(""), "{n}");
    }
    assert!(ends.try_recv().is_err(), "the first of them waits for the worker");
    blocked.send(()).unwrap();
    assert_eq!(ends.recv().as_deref(), Ok(""), "the session is already connected");
    all.into_iter().for_each(|thread| thread.join().unwrap());
    first.end();
    logs_on(address, "CLIENT").log_out("CLIENT");
}

#[test]
fn an_address_has_room_of_its_own() {
    let _alone = alone();
    let engine = EngineSettings {
        pending_per_address_max: 5,
        pending_connections_max: 100,
        ..EngineSettings::default()
    };
    let (_engine, address) = start(engine);
    let mut early = Socket::connect_from("127.0.0.2", address);
    let strangers: Vec<_> = (0..50).map(|_| Socket::connect_from("127.0.0.3", address)).collect();
    logs_on(address, "CLIENT").log_out("CLIENT");
    early.log_on("CLIENT");
    assert!(early.next().contains("\x0135=A\x01"), "nobody of another address has taken its room");
    drop(strangers);
}

#[test]
fn who_has_the_most_connections_makes_room_whatever_they_have_sent() {
    let _alone = alone();
    let engine = EngineSettings {
        pending_connections_max: 20,
        pending_per_address_max: 10,
        ..EngineSettings::default()
    };
    let (_engine, address) = start(engine);
    let stranger = |i: usize| {
        let mut stranger = Socket::connect_from(["127.0.0.2", "127.0.0.3"][i % 2], address);
        stranger.write(b"8");
        stranger
    };
    let mut strangers: Vec<_> = (0..20).map(stranger).collect();
    let mut honest = Socket::connect(address);
    strangers.extend((0..100).map(stranger));
    for early in &mut strangers[..60] {
        assert_eq!(early.next(), "", "it has made room");
    }
    honest.log_on("CLIENT");
    assert!(honest.next().contains("\x0135=A\x01"), "it was in nobody's way");
}

#[test]
fn a_thread_that_panics_goes_on() {
    let _alone = alone();
    let (_engine, address) = start(EngineSettings::default());
    for _ in 0..3 {
        events::panic_in("tfx-accept");
        let mut stranger = Socket::connect(address);
        stranger.write(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(stranger.next(), "");
        logs_on(address, "CLIENT").log_out("CLIENT");
    }
    assert!(events::take().iter().any(|line| line.contains("a thread of the engine panicked")));
}

#[test]
fn or_ends_the_process_if_the_settings_say_so() {
    if std::env::var_os("TRANSFIX_TEST_DIES").is_none() {
        let _alone = alone();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "or_ends_the_process_if_the_settings_say_so"]);
        let ended = child.env("TRANSFIX_TEST_DIES", "1").output().unwrap().status;
        let signal = std::os::unix::process::ExitStatusExt::signal(&ended);
        assert_eq!(signal, Some(6), "SIGABRT: {ended}");
        return;
    }
    events::listen();
    let engine = EngineSettings { thread_lost: ThreadLost::Abort, ..EngineSettings::default() };
    let (_engine, address) = start(engine);
    events::panic_in("tfx-accept");
    let mut stranger = Socket::connect(address);
    stranger.write(b"GET / HTTP/1.1\r\n\r\n");
    stranger.next();
}

/// Many stores can be opened although the process has the usual low limit of open files, because
/// the engine raises it.
#[test]
fn many_stores_open_although_the_limit_of_open_files_is_low() {
    const CHILD: &str = "TRANSFIX_TEST_FILES";
    if std::env::var_os(CHILD).is_none() {
        let _alone = alone();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "many_stores_open_although_the_limit_of_open_files_is_low"]);
        let ended = child.env(CHILD, "1").output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
        return;
    }
    let limit = Rlimit { current: Some(80), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let dir = TempDir::new();
    let session = |i| {
        let mut settings = venue(&format!("C{i}"));
        settings.store.durability = Durability::Process;
        settings.store.store_dir = dir.path().to_owned();
        settings
    };
    let sessions = (0..60).map(session).collect();
    let settings = Settings { sessions, ..Settings::default() };
    let engine = Engine::start(&settings, |_| Box::new(App::silent())).unwrap();
    let address = engine.listening()[0];
    let all: Vec<_> = (0..60).map(|i| logs_on(address, &format!("C{i}"))).collect();
    drop(all);
}

type Flood = fn(SocketAddr);

/// Actions that a counterparty could repeat to fill the log.
const FLOODS: &[(&str, Flood)] = &[
    ("bytes that are no message", |address| {
        let mut socket = logs_on(address, "CLIENT");
        socket.write(&b"8=FIX".repeat(100_000));
        socket.end();
    }),
    ("wrong checksums", |address| {
        let mut socket = logs_on(address, "CLIENT");
        let mut frame = socket.frame("CLIENT", "0", 2, "");
        let at = frame.len() - 2;
        frame[at] = if frame[at] == b'0' { b'1' } else { b'0' };
        socket.write(&frame.repeat(3_000));
        socket.end();
    }),
    ("a message longer than any may be", |address| {
        let mut socket = logs_on(address, "CLIENT");
        let long = format!("58={}\x01", "8=FIX.4.4\x019=".repeat(180_000));
        let frame = socket.frame("CLIENT", "B", 2, &long);
        socket.write(&frame);
        socket.end();
    }),
    ("a CompID of 15 KB", |address| {
        for _ in 0..100 {
            let mut socket = Socket::connect(address);
            socket.log_on(&"\n\x1b".repeat(7_500));
            assert_eq!(socket.next(), "");
        }
    }),
    ("a first message that is none", |address| {
        for _ in 0..300 {
            let mut socket = Socket::connect(address);
            socket.write(b"GET / HTTP/1.1\r\n\r\n");
            assert_eq!(socket.next(), "");
        }
    }),
    ("a wrong Logon(A)", |address| {
        for _ in 0..300 {
            let mut socket = Socket::connect(address);
            let frame = socket.frame("CLIENT", "A", 1, "98=0\x01108=-1\x01");
            socket.write(&frame);
            socket.end();
        }
    }),
    ("a second connection", |address| {
        let first = logs_on(address, "CLIENT");
        for _ in 0..300 {
            let mut socket = Socket::connect(address);
            socket.log_on("CLIENT");
            socket.end();
        }
        first.log_out("CLIENT");
    }),
    ("a session that comes and goes", |address| {
        for _ in 0..300 {
            logs_on(address, "CLIENT").log_out("CLIENT");
        }
    }),
    ("resets while logged on", |address| {
        let mut socket = logs_on(address, "CLIENT");
        for _ in 0..300 {
            socket.log_on("CLIENT");
            socket.skim();
        }
        socket.end();
    }),
    ("the same ResendRequest(2), and Reject(3)s", |address| {
        let mut socket = logs_on(address, "CLIENT");
        for seq in (2..2_000).step_by(2) {
            let frame = socket.frame("CLIENT", "2", seq, "7=1\x0116=0\x01");
            socket.write(&frame);
            let frame = socket.frame("CLIENT", "3", seq + 1, "45=1\x0158=no\nno\x01");
            socket.write(&frame);
            socket.skim();
        }
        socket.end();
    }),
];

/// Actions that an unknown counterparty could repeat to fill the log.
const UNKNOWN: &[(&str, Flood)] = &[
    ("judging panics", |address| {
        for n in 0..300 {
            let mut socket = Socket::connect(address);
            socket.log_on(&format!("WILD{n}"));
            assert_eq!(socket.next(), "");
        }
    }),
    ("no store can be made", |address| {
        for n in 0..300 {
            let mut socket = Socket::connect(address);
            socket.log_on(&format!("C{n}"));
            assert_eq!(socket.next(), "");
        }
    }),
    ("names that do not go into a line", |address| {
        for n in 0..300 {
            let mut socket = Socket::connect(address);
            socket.log_on(&format!("\u{202e}{n}"));
            assert_eq!(socket.next(), "");
            let mut socket = Socket::connect(address);
            socket.log_on(&n.to_string().repeat(256));
            assert_eq!(socket.next(), "");
        }
    }),
];

#[test]
fn lines_about_those_from_templates_are_bounded() {
    let _alone = alone();
    for (name, flood) in UNKNOWN {
        let mut settings = Settings::of(venue("*"));
        // Turns off the limit on failed logons, so that the attempts are not slowed down.
        settings.engine.failed_logons_max = 0;
        settings.sessions[0].store.durability = Durability::Process;
        // The store cannot be created, because its directory would be below a file.
        settings.sessions[0].store.store_dir = std::env::current_exe().unwrap();
        let builder = Engine::builder(&settings).admit(|id| {
            assert!(!id.target_comp_id.starts_with("WILD"), "a bug of the application");
            Some(Box::new(App::silent()))
        });
        let engine = builder.start(|_| unreachable!("there is only a template")).unwrap();
        events::take();
        flood(engine.listening()[0]);
        engine.stop(Duration::ZERO);
        check_lines(name, &events::take());
    }
}

/// Each cause, repeated many times, produces only a few log lines, all of limited length.
#[test]
fn lines_of_the_log_are_bounded() {
    let _alone = alone();
    for (name, flood) in FLOODS {
        let (engine, address) = start(EngineSettings::default());
        events::take();
        flood(address);
        engine.stop(Duration::ZERO);
        check_lines(name, &events::take());
    }
}

/// Returns the number of lines with this text, plus the number of lines that were omitted.
fn counted(lines: &[String], text: &str) -> usize {
    let left_out = |line: &String| {
        let (_, count) = line.split_once("left_out=")?;
        count.split(' ').next()?.parse::<usize>().ok()
    };
    let of_cause = lines.iter().filter(|line| line.contains(text));
    of_cause
        .map(|line| usize::from(!line.contains("were omitted")) + left_out(line).unwrap_or(0))
        .sum()
}

/// Ten thousand messages that wait for a logon are returned unsent, but the log has only a few
/// lines with their counts.
#[test]
fn lines_about_messages_given_back_are_bounded() {
    let _alone = alone();
    let mut session = venue("CLIENT");
    session.queue.offline = Offline::Queue;
    session.queue.unsent = Unsent::Return;
    session.queue.queued_bytes_max = 10 << 20;
    let (unsent, returned) = channel();
    let engine =
        Engine::start(&Settings::of(session), |_| Box::new(unsent_recorder(unsent.clone())));
    let engine = engine.unwrap();
    let handle = engine.sessions().next().unwrap();
    for _ in 0..10_000 {
        handle.send("B", |news| _ = news.str(tag::TEXT, "x")).unwrap();
    }
    events::take();
    engine.stop(Duration::ZERO);
    assert_eq!(returned.try_iter().count(), 10_000);
    let lines = events::take();
    check_lines("messages given back", &lines);
    assert_eq!(counted(&lines, "a message was not sent, and was returned"), 10_000, "{lines:#?}");
}

/// Each line of the protocol log fails to create a file, because its directory is missing. The
/// number of log lines about these failures is limited.
#[test]
fn lines_about_a_protocol_log_that_fails_are_bounded() {
    let _alone = alone();
    let dir = TempDir::new();
    let log_dir = dir.path().join("log");
    let mut session = venue("CLIENT");
    session.log = Some(LogSettings { roll_bytes: 1_024, ..LogSettings::in_dir(&log_dir) });
    let engine = Engine::start(&Settings::of(session), |_| Box::new(App::silent())).unwrap();
    let mut socket = logs_on(engine.listening()[0], "CLIENT");
    std::fs::remove_dir_all(&log_dir).unwrap();
    events::take();
    for seq in 2..500 {
        let frame = socket.frame("CLIENT", "0", seq, "");
        socket.write(&frame);
    }
    socket.end();
    engine.stop(Duration::ZERO);
    let lines = events::take();
    check_lines("a log that is not rolled", &lines);
    assert!(counted(&lines, "a protocol log cannot be rolled") > 100, "{lines:#?}");
}

fn check_lines(name: &str, lines: &[String]) {
    assert!(!lines.is_empty(), "{name}: nobody hears of it");
    assert!(lines.len() <= 60, "{name}: {} lines, such as {:#?}", lines.len(), &lines[..9]);
    for line in lines {
        assert!(line.len() < 1_000, "{name}: {} bytes in a line", line.len());
        assert!(!line.contains(is_hidden), "{name}: {line:?}");
    }
}

/// Returns an application that blocks in each message until the gate's sender sends.
fn gated(gate: Arc<Mutex<Receiver<()>>>) -> App {
    App::new(move |_, _| {
        gate.lock().unwrap().recv().unwrap();
        Ok(())
    })
}

/// Waits until an event with this text is logged, and returns it.
fn wait_for_event(text: &str) -> String {
    loop {
        let found = events::take().into_iter().find(|line| line.contains(text));
        match found {
            Some(line) => return line,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn an_application_that_has_as_much_before_it_as_may_be_is_told_of() {
    let _alone = alone();
    let (go, may_go) = channel();
    let may_go = Arc::new(Mutex::new(may_go));
    let mut session = venue("CLIENT");
    session.application.messages_max = 2;
    let mut settings = Settings::of(session);
    settings.engine.application_threads = 1;
    let engine = Engine::start(&settings, |_| Box::new(gated(Arc::clone(&may_go)))).unwrap();
    let go = go;
    let mut socket = logs_on(engine.listening()[0], "CLIENT");
    let frames =
        (2..9).map(|seq| socket.frame("CLIENT", "B", seq, "148=news\x0133=1\x0158=text\x01"));
    let news = frames.collect::<Vec<_>>().concat();
    socket.write(&news);
    let line = wait_for_event("the application's queue is full");
    assert!(line.contains("session=FIX.4.4:VENUE->CLIENT messages="), "{line}");
    (2..9).for_each(|_| go.send(()).unwrap());
    let line = wait_for_event("the application's queue has room again");
    assert!(line.contains("session=FIX.4.4:VENUE->CLIENT messages="), "{line}");
    socket.log_out_at("CLIENT", 9);
}

#[test]
fn a_callback_that_does_not_return_is_named() {
    let _alone = alone();
    for application_threads in [0, 1] {
        let (go, may_go) = channel();
        let may_go = Arc::new(Mutex::new(may_go));
        let mut settings = Settings::of(venue("CLIENT"));
        settings.engine.application_threads = application_threads;
        settings.engine.slow_callback = Duration::from_millis(20);
        let engine = Engine::start(&settings, |_| Box::new(gated(Arc::clone(&may_go)))).unwrap();
        // If the test fails, `go` must be dropped before the engine, so that the application no
        // longer blocks.
        let go = go;
        let mut socket = logs_on(engine.listening()[0], "CLIENT");
        let mut news = |seq| {
            let rest = "148=news\x0133=1\x0158=text\x01";
            let news = socket.frame("CLIENT", "B", seq, rest);
            socket.write(&news);
        };
        news(2);
        let line = wait_for_event("a callback has not returned");
        let who = "session=FIX.4.4:VENUE->CLIENT callback=\"on_message\" ms=";
        assert!(line.contains(who), "{line}");
        let session = engine.sessions().next().unwrap();
        while session.status().held_up_by != Some("on_message") {
            std::thread::yield_now();
        }
        let (_keep, nothing) = channel::<()>();
        assert!(nothing.recv_timeout(Duration::from_millis(60)).is_err());
        let again = events::take().into_iter().any(|line| line.contains("has not returned"));
        assert!(!again, "told once");
        go.send(()).unwrap();
        assert!(wait_for_event("a slow callback has returned").contains(who));
        while session.status().held_up_by.is_some() {
            std::thread::yield_now();
        }
        // A slow callback is not reported if it returns within the limit.
        go.send(()).unwrap();
        news(3);
        socket.log_out_at("CLIENT", 4);
        drop(engine);
        let told = events::take();
        assert!(!told.iter().any(|line| line.contains("a callback")), "{told:?}");
    }
}
