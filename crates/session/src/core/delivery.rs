//! The messages that wait for the application of a session.
//!
//! Invariant: messages are delivered in order; while one waits for its application, those behind it
//! wait too.

mod handed;

use std::collections::VecDeque;

use transfix_codec::Message;

use crate::answers::BusinessReject;
use crate::{ApplicationSettings, Now, Unavailable, UnavailableAction, nanos};
use handed::Handed;
pub use handed::HandedCall;

const MS: u64 = 1_000_000;
/// Time before a message is offered again to a session that was busy.
const SOON_NS: u64 = MS / 5;

/// The treatment of a message when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// The application gets it.
    Offer,
    /// It is rejected, since too many came at once (`throttle`). Not before its turn: if a new
    /// logon comes first, it is sent again together with those before it, and is taken then.
    Reject,
}

/// A message that waits for its application, with its number; 0 if that means nothing any more.
#[derive(Debug)]
struct Postponed {
    seq: u64,
    bytes: Vec<u8>,
    handling: Handling,
}

/// The application's answer to a message, as the session heeds it.
pub enum Offered {
    /// It has had it, or passes it over for good.
    Taken,
    /// It does not take it: the counterparty is told.
    Rejected(BusinessReject),
    /// It is to be asked again.
    Later,
    /// It was asked often enough: the connection ends.
    GivenUp,
}

/// The outcome of a call of the application.
pub enum Made {
    /// It has had it.
    Had,
    Rejected(BusinessReject),
    /// It is not available for it.
    NotAvailable(BusinessReject),
    /// It has panicked.
    Panicked,
}

impl Made {
    /// The outcome that its answer means.
    pub fn of(answer: Result<(), BusinessReject>) -> Self {
        match answer {
            Ok(()) => Self::Had,
            Err(reject) if reject.is_not_available() => Self::NotAvailable(reject),
            Err(reject) => Self::Rejected(reject),
        }
    }
}

/// Messages and calls that the application has not taken yet.
pub struct Delivery {
    /// The calls that were handed over to an application in threads of its own.
    handed: Option<Handed>,
    policy: Unavailable,
    postponed: VecDeque<Postponed>,
    /// Bytes of the messages that wait.
    bytes: usize,
    /// How often the first one was offered.
    offers: u32,
    /// When it is offered again.
    at_ns: u64,
}

impl Delivery {
    /// `limits`: of an application that is called in threads of its own.
    pub fn new(limits: Option<ApplicationSettings>, policy: Unavailable) -> Self {
        let handed = limits.map(Handed::new);
        Self { handed, policy, postponed: VecDeque::new(), bytes: 0, offers: 0, at_ns: 0 }
    }

    /// The consequence of the application's answer.
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

    /// A call was handed over.
    pub fn hand_over(&mut self, call: HandedCall) {
        if let Some(handed) = &mut self.handed {
            handed.put(call);
        }
    }

    /// The first call that was handed over has ended.
    pub fn take_had(&mut self, made: &Made) -> Option<HandedCall> {
        let handed = self.handed.as_mut()?;
        let had = handed.take_first()?;
        if matches!(made, Made::Panicked) && !had.is_void {
            handed.panicked(had.seq);
        }
        if !self.postponed.is_empty() && handed.is_idle() {
            // It is the turn of those.
            handed.owe_turn();
        }
        Some(had)
    }

    /// The application has panicked in a thread of its own: it is called for no more messages.
    /// Returns the number of the message that it was called for; 0 if it was at none.
    pub fn has_panicked(&mut self) -> u64 {
        self.handed.as_mut().map_or(0, |handed| handed.panicked(0))
    }

    /// Returns true if the application has had everything that it was handed, or is called in the
    /// thread that drives the session. If not, messages that are postponed wait for that.
    pub fn rests(&self) -> bool {
        self.handed.as_ref().is_none_or(Handed::is_idle)
    }

    /// Returns true if an application that is called in threads of its own does nothing, and will
    /// not by itself. If not, [`Delivery::owes_turn`] says when it is so.
    pub fn await_idle(&mut self) -> bool {
        self.handed.as_mut().is_none_or(Handed::await_idle)
    }

