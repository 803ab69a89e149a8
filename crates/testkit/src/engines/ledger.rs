//! Records the sent messages and their outcome, and checks the laws about messages.
//!
//! Invariants: an accepted message is delivered exactly once, in the order of its source, or given
//! back to the application. A refused message never arrives. Two kinds of messages may be lost:
//! messages in the memory of a process that was killed or lost its store, and messages that a
//! rolled-back callback sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::LogonAnswer;

use super::machine::Machine;

/// The number of message sources. The messages of each source keep their order.
pub(super) const SOURCES: u64 = 32;
/// The source number of messages that a session sends inside its own callbacks.
pub(super) const CALLBACK: u64 = 0;

/// The extent of a session's rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The messages that callbacks sent in one turn of the worker.
    Turn,
    /// All state in the memory of the process.
    Process,
}

/// The outcome of the messages that one side sends in one session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next: u64,
    /// Accepted messages with their MsgSeqNum(34); `None` if the number is not yet assigned.
    accepted: BTreeMap<u64, Option<u64>>,
    /// Messages with an uncertain outcome, which may arrive or be lost.
    maybe: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    returned: BTreeSet<u64>,
    /// Delivered messages with their MsgSeqNum(34), in the order of delivery.
    delivered: Vec<(u64, u64)>,
}

impl Ledger {
    /// Returns a new message ID for this source. The message may be lost until it is accepted.
    pub(super) fn draw(&mut self, source: u64) -> u64 {
        self.next += 1;
        let id = self.next * SOURCES + source;
        self.maybe.insert(id);
        id
    }

    /// Records that the session accepted message `id`, with its MsgSeqNum(34) if known.
    pub(super) fn accept(&mut self, id: u64, seq: Option<u64>) {
        // If the session has already given the message back, the message does not count as
        // accepted.
        if self.maybe.remove(&id) {
            self.accepted.insert(id, seq);
        }
    }

    pub(super) fn refuse(&mut self, id: u64) {
        self.maybe.remove(&id);
        self.refused.insert(id);
    }

    fn give_back(&mut self, id: u64) -> Result<(), String> {
        if self.delivered.iter().any(|(other, _)| *other == id) {
            return Err(format!("{id} is given back, but was delivered"));
        }
        self.maybe.remove(&id);
        self.accepted.remove(&id);
        match self.returned.insert(id) {
            true => Ok(()),
            false => Err(format!("{id} is given back twice")),
        }
    }

    /// Records that the application of the other side received message `id`.
    fn deliver(&mut self, id: u64, seq: u64) -> Result<(), String> {
        if self.delivered.iter().any(|(other, _)| *other == id) {
            return Err(format!("{id} is delivered twice, with number {seq}"));
        }
        if self.refused.contains(&id) || self.returned.contains(&id) {
            return Err(format!("{id} is delivered, but was refused or given back"));
        }
        let same = |other: u64| other % SOURCES == id % SOURCES;
        let last = self.delivered.iter().rev().find(|(other, _)| same(*other));
        if last.is_some_and(|(last, _)| *last > id) {
            return Err(format!("{id} is delivered after {last:?} of the same source"));
        }
        self.delivered.push((id, seq));
        Ok(())
    }

    /// Rolls back sent messages: the sender continues with the sequence number `next_out`.
    fn undo_sent(&mut self, next_out: u64, lost: Lost) -> Result<(), String> {
        for (id, seq) in std::mem::take(&mut self.accepted) {
            let is_undone = seq.is_some_and(|seq| seq >= next_out);
            if is_undone && id % SOURCES != CALLBACK {
                return Err(format!(
                    "{id} was stored with {seq:?}, and is lost: {next_out} is next"
                ));
            }
            if is_undone || (lost == Lost::Process && seq.is_none()) {
                self.maybe.insert(id);
            } else {
                self.accepted.insert(id, seq);
            }
        }
        Ok(())
    }

    /// Rolls back deliveries: the receiver expects the sequence number `next_in` next.
    fn undo_delivered(&mut self, next_in: u64) {
        self.delivered.retain(|(_, seq)| *seq < next_in);
    }

