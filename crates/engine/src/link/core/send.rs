//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use std::hint::cold_path;

use transfix_codec::Body;
use transfix_session::{Disconnect, HeaderChange, Now, SendError, State};
use transfix_store::StoreError;

use super::Core;
use crate::link::call::Call;
use crate::link::event::Event;
use crate::link::outgoing::{GivenBack, IfLost};
use crate::link::queue::SendQueue;
use crate::link::sent::Sent;
use crate::settings::QueueWhenFull;

/// Bytes that callbacks may send beyond `queued_bytes_max`: a program that never stops sending in
/// one must not take all memory, and the batch of a store has an end.
const CALLBACK_BYTES_MAX: usize = 64 << 20;

impl Core {
    pub(crate) fn send(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        if self.journal.has_failed() {
            return Err(SendError::Failed);
        }
        let queued_bytes = self.out.len();
        if self.outgoing.is_full(queued_bytes) {
            return Err(SendError::WouldBlock { queued_bytes });
        }
        if self.outgoing.stores(self.session.state()) {
            return self.store_late(now, msg_type, fill).map(Sent::Stored);
        }
        self.session.send(now, msg_type, &mut self.out, fill).map(Sent::Direct)
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
        if change.is_none() && self.session.ready().is_err() {
            return self.store_late(now, msg_type, fill);
        }
        self.send_in_callback(now, msg_type, change, fill)
    }

    /// Sends for the application, in a callback.
    #[inline]
    pub(crate) fn send_in_callback(
        &mut self,
        now: Now,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let sent = if let Some(change) = change {
            self.session.send_with(now, msg_type, change, &mut self.out, fill)
        } else {
            let queued_bytes = self.out.len() + self.late.len();
            if queued_bytes > self.options.queue.queued_bytes_max {
                self.refuse_if_too_full(queued_bytes)?;
            }
            if self.session.ready().is_err() {
                cold_path();
                return self.session.send_offline(now, msg_type, &mut self.late, fill);
            }
            self.session.send(now, msg_type, &mut self.out, fill)
        };
        if sent.is_ok() {
            self.points.encoded(now);
        }
        sent
    }

    /// More waits than may: the counterparty loses its connection for it, and what answers its
    /// messages is stored.
    #[cold]
    fn refuse_if_too_full(&mut self, queued_bytes: usize) -> Result<(), SendError> {
        let options = self.outgoing.options();
        if options.queue_when_full == QueueWhenFull::Disconnect {
            self.cut = Some(Disconnect::Stalled);
        }
        match queued_bytes > options.queued_bytes_max.saturating_add(CALLBACK_BYTES_MAX) {
            true => Err(SendError::WouldBlock { queued_bytes }),
            false => Ok(()),
        }
    }

    /// Logs out for the application, or ends the connection if there is no logon.
    pub(crate) fn log_out_or_cut(&mut self, now: Now, text: &str) {
        if !self.session.logout(now, text, &mut self.out) {
            self.cut = Some(Disconnect::Application);
        }
    }

    /// Gives a number to a message that cannot be written now: it is stored as if it had been lost
    /// with the connection, and the counterparty asks for it.
    #[cold]
    fn store_late(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        let sent = self.session.send_offline(now, msg_type, &mut self.late, fill);
        self.note_late();
        self.put_entries(now).map_err(|_| SendError::Failed)?;
        sent
    }

    /// A message was numbered and is not written. Behind our Logon(A) nobody would miss it before
    /// the next message.
    pub(super) fn note_late(&mut self) {
        self.stored_at_logon |= self.session.state() == State::LogonSent;
    }

    /// Sends for a handle: how long it takes to encode the message, and the message to the
    /// socket, is measured from `put` on, which becomes the moment at which it is encoded.
    pub(crate) fn send_put(
        &mut self,
        now: Now,
        put: &mut u64,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let begin = self.out.end();
        let sent = self.send(now, msg_type, fill);
        *put = self.points.put(now, (*put, *put), begin..self.out.end());
        sent
    }

    /// Whether a message must take its place in the queue: it is kept for the next logon, or others
    /// that wait since before the logon go first.
    pub(crate) fn must_queue(&self) -> bool {
        self.outgoing.must_queue(self.session.state())
    }

