//! Messages that wait for the application of a session.
//!
//! Invariant: messages are delivered in order. While a message waits for its application, all later
//! messages wait too.

mod handed;

use std::collections::VecDeque;

use transfix_codec::Message;

use crate::answers::BusinessReject;
use crate::{ApplicationSettings, Now, Unavailable, UnavailableAction, nanos};
use handed::Handed;
pub use handed::HandedCall;

const MS: u64 = 1_000_000;
/// Time until a message is offered again to a busy session, in nanoseconds.
const SOON_NS: u64 = MS / 5;

/// How a message at the head of the queue is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The application receives the message.
    Offer,
    /// The message is rejected, because a limit (`throttle`) was exceeded. The rejection waits for
    /// all earlier messages. If a new logon precedes the rejection, the counterparty resends all
    /// these messages, and the session accepts them.
    Reject,
}

/// A message that waits for its application, with its number; 0 = the number is no longer valid.
#[derive(Debug)]
struct Postponed {
    seq: u64,
    bytes: Vec<u8>,
    handling: Handling,
}

/// The effect of the application's answer to a message.
pub enum Offered {
    /// The message counts as delivered, or is skipped.
    Taken,
    /// The application refuses the message, and the counterparty receives a rejection.
    Rejected(BusinessReject),
    /// The message is offered again later.
    Later,
    /// The message was offered as often as allowed: the connection ends.
    GivenUp,
}

/// The outcome of a call of the application.
pub enum Made {
    /// The application has handled the call.
    Had,
    Rejected(BusinessReject),
    /// The application is not available for the message.
    NotAvailable(BusinessReject),
    /// The application has panicked.
    Panicked,
}

impl Made {
    /// Returns the outcome for an answer of the application.
    pub fn of(answer: Result<(), BusinessReject>) -> Self {
        match answer {
            Ok(()) => Self::Had,
            Err(reject) if reject.is_not_available() => Self::NotAvailable(reject),
            Err(reject) => Self::Rejected(reject),
        }
    }
}

/// Messages and calls that the application has not handled yet.
pub struct Delivery {
    /// Calls passed to an application in its own threads.
    handed: Option<Handed>,
    policy: Unavailable,
    postponed: VecDeque<Postponed>,
    /// Bytes of the postponed messages.
    bytes: usize,
    /// How often the first message was offered.
    offers: u32,
    /// Time of the next offer, on the monotonic clock.
    at_ns: u64,
}

impl Delivery {
    /// Creates an empty delivery. `limits` belong to an application that runs in its own threads.
    pub fn new(limits: Option<ApplicationSettings>, policy: Unavailable) -> Self {
        let handed = limits.map(Handed::new);
        Self { handed, policy, postponed: VecDeque::new(), bytes: 0, offers: 0, at_ns: 0 }
    }

    /// Returns the effect of the application's answer.
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

    /// Notes that a call was passed to the application.
    pub fn hand_over(&mut self, call: HandedCall) {
        if let Some(handed) = &mut self.handed {
            handed.put(call);
        }
    }

    /// Removes and returns the first passed call, which has ended.
    pub fn take_had(&mut self, made: &Made) -> Option<HandedCall> {
        let handed = self.handed.as_mut()?;
        let had = handed.take_first()?;
        if matches!(made, Made::Panicked) && !had.is_void {
            handed.panicked(had.seq);
        }
        if !self.postponed.is_empty() && handed.is_idle() {
            // Postponed messages have their turn now.
            handed.owe_turn();
        }
        Some(had)
    }

    /// Notes that an application in its own thread has panicked, and receives no more messages.
    /// Returns the number of the message that the application was handling; 0 = none.
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

