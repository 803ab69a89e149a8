//! The messages and calls that wait for the application of a session.
//!
//! Invariant: messages are delivered in order. While the application is not available for a
//! message, all later messages wait too.

mod handed;

use std::collections::VecDeque;

use transfix_codec::Message;

use crate::answers::BusinessReject;
use crate::{ApplicationSettings, Now, Unavailable, UnavailableAction, nanos};
use handed::Handed;
pub use handed::HandedCall;

const MS: u64 = 1_000_000;
/// Time after which the delivery to another session that was in use is tried again, in nanoseconds.
const SOON_NS: u64 = MS / 5;

/// The treatment of a message at the head of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The application receives the message.
    Offer,
    /// The session rejects the message, because a limit (`throttle`) was exceeded. The rejection is
    /// sent after all earlier messages are handled. If a new logon comes first, the counterparty
    /// resends all these messages, and the session accepts them.
    Reject,
}

/// A message that waits for its application. `seq` is its sequence number; 0 means that the number
/// is no longer valid.
#[derive(Debug)]
struct Postponed {
    seq: u64,
    bytes: Vec<u8>,
    handling: Handling,
}

/// The consequence of the application's answer to a message.
pub enum Offered {
    /// The message counts as delivered, or is skipped.
    Taken,
    /// The application refuses the message, and the counterparty receives a rejection.
    Rejected(BusinessReject),
    /// The message will be delivered again later.
    Later,
    /// The message was delivered as often as allowed, and the connection ends.
    GivenUp,
}

/// The outcome of a call of the application.
pub enum Made {
    /// The application has handled the call.
    Had,
    Rejected(BusinessReject),
    /// The application answered that it is not available for the message.
    NotAvailable(BusinessReject),
    /// The application has panicked.
    Panicked,
}

impl Made {
    /// Returns the outcome that follows from an answer of the application.
    pub fn of(answer: Result<(), BusinessReject>) -> Self {
        match answer {
            Ok(()) => Self::Had,
            Err(reject) if reject.is_not_available() => Self::NotAvailable(reject),
            Err(reject) => Self::Rejected(reject),
        }
    }
}

/// The messages and calls that the application has not handled yet.
pub struct Delivery {
    /// The calls passed to an application in its own threads; `None` if the application runs in the
    /// thread that drives the session.
    handed: Option<Handed>,
    policy: Unavailable,
    postponed: VecDeque<Postponed>,
    /// Total length of the postponed messages, in bytes.
    bytes: usize,
    /// Number of failed attempts to deliver the message at the head of the queue.
    offers: u32,
    /// Time of the next delivery of the first message, on the monotonic clock.
    at_ns: u64,
}

impl Delivery {
    /// Creates an empty queue. `limits` apply to an application in its own threads; `None` means
    /// that the application runs in the thread that drives the session.
    pub fn new(limits: Option<ApplicationSettings>, policy: Unavailable) -> Self {
        let handed = limits.map(Handed::new);
        Self { handed, policy, postponed: VecDeque::new(), bytes: 0, offers: 0, at_ns: 0 }
    }

    /// Returns the consequence of the application's answer.
    pub fn judge(&self, answer: Result<(), BusinessReject>) -> Offered {
        match answer {
            Ok(()) => Offered::Taken,
            Err(reject) if !reject.is_not_available() => Offered::Rejected(reject),
            Err(_) if self.offers < self.policy.retries => Offered::Later,
            Err(reject) => match self.policy.then {
                UnavailableAction::Silence => Offered::Taken,
                UnavailableAction::Disconnect => Offered::GivenUp,
                UnavailableAction::Reject => Offered::Rejected(reject),
            },
        }
    }

    /// Records that a call was passed to the application.
    pub fn hand_over(&mut self, call: HandedCall) {
        if let Some(handed) = &mut self.handed {
            handed.put(call);
        }
    }

    /// Removes and returns the first passed call, after the call has ended.
    pub fn take_ended_call(&mut self, made: &Made) -> Option<HandedCall> {
        let handed = self.handed.as_mut()?;
        let had = handed.take_first()?;
        if matches!(made, Made::Panicked) && !had.is_void {
            handed.panicked(had.seq);
        }
        if !self.postponed.is_empty() && handed.is_idle() {
            // The application is idle, so a turn is requested for the postponed messages.
            handed.owe_turn();
        }
        Some(had)
    }

    /// Records that an application in its own thread has panicked, and receives no more messages.
    /// Returns the number of the message that the application was handling; 0 means no message.
    pub fn has_panicked(&mut self) -> u64 {
        self.handed.as_mut().map_or(0, |handed| handed.panicked(0))
    }

