//! Messages of the application on their way out: sent, stored for later, kept in the queue, or
//! given back.

use transfix_codec::Body;
use transfix_session::{Now, SendError, State};

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

    /// Lets the messages that wait since before the logon wait a little longer.
    pub(crate) fn begin_pause(&mut self, now: Now) {
        let pause_ns = u64::from(self.options.queue_pause_ms) * MS;
        self.pause_until_ns = (pause_ns > 0).then(|| now.monotonic_ns + pause_ns);
    }

    /// Sends or stores what other threads handed over, as far as the session takes it now.
    pub(crate) fn send_queued(&mut self, now: Now, queue: &SendQueue) {
        let stores = self.stores();
        if self.holds
            || !(stores || self.session.state() == State::Active)
            || self.pause_until_ns.is_some_and(|until| now.monotonic_ns < until)
        {
            return;
        }
        self.pause_until_ns = None;
        loop {
            while let Some(message) = queue::first(&self.taken[self.taken_from..]) {
                if self.out.bytes().len() > self.options.queued_bytes_max {
                    return;
                }
                let (msg_type, body) = (message.msg_type, message.body);
                let (session, out) = (&mut self.session, &mut self.out);
                let fill = |b: &mut Body<'_>| _ = b.fields(body);
                let sent = match stores {
                    true => session.send_offline(now, msg_type, out, fill),
                    false => session.send(now, msg_type, out, fill),
                };
                if let Err(error) = sent {
                    // Checked when it was accepted: it may be longer than the counterparty takes.
                    let id = &self.session.config().id;
                    tracing::error!(session = %id, %error, "not sent");
                    self.application.on_unsent(id, msg_type, body, error);
                }
                self.taken_from += message.len;
            }
            self.taken.clear();
            self.taken_from = 0;
            if !queue.is_pending() {
                break;
            }
            queue.take(&mut self.taken);
        }
        if stores {
            // A store that fails here fails again when this is committed.
            let _ = self.put_entries(now);
            self.out.clear();
        }
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
        if self.options.unsent == Unsent::Keep {
            return;
        }
        loop {
            while let Some(message) = queue::first(&self.taken[self.taken_from..]) {
                let id = &self.session.config().id;
                self.application.on_unsent(id, message.msg_type, message.body, why);
                self.taken_from += message.len;
            }
            self.taken.clear();
            self.taken_from = 0;
            if !queue.is_pending() {
                return;
            }
            queue.take(&mut self.taken);
        }
    }
}
