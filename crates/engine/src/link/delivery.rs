//! The messages that wait for the application of a session.
//!
//! Invariant: messages are delivered in order; while one waits for its application, those behind it
//! wait too.

use std::collections::VecDeque;
use std::sync::Arc;

use transfix_codec::Message;
use transfix_session::{Now, Unavailable, UnavailableAction, nanos};

use crate::link::answers::BusinessReject;
use crate::link::desk::Desk;

const MS: u64 = 1_000_000;
/// Time before a message is offered again to a session that was busy.
const SOON_NS: u64 = MS / 5;

/// What is done with a message when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
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

/// What the application has made of a message.
pub(super) enum Offered {
    /// It has had it, or passes it over for good.
    Taken,
    /// It does not take it: the counterparty is told.
    Rejected(BusinessReject),
    /// It is to be asked again.
    Later,
    /// It was asked often enough: the connection ends.
    GivenUp,
}

/// What the application has not taken yet.
pub(crate) struct Delivery {
    /// Where messages are put for an application that is called in threads of its own.
    desk: Option<Arc<Desk>>,
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
    /// `desk`: of an application that is called in threads of its own.
    pub(super) const fn new(desk: Option<Arc<Desk>>, policy: Unavailable) -> Self {
        Self { desk, policy, postponed: VecDeque::new(), bytes: 0, offers: 0, at_ns: 0 }
    }

    /// What follows from the application's answer.
    pub(super) fn judge(&self, answer: Result<(), BusinessReject>) -> Offered {
        match answer {
            Ok(()) => Offered::Taken,
            Err(reject) if !reject.is_not_available() => Offered::Rejected(reject),
            Err(_) if self.offers < self.policy.retries => Offered::Later,
            Err(reject) => match self.policy.then {
                UnavailableAction::Silence => Offered::Taken,
                UnavailableAction::Disconnect => Offered::GivenUp,
                _ => Offered::Rejected(reject),
            },
        }
    }

    /// Where messages are put for an application that is called in threads of its own.
    pub(crate) const fn desk(&self) -> Option<&Arc<Desk>> {
        self.desk.as_ref()
    }

    /// Whether the application has had everything that it was handed, or is called in the thread
    /// that drives the session. If not, the worker is called when it has.
    pub(crate) fn rests(&self) -> bool {
        self.desk.as_ref().is_none_or(|desk| desk.is_idle())
    }

    /// Whether an application that is called in threads of its own does nothing, and will not by
    /// itself. If not, the worker is called when it is so.
    pub(crate) fn stands_still(&self) -> bool {
        self.desk.as_ref().is_none_or(|desk| desk.stands_still())
    }

