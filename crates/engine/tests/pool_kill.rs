//! Kills a real process while messages wait for its application, which runs in its own thread. Each
//! message is still answered once.
//!
//! `TRANSFIX_KILLS=n` sets the number of kills per durability.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{env, io, process, thread};

use transfix::{
    BeginString, Durability, Engine, Offline, Role, SendError, Sent, SessionHandle, SessionId,
    SessionSettings, Settings, clock, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

const CHILD: &str = "TRANSFIX_KILLED_POOL";
const KILLS: usize = 15;
/// The maximum number of orders that are not answered yet.
const OPEN_MAX: usize = 150;
const LONG: Duration = Duration::from_secs(20);
/// The maximum time that the application spends on a message.
const WORK_NS: usize = 60_000;

fn settings(role: Role, address: &str) -> SessionSettings {
    let (us, them) = match role {
        Role::Initiator => ("CLIENT", "VENUE"),
        Role::Acceptor => ("VENUE", "CLIENT"),
    };
    let id = SessionId::new(BeginString::Fix44, us, them);
    let mut settings = SessionSettings::new(role, &id, address);
    settings.validation.validate = false;
    settings.socket.reconnect_interval = Duration::from_millis(5);
    settings
}

fn send(session: &SessionHandle, msg_type: &str, id: &str) -> Result<Sent, SendError> {
    session.send(msg_type, |body| _ = body.str(tag::CL_ORD_ID, id))
}

/// Returns an application that answers each order after a delay.
fn slow(mut random: Random) -> App {
    App::new(move |message, session| {
        let id = message.text(tag::CL_ORD_ID)?;
        let until_ns = clock::monotonic_ns() + random.below(WORK_NS) as u64;
        while clock::monotonic_ns() < until_ns {}
        session.send("8", |report| _ = report.str(tag::CL_ORD_ID, id))?;
        Ok(())
    })
}

/// The child process. Does nothing if the test program was started normally.
#[test]
fn child() {
    let Some(arguments) = env::var(CHILD).ok() else { return };
    let [dir, address, durability] = arguments.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let mut session = settings(Role::Initiator, address);
    session.store.store_dir = Path::new(dir).to_path_buf();
    session.store.segment_bytes = 64 << 10;
    session.store.durability =
        if durability == "power" { Durability::Power } else { Durability::Process };
    let mut settings = Settings::of(session);
    settings.engine.application_threads = 2;
    let engine = Engine::start(&settings, |_| Box::new(slow(Random::new(7)))).unwrap();
    let session = engine.sessions().next().unwrap();
    let (over, is_over) = channel::<()>();
    thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        drop(over);
    });
    // This thread sends messages while the application also sends its answers.
    while is_over.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
        let _ = send(&session, "B", "news");
    }
    process::exit(0);
}

fn start(dir: &Path, address: &str, durability: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "child"])
        .env(CHILD, format!("{}|{address}|{durability}", dir.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns an application that forwards the ClOrdID(11) of each report.
fn reporter(sender: Sender<String>) -> App {
    App::new(move |message, _| {
        if message.msg_type() == b"8" {
            let _ = sender.send(message.text(tag::CL_ORD_ID)?.to_owned());
        }
        Ok(())
    })
}

/// The orders, and the number of answers to each.
struct Books {
    session: SessionHandle,
    reports: Receiver<String>,
    sent: usize,
    answered: BTreeMap<String, usize>,
}

impl Books {
    fn answer(&mut self) {
        let id = self.reports.recv_timeout(LONG).unwrap_or_else(|_| {
            let lost = (0..self.sent).map(|n| n.to_string());
            let lost: Vec<_> = lost.filter(|id| !self.answered.contains_key(id)).collect();
            panic!("not answered: {lost:?}");
        });
        *self.answered.entry(id).or_default() += 1;
    }

    /// Sends orders until `answers` more answers have arrived.
    fn trade(&mut self, answers: usize) {
        for _ in 0..answers {
            while self.sent - self.answered.len() < OPEN_MAX {
                send(&self.session, "D", &self.sent.to_string()).unwrap();
                self.sent += 1;
            }
            self.answer();
        }
    }
}

#[test]
fn each_message_is_answered_once_however_often_the_process_is_killed() {
    let kills = env::var("TRANSFIX_KILLS").ok().and_then(|kills| kills.parse().ok());
    for durability in ["process", "power"] {
        trade_and_kill(durability, kills.unwrap_or(KILLS));
    }
}

fn trade_and_kill(durability: &str, kills: usize) {
    let dir = TempDir::new();
    let (sender, reports) = channel();
    let mut venue = settings(Role::Acceptor, "127.0.0.1:0");
    venue.store.durability = Durability::Memory;
    venue.queue.offline = Offline::Queue;
    let venue =
        Engine::start(&Settings::of(venue), |_| Box::new(reporter(sender.clone()))).unwrap();
    let address = venue.listening()[0].to_string();
    let session = venue.sessions().next().unwrap();
    let mut books = Books { session, reports, sent: 0, answered: BTreeMap::new() };
    let mut random = Random::new(1);
    for _ in 0..kills {
        let mut side = start(dir.path(), &address, durability);
        books.trade(1 + random.below(300));
        side.kill().unwrap();
        side.wait().unwrap();
    }
    let mut side = start(dir.path(), &address, durability);
    while books.answered.len() < books.sent {
        books.answer();
    }
    let again: Vec<_> = books.answered.iter().filter(|(_, times)| **times > 1).collect();
    assert!(again.is_empty(), "{durability}: answered twice, of {}: {again:?}", books.sent);
    drop(side.stdin.take());
    side.wait().unwrap();
}
