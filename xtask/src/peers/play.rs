//! The session that every case runs: logon, orders in both directions, an interrupted connection,
//! orders while disconnected, resends, skipped and reset sequence numbers, and logouts from both
//! sides.
//!
//! **Invariant:** at the end, every message of each side has been compared with the messages of the
//! other side.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::compare;
use super::process::Peer;
use super::{Outcome, message::Message};

/// Number of further ports to try if another process has taken the acceptor's port.
const PORTS_MAX: usize = 5;

/// A test case: the two engines and the FIX version.
pub(super) struct Case<'a> {
    pub(super) begin_string: &'static str,
    pub(super) appl_ver: &'static str,
    pub(super) acceptor: &'a [String],
    pub(super) initiator: &'a [String],
    pub(super) dictionaries: &'a Path,
    pub(super) orders: usize,
    pub(super) folder: PathBuf,
}

impl Case<'_> {
    /// Runs the session. Returns the number of compared messages.
    pub(super) fn play(&self) -> Outcome<usize> {
        fresh(&self.folder)?;
        let mut pair = self.start()?;
        let mut compared = 0;
        for (index, (name, step)) in STEPS.into_iter().enumerate() {
            compared += step(&mut pair, self.orders).map_err(|text| {
                let difference = pair.difference(&text);
                let folder = self.folder.display();
                format!("step {}, {name}: {text}{difference}\n(logs in {folder})", index + 1)
            })?;
        }
        Ok(compared)
    }

    fn start(&self) -> Outcome<Pair> {
        let (acceptor, initiator) = at_free_port(|role, port| {
            let (command, ours, theirs) = match role {
                "acceptor" => (self.acceptor, "VENUE", "CLIENT"),
                _ => (self.initiator, "CLIENT", "VENUE"),
            };
            Peer::start(role, command, &self.options(role, ours, theirs, port), &self.folder)
        })?;
        Ok(Pair { acceptor, initiator, logons: 0, logouts: 0, barriers: 0 })
    }

    fn options(&self, role: &str, sender: &str, target: &str, port: u16) -> Vec<String> {
        let path = |name: &str| self.folder.join(format!("{role}.{name}")).display().to_string();
        let dictionaries = self.dictionaries.display().to_string();
        let port = port.to_string();
        let mut options: Vec<String> = [
            ["--role", role],
            ["--port", &port],
            ["--begin-string", self.begin_string],
            ["--sender", sender],
            ["--target", target],
            ["--dictionary", &dictionaries],
            ["--validate", "yes"],
            ["--answer", "yes"],
            ["--store", &path("store")],
            ["--log", &path("log")],
        ]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
        if !self.appl_ver.is_empty() {
            options.extend(["--appl-ver".to_owned(), self.appl_ver.to_owned()]);
        }
        options
    }
}

/// Starts the acceptor on a free port, and then the initiator.
pub(super) fn at_free_port(
    start: impl Fn(&'static str, u16) -> Outcome<Peer>,
) -> Outcome<(Peer, Peer)> {
    let mut last = String::new();
    for _ in 0..PORTS_MAX {
        let port = free_port()?;
        let mut acceptor = start("acceptor", port)?;
        // The acceptor ends immediately if another process has taken the port in the meantime.
        match acceptor.wait("ready", |peer| peer.ready) {
            Ok(()) => return Ok((acceptor, start("initiator", port)?)),
            Err(text) => last = text,
        }
    }
    Err(last)
}

/// Creates an empty folder and removes files of earlier runs.
pub(super) fn fresh(folder: &Path) -> Outcome<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

pub(super) fn free_port() -> Outcome<u16> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no free port: {error}"))
}

struct Pair {
    acceptor: Peer,
    initiator: Peer,
    logons: usize,
    logouts: usize,
    barriers: usize,
}

type Step = fn(&mut Pair, usize) -> Outcome<usize>;

