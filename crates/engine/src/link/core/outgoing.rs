//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use transfix_codec::Body;
use transfix_session::{Now, SendError, State};
use transfix_store::{Store, StoreError};

use super::Core;
use super::backlog::{Left, Takers};
use crate::link::queue::{self, SendQueue};
use crate::link::sent::Sent;
use crate::observe::repeats::tell;
use crate::settings::{Offline, Unsent};

const MS: u64 = 1_000_000;

impl Core {
    pub(crate) fn send(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        if self.has_failed() {
            return Err(SendError::Failed);
        }
        let queued_bytes = self.out.bytes().len();
        if queued_bytes > self.options.queued_bytes_max {
            return Err(SendError::WouldBlock { queued_bytes });
        }
        if self.stores() {
            let sent = self.session.send_offline(now, msg_type, &mut self.out, fill);
            self.put_entries(now).map_err(|_| SendError::Failed)?;
            // Never written: the counterparty asks for it after the next logon.
            self.out.clear();
            return sent.map(Sent::Stored);
        }
        self.session.send(now, msg_type, &mut self.out, fill).map(Sent::Direct)
    }

    /// Whether messages get their numbers without a connection.
    fn stores(&self) -> bool {
        self.options.offline == Offline::Store && self.session.state() == State::Disconnected
    }

    /// Whether a message must take its place in the queue: it is kept for the next logon, or others
    /// that wait since before the logon go first.
    pub(crate) fn must_queue(&self) -> bool {
        let active = self.session.state() == State::Active;
        let waits = active && (self.holds || self.pause_until_ns.is_some());
        waits || (!active && self.options.offline == Offline::Queue)
    }

    /// Whether what waits in the queue goes on waiting.
    fn must_wait(&self) -> bool {
        self.session.state() != State::Active || self.holds || self.pause_until_ns.is_some()
    }

    /// Whether something of the queue has found no room before, and would find it now.
    pub(crate) fn sends_more(&self) -> bool {
        let room = self.out.bytes().len() <= self.options.queued_bytes_max;
        !self.backlog.is_empty() && room && !self.must_wait()
    }

    /// Lets the messages that wait since before the logon wait a little longer.
    pub(crate) fn begin_pause(&mut self, now: Now) {
        let pause_ns = u64::from(self.options.queue_pause_ms) * MS;
        self.pause_until_ns = (pause_ns > 0).then(|| now.monotonic_ns + pause_ns);
    }

