//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use std::hint::cold_path;

use transfix_codec::Body;

use super::Core;
use super::event::CoreEvent;
use crate::core::call::Call;
use crate::core::outgoing::{GivenBack, IfLost};
use crate::sent::Sent;
use crate::{Disconnect, HeaderChange, Now, QueueWhenFull, SendError, State};

/// Bytes that callbacks may send beyond `queued_bytes_max`: a program that never stops sending in
/// one must not take all memory, and the batch of a store has an end.
const CALLBACK_BYTES_MAX: usize = 64 << 20;

/// Messages that wait are sent, or are stored as if they had been lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOrStore {
    Send,
    Store,
}

impl Core {
    pub fn send(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
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
    pub fn send_now(
        &mut self,
        now: Now,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: &mut dyn FnMut(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        if change.is_none() && self.session.ready().is_err() {
            return self.store_late(now, msg_type, fill);
        }
        self.send_in_callback(now, msg_type, change, fill)
    }

    /// Sends for the application, in a callback.
    #[inline]
    pub fn send_in_callback(
        &mut self,
        now: Now,
        msg_type: &[u8],
        change: Option<HeaderChange>,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<u64, SendError> {
        if let Some(change) = change {
            return self.session.send_with(now, msg_type, change, &mut self.out, fill);
        }
        let queued_bytes = self.out.len() + self.late.len();
        if queued_bytes > self.options.queue.queued_bytes_max {
            self.refuse_if_too_full(queued_bytes)?;
        }
        if self.session.ready().is_err() {
            cold_path();
            return self.session.send_offline(now, msg_type, &mut self.late, fill);
        }
        self.session.send(now, msg_type, &mut self.out, fill)
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
    pub fn log_out_or_cut(&mut self, now: Now, text: &str) {
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
        sent
    }

    /// A message was numbered and is not written. Behind our Logon(A) nobody would miss it before
    /// the next message.
    pub(super) fn note_late(&mut self) {
        self.stored_at_logon |= self.session.state() == State::LogonSent;
    }

    /// Returns true if a message must take its place in the queue: it is kept for the next logon,
    /// or others that wait since before the logon go first.
    pub fn must_queue(&self) -> bool {
        self.outgoing.must_queue(self.session.state())
    }

    /// Returns true if others that are held back go before a message that is to be stored at once.
    pub fn waits_behind(&self) -> bool {
        self.outgoing.waits_behind(self.session.state())
    }

    /// Returns true if something of the queue has found no room before, and would find it now.
    pub fn sends_more(&self) -> bool {
        self.outgoing.sends_more(self.session.state(), self.out.len())
    }

    /// Begins with the messages that wait. `None`: they go on waiting.
    pub fn begin_sending(&mut self, now: Now, left: &mut u32) -> Option<SendOrStore> {
        let state = self.session.state();
        if !self.outgoing.begin(now, state) {
            return None;
        }
        // Numbers would mean nothing after the reset that is asked for.
        if state == State::LogonSent && self.session.awaits_reset() {
            return None;
        }
        self.expire_queued(now, left);
        Some(if self.outgoing.stores(state) { SendOrStore::Store } else { SendOrStore::Send })
    }

    /// Encodes the first message that waits, within `left` and the room of the outbox. It stays
    /// first until [`Core::settle_first`]. Returns its number, and when it was handed over.
    pub fn send_first(
        &mut self,
        now: Now,
        left: &mut u32,
        way: SendOrStore,
    ) -> Option<(Result<u64, SendError>, u64)> {
        let message = self.outgoing.next(self.out.len(), left)?;
        let fill = |b: &mut Body<'_>| _ = b.fields_unchecked(message.body);
        let sent = match way {
            SendOrStore::Send => self.session.send(now, message.msg_type, &mut self.out, fill),
            SendOrStore::Store => {
                self.session.send_offline(now, message.msg_type, &mut self.late, fill)
            }
        };
        let put = message.put;
        if way == SendOrStore::Store {
            self.note_late();
        }
        Some((sent, put))
    }

    /// The first message leaves under this number, or goes back to the application: it may be
    /// longer than the counterparty takes, which was not known when it was accepted.
    pub fn settle_first(&mut self, sent: Result<u64, SendError>) {
        match sent {
            Ok(seq) => self.outgoing.sent(seq),
            Err(why) => {
                let refused = self.outgoing.refuse_first().map(|left| (left, why));
                self.give_back(refused.into_iter().collect(), IfLost::Waits);
            }
        }
    }

    /// Gives back what has waited for a logon longer than it may: at most `left` messages, which
    /// are counted down.
    pub fn expire_queued(&mut self, now: Now, left: &mut u32) {
        let expired = self.outgoing.take_expired(now, left);
        self.give_back(expired, IfLost::Waits);
    }

    /// Tells the application what is not sent, as soon as the store has made that safe: a later
    /// process must not send what was given back. If the store fails, those that it may have wait
    /// on. A commit must follow.
    pub fn give_back(&mut self, messages: Vec<GivenBack>, if_lost: IfLost) {
        if !messages.is_empty() {
            self.count_answer();
            self.outgoing.tell_later(messages, if_lost);
        }
    }

    /// The store has not taken the last batch.
    #[cold]
    pub fn not_committed(&mut self, now: Now) {
        let Some(count) = self.outgoing.keep_waiting() else { return };
        if count > 0 {
            self.queue_event(now, CoreEvent::NotGivenBack { count });
        }
        self.put_back_untold(now);
        self.tell_unsent(now, u64::MAX);
    }

    /// Tells the application what is not sent, where that is safe with this ticket or an earlier
    /// one.
    #[cold]
    pub fn tell_unsent(&mut self, now: Now, ticket: u64) {
        while let Some((left, why)) = self.outgoing.take_untold(ticket) {
            self.calls.push_back(Call::Unsent(left.msg_type, left.body, why));
            self.queue_event(now, CoreEvent::GivenBack { why });
        }
    }

    /// The store has failed before it was safe that messages are given back: those that it may have
    /// wait again.
    pub fn put_back_untold(&mut self, now: Now) {
        let count = self.outgoing.put_back_untold();
        if count > 0 {
            self.queue_event(now, CoreEvent::NotGivenBack { count });
        }
    }
}