    /// Whether others that are held back go before a message that is to be stored at once.
    pub(crate) fn waits_behind(&self) -> bool {
        self.outgoing.waits_behind(self.session.state())
    }

    /// Whether something of the queue has found no room before, and would find it now.
    pub(crate) fn sends_more(&self) -> bool {
        self.outgoing.sends_more(self.session.state(), self.out.len())
    }

    /// Sends or stores what other threads have handed over until now, as far as the session takes
    /// it: before a direct send or a Logout(5), which must not overtake it. It commits after as
    /// many messages as a turn has, so that no batch grows with the queue.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        // A store that fails here is reported to whoever commits next.
        self.take_queued(now, queue, |core| core.commit(now));
    }

    /// The same with something else after as many messages as a turn has. What other threads hand
    /// over meanwhile is for the next time: who sends in a loop must not keep the caller here.
    pub(crate) fn take_queued(
        &mut self,
        now: Now,
        queue: &SendQueue,
        mut between: impl FnMut(&mut Self) -> Result<(), StoreError>,
    ) {
        let until = self.outgoing.left_bytes() + self.outgoing.bytes(queue) as u64;
        loop {
            let mut left = self.options.turn_messages_max;
            self.send_some(now, queue, &mut left);
            let is_over = left > 0 || self.outgoing.left_bytes() >= until;
            if is_over || between(self).is_err() {
                return;
            }
        }
    }

    /// Sends or stores what other threads handed over, as far as the session takes it now, and at
    /// most `left` messages, which are counted down. If some are left, [`Core::sends_more`].
    #[inline(always)]
    pub(crate) fn send_some(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        if self.outgoing.is_pending(queue) {
            self.send_waiting(now, queue, left);
        }
    }

    /// Sends from the queue before anything else if the last turn left it in the middle. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn begin_with_queue(&mut self, now: Now, queue: &SendQueue, left: &mut u32) -> bool {
        if self.outgoing.is_first() {
            cold_path();
            self.send_waiting(now, queue, left);
        }
        self.outgoing.is_first()
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
            self.outgoing.had_turn();
        }
        self.put_queued(now, queue)
    }

    #[inline(never)]
    fn send_waiting(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        // What is numbered or kept now would be of the numbers of before.
        if self.journal.is_refreshing() {
            return;
        }
        let state = self.session.state();
        if !self.outgoing.begin(now, state, queue) || self.journal.has_failed() {
            return;
        }
        // Numbers would mean nothing after the reset that is asked for.
        if state == State::LogonSent && self.session.awaits_reset() {
            return;
        }
        self.expire_queued(now, left);
        let stores = self.outgoing.stores(state);
        let mut refused = Vec::new();
        let mut taken = self.points.source().at(now);
        while let Some(message) = self.outgoing.next(queue, self.out.len(), left) {
            let (msg_type, body, put) = (message.msg_type, message.body, message.put);
            let (session, out) = (&mut self.session, &mut self.out);
            let begin = out.end();
            let fill = |b: &mut Body<'_>| _ = b.fields_unchecked(body);
            let sent = match stores {
                true => session.send_offline(now, msg_type, &mut self.late, fill),
                false => session.send(now, msg_type, out, fill),
            };
            if stores {
                self.note_late();
                // It waits on.
                if self.put_entries(now).is_err() {
                    break;
                }
            } else {
                taken = self.points.put(now, (put, taken), begin..self.out.end());
            }
            match sent {
                Ok(seq) => self.outgoing.sent(seq),
                // Checked when it was accepted: it may be longer than the counterparty takes.
                Err(why) => {
                    refused.extend(self.outgoing.refuse_first().map(|left| (left, why)));
                }
            }
        }
        self.outgoing.note_taken(queue);
        self.give_back(now, refused, IfLost::Waits);
    }

    /// Puts what waits for a logon into the store's batch.
    pub(crate) fn put_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        if self.journal.is_refreshing() {
            return Ok(());
        }
        let state = self.session.state();
        self.outgoing.put(now, state, queue, self.journal.store())
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
        let before = self.outgoing.taken_bytes();
        let pushed = queue.push_offline(msg_type, fill)?;
        if self.keep_queued(now, queue).is_err() {
            self.outgoing.refuse(queue, before + pushed.at);
            return Err(SendError::Failed);
        }
        Ok(pushed.bytes)
    }

    /// Takes from the store what waits there.
    pub(crate) fn restore_queued(&mut self, now: Now) -> Result<(), StoreError> {
        let how = (self.options.refresh_on_logon, self.journal.has_failed());
        let damaged = self.outgoing.restore(self.journal.store(), how)?;
        if damaged > 0 {
            self.tell(now, &Event::QueueDamaged { damaged });
        }
        Ok(())
    }

    /// Gives back what has waited for a logon longer than it may: at most `left` messages, which
    /// are counted down.
    pub(crate) fn expire_queued(&mut self, now: Now, left: &mut u32) {
        if self.journal.is_refreshing() {
            return;
        }
        let expired = self.outgoing.take_expired(now, left);
        self.give_back(now, expired, IfLost::Waits);
    }

    /// Tells the application what is not sent, as soon as the store has made that safe: a later
    /// process must not send what was given back. If the store fails, those that it may have wait
    /// on.
    fn give_back(&mut self, now: Now, mut messages: Vec<GivenBack>, if_lost: IfLost) {
        if messages.is_empty() {
            return;
        }
        self.count_answer();
        // What it was told before comes first.
        let ticket = if self.commit(now).is_ok() {
            self.watermarks.last_ticket()
        } else {
            let count = self.outgoing.keep_waiting(&mut messages);
            if count > 0 {
                self.tell(now, &Event::NotGivenBack { count });
            }
            self.put_back_untold(now);
            0
        };
        self.outgoing.tell_later(ticket, messages, if_lost);
        if ticket == 0 {
            self.tell_unsent(now, u64::MAX);
        }
    }

    /// Tells the application what is not sent, where that is safe with this ticket or an earlier
    /// one.
    #[cold]
    pub(crate) fn tell_unsent(&mut self, now: Now, ticket: u64) {
        while let Some((left, why)) = self.outgoing.take_untold(ticket) {
            self.calls.push_back(Call::Unsent(left.msg_type, left.body, why));
            self.tell(now, &Event::GivenBack { why });
        }
    }

    /// The store has failed before it was safe that messages are given back: those that it may have
    /// wait again.
    pub(crate) fn put_back_untold(&mut self, now: Now) {
        let count = self.outgoing.put_back_untold();
        if count > 0 {
            self.tell(now, &Event::NotGivenBack { count });
        }
    }

    /// Gives back what could not be given back before the store was open again.
    pub(super) fn return_late(&mut self, now: Now, queue: &SendQueue) {
        let late = self.outgoing.take_late();
        self.give_back(now, late, IfLost::Returns);
        self.outgoing.note_taken(queue);
    }

    /// Stores what waits, or gives it back.
    pub(crate) fn leave_nothing(&mut self, now: Now, queue: &SendQueue) {
        self.send_queued(now, queue);
        if let Some(rest) = self.outgoing.take_rest(queue) {
            self.give_back(now, rest, IfLost::Returns);
        }
        if self.keep_queued(now, queue).is_err() {
            // What the store was never given it cannot have.
            let never_stored = self.outgoing.take_never_stored();
            self.give_back(now, never_stored, IfLost::Returns);
        }
        self.outgoing.note_taken(queue);
    }

    /// Gives back to the application what waits in the queue, if it is not to be kept.
    pub(crate) fn return_unsent(&mut self, now: Now, queue: &SendQueue, why: SendError) {
        // Where the store is being refreshed, they wait for the end of another connection.
        if self.journal.is_refreshing() {
            return;
        }
        let Some(unsent) = self.outgoing.take_unsent(queue, why) else { return };
        self.give_back(now, unsent, IfLost::Returns);
        self.outgoing.note_taken(queue);
        if self.journal.has_failed() {
            let bytes = self.outgoing.return_later(why);
            if bytes > 0 {
                self.tell(now, &Event::SentInDoubt { bytes });
            }
        }
    }
}
