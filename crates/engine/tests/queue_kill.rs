//! Kills a real process while it queues messages without a logon, or sends them after a logon. Each
//! accepted message arrives once and in order.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "the child says what it has kept")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{env, io, thread};

use transfix::{
    BeginString, Durability, Engine, Offline, Role, SendError, SessionHandle, SessionId,
    SessionSettings, Settings, tag,
};
use transfix_testkit::app::App;
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

const DIR: &str = "TRANSFIX_KILLED_QUEUE";
const ROUNDS: usize = 25;
const THREADS: usize = 2;
const MESSAGES: usize = 150;
const LONG: Duration = Duration::from_secs(20);

/// Returns an application that forwards the ClOrdID(11) of each message.
fn order_recorder(sender: Sender<String>) -> App {
    App::new(move |message, _| {
        let _ = sender.send(message.text(tag::CL_ORD_ID)?.to_owned());
        Ok(())
    })
}

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

/// Sends until `MESSAGES` messages are accepted, and prints the ID of each.
fn send(session: &SessionHandle, round: &str, thread: usize) {
    for n in 0..MESSAGES {
        let id = format!("{round} {thread} {n}");
        let send = || session.send("D", |order| _ = order.str(tag::CL_ORD_ID, &id));
        // On a busy machine another thread may hold the lock for long, so that the send must be
        // repeated.
        while let Err(error) = send() {
            assert!(matches!(error, SendError::WouldBlock { .. }), "{error}");
        }
        // Printing fails when the parent has ended, which ends the child too.
        println!("kept {id}");
    }
}

/// The child process: queues messages, logs on, and sends the messages. Does nothing if the test
/// program was started normally.
#[test]
fn child() {
    let Some(arguments) = env::var(DIR).ok() else { return };
    let [dir, address, round] = &arguments.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let mut session = settings(Role::Initiator, address);
    session.store.store_dir = Path::new(dir).to_path_buf();
    session.queue.offline = Offline::Queue;
    // Segments are small, so that the store begins new segments while messages wait.
    session.store.segment_bytes = 16 << 10;
    let (sender, _) = channel();
    session.threads.mode = transfix::Mode::Polled;
    let mut engine =
        Engine::start(&Settings::of(session), |_| Box::new(order_recorder(sender.clone())))
            .unwrap();
    let session = engine.sessions().next().unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let session = &session;
            scope.spawn(move || send(session, round, thread));
        }
    });
    println!("open");
    thread::spawn(|| {
        let _ = io::stdin().read_line(&mut String::new());
        std::process::exit(0);
    });
    loop {
        if !engine.poll() {
            thread::yield_now();
        }
    }
}

/// A running child and its output.
struct Side {
    child: Child,
    said: Receiver<String>,
}

fn start(dir: &Path, address: &str, round: usize) -> Side {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIR, format!("{}|{address}|{round}", dir.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, said) = channel();
    thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    Side { child, said }
}

/// The messages that were accepted, and those that have arrived.
#[derive(Default)]
struct Books {
    kept: BTreeSet<String>,
    came: BTreeSet<String>,
    /// The number of the last message that has arrived, for each thread of each round.
    last: BTreeMap<String, usize>,
}

impl Books {
    fn came(&mut self, id: String) {
        let (thread, n) = id.rsplit_once(' ').unwrap();
        let n: usize = n.parse().unwrap();
        let before = self.last.insert(thread.to_owned(), n);
        assert!(before.is_none_or(|before| before < n), "{id} after {before:?}");
        assert!(self.came.insert(id.clone()), "{id} came twice");
    }

    /// Records a line that the child has printed. Returns true if the child is about to log on.
    fn said(&mut self, line: &str) -> bool {
        if let Some(id) = line.strip_prefix("kept ") {
            self.kept.insert(id.to_owned());
        }
        line == "open"
    }
}

#[test]
fn what_was_accepted_is_sent_once_however_often_the_process_is_killed() {
    let dir = TempDir::new();
    let (sender, orders) = channel();
    let mut venue = settings(Role::Acceptor, "127.0.0.1:0");
    venue.store.durability = Durability::Memory;
    let venue =
        Engine::start(&Settings::of(venue), |_| Box::new(order_recorder(sender.clone()))).unwrap();
    let address = venue.listening()[0].to_string();
    let (mut random, mut books) = (Random::new(1), Books::default());
    let mut sending = 0;
    for round in 0..ROUNDS {
        let mut side = start(dir.path(), &address, round);
        // Kills the child while it queues messages, or at a random time after the logon.
        let lines = match random.below(2) {
            0 => random.below(THREADS * MESSAGES),
            _ => usize::MAX,
        };
        let is_open = (0..lines).any(|_| books.said(&side.said.recv_timeout(LONG).unwrap()));
        if is_open {
            for _ in 0..random.below(2 * MESSAGES) {
                books.came(orders.recv_timeout(LONG).unwrap());
            }
            sending += 1;
        }
        side.child.kill().unwrap();
        side.child.wait().unwrap();
        // Records what the child had printed before it was killed.
        side.said.iter().for_each(|line| _ = books.said(&line));
    }
    let side = start(dir.path(), &address, ROUNDS);
    while !books.said(&side.said.recv_timeout(LONG).unwrap()) {}
    // Messages that the killed process accepted but did not print arrive too.
    while !books.kept.is_subset(&books.came) {
        let Ok(order) = orders.recv_timeout(LONG) else {
            panic!("lost: {:?}", books.kept.difference(&books.came));
        };
        books.came(order);
    }
    assert!(sending > 3 && books.kept.len() > 1_000, "{sending}, {}", books.kept.len());
    drop(side.child.stdin);
    drop(venue);
}
