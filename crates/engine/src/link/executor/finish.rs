//! Ends a session together with the engine, without losing accepted messages.
//!
//! Invariants: each waiting message is stored or returned to the application. If the store has
//! failed and cannot be reopened, or a batch may not be durable, the log reports the number of
//! bytes in doubt. A sync that does not end delays no other session, because a separate thread
//! closes the store.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use transfix_session::Now;

use super::Executor;
use super::store::patiently;
use crate::io::Io;
use crate::link::event::Event;
use crate::link::queue::SendQueue;

impl Executor {
    /// Ends the session with the engine, after the end of its connection. Reopens a failed store to
    /// learn which of the last messages the store contains. Waits for the store until `until_ns` on
    /// the monotonic clock.
    pub(crate) fn finish(&mut self, io: &dyn Io, queue: &SendQueue, until_ns: u64) {
        if self.core.has_open_answer() {
            self.core.count_answer();
            // An error is ignored, because a failed store is reopened below.
            let _ = self.commit(io.now());
        }
        // A store that fails or takes too long is reopened below.
        let settled = patiently(io, until_ns, || self.settle_refresh(io.now()));
        if let Err(error) = settled {
            self.journal.end_refresh(false);
            self.journal.fail(&error);
        }
        queue.close();
        for _ in 0..2 {
            let is_open = self.open_again(io, queue);
            self.leave_nothing(io.now(), queue);
            self.wait_for_store(io, until_ns);
            self.make_calls(io.now(), None);
            if !is_open || !self.journal.has_failed() {
                break;
            }
        }
        let bytes = self.core.outgoing.bytes_in_doubt(self.journal.has_failed());
        if bytes > 0 {
            self.tell(io.now(), &Event::LeftInDoubt { bytes });
        }
        self.sinks.event_log.tell_rest();
        if !self.core.watermarks.are_safe() && !self.journal.has_failed() {
            // The store keeps its file lock while the device is busy.
            let store = self.journal.leave();
            drop(io.spawn("store-close".to_owned(), Box::new(move || drop(store))));
        } else if !self.core.delivery.ask_for_idle() || self.application.is_called() {
            // If the application does not return, its thread keeps the session alive. The store is
            // released nevertheless, so that a later engine can open it.
            drop(self.journal.retire());
        }
        // Closes the protocol log even if handles keep the session alive.
        self.sinks.log = None;
    }

    /// Returns true if the application has processed all its calls, and the store has made all
    /// batches durable or has failed.
    pub(crate) fn is_settled(&mut self, now: Now) -> bool {
        // An error is ignored, because a panic or a failed store is detected below.
        let _ = self.poll_application(now);
        let is_safe = self.journal.has_failed()
            || self.look_what_is_safe(now).is_err()
            || self.core.watermarks.are_safe();
        self.make_calls(now, None);
        self.core.delivery.ask_for_idle() && is_safe
    }

    /// Reopens the store if it has failed. Returns true if the store is open now.
    fn open_again(&mut self, io: &dyn Io, queue: &SendQueue) -> bool {
        if !self.journal.has_failed() {
            return true;
        }
        let opened = self.reopen(io, queue);
        if let Err(error) = &opened {
            self.tell(io.now(), &Event::StoreNotOpened(error));
        }
        opened.is_ok()
    }

    /// Waits until the store has made all batches durable, then reports the results.
    fn wait_for_store(&mut self, io: &dyn Io, until_ns: u64) {
        let (called, calls) = channel();
        if !self.core.watermarks.are_safe() && !self.journal.has_failed() {
            // The worker no longer checks this session, so the store wakes this thread.
            self.journal.wake_by(Arc::new(move || _ = called.send(())));
        }
        loop {
            let now = io.now();
            if self.journal.has_failed() || self.look_what_is_safe(now).is_err() {
                self.core.put_back_untold(now);
                return self.core.tell_unsent(now, u64::MAX);
            }
            if self.core.watermarks.are_safe() {
                // Also reports messages that an earlier panic of the application has left
                // unreported.
                return self.core.tell_unsent(now, u64::MAX);
            }
            // Report durable messages at once, because the rest may take long.
            self.make_calls(now, None);
            let left = Duration::from_nanos(until_ns.saturating_sub(now.monotonic_ns));
            if !io.wait_in(left, &mut |time| calls.recv_timeout(time).is_ok()) {
                return;
            }
        }
    }
}
