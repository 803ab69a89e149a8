//! The answer of an application that is called in a thread of its own, as long as its call goes on.
//!
//! Invariant: what answers a message is committed together with the number of that message.

use super::Core;
use crate::Now;

/// How long store and socket wait for the end of a call that has sent something. A longer call
/// counts as returned: its message is taken, with what has been sent so far.
const HELD_NS_MAX: u64 = 250_000_000;

/// The call that has sent something and has not returned.
#[derive(Debug, Default)]
pub(super) struct Answering {
    /// Monotonic time of its first send, and the sequence number of the message that it answers.
    open: Option<(u64, u64)>,
    /// When the worker looks for a call that has begun since its last turn.
    look_ns: Option<u64>,
}

impl Answering {
    /// The call has returned, or its message counts no more.
    pub(super) const fn close(&mut self) {
        self.open = None;
    }

    /// When it counts as returned, on the monotonic clock.
    fn until_ns(&self) -> Option<u64> {
        self.open.map(|(since_ns, _)| since_ns + HELD_NS_MAX)
    }

    /// When the worker has to look at it.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.until_ns().into_iter().chain(self.look_ns).min()
    }

    /// A message is handed over: most calls send at once, and no thread has to call the worker.
    pub(super) fn look_later(&mut self, now: Now) {
        self.look_ns.get_or_insert(now.monotonic_ns + HELD_NS_MAX);
    }

    /// The worker looks.
    pub(super) fn look(&mut self, now: Now) {
        self.look_ns = self.look_ns.filter(|at| now.monotonic_ns < *at);
    }
}

impl Core {
    /// The application is about to send in a thread of its own.
    pub fn note_answer(&mut self, now: Now) {
        if self.answering.open.is_none()
            && let Some(seq) = self.delivery.running_seq()
        {
            self.answering.open = Some((now.monotonic_ns, seq));
        }
    }

    /// Returns true if the worker is to be called for a call that has sent something: it does not
    /// know when it has to look. True once in [`HELD_NS_MAX`].
    pub fn awaits_look(&mut self, now: Now) -> bool {
        let awaits = self.has_open_answer() && self.answering.look_ns.is_none();
        if awaits {
            self.answering.look_later(now);
        }
        awaits
    }

    /// Returns true if a call has sent something and has not returned.
    pub const fn has_open_answer(&self) -> bool {
        self.answering.open.is_some()
    }

    /// Returns true if nothing is committed, and nothing more written, before that call returns.
    pub fn holds_answer(&mut self, now: Now) -> bool {
        let Some(until_ns) = self.answering.until_ns() else { return false };
        if now.monotonic_ns < until_ns {
            return true;
        }
        self.count_answer();
        false
    }

    /// The call counts as returned, if there is one: what must be committed now is.
    pub fn count_answer(&mut self) {
        let Some((_, seq)) = self.answering.open.take() else { return };
        let counts = self.delivery.count(seq);
        // The connection ended during the call: the message would be asked for again.
        if counts && seq == self.session.next_num_in() {
            self.session.set_next_num_in(seq + 1);
        }
    }
}