    /// Returns true if the application has handled all passed calls, or runs in the thread that
    /// drives the session. Otherwise postponed messages must wait.
    pub fn rests(&self) -> bool {
        self.handed.as_ref().is_none_or(Handed::is_idle)
    }

    /// Returns true if an application in its own threads is idle, and stays idle. Otherwise
    /// [`Delivery::owes_turn`] reports when the application becomes idle.
    pub fn ask_for_idle(&mut self) -> bool {
        self.handed.as_mut().is_none_or(Handed::ask_for_idle)
    }

    /// Requests a turn of the session for the time when the application's current call ends.
    pub fn await_return(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.await_return();
        }
    }

    /// Returns true if an awaited condition has occurred, so that the session needs a turn.
    #[inline]
    pub fn owes_turn(&mut self) -> bool {
        self.handed.as_mut().is_some_and(Handed::owes_turn)
    }

    /// Returns true if the session must not read more bytes until the application has handled more
    /// messages.
    pub fn is_behind(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.waits_when_full() && handed.is_full())
    }

    /// Returns true if the application's queue exceeds its limit, and the connection must end.
    pub fn is_over(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| !handed.waits_when_full() && handed.is_over())
    }

    /// Returns true if one more call can be passed to the application; `None` if the application
    /// runs in the thread that drives the session.
    pub fn has_room(&self) -> Option<bool> {
        self.handed.as_ref().map(|handed| !handed.is_full())
    }

    /// Returns true if the session stops reading while the application's queue is full.
    pub(super) fn waits_when_full(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::waits_when_full)
    }

    /// Returns true if the queue has far more memory than its content needs.
    #[inline]
    pub fn is_bulky(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::is_bulky)
    }

    /// Releases memory that a burst has left unused.
    pub fn trim(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.trim();
        }
    }

    /// Returns true if postponed messages wait for the application.
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Returns the number and total bytes of the messages and frames that wait for an application
    /// in its own threads.
    pub fn waiting(&self) -> (usize, usize) {
        self.handed.as_ref().map_or((0, 0), Handed::waiting)
    }

    /// Returns the total bytes of all waiting messages.
    pub fn bytes(&self) -> usize {
        self.bytes + self.handed.as_ref().map_or(0, Handed::bytes)
    }

    /// Queues a message behind the waiting messages. Returns false if the limits leave no room; a
    /// single message always has room. `seq` is the number of the message; 0 means that a reset in
    /// progress will invalidate the number.
    pub fn postpone(
        &mut self,
        (seq, message): (u64, &Message<'_>),
        handling: Handling,
        (messages_max, bytes_max): (usize, usize),
    ) -> bool {
        let bytes = message.bytes();
        if self.postponed.len() >= messages_max.max(1)
            || self.bytes + bytes.len() > bytes_max.max(bytes.len())
        {
            return false;
        }
        self.bytes += bytes.len();
        self.postponed.push_back(Postponed { seq, bytes: bytes.to_vec(), handling });
        true
    }

    /// Returns the postponed message to be delivered now, with its number; 0 means that the number
    /// is no longer valid.
    pub fn next(&self, now: Now) -> Option<(u64, Vec<u8>, Handling)> {
        let first = self.postponed.front().filter(|_| self.offers_more(now))?;
        Some((first.seq, first.bytes.clone(), first.handling))
    }

    /// Returns true if a postponed message must be delivered now.
    pub fn offers_more(&self, now: Now) -> bool {
        self.deadline().is_some_and(|at| now.monotonic_ns >= at)
    }

    /// Returns the time of the next delivery of the first waiting message, on the monotonic clock.
    pub fn deadline(&self) -> Option<u64> {
        let (is_halted, is_idle) =
            self.handed.as_ref().map_or((false, true), |all| (all.is_halted(), all.is_idle()));
        let waits_for_time = is_halted || (self.has_postponed() && is_idle);
        waits_for_time.then_some(self.at_ns)
    }

    /// Records that an application in its own threads was not available for the first waiting
    /// message.
    pub(super) fn halt(&mut self, now: Now) {
        self.offer_later(now);
        if let Some(handed) = &mut self.handed {
            handed.halt();
        }
    }

    /// Returns true if the call for a message for which the application was not available must be
    /// repeated now. The queue is then no longer halted.
    pub fn has_more_work(&mut self, now: Now) -> bool {
        let Some(handed) = self.handed.as_mut().filter(|_| now.monotonic_ns >= self.at_ns) else {
            return false;
        };
        handed.end_halt()
    }

    /// Skips the message for which the application was not available.
    pub fn pass_over(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.end_halt();
        }
    }

    /// Records that the application has handled a message that was passed to it.
    pub(super) const fn was_taken(&mut self) {
        self.offers = 0;
    }

    /// Removes the first postponed message, which was delivered. The next message can be delivered
    /// at once.
    pub fn first_is_taken(&mut self) {
        if let Some(first) = self.postponed.pop_front() {
            self.bytes -= first.bytes.len();
        }
        self.offers = 0;
    }

    /// Schedules another delivery of the current message, and counts the unsuccessful one.
    pub fn offer_later(&mut self, now: Now) {
        self.offers += 1;
        self.at_ns = now.monotonic_ns + nanos(self.policy.delay);
    }

    /// Schedules an early repetition of the delivery, because the target session was in use.
    pub const fn offer_soon(&mut self, now: Now) {
        self.at_ns = now.monotonic_ns + SOON_NS;
    }

    /// Returns the lowest number of a message that is not yet delivered. Messages from before a
    /// reset have no number.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let handed_over = self.handed.as_ref().and_then(Handed::first_seq);
        handed_over.or_else(|| if self.has_postponed() { self.first_postponed() } else { None })
    }

    /// Returns the number of the message that an application in its own thread is handling; `None`
    /// if the message already counts as delivered. The session must have processed the results of
    /// all earlier calls.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.handed.as_ref().and_then(Handed::running_seq)
    }

    /// Counts the message with this number as delivered, even while the application is still
    /// handling it. Returns false if the number is no longer valid.
    pub fn count(&mut self, seq: u64) -> bool {
        self.handed.as_mut().is_some_and(|handed| handed.count(seq))
    }

    /// Returns the highest message number among the first `begun` passed calls.
    pub fn last_seq(&self, begun: usize) -> Option<u64> {
        self.handed.as_ref()?.last_seq(begun)
    }

    /// Discards the first `begun` calls. Calls that have ended are removed. If the last of them
    /// still runs (`runs`), its result will be ignored.
    pub fn undo(&mut self, begun: usize, runs: bool) {
        if let Some(handed) = &mut self.handed {
            handed.undo(begun, runs);
        }
    }

    #[cold]
    fn first_postponed(&self) -> Option<u64> {
        self.postponed.iter().map(|waiting| waiting.seq).find(|seq| *seq > 0)
    }

    /// Invalidates the numbers of all waiting messages after a reset.
    pub fn forget_numbers(&mut self) {
        self.postponed.iter_mut().for_each(|waiting| waiting.seq = 0);
        if let Some(handed) = &mut self.handed {
            handed.forget_numbers();
        }
    }

    /// Returns true if the passed call at index `place` is for a message that will be requested
    /// again after the next logon.
    pub fn is_asked_again(&self, place: usize) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.is_numbered(place))
    }

    /// Drops the messages after the first `begun` calls that will be requested again after the next
    /// logon. Returns the lowest dropped number. Messages from before a reset cannot be requested
    /// again, and continue to wait.
    pub(super) fn forget_numbered(&mut self, begun: usize) -> Option<u64> {
        let seq = self.first_seq()?;
        if let Some(handed) = &mut self.handed {
            handed.forget_numbered(begun);
        }
        self.postponed.retain(|waiting| waiting.seq == 0);
        self.offers = 0;
        self.bytes = self.postponed.iter().map(|waiting| waiting.bytes.len()).sum();
        Some(seq)
    }

    /// Drops all waiting messages after a panic, because they will be requested again. No message
    /// that was passed to the application counts as delivered. See [`Delivery::undo`].
    pub fn clear(&mut self, begun: usize, runs: bool) {
        self.postponed.clear();
        if let Some(handed) = &mut self.handed {
            handed.clear(begun, runs);
        }
        (self.bytes, self.offers) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use transfix_codec::{CheckSumPolicy, FieldIndex};

    use super::*;

    /// For each postponed message, a turn is requested after the application has handled the
    /// previous message.
    #[test]
    fn a_turn_is_owed_for_each_message_that_is_postponed() {
        let policy = Unavailable::default();
        let mut delivery = Delivery::new(Some(ApplicationSettings::default()), policy);
        let call = |seq| HandedCall { seq, is_message: true, ..HandedCall::default() };
        let mut index = FieldIndex::default();
        let bytes = b"8=FIX.4.4\x019=5\x0135=D\x0110=000\x01";
        let message = Message::parse(bytes, &mut index, CheckSumPolicy::Ignore).expect("a message");
        delivery.hand_over(call(2));
        for seq in 3..5 {
            assert!(delivery.postpone((seq, &message), Handling::Offer, (10, 10_000)));
        }
        for seq in 3..5 {
            assert!(!delivery.owes_turn() && !delivery.offers_more(Now::default()));
            assert!(delivery.take_ended_call(&Made::Had).is_some());
            assert!(delivery.owes_turn() && delivery.offers_more(Now::default()));
            delivery.first_is_taken();
            delivery.hand_over(call(seq));
        }
    }
}
