//! Messages of the application that wait to be sent: for their turn, for a logon, for the operator.
//!
//! The queue of other threads is the executor's: it moves messages from there into the backlog.
//!
//! Invariants: messages leave in the order in which they were handed over. With `offline =
//! "queue"`, those that wait for a logon are in the store. A message is given back once.

mod backlog;
pub mod record;

use std::collections::VecDeque;

use crate::{Now, Offline, QueueSettings, SendError, State, Unsent, nanos};
use backlog::Backlog;
pub use backlog::{Left, Restored};
use record::Queued;

/// A message that is not sent, and why.
pub type GivenBack = (Left, SendError);

/// The fate of a message that was given back, if the store fails before that is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLost {
    /// It waits as before.
    Waits,
    /// It is given back when the store is open again, as is all that waits.
    Returns,
}

/// The ticket of what was given back since the last commit.
const UNCOMMITTED: u64 = u64::MAX;

/// Given back, which the application is told as soon as that is safe.
struct Untold {
    ticket: u64,
    message: GivenBack,
    if_lost: IfLost,
}

/// Messages that wait to be sent.
pub struct Outgoing {
    options: QueueSettings,
    /// Taken from the queue of other threads, and not sent yet.
    backlog: Backlog,
    /// Oldest first.
    untold: VecDeque<Untold>,
    /// Waiting messages are given back for this reason when the store is open again.
    returns: Option<SendError>,
    /// The last turn has ended before the queue did: the next one begins with it, or a
    /// counterparty that sends without a pause would keep it from being sent.
    is_first: bool,
    /// An operator holds them back.
    pub is_held_back: bool,
    /// Until when they wait after a logon.
    pause_until_ns: Option<u64>,
}

impl Outgoing {
    pub fn new(options: QueueSettings) -> Self {
        Self {
            options,
            backlog: Backlog::default(),
            untold: VecDeque::new(),
            returns: None,
            is_first: false,
            is_held_back: false,
            pause_until_ns: None,
        }
    }

    /// Returns true if the outbox takes no more messages of the application.
    pub const fn is_full(&self, outbox_bytes: usize) -> bool {
        outbox_bytes > self.options.queued_bytes_max
    }

    pub const fn options(&self) -> &QueueSettings {
        &self.options
    }

    /// Returns true if messages get their numbers without a logon.
    pub fn stores(&self, state: State) -> bool {
        self.options.offline == Offline::Store && state != State::Active
    }

    /// Returns true if what waits for a logon is kept in the store.
    pub(super) fn keeps_in_store(&self) -> bool {
        self.options.offline == Offline::Queue
    }

    /// Returns true if a new message must take its place behind others: it is kept for the next
    /// logon, or those that wait since before the logon go first.
    pub fn must_queue(&self, state: State) -> bool {
        self.waits_behind(state) || self.keeps_now(state)
    }

    /// Returns true if others that are held back go first.
    pub fn waits_behind(&self, state: State) -> bool {
        let active = state == State::Active;
        let waits = self.is_held_back || self.pause_until_ns.is_some();
        waits && (active || self.stores(state))
    }

    /// Returns true if what waits goes on waiting.
    fn must_wait(&self, state: State) -> bool {
        state != State::Active || self.is_held_back || self.pause_until_ns.is_some()
    }

    /// Returns true if something has found no room before, and would find it now.
    pub fn sends_more(&self, state: State, outbox_bytes: usize) -> bool {
        !self.backlog.is_empty() && !self.is_full(outbox_bytes) && !self.must_wait(state)
    }