    /// Whether nothing more is to be read before the application has had more.
    pub(crate) fn is_behind(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.waits_when_full() && desk.is_full())
    }

    /// Whether more waits for the application than may, and the connection is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| !desk.waits_when_full() && desk.is_over())
    }

    /// Whether a burst has left memory behind.
    #[inline]
    pub(super) fn is_bulky(&self) -> bool {
        self.desk.as_ref().is_some_and(|desk| desk.is_bulky())
    }

    /// Gives back the memory of a burst that is over.
    pub(super) fn trim(&mut self) {
        if let Some(desk) = &self.desk {
            desk.trim();
        }
    }

    /// Whether messages wait for the application.
    pub(crate) fn has_postponed(&self) -> bool {
        !self.postponed.is_empty()
    }

    /// How many messages and frames wait for an application in threads of its own, and their
    /// bytes.
    pub(super) fn waiting(&self) -> (usize, usize) {
        self.desk.as_ref().map_or((0, 0), |desk| desk.waiting())
    }

    /// Bytes of the messages that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.desk.as_ref().map_or(0, |desk| desk.bytes())
    }

    /// Lets a message wait behind the others. Returns whether there is room for it: so many
    /// messages and bytes at most, but always for one. `seq` is its number; 0 if that means nothing
    /// once the numbers are reset, which is under way.
    pub(super) fn postpone(
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
    pub(crate) fn next(&self, now: Now) -> Option<(u64, Vec<u8>, Handling)> {
        let first = self.postponed.front().filter(|_| self.offers_more(now))?;
        Some((first.seq, first.bytes.clone(), first.handling))
    }

    /// Whether messages are to be offered again now.
    pub(crate) fn offers_more(&self, now: Now) -> bool {
        self.deadline().is_some_and(|at| now.monotonic_ns >= at)
    }

    /// When the first message that waits is offered again, on the monotonic clock.
    pub(super) fn deadline(&self) -> Option<u64> {
        let Some(desk) = &self.desk else { return self.has_postponed().then_some(self.at_ns) };
        let waits_for_time = desk.is_halted() || (self.has_postponed() && desk.is_idle());
        waits_for_time.then_some(self.at_ns)
    }

    /// Lets the application have the message once more that it was not available for, if it is time
    /// to.
    pub(super) fn go_on(&self, now: Now) {
        if let Some(desk) = self.desk.as_ref().filter(|desk| desk.is_halted())
            && now.monotonic_ns >= self.at_ns
        {
            desk.go_on();
        }
    }

    /// The application has had a message that was handed over.
    pub(super) const fn was_taken(&mut self) {
        self.offers = 0;
    }

    /// The first message that waits was taken: the next one is offered at once.
    pub(super) fn first_is_taken(&mut self) {
        if let Some(first) = self.postponed.pop_front() {
            self.bytes -= first.bytes.len();
        }
        self.offers = 0;
    }

    /// The message whose turn it is was offered once more, and is to be offered again.
    pub(super) fn offer_later(&mut self, now: Now) {
        self.offers += 1;
        self.at_ns = now.monotonic_ns + nanos(self.policy.delay);
    }

    /// The message whose turn it is found another session busy, and is to be offered again soon.
    pub(super) const fn offer_soon(&mut self, now: Now) {
        self.at_ns = now.monotonic_ns + SOON_NS;
    }

    /// The lowest number of a message that has not been taken yet; those of before a reset have
    /// none.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let handed_over = self.desk.as_ref().and_then(|desk| desk.first_seq());
        handed_over.or_else(|| if self.has_postponed() { self.first_postponed() } else { None })
    }

    /// The highest sequence number that an application in a thread of its own has had, or is called
    /// for, and that the link has not been told of.
    pub(super) fn last_seq(&self) -> Option<u64> {
        self.desk.as_ref().and_then(|desk| desk.last_seq())
    }

    /// The number of the message that an application in a thread of its own is called for, if it
    /// has not been taken yet.
    pub(super) fn running_seq(&self) -> Option<u64> {
        self.desk.as_ref().and_then(|desk| desk.running_seq())
    }

    /// What an application in a thread of its own has answered may be lost: the message that it has
    /// now does not count. Returns its number.
    pub(super) fn undo(&self) -> Option<u64> {
        let last = self.last_seq()?;
        self.desk.as_ref()?.undo();
        Some(last)
    }

    #[cold]
    fn first_postponed(&self) -> Option<u64> {
        self.postponed.iter().map(|waiting| waiting.seq).find(|seq| *seq > 0)
    }

    /// The numbers have been reset: those of the messages mean nothing any more.
    pub(super) fn forget_numbers(&mut self) {
        self.postponed.iter_mut().for_each(|waiting| waiting.seq = 0);
        if let Some(desk) = &self.desk {
            desk.forget_numbers();
        }
    }

    /// Drops what is asked for again after the next logon. Returns the number that it begins with.
    /// Messages of before a reset are nowhere else any more: they go on waiting.
    pub(super) fn forget_numbered(&mut self) -> Option<u64> {
        let seq = self.first_seq()?;
        if let Some(desk) = &self.desk {
            desk.forget_numbered();
        }
        self.postponed.retain(|waiting| waiting.seq == 0);
        self.offers = 0;
        self.bytes = self.postponed.iter().map(|waiting| waiting.bytes.len()).sum();
        Some(seq)
    }

    /// A panic may have left half a change: all that waits is asked for again.
    pub(super) fn clear(&mut self) {
        self.postponed.clear();
        if let Some(desk) = &self.desk {
            desk.clear();
        }
        (self.bytes, self.offers) = (0, 0);
    }
}
