//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use std::ops::ControlFlow;

use transfix_codec::Body;
use transfix_session::{Now, SendError, State};
use transfix_store::StoreError;

use super::Desk;
use crate::handle::Sent;
use crate::queue::{self, Queued, SendQueue};
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
        self.taken_from < self.taken.len() && room && !self.must_wait()
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
        if self.stores() {
            // A store that fails here fails again when this is committed.
            let _ = self.store_queued(now, queue);
            return;
        }
        if self.must_wait() {
            return;
        }
        self.each_queued(queue, |desk, message| {
            if desk.out.bytes().len() > desk.options.queued_bytes_max {
                return ControlFlow::Break(());
            }
            let (msg_type, body) = (message.msg_type, message.body);
            let sent = desk.session.send(now, msg_type, &mut desk.out, |b| _ = b.fields(body));
            desk.return_refused(message, sent);
            ControlFlow::Continue(())
        });
    }

    /// Without a link what waits gets its numbers now, before anything that is stored later.
    pub(crate) fn store_queued(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        if !self.stores() || self.holds {
            return Ok(());
        }
        let mut stored = Ok(());
        self.each_queued(queue, |desk, message| {
            let (msg_type, body) = (message.msg_type, message.body);
            let fill = |b: &mut Body<'_>| _ = b.fields(body);
            let sent = desk.session.send_offline(now, msg_type, &mut desk.out, fill);
            desk.return_refused(message, sent);
            stored = desk.put_entries(now);
            desk.out.clear();
            match stored {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        stored
    }

    fn return_refused(&mut self, message: &Queued<'_>, sent: Result<u64, SendError>) {
        if let Err(error) = sent {
            // Checked when it was accepted: it may be longer than the counterparty takes.
            let id = &self.session.config().id;
            tracing::error!(session = %id, %error, "not sent");
            self.application.on_unsent(id, message.msg_type, message.body, error);
        }
    }

    /// Takes the messages from the queue, oldest first, until `act` breaks before one.
    fn each_queued(
        &mut self,
        queue: &SendQueue,
        mut act: impl FnMut(&mut Self, &Queued<'_>) -> ControlFlow<()>,
    ) {
        loop {
            let mut taken = std::mem::take(&mut self.taken);
            while let Some(message) = queue::first(&taken[self.taken_from..]) {
                if act(self, &message).is_break() {
                    self.taken = taken;
                    return;
                }
                self.taken_from += message.len;
            }
            taken.clear();
            self.taken = taken;
            self.taken_from = 0;
            if !queue.is_pending() {
                return;
            }
            queue.take(&mut self.taken);
        }
    }

    /// How many bytes wait in the queue.
    pub(crate) fn queued_bytes(&self, queue: &SendQueue) -> usize {
        let handed_over = if queue.is_pending() { queue.copy().len() } else { 0 };
        self.taken.len() - self.taken_from + handed_over
    }

    /// What waits in the queue, oldest first: MsgType(35) and body.
    pub(crate) fn queued(&mut self, queue: &SendQueue) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let waiting = queue.copy();
        for mut rest in [&self.taken[self.taken_from..], &waiting] {
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
        self.taken.clear();
        self.taken_from = 0;
        queue.take(&mut self.taken);
        self.taken.clear();
    }

    /// Gives back to the application what waits in the queue, if it is not to be kept.
    pub(crate) fn return_unsent(&mut self, queue: &SendQueue, why: SendError) {
        if self.options.unsent == Unsent::Return {
            self.each_queued(queue, |desk, message| {
                let id = &desk.session.config().id;
                desk.application.on_unsent(id, message.msg_type, message.body, why);
                ControlFlow::Continue(())
            });
        }
    }
}
