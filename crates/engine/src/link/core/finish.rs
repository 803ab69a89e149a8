//! The end of a session with its engine: nothing that was accepted is lost with the memory.
//!
//! Invariant: each message that waits is in the store, or given back; what neither can be said of,
//! since the store has failed and cannot be opened, is in the log.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use transfix_session::Now;

use super::{Core, ENDING_NS_MAX};
use crate::io::Io;
use crate::link::outgoing::IfLost;
use crate::link::queue::SendQueue;

impl Core {
    /// The engine ends, and the session has no connection any more. A store that has failed is
    /// opened once more: only then is it known what it has of the messages that were sent last.
    pub(crate) fn finish(&mut self, io: &dyn Io, queue: &SendQueue) {
        queue.close();
        for _ in 0..2 {
            let has_opened = self.open_at_last(io.now(), queue);
            self.leave_nothing(io.now(), queue);
            self.wait_for_store(io);
            if !has_opened || !self.journal.has_failed() {
                break;
            }
        }
        let bytes = self.outgoing.bytes_in_doubt();
        if self.journal.has_failed() && bytes > 0 {
            self.events.left_in_doubt(io.now(), bytes);
        }
        self.events.tell_rest();
    }

    /// Whether the store is open, now at the latest.
    fn open_at_last(&mut self, now: Now, queue: &SendQueue) -> bool {
        if !self.journal.has_failed() {
            return true;
        }
        let opened = self.reopen(now, queue);
        if let Err(error) = &opened {
            self.events.store_not_opened(now, error);
        }
        opened.is_ok()
    }

    /// Stores what waits, or gives it back.
    fn leave_nothing(&mut self, now: Now, queue: &SendQueue) {
        self.send_queued(now, queue);
        if let Some(rest) = self.outgoing.take_rest(queue) {
            self.give_back(now, rest, IfLost::Returns);
            self.outgoing.note_taken(queue);
        }
        // A failure is seen afterwards.
        let _ = self.keep_queued(now, queue);
    }

    /// Waits until the store has made safe what it was given, and tells what can be told then.
    fn wait_for_store(&mut self, io: &dyn Io) {
        let waits = |core: &Self| core.outgoing.has_untold() || !core.pending.is_empty();
        let until_ns = io.monotonic_ns().saturating_add(ENDING_NS_MAX);
        let (called, calls) = channel();
        if waits(self) && !self.journal.has_failed() {
            // Nobody drives the session any more whom the store could call.
            self.journal.wake_by(Arc::new(move || _ = called.send(())));
        }
        while waits(self) {
            let now = io.now();
            let left = Duration::from_nanos(until_ns.saturating_sub(now.monotonic_ns));
            let mut is_called = |time| calls.recv_timeout(time).is_ok();
            let is_over = self.journal.has_failed()
                || self.look_what_is_safe(now).is_err()
                || (waits(self) && !io.wait_in(left, &mut is_called));
            if is_over {
                self.put_back_untold(now);
                self.tell_unsent(now, u64::MAX);
                return;
            }
        }
    }
}
