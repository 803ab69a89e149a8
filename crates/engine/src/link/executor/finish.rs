//! The end of a session with its engine: nothing that was accepted is lost with the memory.
//!
//! Invariants: each message that waits is in the store, or given back. If the store has failed and
//! does not open, or has not said that a batch is safe, the log says how many bytes of messages are
//! in doubt. A sync that never ends holds up nobody: its store is left to a thread.

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
    /// The engine ends, and the session has no connection any more. A store that has failed is
    /// opened once more: only then is it known what it has of the messages that were sent last. The
    /// store is waited for until this moment of the monotonic clock.
    pub(crate) fn finish(&mut self, io: &dyn Io, queue: &SendQueue, until_ns: u64) {
        if self.core.has_open_answer() {
            self.core.count_answer();
            // A store that fails is opened again below.
            let _ = self.commit(io.now());
        }
        // A store that fails, or takes too long, is opened again below.
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
            // Its lock stays taken as long as the device has something to do for it.
            let store = self.journal.leave();
            drop(io.spawn("store-close".to_owned(), Box::new(move || drop(store))));
        } else if !self.core.delivery.await_idle() || self.application.is_called() {
            // It keeps its session for as long as it does not return, and a later engine needs the
            // store.
            drop(self.journal.retire());
        }
        // Its files are free then, also while somebody has a handle of the session.
        self.sinks.log = None;
    }

    /// Returns true if the application has had all that it was handed, and the store has made safe
    /// what it was given, or has failed.
    pub(crate) fn is_settled(&mut self, now: Now) -> bool {
        // Calls that it has had since count; a panic or a store that fails is found below.
        let _ = self.poll_application(now);
        let is_safe = self.journal.has_failed()
            || self.look_what_is_safe(now).is_err()
            || self.core.watermarks.are_safe();
        self.make_calls(now, None);
        self.core.delivery.await_idle() && is_safe
    }

    /// Opens the store if it has failed. Returns whether it is open.
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

    /// Waits until the store has made safe what it was given, and tells what can be told then.
    fn wait_for_store(&mut self, io: &dyn Io, until_ns: u64) {
        let (called, calls) = channel();
        if !self.core.watermarks.are_safe() && !self.journal.has_failed() {
            // The worker no longer looks at this session, so the store calls this thread.
            self.journal.wake_by(Arc::new(move || _ = called.send(())));
        }
        loop {
            let now = io.now();
            if self.journal.has_failed() || self.look_what_is_safe(now).is_err() {
                self.core.put_back_untold(now);
                return self.core.tell_unsent(now, u64::MAX);
            }
            if self.core.watermarks.are_safe() {
                // Also what was left by a panic of the application at another message.
                return self.core.tell_unsent(now, u64::MAX);
            }
            // The calls about messages that are safe already, however long the rest takes.
            self.make_calls(now, None);
            let left = Duration::from_nanos(until_ns.saturating_sub(now.monotonic_ns));
            if !io.wait_in(left, &mut |time| calls.recv_timeout(time).is_ok()) {
                return;
            }
        }
    }
}
