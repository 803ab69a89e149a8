//! Messages taken from the queue and not sent yet, oldest first.
//!
//! Invariants: those that the store has come before those that it has not; what has left is told to
//! the store with the next commit, the one that keeps the message's number too.

use std::collections::VecDeque;

use transfix_store::{Record, Store, StoreError};

use crate::queue::{self, Queued, SendQueue};

/// What the store knows of a message that waits.
#[derive(Clone, Copy, Debug)]
struct Kept {
    ticket: u64,
    /// When it was put.
    time_ns: u64,
}

#[derive(Debug)]
pub(super) struct Backlog {
    /// Messages as the queue has them; those before `from` have left.
    bytes: Vec<u8>,
    from: usize,
    /// Those before this place are in the store.
    kept_to: usize,
    kept: VecDeque<Kept>,
    next_ticket: u64,
    /// Up to which ticket the store is to be told that nothing waits.
    gone: Option<u64>,
}

impl Default for Backlog {
    fn default() -> Self {
        let (bytes, kept) = (Vec::new(), VecDeque::new());
        Self { bytes, from: 0, kept_to: 0, kept, next_ticket: 1, gone: None }
    }
}

impl Backlog {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.from
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The messages that wait, as the queue has them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    pub(super) fn first(&self) -> Option<Queued<'_>> {
        queue::first(self.bytes())
    }

    /// The first one, taken from the queue if there is no other.
    pub(super) fn first_of(&mut self, queue: &SendQueue) -> Option<Queued<'_>> {
        if self.is_empty() && queue.is_pending() {
            self.fill(queue);
        }
        self.first()
    }

    /// Whether exactly one waits, in the store.
    pub(super) fn holds_one(&self) -> bool {
        self.kept.len() == 1
    }

    /// When the first one was put into the store, if it is there.
    pub(super) fn first_kept_ns(&self) -> Option<u64> {
        self.kept.front().map(|kept| kept.time_ns)
    }

    /// MsgType(35) and body of the first one, which is given up.
    pub(super) fn take_first(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let message = self.first()?;
        let taken = (message.msg_type.to_vec(), message.body.to_vec());
        self.drop_first();
        Some(taken)
    }

    /// The first one is sent or given up.
    pub(super) fn drop_first(&mut self) {
        let Some(len) = self.first().map(|message| message.len) else { return };
        self.from += len;
        self.kept_to = self.kept_to.max(self.from);
        if let Some(kept) = self.kept.pop_front() {
            self.gone = Some(kept.ticket);
        }
        if self.is_empty() {
            self.bytes.clear();
            (self.from, self.kept_to) = (0, 0);
        }
    }

    pub(super) fn clear(&mut self) {
        while !self.is_empty() {
            self.drop_first();
        }
    }

    /// Drops those that the store does not have.
    pub(super) fn drop_others(&mut self) {
        self.bytes.truncate(self.kept_to);
    }

    /// Takes over what other threads have handed over.
    pub(super) fn fill(&mut self, queue: &SendQueue) {
        self.compact();
        queue.take(&mut self.bytes);
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.from);
        self.kept_to -= self.from;
        self.from = 0;
    }

    /// Puts into the store what it does not have yet.
    pub(super) fn keep(&mut self, now_ns: u64, store: &mut dyn Store) -> Result<(), StoreError> {
        let mut record = Vec::new();
        while let Some(message) = queue::first(&self.bytes[self.kept_to..]) {
            let ticket = self.next_ticket;
            record.clear();
            for part in [b"35=", message.msg_type, b"\x01", message.body] {
                record.extend_from_slice(part);
            }
            store.put(now_ns, Record::Queued { ticket, bytes: &record })?;
            self.kept.push_back(Kept { ticket, time_ns: now_ns });
            self.next_ticket = ticket + 1;
            self.kept_to += message.len;
        }
        Ok(())
    }

    /// Takes from the store what waits there, in place of what was there before.
    pub(super) fn restore(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let others = self.bytes.split_off(self.kept_to);
        self.bytes.clear();
        self.kept.clear();
        (self.from, self.next_ticket, self.gone) = (0, 1, None);
        while let Some(found) = store.queued(self.next_ticket)? {
            self.next_ticket = found.seq + 1;
            let fields = found.bytes.strip_prefix(b"35=");
            let end = fields.and_then(|fields| fields.iter().position(|byte| *byte == 1));
            let (Some(fields), Some(end)) = (fields, end) else {
                tracing::error!(ticket = found.seq, "what waits in the store is no message");
                continue;
            };
            queue::put(&mut self.bytes, &fields[..end], &fields[end + 1..]);
            self.kept.push_back(Kept { ticket: found.seq, time_ns: found.time_ns });
        }
        self.kept_to = self.bytes.len();
        self.bytes.extend_from_slice(&others);
        Ok(())
    }

    /// What the store is to be told.
    pub(super) fn take_gone(&mut self) -> Option<Record<'static>> {
        self.gone.take().map(Record::Unqueued)
    }
}
