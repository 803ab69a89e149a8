//! A venue and a client run as real processes, trade, and are killed repeatedly. No order may be
//! lost or duplicated. At each restart, mode, number of application threads, and durability change.
//!
//! `TRANSFIX_KILLS=n` sets the number of kills. `TRANSFIX_SEED=x` repeats the approximate times of
//! a failed run. `TRANSFIX_PROGRAM=path` selects another build of the program.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a failed test says which seed")]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use transfix_store::journal::{self, Event};
use transfix_testkit::random::Random;
use transfix_testkit::temp::TempDir;

const KILLS: u64 = 100;
/// The time limit for events that need no timer. The limit is shorter than the timers of the
/// session layer (10 s for a Logon(A), 30 s for a heartbeat). The test therefore fails if progress
/// depends on a timer.
const PATIENCE: Duration = Duration::from_secs(8);
/// The time between two checks of a journal.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The number of checks for a report before the test sends the order again.
const POLLS_MAX: usize = 100;

fn program() -> PathBuf {
    let other = env::var_os("TRANSFIX_PROGRAM");
    other.map_or_else(|| env!("CARGO_BIN_EXE_transfix").into(), PathBuf::from)
}

/// The venue or the client: a running `transfix` process and its output.
struct Side {
    child: Child,
    commands: ChildStdin,
    lines: Receiver<String>,
}

impl Side {
    fn start(verb: &str, settings: &Path) -> Self {
        let mut child = Command::new(program())
            .arg(verb)
            .arg(settings)
            .arg("--quiet")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if said.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, commands, lines }
    }

    fn command(&mut self, command: &str) {
        writeln!(self.commands, "{command}").unwrap();
    }

    /// Reads lines up to and including a line with this text.
    fn wait_for(&self, text: &str) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return,
                Ok(_) => {}
                Err(error) => panic!("waiting for '{text}': {error}"),
            }
        }
    }

    /// Waits for the end of a process that was asked to stop. Returns its exit status and its
    /// remaining lines.
    fn ended(&mut self) -> (ExitStatus, Vec<String>) {
        let mut lines = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => lines.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end; it said {lines:?}"),
            }
        }
        (self.child.wait().unwrap(), lines)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        // The process is still running only if the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A venue and a client with their settings and stores.
struct Market {
    dir: TempDir,
    port: u16,
    venue: Side,
    client: Side,
}

impl Market {
    fn start() -> Self {
        let dir = TempDir::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (venue, client) = (Self::venue(dir.path(), port, 0), Self::client(dir.path(), port, 0));
        Self { dir, port, venue, client }
    }

    fn venue(dir: &Path, port: u16, way: usize) -> Side {
        let settings = settings(dir, ("acceptor", "VENUE", "CLIENT"), port, way);
        Side::start("serve", &settings)
    }

    fn client(dir: &Path, port: u16, way: usize) -> Side {
        let settings = settings(dir, ("initiator", "CLIENT", "VENUE"), port, way);
        Side::start("connect", &settings)
    }

    fn kill_venue(&mut self, way: usize) {
        self.venue.child.kill().unwrap();
        self.venue.child.wait().unwrap();
        // Drops the client's earlier lines, so that the next logon line belongs to the new venue.
        self.client.lines.try_iter().for_each(drop);
        self.venue = Self::venue(self.dir.path(), self.port, way);
    }

    fn kill_client(&mut self, way: usize) {
        self.client.child.kill().unwrap();
        self.client.child.wait().unwrap();
        self.client = Self::client(self.dir.path(), self.port, way);
    }

    fn stores(&self) -> [PathBuf; 2] {
        let store = |name| self.dir.path().join(name);
        [store("CLIENT/FIX.4.4-CLIENT-VENUE"), store("VENUE/FIX.4.4-VENUE-CLIENT")]
    }

