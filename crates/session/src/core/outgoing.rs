//! The queue of application messages to be sent. A message waits for earlier messages, for a logon,
//! or for an operator who holds the messages back.
//!
//! Other threads submit messages to a separate queue of the executor, which moves them into the
//! backlog here.
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

/// A message that was removed from the queue unsent, and the reason.
pub type GivenBack = (Left, SendError);

/// The treatment of a returned message if the store fails before the removal of its record is
/// durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLost {
    /// The message waits to be sent, as before.
    Waits,
    /// When the store is reopened, the message is returned together with all waiting messages.
    Returns,
}

/// Placeholder for the ticket of messages that were returned since the last commit.
const UNCOMMITTED: u64 = u64::MAX;

/// A returned message that the application has not received yet: the removal of its record must
/// first be durable in the store.
struct PendingReturn {
    ticket: u64,
    message: GivenBack,
    if_lost: IfLost,
}

/// Messages that wait to be sent.
pub struct Outgoing {
    options: QueueSettings,
    /// Messages that were moved here from the queue of other threads and are not sent yet.
    backlog: Backlog,
    /// Returned messages that the application has not received yet, oldest first.
    untold: VecDeque<PendingReturn>,
    /// The reason for which all waiting messages are returned when the store is reopened; `None` if
    /// they continue to wait.
    returns: Option<SendError>,
    /// True if the last turn of the session left messages in the queue. The next turn then begins
    /// by sending them; otherwise a counterparty that sends without a pause could block the queue.
    is_first: bool,
    /// True if an operator holds the messages back.
    pub is_held_back: bool,
    /// End of the pause after a logon, on the monotonic clock; `None` if there is no pause.
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

    /// Returns true if messages receive a number and are stored while the session is not logged on.
    pub fn stores(&self, state: State) -> bool {
        self.options.offline == Offline::Store && state != State::Active
    }

    /// Returns true if messages that wait for a logon are kept in the store.
    pub(super) fn keeps_in_store(&self) -> bool {
        self.options.offline == Offline::Queue
    }

    /// Returns true if a new message must be queued, because it must wait for the next logon or
    /// earlier messages still wait.
    pub fn must_queue(&self, state: State) -> bool {
        self.waits_behind(state) || self.keeps_now(state)
    }

    /// Returns true if earlier messages are held back by an operator or a pause, so that a new
    /// message must wait behind them.
    pub fn waits_behind(&self, state: State) -> bool {
        let active = state == State::Active;
        let waits = self.is_held_back || self.pause_until_ns.is_some();
        waits && (active || self.stores(state))
    }

    /// Returns true if the waiting messages cannot be sent now.
    fn must_wait(&self, state: State) -> bool {
        state != State::Active || self.is_held_back || self.pause_until_ns.is_some()
    }

    /// Returns true if waiting messages can be sent, because the outbox has room again.
    pub fn sends_more(&self, state: State, outbox_bytes: usize) -> bool {
        !self.backlog.is_empty() && !self.is_full(outbox_bytes) && !self.must_wait(state)
    }

