//! Queued messages of the application: they wait for their turn, for a logon, or for an operator.
//!
//! The executor has the queue of other threads, and moves messages from that queue into the
//! backlog.
//!
//! Invariants: messages are sent in the order of their submission. With `offline = "queue"`,
//! messages that wait for a logon are in the store. A message is returned at most once.

mod backlog;
pub mod record;

use std::collections::VecDeque;

use crate::{Now, Offline, QueueSettings, SendError, State, Unsent, nanos};
use backlog::Backlog;
pub use backlog::{Left, Restored};
use record::Queued;

/// A message that is not sent, and the reason.
pub type GivenBack = (Left, SendError);

/// The treatment of a returned message if the store fails before the return is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLost {
    /// The message waits as before.
    Waits,
    /// The message is returned after the store is reopened, as are all waiting messages.
    Returns,
}

/// Placeholder ticket of messages that were returned since the last commit.
const UNCOMMITTED: u64 = u64::MAX;

/// A returned message that the application receives as soon as the return is safe.
struct Untold {
    ticket: u64,
    message: GivenBack,
    if_lost: IfLost,
}

/// Messages that wait to be sent.
pub struct Outgoing {
    options: QueueSettings,
    /// Messages moved from the queue of other threads, and not sent yet.
    backlog: Backlog,
    /// Returned messages that the application has not received, oldest first.
    untold: VecDeque<Untold>,
    /// Reason to return all waiting messages when the store is reopened.
    returns: Option<SendError>,
    /// True if the last turn ended before the queue was empty. The next turn then begins with the
    /// queue; otherwise a counterparty that sends without a pause could block the queue.
    is_first: bool,
    /// True if an operator holds the messages back.
    pub is_held_back: bool,
    /// End of the pause after a logon, on the monotonic clock.
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

    /// Returns true if the outbox is too full for more application messages.
    pub const fn is_full(&self, outbox_bytes: usize) -> bool {
        outbox_bytes > self.options.queued_bytes_max
    }

    pub const fn options(&self) -> &QueueSettings {
        &self.options
    }

    /// Returns true if messages are numbered and stored without a logon.
    pub fn stores(&self, state: State) -> bool {
        self.options.offline == Offline::Store && state != State::Active
    }

    /// Returns true if messages that wait for a logon are kept in the store.
    pub(super) fn keeps_in_store(&self) -> bool {
        self.options.offline == Offline::Queue
    }

    /// Returns true if a new message must be queued: the message is kept for the next logon, or
    /// earlier waiting messages are sent first.
    pub fn must_queue(&self, state: State) -> bool {
        self.waits_behind(state) || self.keeps_now(state)
    }

    /// Returns true if waiting messages that are held back must be sent first.
    pub fn waits_behind(&self, state: State) -> bool {
        let active = state == State::Active;
        let waits = self.is_held_back || self.pause_until_ns.is_some();
        waits && (active || self.stores(state))
    }

    /// Returns true if the waiting messages must continue to wait.
    fn must_wait(&self, state: State) -> bool {
        state != State::Active || self.is_held_back || self.pause_until_ns.is_some()
    }

    /// Returns true if waiting messages can be sent, because the outbox has room again.
    pub fn sends_more(&self, state: State, outbox_bytes: usize) -> bool {
        !self.backlog.is_empty() && !self.is_full(outbox_bytes) && !self.must_wait(state)
    }

