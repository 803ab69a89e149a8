//! Handles outbound messages of the application: sends, stores, queues or returns them.

use std::hint::cold_path;

use transfix_codec::Body;
use transfix_session::core::outgoing::IfLost;
use transfix_session::core::send::SendOrStore;
use transfix_session::{HeaderChange, Now, SendError, Sent};
use transfix_store::StoreError;

use super::Executor;
use crate::link::event::Event;
use crate::link::queue::SendQueue;

impl Executor {
    /// Sends a message for a handle. `put` is the time of the call, from which latencies are
    /// measured; it is set to the time at which the message is encoded.
    pub(crate) fn send_put(
        &mut self,
        now: Now,
        put: &mut u64,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        if self.journal.has_failed() {
            return Err(SendError::Failed);
        }
        let begin = self.core.out.end();
        let sent = self.core.send(now, msg_type, fill);
        *put = self.probe.put(now, (*put, *put), begin..self.core.out.end());
        self.put_if_late(now).map_err(|_| SendError::Failed)?;
        sent
    }

    /// Sends a message for an application in application threads, as in a callback.
    pub(crate) fn send_now(
        &mut self,
        now: Now,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        if self.journal.has_failed() {
            return Err(SendError::Failed);
        }
        let sent = self.core.send_now(now, msg_type, change, fill);
        self.put_if_late(now).map_err(|_| SendError::Failed)?;
        sent
    }

