//! Messages that an application in its own thread sends while it handles a received message.
//!
//! Invariant: an answer is committed together with the sequence number of the message that it
//! answers.

use super::Core;
use crate::Now;

/// Maximum time that store and socket wait for the end of a call that has sent a message, in
/// nanoseconds. Afterwards the received message counts as delivered, together with the answers sent
/// so far.
const HELD_NS_MAX: u64 = 250_000_000;

/// The call of the application that is running and has sent a message.
#[derive(Debug, Default)]
pub(super) struct Answering {
    /// Monotonic time of the call's first send, and the MsgSeqNum(34) of the message that the call
    /// handles.
    open: Option<(u64, u64)>,
    /// Time of a scheduled check by the worker for a call that has begun since its last turn.
    look_ns: Option<u64>,
}

impl Answering {
    /// Closes the record of the call, because the call has returned or its message no longer
    /// counts.
    pub(super) const fn close(&mut self) {
        self.open = None;
    }

    /// Returns the time on the monotonic clock from which the call is treated as returned.
    fn until_ns(&self) -> Option<u64> {
        self.open.map(|(since_ns, _)| since_ns + HELD_NS_MAX)
    }

    /// Returns the time of the worker's next check.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.until_ns().into_iter().chain(self.look_ns).min()
    }

    /// Schedules a check after a message was passed to the application. Most calls send at once;
    /// thanks to the check, the sending thread need not wake the worker.
    pub(super) fn look_later(&mut self, now: Now) {
        self.look_ns.get_or_insert(now.monotonic_ns + HELD_NS_MAX);
    }

    /// Removes the scheduled check if it is due.
    pub(super) fn look(&mut self, now: Now) {
        self.look_ns = self.look_ns.filter(|at| now.monotonic_ns < *at);
    }
}

impl Core {
    /// Records that the application is about to send a message in its own thread.
    pub fn note_answer(&mut self, now: Now) {
        if self.answering.open.is_none()
            && let Some(seq) = self.delivery.running_seq()
        {
            self.answering.open = Some((now.monotonic_ns, seq));
        }
    }

    /// Returns true if the sending thread must wake the worker, because the worker has no scheduled
    /// check for the call. Returns true at most once per [`HELD_NS_MAX`].
    pub fn awaits_look(&mut self, now: Now) -> bool {
        let awaits = self.has_open_answer() && self.answering.look_ns.is_none();
        if awaits {
            self.answering.look_later(now);
        }
        awaits
    }

    /// Returns true if a running call has sent a message.
    pub const fn has_open_answer(&self) -> bool {
        self.answering.open.is_some()
    }

    /// Returns true if commits and writes must wait until the running call has returned.
    pub fn holds_answer(&mut self, now: Now) -> bool {
        let Some(until_ns) = self.answering.until_ns() else { return false };
        if now.monotonic_ns < until_ns {
            return true;
        }
        self.count_answer();
        false
    }

    /// Treats the running call as returned, because its answers must be committed now.
    pub fn count_answer(&mut self) {
        let Some((_, seq)) = self.answering.open.take() else { return };
        let counts = self.delivery.count(seq);
        // Without the new number, the message would be requested again after a disconnect during
        // the call.
        if counts && seq == self.session.next_num_in() {
            self.session.set_next_num_in(seq + 1);
        }
    }
}
