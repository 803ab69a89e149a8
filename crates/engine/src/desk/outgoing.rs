//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use transfix_codec::Body;
use transfix_session::{Now, SendError, State};
use transfix_store::StoreError;

use super::Desk;
use crate::handle::Sent;
use crate::queue::{self, SendQueue};
use crate::settings::{Offline, Unsent};

const MS: u64 = 1_000_000;

impl Desk {
    pub(crate) fn send(
        &mut self,
        now: Now,
        msg_type: &[u8],
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
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

    /// Sends or stores what other threads handed over, as far as the session takes it now.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        // Over it is over, whether anything can be sent or not.
        self.pause_until_ns = self.pause_until_ns.filter(|until| now.monotonic_ns < *until);
        let stores = self.stores() && !self.holds;
        if !stores && self.must_wait() {
            return;
        }
        if self.backlog.is_empty() && !queue.is_pending() {
            return;
        }
        self.expire_queued(now);
        let mut refused = Vec::new();
        while let Some(message) = self.backlog.first_of(queue) {
            if self.out.bytes().len() > self.options.queued_bytes_max {
                break;
            }
            let (msg_type, body) = (message.msg_type, message.body);
            let (session, out) = (&mut self.session, &mut self.out);
            let fill = |b: &mut Body<'_>| _ = b.fields(body);
            let sent = match stores {
                true => session.send_offline(now, msg_type, out, fill),
                false => session.send(now, msg_type, out, fill),
            };
            if let Err(why) = sent {
                // Checked when it was accepted: it may be longer than the counterparty takes.
                refused.push((msg_type.to_vec(), body.to_vec(), why));
            }
            if stores {
                let stored = self.put_entries(now);
                self.out.clear();
                // It waits on, and the store fails again when this is committed.
                if stored.is_err() {
                    break;
                }
            }
            self.backlog.drop_first();
        }
        self.note_taken(queue);
        self.give_back(now, &refused);
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
        self.backlog.keep(now.utc.0.unsigned_abs(), &mut *self.store)
    }

    /// Puts what waits for a logon into the store.
    pub(crate) fn keep_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        let kept = self.put_queued(now, queue);
        if kept.is_err() {
            // Refused: they must not be sent later.
            self.backlog.drop_others();
            self.note_taken(queue);
        }
        kept.and_then(|()| self.journal(now))
    }

    /// Takes from the store what waits there.
    pub(crate) fn restore_queued(&mut self) -> Result<(), StoreError> {
        if self.options.offline == Offline::Queue {
            return self.backlog.restore(&mut *self.store);
        }
        if self.store.queued(1)?.is_some() {
            let why = "messages wait in the store, and are not sent without offline = \"queue\"";
            tracing::warn!(session = %self.id(), why);
        }
        Ok(())
    }

    /// Gives back what has waited for a logon longer than it may.
    pub(crate) fn expire_queued(&mut self, now: Now) {
        let mut expired = Vec::new();
        while self.queue_deadline(now).is_some_and(|at| at <= now.monotonic_ns)
            && let Some((msg_type, body)) = self.backlog.take_first()
        {
            expired.push((msg_type, body, SendError::Expired));
        }
        self.give_back(now, &expired);
    }

    /// Tells the application what is not sent. The store comes first: a later process must not send
    /// what was given back. If it fails, its messages are not given back: they wait there.
    fn give_back(&mut self, now: Now, messages: &[(Vec<u8>, Vec<u8>, SendError)]) {
        if messages.is_empty() {
            return;
        }
        let count = messages.len();
        if let Err(error) = self.journal(now) {
            let why = "not given back: the store failed";
            tracing::error!(session = %self.id(), %error, count, why);
            return;
        }
        for (msg_type, body, why) in messages {
            let id = &self.session.config().id;
            tracing::warn!(session = %id, %why, "not sent, and given back");
            self.application.on_unsent(id, msg_type, body, *why);
        }
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
        let mut unsent = Vec::new();
        while let Some((msg_type, body)) = self.backlog.take_first() {
            unsent.push((msg_type, body, why));
        }
        self.note_taken(queue);
        self.give_back(now, &unsent);
    }
}
