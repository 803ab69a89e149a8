//! The messages sent and their outcome: the laws about messages.
//!
//! Invariants: an accepted message is delivered once and in the order of its source, or is
//! returned. A refused message never arrives. Two kinds of messages may arrive or be lost: messages
//! in the memory of a killed process, and messages from callbacks in a turn that was rolled back. A
//! process that stops without its store counts as killed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::LogonAnswer;

use super::machine::Machine;

/// Number of message sources. Messages of one source keep their order.
pub(super) const SOURCES: u64 = 32;
/// The source of messages that are sent in a callback of their own session.
pub(super) const CALLBACK: u64 = 0;

/// The state that a session lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The actions of callbacks in one turn.
    Turn,
    /// The whole memory of the process.
    Process,
}

/// Messages of one side of one session.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    next: u64,
    /// Ids of accepted messages, each with its MsgSeqNum(34) if known.
    accepted: BTreeMap<u64, Option<u64>>,
    /// Ids of messages that may or may not arrive.
    maybe: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    returned: BTreeSet<u64>,
    /// Ids and MsgSeqNum(34) of delivered messages, in the order of delivery.
    delivered: Vec<(u64, u64)>,
}

impl Ledger {
    /// Returns the id of the next message of `source`.
    pub(super) fn draw(&mut self, source: u64) -> u64 {
        self.next += 1;
        let id = self.next * SOURCES + source;
        self.maybe.insert(id);
        id
    }

    /// Records that the session accepted a message, and its number if the message has one.
    pub(super) fn accept(&mut self, id: u64, seq: Option<u64>) {
        // The message may have been returned in the meantime.
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

    /// Records that the other side's application received the message.
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

    /// Rolls back the sender to the next outbound number `next_out`.
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

    /// Rolls back the receiver to the next inbound number `next_in`.
    fn undo_delivered(&mut self, next_in: u64) {
        self.delivered.retain(|(_, seq)| *seq < next_in);
    }

    /// Returns the ids of messages that were accepted and have not arrived.
    fn missing(&self) -> Vec<u64> {
        let delivered: BTreeSet<u64> = self.delivered.iter().map(|(id, _)| *id).collect();
        self.accepted.keys().filter(|id| !delivered.contains(id)).copied().collect()
    }
}

/// The ledgers of all sessions, one for each side.
pub(super) struct Board {
    pub(super) machine: Arc<Machine>,
    ledgers: Mutex<Vec<[Ledger; 2]>>,
    /// Logon(A) questions that wait for an answer.
    pub(super) questions: [Mutex<Vec<LogonAnswer>>; 2],
    pub(super) odds: Mutex<Odds>,
    /// Number of disconnects reported to applications.
    pub(super) ends: Mutex<u64>,
}

/// Frequencies of application actions: an action happens once in this many cases; 0 means never.
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

    /// Passes the ledger of one side of a session to `look`.
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

    /// Records that the application of this side received message `id`.
    pub(super) fn deliver(&self, (side, session): (usize, usize), id: u64, seq: u64) {
        let sender = (1 - side, session);
        let judged = self.with(sender, |ledger| ledger.deliver(id, seq));
        self.judge(sender, judged);
    }

    /// Records that the application of this side got its own message back.
    pub(super) fn give_back(&self, at: (usize, usize), id: u64) {
        let judged = self.with(at, |ledger| ledger.give_back(id));
        self.judge(at, judged);
    }

    /// Records that one side of a session continues with these inbound and outbound numbers.
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

    /// Returns the number of messages that have arrived.
    pub(super) fn delivered(&self) -> u64 {
        self.ledgers().iter().flatten().map(|ledger| ledger.delivered.len() as u64).sum()
    }

    /// Returns the messages that have not arrived, by session and sender.
    pub(super) fn missing(&self) -> Vec<(usize, usize, Vec<u64>)> {
        let ledgers = self.ledgers();
        let all = ledgers.iter().enumerate().flat_map(|(session, sides)| {
            sides.iter().enumerate().map(move |(side, ledger)| (session, side, ledger.missing()))
        });
        all.filter(|(_, _, missing)| !missing.is_empty()).collect()
    }
}