    /// Sends or stores all that other threads handed over, as far as the session takes it now:
    /// before a direct send or a Logout(5), which must not overtake it.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        self.send_some(now, queue, &mut { u32::MAX });
    }

    /// Sends or stores what other threads handed over, as far as the session takes it now, and at
    /// most `left` messages, which are counted down. If some are left, [`Core::sends_more`].
    #[inline(always)]
    pub(crate) fn send_some(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        // Most turns find nothing: they pay for no more than this look.
        if self.pause_until_ns.is_some() || !self.backlog.is_empty() || queue.is_pending() {
            self.send_waiting(now, queue, left);
        }
    }

    /// Sends from the queue before anything else if the last turn left it in the middle. Returns
    /// whether it did.
    #[inline(always)]
    pub(crate) fn begin_with_queue(&mut self, now: Now, queue: &SendQueue, left: &mut u32) -> bool {
        if self.queue_first {
            self.send_waiting(now, queue, left);
        }
        self.queue_first
    }

    /// Sends from the queue at the end of a turn. One that began with it lets the next turn begin
    /// with what has come in.
    #[inline(always)]
    pub(crate) fn end_with_queue(
        &mut self,
        now: Now,
        queue: &SendQueue,
        left: &mut u32,
        began_with_queue: bool,
    ) {
        self.send_some(now, queue, left);
        if began_with_queue {
            self.queue_first = false;
        }
    }

    #[inline(never)]
    fn send_waiting(&mut self, now: Now, queue: &SendQueue, left: &mut u32) {
        // The pause after a logon ends at its time, even if nothing can be sent then.
        self.pause_until_ns = self.pause_until_ns.filter(|until| now.monotonic_ns < *until);
        let stores = self.stores() && !self.holds;
        if !stores && self.must_wait() {
            return;
        }
        if self.has_failed() || (self.backlog.is_empty() && !queue.is_pending()) {
            return;
        }
        self.expire_queued(now, left);
        let mut refused = Vec::new();
        while let Some(message) = self.backlog.first_of(queue) {
            if *left == 0 {
                self.queue_first = true;
                break;
            }
            if self.out.bytes().len() > self.options.queued_bytes_max {
                break;
            }
            *left -= 1;
            let (msg_type, body) = (message.msg_type, message.body);
            let (session, out) = (&mut self.session, &mut self.out);
            let fill = |b: &mut Body<'_>| _ = b.fields_unchecked(body);
            let sent = match stores {
                true => session.send_offline(now, msg_type, out, fill),
                false => session.send(now, msg_type, out, fill),
            };
            if stores {
                let stored = self.put_entries(now);
                self.out.clear();
                // It waits on.
                if stored.is_err() {
                    break;
                }
            }
            match sent {
                Ok(seq) => self.backlog.first_is_sent(seq),
                // Checked when it was accepted: it may be longer than the counterparty takes.
                Err(why) => refused.extend(self.backlog.take_first().map(|left| (left, why))),
            }
        }
        self.note_taken(queue);
        self.give_back(now, refused);
    }

    /// How many bytes wait in the queue.
    pub(crate) fn queued_bytes(&self, queue: &SendQueue) -> usize {
        self.backlog.len() + queue.len()
    }

    /// Puts what waits for a logon into the store's batch.
    pub(crate) fn put_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        if self.options.offline != Offline::Queue || self.session.state() == State::Active {
            return Ok(());
        }
        self.backlog.fill(queue);
        self.note_taken(queue);
        self.backlog.keep(now.utc.0.unsigned_abs(), &mut self.store)
    }

    /// Puts what waits for a logon into the store.
    pub(crate) fn keep_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        self.put_queued(now, queue)?;
        self.journal(now)
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
        let before = self.backlog.len();
        let pushed = queue.push(msg_type, fill)?;
        if self.keep_queued(now, queue).is_err() {
            // It must not be sent later, other than those that others have handed over.
            self.backlog.fill(queue);
            self.backlog.refuse(before + pushed.at);
            self.note_taken(queue);
            return Err(SendError::Failed);
        }
        Ok(pushed.bytes)
    }

    /// Takes from the store what waits there.
    pub(crate) fn restore_queued(&mut self, now: Now) -> Result<(), StoreError> {
        let takers = match self.options.refresh_on_logon {
            true => Takers::Others,
            false => Takers::Own,
        };
        if self.options.offline == Offline::Queue {
            let damaged = self.backlog.restore(Some(&mut self.store), takers)?;
            if damaged > 0 {
                let why = "what waits in the store is no message";
                tell!(
                    self.repeats,
                    now.monotonic_ns,
                    Store,
                    error,
                    session = display(self.id()),
                    damaged,
                    why
                );
            }
            return Ok(());
        }
        self.backlog.restore(None, takers)?;
        if self.store.queued(1)?.is_some() {
            let why = "messages wait in the store, and are not sent without offline = \"queue\"";
            tell!(self.repeats, now.monotonic_ns, NotSent, warn, session = display(self.id()), why);
        }
        Ok(())
    }

    /// Gives back what has waited for a logon longer than it may: at most `left` messages, which
    /// are counted down. [`Core::queue_deadline`] is over if some are left.
    pub(crate) fn expire_queued(&mut self, now: Now, left: &mut u32) {
        let mut expired = Vec::new();
        while *left > 0
            && self.queue_deadline(now).is_some_and(|at| at <= now.monotonic_ns)
            && let Some(message) = self.backlog.take_first()
        {
            *left -= 1;
            expired.push((message, SendError::Expired));
        }
        self.give_back(now, expired);
    }

    /// Tells the application what is not sent. The store comes first: a later process must not send
    /// what was given back. If it fails, those that it may have wait on.
    fn give_back(&mut self, now: Now, mut messages: Vec<(Left, SendError)>) {
        if messages.is_empty() {
            return;
        }
        if self.journal(now).is_err() {
            let kept: Vec<Left> =
                messages.extract_if(.., |(left, _)| left.is_kept()).map(|(left, _)| left).collect();
            if !kept.is_empty() {
                let (count, why) = (kept.len(), "not given back: the store has failed");
                tell!(
                    self.repeats,
                    now.monotonic_ns,
                    NotSent,
                    error,
                    session = display(self.id()),
                    count,
                    why
                );
            }
            self.backlog.put_back(kept);
        }
        for (left, why) in messages {
            self.tell_unsent(now, why);
            let id = &self.session.config().id;
            self.application.on_unsent(id, &left.msg_type, &left.body, why);
        }
    }

    /// What the store had to commit when it failed: whether it has it now that it is open again.
    pub(super) fn settle_uncommitted(&mut self) -> Result<(), StoreError> {
        let Some(failure) = self.store.failure() else { return Ok(()) };
        let (messages, seq) = self.backlog.uncommitted();
        let Some(first) = queue::first(messages) else { return Ok(()) };
        if self.store.numbers() == failure.numbers {
            return Ok(());
        }
        // Another process may have gone on from where we were; a store need not keep messages.
        let is_it = self.store.outbound(seq)?.is_none_or(|stored| {
            let mut found = stored.bytes.windows(first.body.len().max(1));
            first.body.is_empty() || found.any(|bytes| bytes == first.body)
        });
        if is_it {
            self.backlog.forget_uncommitted();
        }
        Ok(())
    }

    /// Gives back what could not be given back before the store was open again.
    pub(super) fn return_late(&mut self, now: Now, queue: &SendQueue) {
        if let Some(why) = self.returns.take() {
            let unsent = self.backlog.take_all().into_iter().map(|left| (left, why)).collect();
            self.give_back(now, unsent);
        }
        self.note_taken(queue);
    }

    /// When the first message that waits expires, on the monotonic clock.
    pub(crate) fn queue_deadline(&self, now: Now) -> Option<u64> {
        let expires_ns = u64::from(self.options.queue_expires_s) * 1_000 * MS;
        let since_ns = self.backlog.first_kept_ns().filter(|_| expires_ns > 0)?;
        let waited_ns = now.utc.0.unsigned_abs().saturating_sub(since_ns);
        Some(now.monotonic_ns + expires_ns.saturating_sub(waited_ns))
    }

    /// Whether one message waits, which expires: the worker does not know of it yet.
    pub(crate) fn is_first_to_expire(&self) -> bool {
        self.options.queue_expires_s > 0 && self.backlog.holds_one()
    }

    /// Lets the queue know how much the session has taken of it.
    pub(crate) fn note_taken(&self, queue: &SendQueue) {
        queue.note_taken(self.backlog.len());
    }

    /// What waits in the queue, oldest first: MsgType(35) and body.
    pub(crate) fn queued(&mut self, queue: &SendQueue) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let waiting = queue.copy();
        for mut rest in [self.backlog.bytes(), &waiting] {
            while let Some(message) = queue::first(rest) {
                let msg_type = String::from_utf8_lossy(message.msg_type).into_owned();
                all.push((msg_type, message.body.to_vec()));
                rest = &rest[message.len..];
            }
        }
        all
    }

    /// Drops what waits in the queue.
    pub(crate) fn clear_queued(&mut self, queue: &SendQueue) {
        self.backlog.fill(queue);
        self.backlog.clear();
        self.note_taken(queue);
    }

    /// Gives back to the application what waits in the queue, if it is not to be kept.
    pub(crate) fn return_unsent(&mut self, now: Now, queue: &SendQueue, why: SendError) {
        if self.options.unsent == Unsent::Keep {
            return;
        }
        self.backlog.fill(queue);
        let unsent = self.backlog.take_all().into_iter().map(|left| (left, why)).collect();
        self.give_back(now, unsent);
        self.note_taken(queue);
        // What the store may have, and what was sent last: it is not known yet whether it was.
        self.returns = self.has_failed().then_some(why);
        let bytes = self.backlog.uncommitted().0.len();
        if bytes > 0 {
            let why = "sent as the store failed: comes back when it is open again";
            tell!(
                self.repeats,
                now.monotonic_ns,
                NotSent,
                error,
                session = display(self.id()),
                bytes,
                why
            );
        }
    }
}