    /// Returns true if [`Outgoing::begin`] has a decision to make, or messages wait. The check is
    /// cheap, because most turns have nothing to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pause_until_ns.is_some() || !self.backlog.is_empty()
    }

    /// Returns true if no message waits here; the queue of other threads may still have messages.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Appends messages that other threads have submitted: `add` writes them after the waiting
    /// messages.
    pub fn take_in(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        self.backlog.take_in(add);
    }

    /// Returns true if the last turn left messages, which are sent first in this turn.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Notes that the messages left by the last turn have had their turn.
    pub const fn had_turn(&mut self) {
        self.is_first = false;
    }

    /// Begins to send. Returns true if messages may be sent or stored now.
    pub fn begin(&mut self, now: Now, state: State) -> bool {
        // The pause after a logon ends on time, even if nothing can be sent.
        self.pause_until_ns = self.pause_until_ns.filter(|until| now.monotonic_ns < *until);
        let stores = self.stores(state) && !self.is_held_back;
        stores || !self.must_wait(state)
    }

    /// Returns the next message to be sent, if `left` and the outbox allow one more. The message
    /// stays first until it [is sent](Outgoing::sent) or [refused](Outgoing::refuse_first).
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

    /// Notes that the first message was sent with this MsgSeqNum(34).
    pub fn sent(&mut self, seq: u64) {
        self.backlog.first_is_sent(seq);
    }

    /// Removes and returns the first message, which cannot be sent.
    pub fn refuse_first(&mut self) -> Option<Left> {
        self.backlog.take_first()
    }

    /// Begins the configured pause after a logon, during which messages queued before the logon
    /// wait.
    pub(super) fn begin_pause(&mut self, now: Now) {
        let pause_ns = nanos(self.options.queue_pause);
        self.pause_until_ns = (pause_ns > 0).then(|| now.monotonic_ns + pause_ns);
    }

    pub(super) const fn end_pause(&mut self) {
        self.pause_until_ns = None;
    }

    /// Returns the end of the pause, on the monotonic clock.
    pub(super) const fn pause_until_ns(&self) -> Option<u64> {
        self.pause_until_ns
    }

    /// Returns true if messages must be put into the store, because they wait for a logon.
    pub fn keeps_now(&self, state: State) -> bool {
        self.keeps_in_store() && state != State::Active
    }

    /// Returns the first message that the store does not have, with the ticket for the store.
    pub fn next_to_keep(&self) -> Option<(u64, Queued<'_>)> {
        self.backlog.next_to_keep()
    }

    /// Notes that this message was put into the store.
    pub fn note_put(&mut self, now: Now) {
        self.backlog.note_put(now.utc.0.unsigned_abs());
    }

    /// Returns the ticket up to which no message waits any more, once. The store must be notified
    /// of the ticket.
    pub const fn take_gone(&mut self) -> Option<u64> {
        self.backlog.take_gone()
    }

    /// Notes that all stored records are safe. Returns true if returned messages can be passed to
    /// the application.
    pub fn committed(&mut self) -> bool {
        self.backlog.committed();
        !self.untold.is_empty()
    }

    /// Notes that all stored records will be safe with this ticket.
    pub fn will_be_committed(&mut self, ticket: u64) {
        self.backlog.will_be_committed(ticket);
        for untold in self.untold.iter_mut().rev().take_while(|left| left.ticket == UNCOMMITTED) {
            untold.ticket = ticket;
        }
    }

    /// Notes that all records up to this ticket are safe.
    pub(super) fn committed_up_to(&mut self, ticket: u64) {
        self.backlog.committed_up_to(ticket);
    }

    /// Drops the waiting message at this byte offset, because its sender receives an error.
    /// Messages of other senders stay.
    pub fn refuse(&mut self, at: usize) {
        self.backlog.refuse(at);
    }

    /// Adds a record of a waiting message from the store, with the time of its storage.
    pub fn add_restored(
        &self,
        restored: &mut Restored,
        (ticket, time_ns): (u64, u64),
        record: &[u8],
    ) {
        restored.add((ticket, time_ns), record, self.backlog.is_refused(ticket));
    }

    /// Continues with the waiting messages of the store. If the store `is_shared`, another process
    /// may have sent some of them. If the store has failed, sent messages that are not safe wait
    /// again.
    pub fn restore(&mut self, restored: Restored, how: (bool, bool)) {
        self.backlog.restore(restored, how);
    }

    /// Removes messages that have waited for a logon too long: at most `left` messages, which is
    /// counted down. If expired messages remain, [`Outgoing::deadline`] is in the past.
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

    /// Returns the time at which the first waiting message expires, on the monotonic clock.
    pub fn deadline(&self, now: Now) -> Option<u64> {
        let expires = self.options.queue_expires;
        let since_ns = self.backlog.first_kept_ns().filter(|_| !expires.is_zero())?;
        let waited_ns = now.utc.0.unsigned_abs().saturating_sub(since_ns);
        Some(now.monotonic_ns + nanos(expires).saturating_sub(waited_ns))
    }

    /// Returns true if the only waiting message can expire, so that the worker needs the new
    /// deadline.
    pub fn is_first_to_expire(&self) -> bool {
        !self.options.queue_expires.is_zero() && self.backlog.holds_one()
    }

    /// Handles a failed commit of returned messages. Messages that the store may contain continue
    /// to wait, and the application receives the remaining messages. Returns how many messages
    /// continue to wait, or `None` if no message was returned since the last commit.
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

    /// Returns true if messages were returned since the last commit.
    pub fn gives_back(&self) -> bool {
        self.untold.back().is_some_and(|last| last.ticket == UNCOMMITTED)
    }

    /// Queues returned messages, which the application receives as soon as the next commit is safe.
    pub(super) fn tell_later(&mut self, messages: Vec<GivenBack>, if_lost: IfLost) {
        let ticket = UNCOMMITTED;
        let untold = messages.into_iter().map(|message| Untold { ticket, message, if_lost });
        self.untold.extend(untold);
    }

    /// Returns the amount of unsettled work: waiting or uncertain bytes, plus 1 for each message
    /// that the application must still receive.
    pub fn unsettled(&self) -> usize {
        self.bytes() + self.backlog.uncommitted_bytes() + self.untold.len()
    }

    /// Returns the next returned message whose ticket is safe.
    pub fn take_untold(&mut self, ticket: u64) -> Option<GivenBack> {
        let first = self.untold.front()?;
        let is_safe = first.ticket <= ticket;
        is_safe.then(|| self.untold.pop_front()).flatten().map(|untold| untold.message)
    }

    /// Handles a store that failed before returns were safe. Returned messages that the store may
    /// contain wait again. Returns the number of these messages.
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

    /// Returns the MsgSeqNum(34) of the first sent message that is not safe.
    pub fn first_uncommitted(&self) -> Option<u64> {
        self.backlog.first_uncommitted().map(|(_, seq)| seq)
    }

    /// Returns true if the first sent message that is not safe may be `frame`, which the store has
    /// under its number.
    pub fn may_be_stored_as(&self, frame: &[u8]) -> bool {
        self.backlog.first_uncommitted().is_some_and(|(message, _)| {
            let mut found = frame.windows(message.body.len().max(1));
            message.body.is_empty() || found.any(|bytes| bytes == message.body)
        })
    }

    /// Forgets the first sent message that is not safe, because the store has the message.
    pub fn forget_first_uncommitted(&mut self) {
        self.backlog.forget_first_uncommitted();
    }

    /// Returns true if waiting messages are kept at the end of a connection, rather than returned.
    pub fn keeps_unsent(&self) -> bool {
        self.options.unsent == Unsent::Keep
    }

    /// Returns true if waiting messages are kept when the engine stops.
    pub fn keeps_rest(&self) -> bool {
        self.keeps_unsent() && self.keeps_in_store()
    }

    /// Removes all waiting messages, to be returned for this reason.
    pub fn take_all(&mut self, why: SendError) -> Vec<GivenBack> {
        let all = self.backlog.take_all();
        all.into_iter().map(|left| (left, why)).collect()
    }

    /// Schedules the return of messages for the time after the store is reopened: messages that the
    /// store may contain, and messages sent last. Until then it is unknown whether they were sent.
    /// The result is the number of bytes of the messages sent last.
    pub fn return_later(&mut self, why: SendError) -> usize {
        self.returns = Some(why);
        self.backlog.uncommitted_bytes()
    }

    /// Returns the bytes of messages that the store may or may not contain, because the store has
    /// failed or has not confirmed them.
    pub fn bytes_in_doubt(&self, has_failed: bool) -> usize {
        let untold = self.untold.iter().map(|untold| untold.message.0.body.len());
        let waiting = if has_failed { self.backlog.uncertain_bytes() } else { 0 };
        self.backlog.uncommitted_bytes() + untold.sum::<usize>() + waiting
    }

    /// Removes the waiting messages that were never put into the store.
    pub fn take_never_stored(&mut self) -> Vec<GivenBack> {
        let all = self.backlog.take_unkept();
        all.into_iter().map(|left| (left, SendError::Closed)).collect()
    }

    /// Schedules the return of all waiting messages for the time after the store is reopened.
    /// Otherwise the store would fail at the oversized message again.
    pub fn return_too_large(&mut self) {
        self.returns.get_or_insert(SendError::Failed);
    }

    /// Removes the messages whose return had to wait for the reopened store.
    pub fn take_late(&mut self) -> Vec<GivenBack> {
        self.returns.take().map(|why| self.take_all(why)).unwrap_or_default()
    }

    /// Returns the number of waiting bytes.
    pub fn bytes(&self) -> usize {
        self.backlog.len()
    }

    /// Returns the number of bytes sent, stored or returned since the start.
    pub const fn left_bytes(&self) -> u64 {
        self.backlog.left_bytes()
    }

    /// Returns MsgType(35) and body of the waiting messages, oldest first.
    pub fn list(&self) -> Vec<(String, Vec<u8>)> {
        record::list(self.backlog.bytes())
    }

    /// Drops the waiting messages.
    pub fn clear(&mut self) {
        self.backlog.clear();
    }

    /// Returns true if a burst has left far more memory than is used.
    pub const fn is_bulky(&self) -> bool {
        self.backlog.is_bulky()
    }

    /// Releases the unused memory of a burst.
    pub fn trim(&mut self) {
        self.backlog.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bodies of the messages that the application receives once this ticket is safe.
    fn told(outgoing: &mut Outgoing, ticket: u64) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| outgoing.take_untold(ticket)).map(|(left, _)| left.body).collect()
    }

    /// Creates a queue that has returned three messages, of which the store has the first two.
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
