//! Idle sessions use no CPU.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use transfix::{
    BeginString, BusinessReject, Durability, Engine, Mode, Role, SessionEvent, SessionId,
    SessionSettings, Settings, clock,
};
use transfix_testkit::app::App;

const LONG: Duration = Duration::from_secs(300);
const WATCHED: Duration = Duration::from_secs(2);
const POOLED: usize = 100;
const DEDICATED: usize = 4;
/// The limit, in milliseconds, of the CPU time that all sessions on both sides use during the
/// measurement.
const CPU_MS_MAX: u64 = 10;

/// Returns an application that reports its logon to the test.
fn idler(sender: Sender<()>) -> App {
    App::new(|_, _| Err(BusinessReject::unsupported())).on_event(move |event, _| {
        if let SessionEvent::LoggedOn = event {
            sender.send(()).unwrap();
        }
    })
}

fn start(role: Role, address: &str, spin: Duration) -> (Engine, Receiver<()>) {
    let session = |n: usize| {
        let (venue, client) = ("VENUE".to_owned(), format!("CLIENT{n}"));
        let (ours, theirs) = if role == Role::Acceptor { (venue, client) } else { (client, venue) };
        let id = SessionId::new(BeginString::Fix44, &ours, &theirs);
        let mut session = SessionSettings::new(role, &id, address);
        session.store.durability = Durability::Memory;
        session.threads.mode = if n < POOLED { Mode::Pool } else { Mode::Dedicated };
        session.threads.spin = spin;
        session.socket.reconnect_interval = Duration::from_millis(10);
        session
    };
    let sessions = (0..POOLED + DEDICATED).map(session).collect();
    let settings = Settings { sessions, ..Settings::default() };
    let (logons, logged_on) = channel();
    let engine = Engine::start(&settings, |_| Box::new(idler(logons.clone())));
    (engine.unwrap(), logged_on)
}

#[test]
fn idle_sessions_use_no_cpu() {
    // A worker that polls for a short time before it sleeps must still sleep.
    for spin in [Duration::ZERO, Duration::from_millis(1)] {
        idle(spin);
    }
}

fn idle(spin: Duration) {
    let (venue, at_venue) = start(Role::Acceptor, "127.0.0.1:0", spin);
    let address = venue.listening()[0].to_string();
    let (client, at_client) = start(Role::Initiator, &address, spin);
    for logged_on in [&at_venue, &at_client] {
        for _ in 0..POOLED + DEDICATED {
            logged_on.recv_timeout(LONG).unwrap();
        }
    }
    let wait = |time| assert_eq!(at_client.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    // Waits until the last turns of the logons are over.
    wait(Duration::from_millis(200));
    let before = clock::process_cpu_ns();
    wait(WATCHED);
    let used_ms = (clock::process_cpu_ns() - before) / 1_000_000;
    assert!(used_ms <= CPU_MS_MAX, "{used_ms} ms of CPU while nothing happens");
    assert!(venue.sessions().chain(client.sessions()).all(|s| s.is_logged_on()));
}