    /// Returns the accepted messages that have not been delivered.
    fn missing(&self) -> Vec<u64> {
        let delivered: BTreeSet<u64> = self.delivered.iter().map(|(id, _)| *id).collect();
        self.accepted.keys().filter(|id| !delivered.contains(id)).copied().collect()
    }
}

/// The ledgers of all sessions, one for each side, and values that all applications share.
pub(super) struct Board {
    pub(super) machine: Arc<Machine>,
    ledgers: Mutex<Vec<[Ledger; 2]>>,
    /// The Logon(A) questions of each side that still need an answer.
    pub(super) questions: [Mutex<Vec<LogonAnswer>>; 2],
    pub(super) odds: Mutex<Odds>,
    /// The number of disconnects that applications were notified of.
    pub(super) ends: Mutex<u64>,
}

/// The odds of each application action: one in the given number, or never for 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Odds {
    pub(super) answer: usize,
    pub(super) route: usize,
    pub(super) panic: usize,
    pub(super) later: usize,
    pub(super) pause: usize,
}

impl Board {
    pub(super) fn new(machine: &Arc<Machine>, sessions: usize, odds: Odds) -> Arc<Self> {
        let mut ledgers = Vec::new();
        ledgers.resize_with(sessions, Default::default);
        Arc::new(Self {
            machine: Arc::clone(machine),
            ledgers: Mutex::new(ledgers),
            questions: Default::default(),
            odds: Mutex::new(odds),
            ends: Mutex::default(),
        })
    }

    fn ledgers(&self) -> MutexGuard<'_, Vec<[Ledger; 2]>> {
        self.ledgers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the ledger of one side of a session.
    pub(super) fn with<T>(
        &self,
        (side, session): (usize, usize),
        look: impl FnOnce(&mut Ledger) -> T,
    ) -> T {
        look(&mut self.ledgers()[session][side])
    }

    pub(super) fn odds(&self) -> Odds {
        *self.odds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn chance(&self, one_in: usize) -> bool {
        one_in > 0 && self.machine.below(one_in) == 0
    }

    fn judge(&self, (side, session): (usize, usize), judged: Result<(), String>) {
        if let Err(why) = judged {
            self.machine.breaks(|| format!("session {session}, sent by side {side}: {why}"));
        }
    }

    /// Records that the application on this side received message `id`.
    pub(super) fn deliver(&self, (side, session): (usize, usize), id: u64, seq: u64) {
        let sender = (1 - side, session);
        let judged = self.with(sender, |ledger| ledger.deliver(id, seq));
        self.judge(sender, judged);
    }

    /// Records that the application on this side got its own message `id` back unsent.
    pub(super) fn give_back(&self, at: (usize, usize), id: u64) {
        let judged = self.with(at, |ledger| ledger.give_back(id));
        self.judge(at, judged);
    }

    /// Records a rollback on this side: the session continues with these inbound and outbound
    /// sequence numbers.
    pub(super) fn undo(
        &self,
        (side, session): (usize, usize),
        (next_in, next_out): (u64, u64),
        lost: Lost,
    ) {
        self.with((1 - side, session), |ledger| ledger.undo_delivered(next_in));
        let judged = self.with((side, session), |ledger| ledger.undo_sent(next_out, lost));
        self.judge((side, session), judged);
    }

    /// Returns the number of messages delivered in all sessions.
    pub(super) fn delivered(&self) -> u64 {
        self.ledgers().iter().flatten().map(|ledger| ledger.delivered.len() as u64).sum()
    }

    /// Returns the accepted but undelivered messages, by session and sending side.
    pub(super) fn missing(&self) -> Vec<(usize, usize, Vec<u64>)> {
        let ledgers = self.ledgers();
        let all = ledgers.iter().enumerate().flat_map(|(session, sides)| {
            sides.iter().enumerate().map(move |(side, ledger)| (session, side, ledger.missing()))
        });
        all.filter(|(_, _, missing)| !missing.is_empty()).collect()
    }
}