    /// Requests a turn for the end of the application's current call.
    pub fn await_return(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.await_return();
        }
    }

    /// Returns true if an awaited condition has occurred, and the session needs a turn.
    #[inline]
    pub fn owes_turn(&mut self) -> bool {
        self.handed.as_mut().is_some_and(Handed::owes_turn)
    }

    /// Returns true if no more bytes may be read until the application has handled more.
    pub fn is_behind(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.waits_when_full() && handed.is_full())
    }

    /// Returns true if the application's queue exceeds its limit, and the connection must end.
    pub fn is_over(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| !handed.waits_when_full() && handed.is_over())
    }

    /// Returns true if one more call can be passed to the application; `None` = the application
    /// runs in the thread that drives the session.
    pub fn has_room(&self) -> Option<bool> {
        self.handed.as_ref().map(|handed| !handed.is_full())
    }

    /// Returns true if the session stops reading while the application's queue is full.
    pub(super) fn waits_when_full(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::waits_when_full)
    }

    /// Returns true if a burst has left unused memory.
    #[inline]
    pub fn is_bulky(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::is_bulky)
    }

    /// Releases the unused memory of a burst.
    pub fn trim(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.trim();
        }
    }

    /// Returns true if postponed messages wait for the application.
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// Returns the number and bytes of messages and frames that wait for an application in its own
    /// threads.
    pub fn waiting(&self) -> (usize, usize) {
        self.handed.as_ref().map_or((0, 0), Handed::waiting)
    }

    /// Returns the bytes of all waiting messages.
    pub fn bytes(&self) -> usize {
        self.bytes + self.handed.as_ref().map_or(0, Handed::bytes)
    }

    /// Postpones a message behind the waiting messages. Returns false if the limits leave no room;
    /// one message always has room. `seq` is the number of the message; 0 = a reset is under way,
    /// which will invalidate the number.
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

    /// Returns the postponed message to be offered now, with its number; 0 = the number is no
    /// longer valid.
    pub fn next(&self, now: Now) -> Option<(u64, Vec<u8>, Handling)> {
        let first = self.postponed.front().filter(|_| self.offers_more(now))?;
        Some((first.seq, first.bytes.clone(), first.handling))
    }

    /// Returns true if postponed messages must be offered now.
    pub fn offers_more(&self, now: Now) -> bool {
        self.deadline().is_some_and(|at| now.monotonic_ns >= at)
    }

    /// Returns the time at which the first waiting message is offered again, on the monotonic
    /// clock.
    pub fn deadline(&self) -> Option<u64> {
        let (is_halted, is_idle) =
            self.handed.as_ref().map_or((false, true), |all| (all.is_halted(), all.is_idle()));
        let waits_for_time = is_halted || (self.has_postponed() && is_idle);
        waits_for_time.then_some(self.at_ns)
    }

    /// Notes that an application in its own threads was not available for the first waiting
    /// message.
    pub(super) fn halt(&mut self, now: Now) {
        self.offer_later(now);
        if let Some(handed) = &mut self.handed {
            handed.halt();
        }
    }

    /// Returns true if a call that was halted is due now: the application was not available for its
    /// message. Ends the halt.
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

    /// Notes that the application has handled a passed message.
    pub(super) const fn was_taken(&mut self) {
        self.offers = 0;
    }

    /// Removes the first postponed message, which was delivered. The next message is offered at
    /// once.
    pub fn first_is_taken(&mut self) {
        if let Some(first) = self.postponed.pop_front() {
            self.bytes -= first.bytes.len();
        }
        self.offers = 0;
    }

    /// Schedules another offer of the current message, and counts the offer.
    pub fn offer_later(&mut self, now: Now) {
        self.offers += 1;
        self.at_ns = now.monotonic_ns + nanos(self.policy.delay);
    }

    /// Schedules an early offer of the current message, because another session was busy.
    pub const fn offer_soon(&mut self, now: Now) {
        self.at_ns = now.monotonic_ns + SOON_NS;
    }

    /// Returns the lowest number of an undelivered message. Messages from before a reset have no
    /// number.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let handed_over = self.handed.as_ref().and_then(Handed::first_seq);
        handed_over.or_else(|| if self.has_postponed() { self.first_postponed() } else { None })
    }

    /// Returns the number of the message that an application in its own thread is handling, if the
    /// message does not count as delivered. The session must have processed the results of all
    /// earlier calls.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.handed.as_ref().and_then(Handed::running_seq)
    }

    /// Counts the message with this number as delivered, even while the application is handling the
    /// message. Returns false if the number is no longer valid.
    pub fn count(&mut self, seq: u64) -> bool {
        self.handed.as_mut().is_some_and(|handed| handed.count(seq))
    }

    /// Returns the highest message number among the first `begun` passed calls.
    pub fn last_seq(&self, begun: usize) -> Option<u64> {
        self.handed.as_ref()?.last_seq(begun)
    }

    /// Discards the first `begun` calls. Handled calls are removed, and the result of a call that
    /// still runs (`runs`) is ignored.
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

    /// Returns true if the passed call at this index is for a message that will be requested again
    /// after the next logon.
    pub fn is_asked_again(&self, place: usize) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.is_numbered(place))
    }

    /// Drops the messages after the first `begun` calls that will be requested again after the next
    /// logon. Returns the lowest dropped number. Messages from before a reset exist nowhere else,
    /// and continue to wait.
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

    /// Drops all waiting messages after a panic, because they will be requested again. No passed
    /// message counts. See [`Delivery::undo`].
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

    /// Each postponed message has its turn after the application has handled the previous message.
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
            assert!(delivery.take_had(&Made::Had).is_some());
            assert!(delivery.owes_turn() && delivery.offers_more(Now::default()));
            delivery.first_is_taken();
            delivery.hand_over(call(seq));
        }
    }
}