/// The steps of the session, in order. Each step returns the number of compared messages.
const STEPS: [(&str, Step); 11] = [
    ("logon", |pair, _| pair.logged_on()),
    ("orders each way", |pair, orders| pair.orders(orders / 2)),
    ("a cut in the middle", |pair, orders| pair.cut(orders / 4)),
    ("resend to the initiator", |pair, _| resend(&mut pair.initiator, &mut pair.acceptor)),
    ("resend to the acceptor", |pair, _| resend(&mut pair.acceptor, &mut pair.initiator)),
    ("skipped numbers", |pair, _| pair.skip("next-out")),
    ("sequence reset", |pair, _| pair.skip("sequence-reset")),
    ("logout of the acceptor", |pair, _| pair.logout_of_acceptor()),
    ("reset at logon", |pair, _| pair.reset_at_logon()),
    ("logout of the initiator", |pair, _| pair.logout_of_initiator()),
    ("comparison", |pair, orders| pair.compare(orders)),
];

impl Pair {
    fn both(&mut self) -> [&mut Peer; 2] {
        [&mut self.initiator, &mut self.acceptor]
    }

    fn ask(&mut self, command: &str) -> Outcome<()> {
        self.both().into_iter().try_for_each(|peer| peer.ask(command))
    }

    /// Waits until both sides have logged on again.
    fn logged_on(&mut self) -> Outcome<usize> {
        self.logons += 1;
        let logons = self.logons;
        for peer in self.both() {
            peer.wait("logon", |peer| peer.logons >= logons)?;
        }
        Ok(0)
    }

    fn logged_out(&mut self) -> Outcome<()> {
        self.logouts += 1;
        let logouts = self.logouts;
        self.both()
            .into_iter()
            .try_for_each(|peer| peer.wait("logout", |peer| peer.logouts >= logouts))
    }

    /// Waits until both applications together have received `count` messages, and then until no
    /// message is in transit.
    fn settle(&mut self, count: usize) -> Outcome<()> {
        for peer in self.both() {
            let what = format!("{count} messages delivered");
            peer.wait(&what, |peer| peer.delivered.len() >= count && peer.sent.len() >= count)?;
        }
        self.barriers += 1;
        let id = format!("B{}", self.barriers);
        for peer in self.both() {
            barrier(peer, &id)?;
        }
        Ok(())
    }

    /// Returns the number of messages that each application receives if all orders are answered.
    fn expected(&self) -> usize {
        self.initiator.delivered.len().max(self.acceptor.delivered.len())
    }

    fn orders(&mut self, count: usize) -> Outcome<usize> {
        let expected = self.expected() + 2 * count;
        for peer in self.both() {
            peer.tell(&format!("send {count}"))?;
        }
        self.settle(expected)?;
        Ok(0)
    }

    /// The initiator breaks the connection while orders and answers are in transit. Both sides
    /// continue to send while disconnected.
    fn cut(&mut self, count: usize) -> Outcome<usize> {
        let expected = self.expected() + 4 * count;
        let send = format!("send {count}");
        self.acceptor.tell(&send)?;
        self.initiator.tell(&send)?;
        self.initiator.tell("cut")?;
        self.initiator.tell(&send)?;
        self.logged_out()?;
        self.acceptor.tell(&send)?;
        self.logged_on()?;
        self.settle(expected)?;
        Ok(0)
    }

    /// Each side in turn skips sequence numbers and then sends an order. `next-out` skips silently,
    /// so the other side must request a gap fill; `sequence-reset` announces the skip.
    fn skip(&mut self, command: &str) -> Outcome<usize> {
        for _ in 0..2 {
            let expected = self.expected() + 1;
            self.initiator.ask("state")?;
            let next = self.initiator.state.0 + 5;
            self.initiator.ask(&format!("{command} {next}"))?;
            self.initiator.ask("send 1")?;
            self.acceptor.wait("the order", |peer| peer.delivered.len() >= expected)?;
            self.initiator.wait("the report", |peer| peer.delivered.len() >= expected)?;
            let order = self.initiator.sent.last().and_then(|order| order.number(34));
            if order.is_none_or(|number| number < next) {
                return Err(format!("{command} {next}, but the order has number {order:?}"));
            }
            std::mem::swap(&mut self.initiator, &mut self.acceptor);
        }
        self.numbers_agree()
    }