    /// Returns true if messages wait or a pause is active, so that [`Outgoing::begin`] must be
    /// called. The check is cheap, because most turns have nothing to send.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.pause_until_ns.is_some() || !self.backlog.is_empty()
    }

    /// Returns true if no message waits in this queue; the queue of other threads may still contain
    /// messages.
    pub fn is_empty(&self) -> bool {
        self.backlog.is_empty()
    }

    /// Appends messages that other threads have submitted; `add` appends their encoded form to the
    /// given buffer.
    pub fn take_in(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        self.backlog.take_in(add);
    }

    /// Returns true if the last turn of the session left messages, which must be sent first in this
    /// turn.
    pub const fn is_first(&self) -> bool {
        self.is_first
    }

    /// Records that the messages left by the last turn have been considered in this turn.
    pub const fn had_turn(&mut self) {
        self.is_first = false;
    }

    /// Begins sending in a turn of the session. Returns true if messages may be sent or stored now.
    pub fn begin(&mut self, now: Now, state: State) -> bool {
        // The pause after a logon ends at its time, even if nothing can be sent.
        self.pause_until_ns = self.pause_until_ns.filter(|until| now.monotonic_ns < *until);
        let stores = self.stores(state) && !self.is_held_back;
        stores || !self.must_wait(state)
    }

    /// Returns the next message to be sent, if `left`, the number of messages still allowed, and
    /// the outbox permit it. The message stays first until it [is sent](Outgoing::sent) or
    /// [refused](Outgoing::refuse_first).
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

    /// Records that the first message was sent with this MsgSeqNum(34).
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

    /// Returns the end of the pause after a logon, on the monotonic clock.
    pub(super) const fn pause_until_ns(&self) -> Option<u64> {
        self.pause_until_ns
    }

    /// Returns true if waiting messages must be put into the store now, because the session is not
    /// logged on.
    pub fn keeps_now(&self, state: State) -> bool {
        self.keeps_in_store() && state != State::Active
    }

    /// Returns the first message that was not put into the store, with the ticket under which the
    /// store keeps it.
    pub fn next_to_keep(&self) -> Option<(u64, Queued<'_>)> {
        self.backlog.next_to_keep()
    }

    /// Records that the message of [`Outgoing::next_to_keep`] was put into the store.
    pub fn note_put(&mut self, now: Now) {
        self.backlog.note_put(now.utc.0.unsigned_abs());
    }

    /// Returns the ticket up to which all messages were sent or returned, once for each such
    /// ticket. The store must then remove their records.
    pub const fn take_finished_ticket(&mut self) -> Option<u64> {
        self.backlog.take_finished_ticket()
    }

    /// Records that everything put into the store is durable. Returns true if returned messages can
    /// now be passed to the application.
    pub fn committed(&mut self) -> bool {
        self.backlog.committed();
        !self.untold.is_empty()
    }

    /// Records that everything put into the store becomes durable with this ticket.
    pub fn will_be_committed(&mut self, ticket: u64) {
        self.backlog.will_be_committed(ticket);
        for untold in self.untold.iter_mut().rev().take_while(|left| left.ticket == UNCOMMITTED) {
            untold.ticket = ticket;
        }
    }

    /// Records that everything committed up to this ticket is durable.
    pub(super) fn committed_up_to(&mut self, ticket: u64) {
        self.backlog.committed_up_to(ticket);
    }

    /// Drops the waiting message at this byte offset, because its sender receives an error.
    /// Messages of other senders remain.
    pub fn refuse(&mut self, at: usize) {
        self.backlog.refuse(at);
    }

    /// Adds the record of a waiting message as read from the store, with the time at which it was
    /// stored.
    pub fn add_restored(
        &self,
        restored: &mut Restored,
        (ticket, time_ns): (u64, u64),
        record: &[u8],
    ) {
        restored.add((ticket, time_ns), record, self.backlog.is_refused(ticket));
    }

    /// Replaces the queue by the waiting messages that were read from the store. `how` is
    /// (`is_shared`, `has_failed`): in a shared store, another process may have sent some messages.
    /// After a failure of the store, sent messages that are not durable wait again.
    pub fn restore(&mut self, restored: Restored, how: (bool, bool)) {
        self.backlog.restore(restored, how);
    }

    /// Removes messages that have waited too long for a logon, at most `left` messages, and
    /// subtracts their number from `left`. If expired messages remain, [`Outgoing::deadline`] is in
    /// the past.
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

    /// Returns true if exactly one message waits and can expire, so that the worker must be
    /// notified of the new deadline.
    pub fn is_first_to_expire(&self) -> bool {
        !self.options.queue_expires.is_zero() && self.backlog.holds_one()
    }

    /// Handles a failed commit of returned messages. Messages that the store may contain wait
    /// again, and the application receives the other messages. Returns the number of messages that
    /// wait again, or `None` if no message was returned since the last commit.
    pub(super) fn keep_waiting(&mut self) -> Option<usize> {
        let is_new = |untold: &&PendingReturn| untold.ticket == UNCOMMITTED;
        let new = self.untold.iter().rev().take_while(is_new).count();
        let new = self.untold.split_off(self.untold.len() - new);
        if new.is_empty() {
            return None;
        }
        let (mut kept, mut others) = (Vec::new(), VecDeque::new());
        for untold in new {
            match untold.message.0.is_kept() {
                true => kept.push(untold.message.0),
                false => others.push_back(PendingReturn { ticket: 0, ..untold }),
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

    /// Queues returned messages, which the application receives when the next commit is durable.
    pub(super) fn tell_later(&mut self, messages: Vec<GivenBack>, if_lost: IfLost) {
        let ticket = UNCOMMITTED;
        let untold = messages.into_iter().map(|message| PendingReturn { ticket, message, if_lost });
        self.untold.extend(untold);
    }

    /// Returns the amount of unfinished work: the waiting bytes, the bytes not yet durable, and 1
    /// for each returned message that the application must still receive.
    pub fn unsettled(&self) -> usize {
        self.bytes() + self.backlog.uncommitted_bytes() + self.untold.len()
    }

    /// Removes and returns the next returned message, if its removal from the store is durable with
    /// `ticket`.
    pub fn take_omitted(&mut self, ticket: u64) -> Option<GivenBack> {
        let first = self.untold.front()?;
        let is_safe = first.ticket <= ticket;
        is_safe.then(|| self.untold.pop_front()).flatten().map(|untold| untold.message)
    }

    /// Handles a failure of the store before the removal of returned messages was durable. Messages
    /// that the store may contain wait again. Returns their number.
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

    /// Returns the MsgSeqNum(34) of the first sent message that is not yet durable.
    pub fn first_uncommitted(&self) -> Option<u64> {
        self.backlog.first_uncommitted().map(|(_, seq)| seq)
    }

    /// Returns true if `frame`, which the store contains under the number of the first sent message
    /// that is not yet durable, may be that message.
    pub fn may_be_stored_as(&self, frame: &[u8]) -> bool {
        self.backlog.first_uncommitted().is_some_and(|(message, _)| {
            let mut found = frame.windows(message.body.len().max(1));
            message.body.is_empty() || found.any(|bytes| bytes == message.body)
        })
    }

    /// Forgets the first sent message that is not yet durable, because the store contains it.
    pub fn forget_first_uncommitted(&mut self) {
        self.backlog.forget_first_uncommitted();
    }

    /// Returns true if waiting messages continue to wait at the end of a connection, instead of
    /// being returned.
    pub fn keeps_unsent(&self) -> bool {
        self.options.unsent == Unsent::Keep
    }

    /// Returns true if waiting messages stay in the store when the engine stops.
    pub fn keeps_rest(&self) -> bool {
        self.keeps_unsent() && self.keeps_in_store()
    }

    /// Removes all waiting messages, which are returned to the application for this reason.
    pub fn take_all(&mut self, why: SendError) -> Vec<GivenBack> {
        let all = self.backlog.take_all();
        all.into_iter().map(|left| (left, why)).collect()
    }

    /// Schedules the return of messages for the time when the store is reopened: the messages that
    /// the store may contain, and the messages that were sent but are not durable. Until then it is
    /// unknown whether they were sent. Returns the number of bytes of the latter messages.
    pub fn return_later(&mut self, why: SendError) -> usize {
        self.returns = Some(why);
        self.backlog.uncommitted_bytes()
    }

    /// Returns the total bytes of messages that the store may or may not contain, because it has
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

    /// Schedules the return of all waiting messages for the time when the store is reopened.
    /// Without the return, the store would fail at the oversized message again.
    pub fn return_too_large(&mut self) {
        self.returns.get_or_insert(SendError::Failed);
    }

    /// Removes the messages whose return had to wait until the store was reopened.
    pub fn take_late(&mut self) -> Vec<GivenBack> {
        self.returns.take().map(|why| self.take_all(why)).unwrap_or_default()
    }

    /// Returns the total bytes of the waiting messages.
    pub fn bytes(&self) -> usize {
        self.backlog.len()
    }

    /// Returns the total bytes of messages that were sent, stored or returned since the start.
    pub const fn left_bytes(&self) -> u64 {
        self.backlog.left_bytes()
    }

    /// Returns MsgType(35) and body of each waiting message, oldest first.
    pub fn list(&self) -> Vec<(String, Vec<u8>)> {
        record::list(self.backlog.bytes())
    }

    /// Drops all waiting messages.
    pub fn clear(&mut self) {
        self.backlog.clear();
    }

    /// Returns true if the queue has far more memory than its content needs.
    pub const fn is_bulky(&self) -> bool {
        self.backlog.is_bulky()
    }

    /// Releases memory that a burst has left unused.
    pub fn trim(&mut self) {
        self.backlog.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bodies of the messages that the application receives when this ticket is
    /// durable.
    fn told(outgoing: &mut Outgoing, ticket: u64) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| outgoing.take_omitted(ticket)).map(|(left, _)| left.body).collect()
    }

    /// Creates a queue that has returned three messages; the store contains the first two of them.
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