    /// Sends or stores the queued messages that the session accepts now. Call this method before a
    /// direct send or a Logout(5), which must not overtake queued messages. Commits after each
    /// `turn_messages_max` messages, to limit the batch.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        // An error is ignored, because the next commit reports a failed store too.
        self.take_queued(now, queue, |executor| executor.commit(now));
    }

    /// Sends the queue as [`Executor::send_queued`] does, but calls `between` after each
    /// `turn_messages_max` messages. Messages queued meanwhile wait for the next call, so that a
    /// sender in a loop cannot block the caller.
    pub(crate) fn take_queued(
        &mut self,
        now: Now,
        queue: &SendQueue,
        mut between: impl FnMut(&mut Self) -> Result<(), StoreError>,
    ) {
        let outgoing = &self.core.outgoing;
        let until = outgoing.left_bytes() + (outgoing.bytes() + queue.len()) as u64;
        loop {
            let mut left = self.core.options.turn_messages_max;
            self.send_some(now, queue, &mut left);
            let is_over = left > 0 || self.core.outgoing.left_bytes() >= until;
            if is_over || between(self).is_err() {
                return;
            }
        }
    }

    /// Sends or stores at most `left` queued messages that the session accepts now, and decrements
    /// `left`. [`Core::sends_more`] reports remaining messages.
    ///
    /// [`Core::sends_more`]: transfix_session::core::Core::sends_more
    #[inline(always)]
    pub(crate) fn send_some(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        if self.core.outgoing.is_pending() || queue.is_pending() {
            self.send_waiting(now, queue, left);
        }
    }

    #[inline(never)]
    pub(super) fn send_waiting(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        // Waits during a refresh, because another process may have used the present numbers.
        if self.journal.is_refreshing() || self.journal.has_failed() {
            return;
        }
        let Some(way) = self.core.begin_sending(now, left) else { return };
        let mut taken = self.probe.source().at(now);
        let mut begin = self.core.out.end();
        loop {
            if self.core.outgoing.is_empty() && queue.is_pending() {
                self.take_in(queue);
            }
            let Some((sent, put)) = self.core.send_first(now, left, way) else { break };
            let end = self.core.out.end();
            match way {
                SendOrStore::Send => taken = self.probe.put(now, (put, taken), begin..end),
                // If the store fails, the message stays at the front of the queue.
                SendOrStore::Store if self.put_if_late(now).is_err() => break,
                SendOrStore::Store => {}
            }
            self.core.settle_first(sent);
            begin = end;
        }
        self.note_taken(queue);
    }

    /// Appends the queued messages of other threads to the core's queue.
    fn take_in(&mut self, queue: &SendQueue) {
        self.core.outgoing.take_in(|waiting| queue.take(waiting));
    }

    /// Tells the queue how many bytes wait in the core, because its limit includes them.
    fn note_taken(&self, queue: &SendQueue) {
        queue.note_taken(self.core.outgoing.bytes());
    }

    /// Sends queued messages at the beginning of a turn, if the last turn has left some. Returns
    /// true if this turn served the queue first.
    #[inline(always)]
    pub(crate) fn begin_with_queue(&mut self, now: Now, queue: &SendQueue, left: &mut u32) -> bool {
        if self.core.outgoing.is_first() {
            cold_path();
            self.send_waiting(now, queue, left);
        }
        self.core.outgoing.is_first()
    }

    /// Sends queued messages at the end of a turn, and puts messages that wait for a logon into the
    /// store's batch. If a turn began with the queue, the next turn begins with received bytes.
    #[inline(always)]
    pub(crate) fn end_with_queue(
        &mut self,
        now: Now,
        queue: &SendQueue,
        left: &mut u32,
        began_with_queue: bool,
    ) -> Result<(), StoreError> {
        self.send_some(now, queue, left);
        if began_with_queue {
            self.core.outgoing.had_turn();
        }
        self.put_queued(now, queue)
    }

    /// Puts the messages that wait for a logon into the store's batch.
    pub(super) fn put_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        if self.journal.is_refreshing() {
            return Ok(());
        }
        if !self.core.outgoing.keeps_now(self.core.session.state()) {
            return Ok(());
        }
        cold_path();
        self.take_in(queue);
        self.note_taken(queue);
        let outgoing = &mut self.core.outgoing;
        while let Some((ticket, message)) = outgoing.next_to_keep() {
            self.journal.put_queued(now, ticket, &message)?;
            outgoing.note_put(now);
        }
        Ok(())
    }

    /// Stores the messages that wait for a logon, and commits.
    pub(crate) fn keep_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        self.put_queued(now, queue)?;
        self.commit(now)
    }

    /// Queues a message, and stores it if it waits for a logon. Returns the number of waiting
    /// bytes.
    pub(crate) fn queue(
        &mut self,
        now: Now,
        queue: &SendQueue,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<usize, SendError> {
        // Commits first: if a later commit failed, returned messages would come back to the front,
        // and `before` would be wrong.
        self.commit_given_back(now);
        let before = self.core.outgoing.bytes();
        let pushed = queue.push_offline(msg_type, fill)?;
        if self.keep_queued(now, queue).is_err() {
            self.take_in(queue);
            self.core.outgoing.refuse(before + pushed.at);
            self.note_taken(queue);
            return Err(SendError::Failed);
        }
        Ok(pushed.bytes)
    }

    /// Returns messages to the application that have waited too long for a logon. Returns at most
    /// `left` messages, by which `left` is decreased.
    pub(crate) fn expire_queued(&mut self, now: Now, left: &mut u32) {
        if !self.journal.is_refreshing() {
            self.core.expire_queued(now, left);
        }
    }

    /// Returns messages that could not be returned before the store was reopened.
    pub(super) fn return_late(&mut self, now: Now, queue: &SendQueue) {
        let late = self.core.outgoing.take_late();
        self.core.give_back(late, IfLost::Returns);
        self.commit_given_back(now);
        self.note_taken(queue);
    }

    /// Stores the waiting messages, or returns them to the application.
    pub(super) fn leave_nothing(&mut self, now: Now, queue: &SendQueue) {
        self.send_queued(now, queue);
        if !self.core.outgoing.keeps_rest() {
            self.take_in(queue);
            let rest = self.core.outgoing.take_all(SendError::Closed);
            self.core.give_back(rest, IfLost::Returns);
            self.commit_given_back(now);
        }
        if self.keep_queued(now, queue).is_err() {
            // These messages are returned, because they never reached the store.
            let never_stored = self.core.outgoing.take_never_stored();
            self.core.give_back(never_stored, IfLost::Returns);
            self.commit_given_back(now);
        }
        self.note_taken(queue);
    }

    /// Drops the waiting messages.
    pub(crate) fn clear_queued(&mut self, queue: &SendQueue) {
        self.take_in(queue);
        self.core.outgoing.clear();
        self.note_taken(queue);
    }

    /// Returns the waiting messages to the application, unless the settings keep them for the next
    /// logon.
    pub(crate) fn return_unsent(&mut self, now: Now, queue: &SendQueue, why: SendError) {
        // During a refresh, the messages are kept until a later connection ends.
        if self.journal.is_refreshing() || self.core.outgoing.keeps_unsent() {
            return;
        }
        self.take_in(queue);
        let unsent = self.core.outgoing.take_all(why);
        self.core.give_back(unsent, IfLost::Returns);
        self.commit_given_back(now);
        self.note_taken(queue);
        if self.journal.has_failed() {
            let bytes = self.core.outgoing.return_later(why);
            if bytes > 0 {
                self.tell(now, &Event::SentInDoubt { bytes });
            }
        }
    }

    /// Commits that messages were returned, if there are any. If the store fails, the messages keep
    /// waiting.
    fn commit_given_back(&mut self, now: Now) {
        if self.core.outgoing.gives_back() {
            let _ = self.commit(now);
        }
    }
}