    fn numbers_agree(&mut self) -> Outcome<usize> {
        self.settle(0)?;
        self.ask("state")?;
        let (initiator, acceptor) = (self.initiator.state, self.acceptor.state);
        if initiator != (acceptor.1, acceptor.0) {
            return Err(format!(
                "the numbers differ: (next out, next in) {initiator:?} of the initiator, \
                 {acceptor:?} of the acceptor"
            ));
        }
        Ok(0)
    }

    fn logout_of_acceptor(&mut self) -> Outcome<usize> {
        self.acceptor.ask("logout")?;
        self.logged_out()?;
        self.acceptor.ask("logon")?;
        self.logged_on()?;
        self.orders(1)
    }

    fn reset_at_logon(&mut self) -> Outcome<usize> {
        self.initiator.ask("reset")?;
        self.logged_out()?;
        self.logged_on()?;
        let logon = |message: &&Message| message.is(35, "A");
        let last = self.acceptor.read.iter().rfind(logon);
        if !last.is_some_and(|logon| logon.is(141, "Y") && logon.is(34, "1")) {
            return Err("Logon(A) without ResetSeqNumFlag(141)=Y and MsgSeqNum(34)=1".to_owned());
        }
        self.orders(1)?;
        self.numbers_agree()
    }

    fn logout_of_initiator(&mut self) -> Outcome<usize> {
        self.initiator.ask("logout")?;
        self.logged_out()?;
        for peer in self.both() {
            peer.quit()?;
            if !peer.read.last().is_some_and(|message| message.is(35, "5")) {
                return Err(peer.failure("the last message read is not Logout(5)"));
            }
        }
        Ok(0)
    }

    /// Returns both directions, each with its sender, receiver and name.
    fn ways(&self) -> [(&Peer, &Peer, &'static str); 2] {
        let (initiator, acceptor) = (&self.initiator, &self.acceptor);
        [
            (initiator, acceptor, "initiator to acceptor"),
            (acceptor, initiator, "acceptor to initiator"),
        ]
    }

    fn compare(&mut self, orders: usize) -> Outcome<usize> {
        let mut compared = 0;
        for (from, to, way) in self.ways() {
            let place = |text: String| format!("{way}: {text}");
            let count = compare::delivered(&from.sent, &to.delivered).map_err(place)?;
            if count < 2 * orders {
                return Err(place(format!("only {count} messages for {orders} orders each way")));
            }
            compared += count + compare::wire(&from.written, &to.read).map_err(place)?;
        }
        Ok(compared)
    }

    /// Returns the differences between the sides' messages, except the difference `known`, for the
    /// report of a failed step.
    fn difference(&mut self, known: &str) -> String {
        for peer in self.both() {
            peer.catch_up();
        }
        let differences = self.ways().into_iter().filter_map(|(from, to, way)| {
            let text = compare::delivered(&from.sent, &to.delivered).err()?;
            (!known.contains(&text)).then(|| format!("\nso far, {way}: {text}"))
        });
        differences.collect()
    }
}

/// Requests a resend of all messages of `from`, and checks the resent messages.
fn resend(to: &mut Peer, from: &mut Peer) -> Outcome<usize> {
    let begin = to.read.len();
    to.ask("resend 1 0")?;
    let heartbeat = barrier(to, "R1")?;
    let next = to.read[heartbeat].number(34).unwrap_or(0);
    compare::resent(&from.sent, &to.read[begin..heartbeat], next)
}

/// Sends a `TestRequest(1)` and waits for its answer, so that everything written earlier by the
/// other side has been read. Returns the position of the answer among the read messages.
fn barrier(peer: &mut Peer, id: &str) -> Outcome<usize> {
    let answer = |message: &Message| message.is(35, "0") && message.is(112, id);
    let begin = peer.read.len();
    peer.ask(&format!("test-request {id}"))?;
    peer.wait("the answer to a TestRequest(1)", |peer| peer.read[begin..].iter().any(answer))?;
    let place = peer.read[begin..].iter().position(answer);
    place.map(|place| begin + place).ok_or_else(|| peer.failure("no answer to a TestRequest(1)"))
}
