//! An engine that starts and stops a thousand times leaks no memory, thread or descriptor. The test
//! runs in its own process, because it counts all of the process's resources.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![cfg(target_os = "linux")]

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use transfix::{
    BeginString, Disconnect, Engine, Outcome, Role, SessionEvent, SessionId, SessionSettings,
    Settings, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

const RESTARTS: usize = 1_000;
/// The number of starts before the first count, which fill the buffers of the allocator, the
/// threads and the system.
const FIRST: usize = 100;
/// The number of starts that fail, because the address is in use.
const STARTS_IN_VAIN: usize = 10;
const LONG: Duration = Duration::from_secs(300);
/// The limit of the growth of memory, in KiB, over all counted starts. This is less than 2,000
/// bytes per start, by which the allocator varies anyway.
const KIB_MAX: usize = 1_700;

/// Returns an application that answers orders, and reports logons and messages to the test.
fn echo(sender: Sender<String>) -> App {
    let sender_on_message = sender.clone();
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID)?.to_owned();
        if message.msg_type() == b"D" {
            session.send("8", |report| _ = report.str(tag::CL_ORD_ID, &id))?;
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

fn start(
    role: Role,
    [us, them]: [&str; 2],
    address: &str,
    dir: &Path,
) -> (Engine, Receiver<String>) {
    let (sender, seen) = channel();
    // Uses the smallest dictionary, because each start reads the dictionary.
    let id = SessionId::new(BeginString::Fix40, us, them);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.validation.validate = false;
    settings.store.store_dir = dir.to_owned();
    settings.socket.reconnect_interval = Duration::from_millis(1);
    let engine = Engine::start(&Settings::of(settings), |_| Box::new(echo(sender.clone())));
    (engine.unwrap(), seen)
}

/// Starts both sides, logs on, trades once, and stops in order.
fn live(dir: &Path) {
    let (venue, _seen) = start(Role::Acceptor, ["VENUE", "CLIENT"], "127.0.0.1:0", dir);
    let address = venue.listening()[0].to_string();
    let (client, seen) = start(Role::Initiator, ["CLIENT", "VENUE"], &address, dir);
    assert_eq!(seen.recv_timeout(LONG).unwrap(), "logon");
    let handle = client.sessions().next().unwrap();
    handle.send("D", |order| _ = order.str(tag::CL_ORD_ID, "a")).unwrap();
    assert_eq!(seen.recv_timeout(LONG).unwrap(), "a");
    let outcomes = client.stop(Duration::from_secs(20));
    assert_eq!(outcomes[0].outcome, Outcome::Ended(Disconnect::LoggedOut));
    venue.stop(Duration::from_secs(20));
}

/// Tries to start an engine at an address that is in use.
fn start_in_vain(dir: &Path) {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let id = SessionId::new(BeginString::Fix40, "VENUE", "CLIENT");
    let mut settings = SessionSettings::new(Role::Acceptor, &id, &address);
    settings.store.store_dir = dir.to_owned();
    let mut settings = Settings::of(settings);
    settings.engine.application_threads = 2;
    assert!(Engine::start(&settings, |_| Box::new(echo(channel().0))).is_err());
}

/// Returns the memory in KiB, the threads and the descriptors of this process.
fn held() -> [usize; 3] {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    [of("VmRSS:"), of("Threads:"), fs::read_dir("/proc/self/fd").unwrap().count()]
}

#[test]
fn a_thousand_restarts_leave_nothing_behind() {
    let dir = TempDir::new();
    (0..FIRST).for_each(|_| live(dir.path()));
    let [memory, threads, files] = held();
    (FIRST..RESTARTS).for_each(|_| live(dir.path()));
    (0..STARTS_IN_VAIN).for_each(|_| start_in_vain(dir.path()));
    let [memory_now, threads_now, files_now] = held();
    // A thread of an earlier start may still have been ending when the first count was taken.
    let (left, before) = ((threads_now, files_now), (threads, files));
    assert!(threads_now <= threads && files_now <= files, "{left:?}, {before:?} before");
    assert!(memory_now < memory + KIB_MAX, "{memory} KiB have become {memory_now}");
}
