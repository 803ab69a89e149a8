//! What somebody who can reach the port may cost: nothing but its own connection, and few lines.
//!
//! One test at a time: they read the events of the whole process.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod events;
mod socket;

use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{
    Application, BeginString, BusinessReject, Durability, Engine, EngineSettings, LogonRefusal,
    Message, Role, SessionId, SessionRef, SessionSettings, Settings, ThreadLost, tag,
};

use socket::Socket;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    events::listen();
    alone
}

struct Deaf;

impl Application for Deaf {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }
}

fn venue(client: &str) -> SessionSettings {
    let id = SessionId::new(BeginString::Fix44, "VENUE", client);
    let mut settings = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
    settings.durability = Durability::Memory;
    settings
}

fn start(engine: EngineSettings) -> (Engine, SocketAddr) {
    let settings = Settings { engine, sessions: vec![venue("CLIENT")] };
    let engine = Engine::start(&settings, |_| Box::new(Deaf)).unwrap();
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
            // Until the test ends it.
            "SLOW" => _ = waits.lock().unwrap().recv(),
            _ => {}
        }
        Some(Box::new(Deaf))
    });
    let engine = builder.start(|_| unreachable!("there is only a template")).unwrap();
    let address = engine.listening()[0];
    let mut slow = Socket::connect(address);
    slow.log_on("SLOW");
    for round in 0..5 {
        let mut wild = Socket::connect(address);
        wild.log_on("WILD");
        assert_eq!(wild.next(), "", "round {round}");
        logs_on(address, &format!("C{round}"));
    }
    blocked.send(()).unwrap();
    assert!(slow.next().contains("\x0135=A\x01"), "it only had to wait");
    let found: Vec<_> = engine.sessions().map(|s| s.id().target_comp_id.to_string()).collect();
    assert_eq!(found, ["C0", "C1", "C2", "C3", "C4", "SLOW"], "with those from templates");
}

/// Panics at a password that is none.
struct Fragile;

impl Application for Fragile {
    fn on_message(
        &mut self,
        _: &Message<'_>,
        _: &mut SessionRef<'_>,
    ) -> Result<(), BusinessReject> {
        Ok(())
    }

    fn judge_logon(&mut self, logon: &Message<'_>, _: &SessionId) -> Result<(), LogonRefusal> {
        assert!(logon.raw(tag::PASSWORD).is_none(), "a bug of the application");
        Ok(())
    }
}

#[test]
fn a_judgement_that_panics_does_not_cost_the_session() {
    let _alone = alone();
    let settings = Settings::of(venue("CLIENT"));
    let engine = Engine::start(&settings, |_| Box::new(Fragile)).unwrap();
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
    assert!(events::take().iter().any(|line| line.contains("a thread of the engine has panicked")));
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

type Flood = fn(SocketAddr);

/// Whatever somebody can repeat at will.
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

/// Each cause, many times: few lines, and none of them long.
#[test]
fn lines_of_the_log_are_bounded() {
    let _alone = alone();
    for (name, flood) in FLOODS {
        let (engine, address) = start(EngineSettings::default());
        events::take();
        flood(address);
        engine.stop(0);
        let lines = events::take();
        assert!(!lines.is_empty(), "{name}: nobody hears of it");
        assert!(lines.len() <= 60, "{name}: {} lines, such as {:#?}", lines.len(), &lines[..9]);
        for line in lines {
            assert!(line.len() < 1_000, "{name}: {} bytes in a line", line.len());
            assert!(!line.contains(char::is_control), "{name}: {line:?}");
        }
    }
}