    /// The application is called, and is to be asked something when it has returned.
    pub fn await_return(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.await_return();
        }
    }

    /// Returns true if something that was waited for has come about: the session is to have a turn.
    #[inline]
    pub fn owes_turn(&mut self) -> bool {
        self.handed.as_mut().is_some_and(Handed::owes_turn)
    }

    /// Returns true if nothing more is to be read before the application has had more.
    pub fn is_behind(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.waits_when_full() && handed.is_full())
    }

    /// Returns true if more waits for the application than may, and the connection is to end.
    pub fn is_over(&self) -> bool {
        self.handed.as_ref().is_some_and(|handed| !handed.waits_when_full() && handed.is_over())
    }

    /// Returns true if there is room for one more message to be handed over; `None` for an
    /// application that is called in the thread that drives the session.
    pub fn has_room(&self) -> Option<bool> {
        self.handed.as_ref().map(|handed| !handed.is_full())
    }

    /// Returns true if no more is to be read while as much waits as may.
    pub(super) fn waits_when_full(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::waits_when_full)
    }

    /// Returns true if a burst has left memory behind.
    #[inline]
    pub fn is_bulky(&self) -> bool {
        self.handed.as_ref().is_some_and(Handed::is_bulky)
    }

    /// Gives back the memory of a burst that is over.
    pub fn trim(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.trim();
        }
    }

    /// Returns true if messages wait for the application.
    pub fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// How many messages and frames wait for an application in threads of its own, and their
    /// bytes.
    pub fn waiting(&self) -> (usize, usize) {
        self.handed.as_ref().map_or((0, 0), Handed::waiting)
    }

    /// Bytes of the messages that wait.
    pub fn bytes(&self) -> usize {
        self.bytes + self.handed.as_ref().map_or(0, Handed::bytes)
    }

    /// Lets a message wait behind the others. Returns whether there is room for it: so many
    /// messages and bytes at most, but always for one. `seq` is its number; 0 if that means nothing
    /// once the numbers are reset, which is under way.
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

    /// The message that is to be offered again now, with its number; 0 if that means nothing any
    /// more.
    pub fn next(&self, now: Now) -> Option<(u64, Vec<u8>, Handling)> {
        let first = self.postponed.front().filter(|_| self.offers_more(now))?;
        Some((first.seq, first.bytes.clone(), first.handling))
    }

    /// Returns true if messages are to be offered again now.
    pub fn offers_more(&self, now: Now) -> bool {
        self.deadline().is_some_and(|at| now.monotonic_ns >= at)
    }

    /// When the first message that waits is offered again, on the monotonic clock.
    pub fn deadline(&self) -> Option<u64> {
        let (is_halted, is_idle) =
            self.handed.as_ref().map_or((false, true), |all| (all.is_halted(), all.is_idle()));
        let waits_for_time = is_halted || (self.has_postponed() && is_idle);
        waits_for_time.then_some(self.at_ns)
    }

    /// The application in threads of its own was not available for the first message that waits.
    pub(super) fn halt(&mut self, now: Now) {
        self.offer_later(now);
        if let Some(handed) = &mut self.handed {
            handed.halt();
        }
    }

    /// Returns true if the application is to have the message once more now that it was not
    /// available for.
    pub fn has_more_work(&mut self, now: Now) -> bool {
        let Some(handed) = self.handed.as_mut().filter(|_| now.monotonic_ns >= self.at_ns) else {
            return false;
        };
        handed.end_halt()
    }

    /// The message that the application was not available for is passed over.
    pub fn pass_over(&mut self) {
        if let Some(handed) = &mut self.handed {
            handed.end_halt();
        }
    }

    /// The application has had a message that was handed over.
    pub(super) const fn was_taken(&mut self) {
        self.offers = 0;
    }

    /// The first message that waits was taken: the next one is offered at once.
    pub fn first_is_taken(&mut self) {
        if let Some(first) = self.postponed.pop_front() {
            self.bytes -= first.bytes.len();
        }
        self.offers = 0;
    }

    /// The message whose turn it is was offered once more, and is to be offered again.
    pub fn offer_later(&mut self, now: Now) {
        self.offers += 1;
        self.at_ns = now.monotonic_ns + nanos(self.policy.delay);
    }

    /// The message whose turn it is found another session busy, and is to be offered again soon.
    pub const fn offer_soon(&mut self, now: Now) {
        self.at_ns = now.monotonic_ns + SOON_NS;
    }

    /// The lowest number of a message that has not been taken yet; those of before a reset have
    /// none.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let handed_over = self.handed.as_ref().and_then(Handed::first_seq);
        handed_over.or_else(|| if self.has_postponed() { self.first_postponed() } else { None })
    }

    /// The number of the message that an application in a thread of its own is called for, if it
    /// has not been taken yet. All that the application has had before must have been heard of.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.handed.as_ref().and_then(Handed::running_seq)
    }

    /// The message with this number counts as taken, also while the application is called for it.
    /// Returns whether the number still names one.
    pub fn count(&mut self, seq: u64) -> bool {
        self.handed.as_mut().is_some_and(|handed| handed.count(seq))
    }

    /// The highest number of a message among the first `begun` calls that were handed over.
    pub fn last_seq(&self, begun: usize) -> Option<u64> {
        self.handed.as_ref()?.last_seq(begun)
    }

    /// The first `begun` calls do not count: those that the application has had are forgotten, and
    /// the one that it may be called for now (`runs`) means nothing.
    pub fn undo(&mut self, begun: usize, runs: bool) {
        if let Some(handed) = &mut self.handed {
            handed.undo(begun, runs);
        }
    }

    #[cold]
    fn first_postponed(&self) -> Option<u64> {
        self.postponed.iter().map(|waiting| waiting.seq).find(|seq| *seq > 0)
    }

    /// The numbers have been reset: those of the messages mean nothing any more.
    pub fn forget_numbers(&mut self) {
        self.postponed.iter_mut().for_each(|waiting| waiting.seq = 0);
        if let Some(handed) = &mut self.handed {
            handed.forget_numbers();
        }
    }

    /// Returns true if the call at this place, counted from the first that was handed over, is for
    /// a message that is asked for again after the next logon.
    pub fn is_asked_again(&self, place: usize) -> bool {
        self.handed.as_ref().is_some_and(|handed| handed.is_numbered(place))
    }

    /// Drops what is asked for again after the next logon, behind the first `begun` calls. Returns
    /// the number that it begins with. Messages of before a reset are nowhere else any more: they
    /// go on waiting.
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

    /// A panic may have left half a change: all that waits is asked for again, and of what was
    /// handed over no message counts. See [`Delivery::undo`].
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

    /// Each message that is postponed has its turn when the application has had the one before it.
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