    /// Sends an order that does not trade, and waits until the client has the report. The report
    /// shows that all earlier messages in both directions have arrived.
    fn settle(&mut self, clock: &Clock) {
        for n in 0..10 {
            self.client.command("wait");
            let order = "55=EU|54=1|60=20261121-12:00:00|38=1|40=2|44=0.01";
            self.client.command(&format!("send D 11=last{n}|{order}"));
            for _ in 0..POLLS_MAX {
                if has_report(&self.stores()[0], &format!("\x0111=last{n}\x01")) {
                    return;
                }
                clock.pause(POLL_INTERVAL);
            }
        }
        panic!("the last order is not answered");
    }
}

/// The number of combinations of mode, application threads and durability.
const COMBINATIONS: usize = 12;

/// Writes the settings of a venue or client for one of the [`COMBINATIONS`] combinations.
fn settings(
    dir: &Path,
    (role, ours, theirs): (&str, &str, &str),
    port: u16,
    way: usize,
) -> PathBuf {
    let mode = ["pool", "dedicated", "spin"][way % 3];
    let threads = [0, 2][way / 3 % 2];
    let durability = ["process", "power"][way / 6 % 2];
    let store = dir.join(ours);
    let settings = format!(
        "[engine]\n\
         application_threads = {threads}\n\
         [[session]]\n\
         mode = '{mode}'\n\
         role = '{role}'\n\
         address = '127.0.0.1:{port}'\n\
         begin_string = 'FIX.4.4'\n\
         sender_comp_id = '{ours}'\n\
         target_comp_id = '{theirs}'\n\
         durability = '{durability}'\n\
         keep_inbound = true\n\
         reconnect_interval_ms = 10\n\
         segment_bytes = 65536\n\
         store_dir = '{}'\n",
        store.display()
    );
    let file = dir.join(format!("{ours}.toml"));
    fs::write(&file, settings).unwrap();
    file
}

fn has_report(store: &Path, field: &str) -> bool {
    let entries = journal::read(store).unwrap();
    let mut inbound = entries.filter_map(|entry| match entry.unwrap().event {
        Event::Inbound(message) => Some(message.bytes),
        _ => None,
    });
    inbound.any(|bytes| bytes.windows(field.len()).any(|window| window == field.as_bytes()))
}

/// A timer that waits without `thread::sleep`.
struct Clock {
    never: Receiver<()>,
    _sender: Sender<()>,
}

impl Clock {
    fn new() -> Self {
        let (sender, never) = channel();
        Self { never, _sender: sender }
    }

    fn pause(&self, time: Duration) {
        assert_eq!(self.never.recv_timeout(time), Err(RecvTimeoutError::Timeout));
    }
}

/// Prints the seed of the run if the test fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("run it again: TRANSFIX_SEED={}", self.0);
        }
    }
}

#[test]
fn kills_lose_and_double_nothing() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = Seed(number("TRANSFIX_SEED").unwrap_or(1));
    let mut random = Random::new(seed.0);
    let clock = Clock::new();
    let mut market = Market::start();
    for _ in 0..number("TRANSFIX_KILLS").unwrap_or(KILLS) {
        // In one case of four, the kill comes early, while the processes start, recover and log on.
        let (trades, micros) = match random.below(4) {
            0 => (false, 200_000),
            _ => (true, 12_000),
        };
        if trades {
            market.client.wait_for("logged on");
        }
        let orders = 1 + random.below(60);
        market.client.command(&format!("wait\nburst {orders}"));
        clock.pause(Duration::from_micros(random.below(micros) as u64));
        let way = random.below(COMBINATIONS);
        if random.below(2) == 0 {
            market.kill_venue(way);
        } else {
            market.kill_client(way);
        }
    }
    market.settle(&clock);
    market.client.command("quit");
    let (status, lines) = market.client.ended();
    assert!(status.success(), "client: {status}, {lines:?}");
    kill_process(Pid::from_child(&market.venue.child), Signal::TERM).unwrap();
    let (status, lines) = market.venue.ended();
    assert!(status.success(), "venue: {status}, {lines:?}");
    let mut audit = Command::new(program());
    let audit = audit.args(["audit", "journals"]).args(market.stores()).output().unwrap();
    print!("{}", String::from_utf8_lossy(&[audit.stdout, audit.stderr].concat()));
    assert!(audit.status.success(), "something was lost or doubled");
}