    /// Returns true if [`Outgoing::begin`] has something to decide, or messages wait here. Most
    /// turns find nothing, and pay for no more than this look.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pause_until_ns.is_some() || !self.backlog.is_empty()
    }

    /// Returns true if no message waits here; the queue of other threads may have some.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Takes in messages that other threads have handed over: `add` puts them behind those that
    /// wait.
    pub fn take_in(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        self.backlog.take_in(add);
    }

    /// Returns true if the last turn has left messages that come first in this one.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Those that were left by the last turn have had their turn.
    pub const fn had_turn(&mut self) {
        self.is_first = false;
    }

    /// Begins to send. Returns whether messages may be sent or stored now.
    pub fn begin(&mut self, now: Now, state: State) -> bool {
        // The pause after a logon ends at its time, even if nothing can be sent then.
        self.pause_until_ns = self.pause_until_ns.filter(|until| now.monotonic_ns < *until);
        let stores = self.stores(state) && !self.is_held_back;
        stores || !self.must_wait(state)
    }

    /// The next message to be sent, if one more may be and the outbox has room. It stays until it
    /// [is sent](Outgoing::sent) or [refused](Outgoing::refuse_first).
    pub fn next(&mut self, outbox_bytes: usize, left: &mut u32) -> Option<Queued<'_>> {
        let is_full = self.is_full(outbox_bytes);
        let message = self.backlog.first()?;
        if *left == 0 {
            self.is_first = true;
            return None;
        }
        if is_full {
            return None;
        }
        *left -= 1;
        Some(message)
    }

    /// The first one is sent under this MsgSeqNum(34).
    pub fn sent(&mut self, seq: u64) {
        self.backlog.first_is_sent(seq);
    }

    /// The first one cannot be sent.
    pub fn refuse_first(&mut self) -> Option<Left> {
        self.backlog.take_first()
    }

    /// Lets the messages that wait since before the logon wait a little longer.
    pub(super) fn begin_pause(&mut self, now: Now) {
        let pause_ns = nanos(self.options.queue_pause);
        self.pause_until_ns = (pause_ns > 0).then(|| now.monotonic_ns + pause_ns);
    }

    pub(super) const fn end_pause(&mut self) {
        self.pause_until_ns = None;
    }

    /// When the pause ends, on the monotonic clock.
    pub(super) const fn pause_until_ns(&self) -> Option<u64> {
        self.pause_until_ns
    }

    /// Returns true if messages are to be put into the store, since they wait for a logon.
    pub fn keeps_now(&self, state: State) -> bool {
        self.keeps_in_store() && state != State::Active
    }

    /// The first message that the store does not have yet, with the ticket under which it is put.
    pub fn next_to_keep(&self) -> Option<(u64, Queued<'_>)> {
        self.backlog.next_to_keep()
    }

    /// That message is put into the store.
    pub fn note_put(&mut self, now: Now) {
        self.backlog.note_put(now.utc.0.unsigned_abs());
    }

    /// Up to which ticket nothing waits any more, once: what the store is to be told.
    pub const fn take_gone(&mut self) -> Option<u64> {
        self.backlog.take_gone()
    }

    /// All that the store was given is safe. Returns whether messages were given back that the
    /// application can be told of.
    pub fn committed(&mut self) -> bool {
        self.backlog.committed();
        !self.untold.is_empty()
    }

    /// All that the store was given is safe as soon as this ticket is.
    pub fn will_be_committed(&mut self, ticket: u64) {
        self.backlog.will_be_committed(ticket);
        for untold in self.untold.iter_mut().rev().take_while(|left| left.ticket == UNCOMMITTED) {
            untold.ticket = ticket;
        }
    }

    /// All up to this ticket is safe.
    pub(super) fn committed_up_to(&mut self, ticket: u64) {
        self.backlog.committed_up_to(ticket);
    }

    /// Drops the message that waits behind so many bytes: its sender hears of a failure. Those of
    /// others stay.
    pub fn refuse(&mut self, at: usize) {
        self.backlog.refuse(at);
    }

    /// Takes in a record of what waits in the store, which was put at this time.
    pub fn add_restored(
        &self,
        restored: &mut Restored,
        (ticket, time_ns): (u64, u64),
        record: &[u8],
    ) {
        restored.add((ticket, time_ns), record, self.backlog.is_refused(ticket));
    }

    /// Goes on with what waits in the store; another process may have sent some of it if the store
    /// `is_shared`. If it has failed before, what was sent and is not safe waits again.
    pub fn restore(&mut self, restored: Restored, how: (bool, bool)) {
        self.backlog.restore(restored, how);
    }

    /// Takes messages that have waited for a logon longer than they may: at most `left`, which is
    /// counted down. [`Outgoing::deadline`] is over if some are left.
    pub(super) fn take_expired(&mut self, now: Now, left: &mut u32) -> Vec<GivenBack> {
        let mut expired = Vec::new();
        while *left > 0
            && self.deadline(now).is_some_and(|at| at <= now.monotonic_ns)
            && let Some(message) = self.backlog.take_first()
        {
            *left -= 1;
            expired.push((message, SendError::Expired));
        }
        expired
    }

    /// When the first message that waits expires, on the monotonic clock.
    pub fn deadline(&self, now: Now) -> Option<u64> {
        let expires = self.options.queue_expires;
        let since_ns = self.backlog.first_kept_ns().filter(|_| !expires.is_zero())?;
        let waited_ns = now.utc.0.unsigned_abs().saturating_sub(since_ns);
        Some(now.monotonic_ns + nanos(expires).saturating_sub(waited_ns))
    }

    /// Returns true if one message waits, which expires: the worker does not know of it yet.
    pub fn is_first_to_expire(&self) -> bool {
        !self.options.queue_expires.is_zero() && self.backlog.holds_one()
    }

    /// The store has not taken what was given back since the last commit: those that it may have
    /// wait on, and the application is told of the others. Returns how many wait on; `None` if
    /// nothing was given back.
    pub(super) fn keep_waiting(&mut self) -> Option<usize> {
        let is_new = |untold: &&Untold| untold.ticket == UNCOMMITTED;
        let new = self.untold.iter().rev().take_while(is_new).count();
        let new = self.untold.split_off(self.untold.len() - new);
        if new.is_empty() {
            return None;
        }
        let (mut kept, mut others) = (Vec::new(), VecDeque::new());
        for untold in new {
            match untold.message.0.is_kept() {
                true => kept.push(untold.message.0),
                false => others.push_back(Untold { ticket: 0, ..untold }),
            }
        }
        let count = kept.len();
        self.backlog.put_back(kept);
        self.untold.append(&mut others);
        Some(count)
    }

    /// Returns true if messages were given back since the last commit.
    pub fn gives_back(&self) -> bool {
        self.untold.back().is_some_and(|last| last.ticket == UNCOMMITTED)
    }

    /// The application is told of these as soon as the next commit is safe.
    pub(super) fn tell_later(&mut self, messages: Vec<GivenBack>, if_lost: IfLost) {
        let ticket = UNCOMMITTED;
        let untold = messages.into_iter().map(|message| Untold { ticket, message, if_lost });
        self.untold.extend(untold);
    }

    /// How much is not settled yet: bytes that wait or are in doubt, and 1 for each message still
    /// to be told.
    pub fn unsettled(&self) -> usize {
        self.bytes() + self.backlog.uncommitted_bytes() + self.untold.len()
    }

    /// The next message that the application can be told of, since this ticket is safe.
    pub fn take_untold(&mut self, ticket: u64) -> Option<GivenBack> {
        let first = self.untold.front()?;
        let is_safe = first.ticket <= ticket;
        is_safe.then(|| self.untold.pop_front()).flatten().map(|untold| untold.message)
    }

    /// The store has failed before it was safe that messages are given back: those that it may have
    /// wait again. Returns how many; the others were never in it.
    pub fn put_back_untold(&mut self) -> usize {
        let (mut back, mut others) = (Vec::new(), VecDeque::new());
        for untold in self.untold.drain(..) {
            if !untold.message.0.is_kept() {
                others.push_back(untold);
                continue;
            }
            if untold.if_lost == IfLost::Returns {
                self.returns.get_or_insert(untold.message.1);
            }
            back.push(untold.message.0);
        }
        self.untold = others;
        let count = back.len();
        if count > 0 {
            self.backlog.put_back(back);
        }
        count
    }

    /// MsgSeqNum(34) of the first message that is sent and not safe.
    pub fn first_uncommitted(&self) -> Option<u64> {
        self.backlog.first_uncommitted().map(|(_, seq)| seq)
    }

    /// Returns true if that message can be this frame, which the store has under its number.
    pub fn may_be_stored_as(&self, frame: &[u8]) -> bool {
        self.backlog.first_uncommitted().is_some_and(|(message, _)| {
            let mut found = frame.windows(message.body.len().max(1));
            message.body.is_empty() || found.any(|bytes| bytes == message.body)
        })
    }

    /// The store has that message.
    pub fn forget_first_uncommitted(&mut self) {
        self.backlog.forget_first_uncommitted();
    }

    /// Returns true if what waits is kept at the end of a connection, and not given back.
    pub fn keeps_unsent(&self) -> bool {
        self.options.unsent == Unsent::Keep
    }

    /// Returns true if what waits is kept as the engine ends.
    pub fn keeps_rest(&self) -> bool {
        self.keeps_unsent() && self.keeps_in_store()
    }

    /// All that waits, to be given back.
    pub fn take_all(&mut self, why: SendError) -> Vec<GivenBack> {
        let all = self.backlog.take_all();
        all.into_iter().map(|left| (left, why)).collect()
    }

    /// Messages that the store may have, and those sent last, are given back when the store is open
    /// again. Nobody knows before that if they were sent. Returns the bytes of the latter.
    pub fn return_later(&mut self, why: SendError) -> usize {
        self.returns = Some(why);
        self.backlog.uncommitted_bytes()
    }

    /// Bytes of messages of which only the store can tell whether it has them: it has failed, or
    /// not said yet that they are safe.
    pub fn bytes_in_doubt(&self, has_failed: bool) -> usize {
        let untold = self.untold.iter().map(|untold| untold.message.0.body.len());
        let waiting = if has_failed { self.backlog.uncertain_bytes() } else { 0 };
        self.backlog.uncommitted_bytes() + untold.sum::<usize>() + waiting
    }

    /// Takes the waiting messages that were never given to the store: it cannot have them.
    pub fn take_never_stored(&mut self) -> Vec<GivenBack> {
        let all = self.backlog.take_unkept();
        all.into_iter().map(|left| (left, SendError::Closed)).collect()
    }

    /// All that waits is given back when the store is open again, or it would fail at the same
    /// message once more.
    pub fn return_too_large(&mut self) {
        self.returns.get_or_insert(SendError::Failed);
    }

    /// Gives back the messages that had to wait until the store was open again.
    pub fn take_late(&mut self) -> Vec<GivenBack> {
        self.returns.take().map(|why| self.take_all(why)).unwrap_or_default()
    }

    /// How many bytes wait here.
    pub fn bytes(&self) -> usize {
        self.backlog.len()
    }

    /// How many bytes have left since the start: were sent, stored or given back.
    pub const fn left_bytes(&self) -> u64 {
        self.backlog.left_bytes()
    }

    /// The waiting messages, oldest first: MsgType(35) and body.
    pub fn list(&self) -> Vec<(String, Vec<u8>)> {
        record::list(self.backlog.bytes())
    }

    /// Drops what waits.
    pub fn clear(&mut self) {
        self.backlog.clear();
    }

    /// Returns true if a burst has left far more memory than is used.
    pub const fn is_bulky(&self) -> bool {
        self.backlog.is_bulky()
    }

    /// Gives back the memory of a burst that is over.
    pub fn trim(&mut self) {
        self.backlog.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bodies of messages that the application is told of once this ticket is safe.
    fn told(outgoing: &mut Outgoing, ticket: u64) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| outgoing.take_untold(ticket)).map(|(left, _)| left.body).collect()
    }

    /// Three messages, of which the store has the first two, are given back.
    fn given_back() -> Outgoing {
        let options = QueueSettings { offline: Offline::Queue, ..QueueSettings::default() };
        let options = QueueSettings { unsent: Unsent::Return, ..options };
        let mut outgoing = Outgoing::new(options);
        for id in [1, 2, 3] {
            if id == 3 {
                assert!(outgoing.keeps_now(State::Disconnected));
                while outgoing.next_to_keep().is_some() {
                    outgoing.note_put(Now::default());
                }
                outgoing.committed();
            }
            let body = format!("11={id}\x01");
            outgoing.take_in(|bytes| record::put(bytes, b"D", body.as_bytes()));
        }
        assert!(!outgoing.keeps_unsent());
        let all = outgoing.take_all(SendError::NotLoggedOn);
        assert!(!outgoing.gives_back());
        outgoing.tell_later(all, IfLost::Waits);
        assert!(outgoing.gives_back() && told(&mut outgoing, 99).is_empty(), "not committed yet");
        outgoing
    }

    fn bodies(ids: &[u8]) -> Vec<Vec<u8>> {
        ids.iter().map(|id| format!("11={id}\x01").into_bytes()).collect()
    }

    #[test]
    fn what_is_given_back_is_told_once_it_is_safe() {
        let mut now = given_back();
        assert!(now.committed());
        assert_eq!(told(&mut now, u64::MAX), bodies(&[1, 2, 3]));
        let mut later = given_back();
        later.will_be_committed(7);
        assert!(!later.gives_back());
        assert_eq!(told(&mut later, 6), bodies(&[]));
        assert_eq!(told(&mut later, 7), bodies(&[1, 2, 3]));
    }

    #[test]
    fn what_the_store_may_have_waits_on_if_it_fails() {
        let mut failed = given_back();
        assert_eq!(failed.keep_waiting(), Some(2));
        assert_eq!(failed.keep_waiting(), None, "once");
        assert_eq!(told(&mut failed, 0), bodies(&[3]));
        let waiting: Vec<_> = failed.list().into_iter().map(|(_, body)| body).collect();
        assert_eq!(waiting, bodies(&[1, 2]));
    }
}
