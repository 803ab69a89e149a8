//! Messages of the application on their way out, as far as the journal takes part: sent, stored for
//! later, kept in the queue, or given back.

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
    /// Sends for a handle. The times of encoding, and of the way to the socket, are measured from
    /// `put` on, which becomes the moment at which the message is encoded.
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

    /// Sends for the application, as one of its callbacks does.
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

    /// Sends or stores what other threads have handed over until now, as far as the session takes
    /// it: before a direct send or a Logout(5), which must not overtake it. It commits after as
    /// many messages as a turn has, so that no batch grows with the queue.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        // A store that fails here is reported to whoever commits next.
        self.take_queued(now, queue, |executor| executor.commit(now));
    }

    /// The same with something else after as many messages as a turn has. Messages that other
    /// threads hand over meanwhile are for the next time: a thread that sends in a loop must not
    /// keep the caller here.
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

    /// Sends or stores what other threads handed over, as far as the session takes it now, and at
    /// most `left` messages, which are counted down. If some are left, [`Core::sends_more`].
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
        // A message that is numbered or kept during a refresh would have one of the old numbers.
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
                // The store has not taken the message, which stays first.
                SendOrStore::Store if self.put_if_late(now).is_err() => break,
                SendOrStore::Store => {}
            }
            self.core.settle_first(sent);
            begin = end;
        }
        self.note_taken(queue);
    }

    /// Moves what other threads have handed over behind what waits in the core.
    fn take_in(&mut self, queue: &SendQueue) {
        self.core.outgoing.take_in(|waiting| queue.take(waiting));
    }

    /// Lets the queue know how much was taken from it and waits.
    fn note_taken(&self, queue: &SendQueue) {
        queue.note_taken(self.core.outgoing.bytes());
    }

    /// Sends from the queue before anything else if the last turn left it in the middle. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn begin_with_queue(&mut self, now: Now, queue: &SendQueue, left: &mut u32) -> bool {
        if self.core.outgoing.is_first() {
            cold_path();
            self.send_waiting(now, queue, left);
        }
        self.core.outgoing.is_first()
    }

    /// Sends from the queue at the end of a turn, and puts the rest that waits for a logon into the
    /// store's batch. A turn that began with the queue lets the next one begin with what has come
    /// in.
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

    /// Puts what waits for a logon into the store's batch.
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

    /// Puts what waits for a logon into the store.
    pub(crate) fn keep_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        self.put_queued(now, queue)?;
        self.commit(now)
    }

    /// Takes a message into the queue, and into the store if it waits for a logon. Returns how many
    /// bytes wait then.
    pub(crate) fn queue(
        &mut self,
        now: Now,
        queue: &SendQueue,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<usize, SendError> {
        // A later commit that fails would put returned messages in front: `before` would be wrong.
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

    /// Gives back what has waited for a logon longer than it may: at most `left` messages, which
    /// are counted down.
    pub(crate) fn expire_queued(&mut self, now: Now, left: &mut u32) {
        if !self.journal.is_refreshing() {
            self.core.expire_queued(now, left);
        }
    }

    /// Gives back what could not be given back before the store was open again.
    pub(super) fn return_late(&mut self, now: Now, queue: &SendQueue) {
        let late = self.core.outgoing.take_late();
        self.core.give_back(late, IfLost::Returns);
        self.commit_given_back(now);
        self.note_taken(queue);
    }

    /// Stores what waits, or gives it back.
    pub(super) fn leave_nothing(&mut self, now: Now, queue: &SendQueue) {
        self.send_queued(now, queue);
        if !self.core.outgoing.keeps_rest() {
            self.take_in(queue);
            let rest = self.core.outgoing.take_all(SendError::Closed);
            self.core.give_back(rest, IfLost::Returns);
            self.commit_given_back(now);
        }
        if self.keep_queued(now, queue).is_err() {
            // The store cannot have messages that it was never given.
            let never_stored = self.core.outgoing.take_never_stored();
            self.core.give_back(never_stored, IfLost::Returns);
            self.commit_given_back(now);
        }
        self.note_taken(queue);
    }

    /// Drops what waits.
    pub(crate) fn clear_queued(&mut self, queue: &SendQueue) {
        self.take_in(queue);
        self.core.outgoing.clear();
        self.note_taken(queue);
    }

    /// Gives back to the application what waits in the queue, if it is not to be kept.
    pub(crate) fn return_unsent(&mut self, now: Now, queue: &SendQueue, why: SendError) {
        // Where the store is being refreshed, they wait for the end of another connection.
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

    /// Makes safe that messages are given back, if some are. A store that fails has them wait on.
    fn commit_given_back(&mut self, now: Now) {
        if self.core.outgoing.gives_back() {
            let _ = self.commit(now);
        }
    }
}
