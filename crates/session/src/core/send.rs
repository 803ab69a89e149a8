//! Sends, stores, queues or returns messages of the application.

use std::hint::cold_path;

use transfix_codec::Body;

use super::Core;
use super::event::CoreEvent;
use crate::core::call::Call;
use crate::core::outgoing::{GivenBack, IfLost};
use crate::sent::Sent;
use crate::{Disconnect, HeaderChange, Now, QueueWhenFull, SendError, State};

/// Number of bytes that callbacks may send beyond `queued_bytes_max`. The limit bounds memory and
/// the size of a store batch if a callback never stops sending.
const CALLBACK_BYTES_MAX: usize = 64 << 20;

/// The treatment of waiting messages: they are sent, or only stored for a later resend.
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

    /// Sends or stores a message of the application, as if the application sent the message in a
    /// callback.
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

    /// Sends a message that the application sends in a callback.
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

    /// Handles a full outbox in a callback. The settings may end the connection; answers to
    /// received messages are still accepted, up to [`CALLBACK_BYTES_MAX`] bytes beyond the limit.
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

    /// Sends a Logout(5) for the application, or requests a disconnect if the session is not logged
    /// on.
    pub fn log_out_or_cut(&mut self, now: Now, text: &str) {
        if !self.session.logout(now, text, &mut self.out) {
            self.cut = Some(Disconnect::Application);
        }
    }

    /// Gives a number to a message that cannot be written now. The message is stored, and the
    /// counterparty requests it later.
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

    /// Records that a numbered message was not written. After our Logon(A), the counterparty would
    /// notice the missing number only at the next message.
    pub(super) fn note_late(&mut self) {
        self.stored_at_logon |= self.session.state() == State::LogonSent;
    }

    /// Returns true if a new message must be queued, because it must wait for the next logon or
    /// earlier messages still wait.
    pub fn must_queue(&self) -> bool {
        self.outgoing.must_queue(self.session.state())
    }

    /// Returns true if earlier messages are held back by an operator or a pause, so that a new
    /// message must wait behind them.
    pub fn waits_behind(&self) -> bool {
        self.outgoing.waits_behind(self.session.state())
    }

    /// Returns true if queued messages can be sent now, because the outbox has room for them.
    pub fn sends_more(&self) -> bool {
        self.outgoing.sends_more(self.session.state(), self.out.len())
    }

    /// Begins to send or store the waiting messages; returns `None` if they must continue to wait.
    pub fn begin_sending(&mut self, now: Now, left: &mut u32) -> Option<SendOrStore> {
        let state = self.session.state();
        if !self.outgoing.begin(now, state) {
            return None;
        }
        // A reset is requested, which would invalidate the numbers of messages sent now.
        if state == State::LogonSent && self.session.awaits_reset() {
            return None;
        }
        self.expire_queued(now, left);
        Some(if self.outgoing.stores(state) { SendOrStore::Store } else { SendOrStore::Send })
    }

    /// Encodes the first waiting message, if `left`, the number of messages still allowed, and the
    /// outbox permit it. The message stays first until [`Core::settle_first`]. Returns the result
    /// with the number, and the time at which the message was queued.
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

    /// Removes the first waiting message after an attempt to send it; if the attempt failed, the
    /// message is returned to the application. For example, the message may exceed the
    /// counterparty's limit, which was unknown when the message was queued.
    pub fn settle_first(&mut self, sent: Result<u64, SendError>) {
        match sent {
            Ok(seq) => self.outgoing.sent(seq),
            Err(why) => {
                let refused = self.outgoing.refuse_first().map(|left| (left, why));
                self.give_back(refused.into_iter().collect(), IfLost::Waits);
            }
        }
    }

    /// Returns messages that have waited too long for a logon to the application, at most `left`
    /// messages, and subtracts their number from `left`.
    pub fn expire_queued(&mut self, now: Now, left: &mut u32) {
        let expired = self.outgoing.take_expired(now, left);
        self.give_back(expired, IfLost::Waits);
    }

    /// Returns unsent messages to the application after the store has committed their removal;
    /// otherwise a later process could send them. If the store fails, messages that the store may
    /// contain continue to wait. The caller must commit afterwards.
    pub fn give_back(&mut self, messages: Vec<GivenBack>, if_lost: IfLost) {
        if !messages.is_empty() {
            self.count_answer();
            self.outgoing.tell_later(messages, if_lost);
        }
    }

    /// Handles a batch that the store did not accept.
    #[cold]
    pub fn not_committed(&mut self, now: Now) {
        let Some(count) = self.outgoing.keep_waiting() else { return };
        if count > 0 {
            self.queue_event(now, CoreEvent::NotGivenBack { count });
        }
        self.put_back_untold(now);
        self.tell_unsent(now, u64::MAX);
    }

    /// Queues the calls that return unsent messages, for messages whose removal is durable with
    /// this ticket.
    #[cold]
    pub fn tell_unsent(&mut self, now: Now, ticket: u64) {
        while let Some((left, why)) = self.outgoing.take_omitted(ticket) {
            self.calls.push_back(Call::Unsent(left.msg_type, left.body, why));
            self.queue_event(now, CoreEvent::GivenBack { why });
        }
    }

    /// Puts returned messages back into the queue after the store has failed: their removal was not
    /// durable, so the store may still contain them.
    pub fn put_back_untold(&mut self, now: Now) {
        let count = self.outgoing.put_back_untold();
        if count > 0 {
            self.queue_event(now, CoreEvent::NotGivenBack { count });
        }
    }
}
