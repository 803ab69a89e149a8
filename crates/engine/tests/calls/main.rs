//! Counts the socket calls of an engine in every mode. Under a kernel-bypass library, the engine
//! must use only plain calls, and few per message.
//!
//! The engine runs in a child process of this test, with the counting library loaded before the
//! system library.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the child says where it listens")]
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod counted;
mod counterparty;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, io, thread};

use transfix::{
    BeginString, Durability, Engine, Mode, Role, SessionId, SessionSettings, Settings, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::temp::TempDir;

use counted::{Calls, Counter};
use counterparty::Counterparty;

const PLAN: &str = "TRANSFIX_COUNTED";
/// The number of counted messages; each is answered before the next is sent.
const MESSAGES: u64 = 500;
const WARM_UP: u64 = 20;
/// Extra calls: calls in progress at the count, timer calls, and the last calls of the thread that
/// accepted the connection.
const SLACK: u64 = 10;
/// The only calls that a message may cause.
const HOT: [&str; 3] = ["recv", "send", "epoll_wait"];

/// The modes, each with its `spin` time.
const MODES: [(&str, Mode, Duration); 5] = [
    ("pool", Mode::Pool, Duration::ZERO),
    ("awake", Mode::Pool, Duration::from_secs(10)),
    ("dedicated", Mode::Dedicated, Duration::ZERO),
    ("spin", Mode::Spin, Duration::ZERO),
    ("polled", Mode::Polled, Duration::ZERO),
];

/// All calls that a process with an engine may make from its start; kernel-bypass libraries support
/// them. The Rust runtime calls `poll` once, for standard input and output.
const PLAIN: &[&str] = &[
    "socket",
    "bind",
    "listen",
    "accept4",
    "connect",
    "shutdown",
    "close",
    "setsockopt",
    "getsockopt",
    "getsockname",
    "getpeername",
    "fcntl",
    "ioctl",
    "poll",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "recv",
    "send",
];

/// Returns an application that answers each message with a message of the same text.
fn echo() -> App {
    App::new(|message, session| {
        let text = message.text(tag::TEXT)?;
        session.send("B", |news| _ = news.str(tag::TEXT, text))?;
        Ok(())
    })
}

/// Runs the engine whose calls are counted. Does nothing if the test program was started normally.
#[test]
fn child() {
    let Ok(plan) = env::var(PLAN) else { return };
    let [role, mode, address] = &plan.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let role = if *role == "acceptor" { Role::Acceptor } else { Role::Initiator };
    let id = SessionId::new(BeginString::Fix44, "ENGINE", "OTHER");
    let mut session = SessionSettings::new(role, &id, address);
    session.store.durability = Durability::Memory;
    session.validation.validate = false;
    let (_, mode, spin) = *MODES.iter().find(|known| known.0 == *mode).unwrap();
    (session.threads.mode, session.threads.spin) = (mode, spin);
    let polled = session.threads.mode == Mode::Polled;
    let mut engine = Engine::start(&Settings::of(session), |_| Box::new(echo())).unwrap();
    if let Some(address) = engine.listening().first() {
        println!("at {address}");
    }
    // Standard input ends with the parent process, which then ends the child.
    let parent = thread::spawn(|| io::stdin().read_line(&mut String::new()).unwrap_or(0));
    while polled && !parent.is_finished() {
        if !engine.poll() {
            thread::yield_now();
        }
    }
    parent.join().unwrap();
}

/// The child process, which ends when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn start(plan: &str, library: &Path, counter: &Counter) -> (Running, BufReader<ChildStdout>) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(PLAN, plan)
        .env("LD_PRELOAD", library)
        .env(counted::CALLS, counter.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    (Running(child), said)
}

/// Returns the engine's calls for the messages, and all calls since its start.
fn count(role: &str, mode: &str, library: &Path, dir: &Path) -> (Calls, Calls) {
    let counter = Counter::in_dir(dir);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let theirs = listener.local_addr().unwrap().to_string();
    let address = if role == "acceptor" { "127.0.0.1:0" } else { &theirs };
    let (running, mut said) = start(&format!("{role}|{mode}|{address}"), library, &counter);
    let mut counterparty = if role == "acceptor" {
        let mut lines = said.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("at ")?.1.to_owned())).unwrap();
        Counterparty::connects(&address)
    } else {
        Counterparty::accepts(&listener)
    };
    for _ in 0..WARM_UP {
        counterparty.ping();
    }
    let before = counter.calls();
    for _ in 0..MESSAGES {
        counterparty.ping();
    }
    let all = counter.calls();
    drop(running);
    // Reads the child's last output first, so that the child cannot block on a write.
    drop(said);
    (all.since(&before), all)
}

#[test]
fn plain_calls_alone_and_few_of_them() {
    let dir = TempDir::new();
    let library = counted::build(dir.path());
    println!("calls for {MESSAGES} messages, each answered by one, and those that found nothing:");
    for role in ["acceptor", "initiator"] {
        for (mode, ..) in MODES {
            let (calls, all) = count(role, mode, &library, dir.path());
            println!("{role:9} {mode:9} {calls}\n{:19} of {all}", "");
            assert!(all.names().all(|name| PLAIN.contains(&name)), "not plain: {all}");
            check(mode, &calls);
        }
    }
}

/// Checks how many calls the engine made per message in this mode.
fn check(mode: &str, calls: &Calls) {
    let [recv, send, epoll] = HOT.map(|name| calls.of(name));
    let mut others = calls.names().filter(|name| !HOT.contains(name));
    assert!(others.all(|name| calls.of(name).calls <= SLACK), "{mode}: {calls}");
    assert_eq!(send.calls, MESSAGES, "{mode}: one send for each answer: {calls}");
    let reads = recv.calls.saturating_sub(recv.empty);
    assert!(reads.abs_diff(MESSAGES) <= SLACK, "{mode}: one read for each message: {calls}");
    if matches!(mode, "pool" | "dedicated" | "awake") {
        // A read that does not fill the buffer is the last one; the engine makes no empty read
        // after it.
        assert!(recv.empty <= SLACK, "{mode}: {calls}");
        let waits = if mode == "awake" { epoll.calls - epoll.empty } else { epoll.calls };
        assert!(waits <= MESSAGES + SLACK, "{mode}: {calls}");
    } else {
        // A spinning engine never waits, so the number of its empty reads is not limited.
        assert!(epoll.calls <= SLACK, "{mode}: {calls}");
    }
}
