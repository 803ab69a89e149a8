//! The messages that were moved from the queue of other threads and are not sent yet, oldest first.
//!
//! Invariants: messages that were put into the store precede messages that were not. A single
//! commit stores the numbers of sent messages and removes their records. A sent message stays in
//! memory until that commit is durable.

use std::collections::VecDeque;

use super::record::{self, Queued};
use crate::core::bulk;

/// The store's record of a waiting message, as known here.
#[derive(Clone, Copy, Debug)]
struct Kept {
    ticket: u64,
    /// Time at which the message was stored, on the wall clock, in nanoseconds.
    time_ns: u64,
    /// True if the record is committed, and its removal has not been attempted since.
    is_certain: bool,
    /// The ticket with which the record's commit becomes durable; 0 means that no commit is
    /// pending.
    pending: u64,
}

/// A message that was removed from the backlog.
#[derive(Clone, Debug)]
pub struct Left {
    pub msg_type: Vec<u8>,
    pub body: Vec<u8>,
    kept: Option<Kept>,
}

impl Left {
    fn of(message: &Queued<'_>, kept: Option<Kept>) -> Self {
        let (msg_type, body) = (message.msg_type.to_vec(), message.body.to_vec());
        Self { msg_type, body, kept }
    }

    /// Returns true if the store may contain the message.
    pub const fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

/// A sent message whose commit is not yet durable.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// MsgSeqNum(34) of the message.
    seq: u64,
    /// The ticket with which the message's commit becomes durable; 0 means not committed.
    pending: u64,
    kept: Option<Kept>,
}

/// The sent messages whose commits are not yet durable, oldest first.
#[derive(Debug, Default)]
struct Uncommitted {
    /// The encoded messages; see [`record`].
    bytes: Vec<u8>,
    messages: VecDeque<Sent>,
}

impl Uncommitted {
    fn clear(&mut self) {
        self.bytes.clear();
        self.messages.clear();
    }

    /// Removes the first `count` messages.
    fn forget(&mut self, count: usize) {
        let mut rest = &self.bytes[..];
        for _ in 0..count {
            rest = record::first(rest).map_or(rest, |message| &rest[message.len..]);
        }
        let gone = self.bytes.len() - rest.len();
        self.bytes.drain(..gone);
        self.messages.drain(..count);
    }
}

#[derive(Debug)]
pub(super) struct Backlog {
    /// The encoded messages, see [`record`]; the messages before offset `from` were already
    /// removed.
    bytes: Vec<u8>,
    from: usize,
    /// Total bytes of all messages removed since the start.
    left_bytes: u64,
    /// The messages before this offset were put into the store.
    kept_to: usize,
    kept: VecDeque<Kept>,
    next_ticket: u64,
    /// The ticket up to which all messages were sent or returned; `None` after the store was
    /// notified.
    gone: Option<u64>,
    sent: Uncommitted,
    /// Tickets of stored messages whose senders received an error.
    refused: Vec<u64>,
}

impl Default for Backlog {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            from: 0,
            left_bytes: 0,
            kept_to: 0,
            kept: VecDeque::new(),
            next_ticket: 1,
            gone: None,
            sent: Uncommitted::default(),
            refused: Vec::new(),
        }
    }
}

impl Backlog {
    /// Returns the total bytes of the waiting messages.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.from
    }

    /// Returns the total bytes of all messages removed since the start.
    pub(super) const fn left_bytes(&self) -> u64 {
        self.left_bytes
    }

    /// Returns true if the backlog has far more memory than its content needs.
    pub(super) const fn is_bulky(&self) -> bool {
        let (waiting, sent) = (&self.bytes, &self.sent.bytes);
        bulk::is_bulky(waiting.capacity(), waiting.len())
            || bulk::is_bulky(sent.capacity(), sent.len())
    }

    /// Releases memory that a burst has left unused.
    pub(super) fn trim(&mut self) {
        bulk::trim(&mut self.bytes);
        bulk::trim(&mut self.sent.bytes);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the encoded waiting messages; see [`record`].
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }

    pub(super) fn first(&self) -> Option<Queued<'_>> {
        record::first(self.bytes())
    }

    /// Returns true if exactly one waiting message was put into the store.
    pub(super) fn holds_one(&self) -> bool {
        self.kept.len() == 1
    }

    /// Returns the time at which the first message was put into the store; `None` if the store does
    /// not have it.
    pub(super) fn first_kept_ns(&self) -> Option<u64> {
        self.kept.front().map(|kept| kept.time_ns)
    }

    /// Removes and returns the first message.
    pub(super) fn take_first(&mut self) -> Option<Left> {
        let left = Left::of(&self.first()?, self.kept.front().copied());
        self.drop_first();
        Some(left)
    }

    /// Removes and returns the messages that were never put into the store.
    pub(super) fn take_unkept(&mut self) -> Vec<Left> {
        let unkept = listed(&self.bytes[self.kept_to..], std::iter::empty()).collect();
        self.bytes.truncate(self.kept_to);
        unkept
    }

    /// Returns the total body bytes of the waiting messages that were put into the store but are
    /// not yet committed.
    pub(super) fn uncertain_bytes(&self) -> usize {
        let waiting = listed(self.bytes(), self.kept.iter().copied().map(Some));
        let is_uncertain = |left: &Left| left.kept.is_some_and(|kept| !kept.is_certain);
        waiting.filter(is_uncertain).map(|left| left.body.len()).sum()
    }

    /// Removes and returns all messages.
    pub(super) fn take_all(&mut self) -> Vec<Left> {
        std::iter::from_fn(|| self.take_first()).collect()
    }

    /// Records that the first message was sent with this MsgSeqNum(34).
    pub(super) fn first_is_sent(&mut self, seq: u64) {
        let Some(message) = record::first(&self.bytes[self.from..]) else { return };
        self.sent.bytes.extend_from_slice(&self.bytes[self.from..self.from + message.len]);
        let kept = self.kept.front().copied();
        self.sent.messages.push_back(Sent { seq, pending: 0, kept });
        self.drop_first();
    }

    /// Removes the first message.
    fn drop_first(&mut self) {
        let Some(len) = self.first().map(|message| message.len) else { return };
        self.from += len;
        self.left_bytes += len as u64;
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

    /// Drops the message at this byte offset, because its sender receives an error.
    pub(super) fn refuse(&mut self, at: usize) {
        self.compact();
        let (mut begin, mut place) = (0, 0);
        while let Some(len) = record::first(&self.bytes[begin..]).map(|message| message.len) {
            if begin == at {
                self.bytes.drain(at..at + len);
                if let Some(kept) = self.kept.remove(place) {
                    self.kept_to -= len;
                    self.refused.push(kept.ticket);
                }
                return;
            }
            (begin, place) = (begin + len, place + 1);
        }
    }

    /// Appends messages; `add` appends their encoded form to the given buffer.
    pub(super) fn take_in(&mut self, add: impl FnOnce(&mut Vec<u8>)) {
        self.compact();
        add(&mut self.bytes);
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.from);
        self.kept_to -= self.from;
        self.from = 0;
    }

    /// Returns the first message that was not put into the store, with the ticket under which the
    /// store keeps it.
    pub(super) fn next_to_keep(&self) -> Option<(u64, Queued<'_>)> {
        Some((self.next_ticket, record::first(&self.bytes[self.kept_to..])?))
    }

    /// Records that the message of [`Backlog::next_to_keep`] was put into the store.
    pub(super) fn note_put(&mut self, time_ns: u64) {
        let Some((ticket, message)) = self.next_to_keep() else { return };
        self.kept_to += message.len;
        self.kept.push_back(Kept { ticket, time_ns, is_certain: false, pending: 0 });
        self.next_ticket = ticket + 1;
    }

    /// Returns the ticket up to which all messages were sent or returned, once for each such
    /// ticket. The store must then remove their records.
    pub(super) const fn take_finished_ticket(&mut self) -> Option<u64> {
        self.gone.take()
    }

    /// Records that the store has committed everything put into it.
    pub(super) fn committed(&mut self) {
        self.sent.clear();
        if !self.kept.is_empty() {
            self.kept_are_certain();
        }
    }

    #[cold]
    fn kept_are_certain(&mut self) {
        for kept in self.kept.iter_mut().rev().take_while(|kept| !kept.is_certain) {
            kept.is_certain = true;
        }
    }

    /// Records that everything put into the store becomes durable with this ticket.
    pub(super) fn will_be_committed(&mut self, ticket: u64) {
        for sent in self.sent.messages.iter_mut().rev().take_while(|sent| sent.pending == 0) {
            sent.pending = ticket;
        }
        let new = |kept: &&mut Kept| !kept.is_certain && kept.pending == 0;
        for kept in self.kept.iter_mut().rev().take_while(new) {
            kept.pending = ticket;
        }
    }

    /// Records that everything committed up to this ticket is durable.
    pub(super) fn committed_up_to(&mut self, ticket: u64) {
        let is_safe = |pending: u64| pending > 0 && pending <= ticket;
        let count = self.sent.messages.iter().take_while(|sent| is_safe(sent.pending)).count();
        self.sent.forget(count);
        for kept in self.kept.iter_mut().rev().take_while(|kept| !kept.is_certain) {
            kept.is_certain = is_safe(kept.pending);
        }
    }

    /// Returns the total bytes of the sent messages that are not yet durable.
    pub(super) const fn uncommitted_bytes(&self) -> usize {
        self.sent.bytes.len()
    }

    /// Returns the first sent message that is not yet durable, and its MsgSeqNum(34).
    pub(super) fn first_uncommitted(&self) -> Option<(Queued<'_>, u64)> {
        Some((record::first(&self.sent.bytes)?, self.sent.messages.front()?.seq))
    }

    /// Forgets the first sent message that is not yet durable, because the store, although it
    /// failed, contains the message.
    pub(super) fn forget_first_uncommitted(&mut self) {
        self.sent.forget(1);
    }

    /// Puts removed messages back before the waiting messages, because the store has failed and may
    /// still contain their records.
    pub(super) fn put_back(&mut self, messages: Vec<Left>) {
        let mut all = messages;
        for left in &mut all {
            left.kept = left.kept.map(|kept| Kept { is_certain: false, pending: 0, ..kept });
        }
        all.extend(listed(self.bytes(), self.kept.iter().copied().map(Some)));
        (self.from, self.kept_to) = (0, 0);
        self.bytes.clear();
        self.kept.clear();
        for left in all {
            record::put(&mut self.bytes, &left.msg_type, &left.body);
            if let Some(kept) = left.kept {
                self.kept.push_back(kept);
                self.kept_to = self.bytes.len();
            }
        }
    }

    /// Continues with the records read from the store. Messages that the store has not committed
    /// wait again. After a failure, sent messages that are not durable also wait again. If the
    /// store is shared, a message without a record was sent by another process.
    pub(super) fn restore(&mut self, stored: Restored, (is_shared, has_failed): (bool, bool)) {
        let Restored { mut bytes, mut kept, next_ticket, .. } = stored;
        for found in &mut kept {
            // The record may be readable although it is not yet durable.
            let known = self.kept.binary_search_by_key(&found.ticket, |known| known.ticket);
            let known = known.ok().map(|at| self.kept[at]);
            let known = known.filter(|known| !has_failed && known.time_ns == found.time_ns);
            *found = known.unwrap_or(*found);
        }
        let kept_to = bytes.len();
        let sent = listed(&self.sent.bytes, self.sent.messages.iter().map(|sent| sent.kept));
        let waiting = listed(self.bytes(), self.kept.iter().copied().map(Some));
        for message in sent.filter(|_| has_failed).chain(waiting) {
            let waits = message.kept.is_none_or(|known| {
                let found = kept.binary_search_by_key(&known.ticket, |found: &Kept| found.ticket);
                let is_found = found.is_ok_and(|at| kept[at].time_ns == known.time_ns);
                !is_found && (!known.is_certain || !is_shared)
            });
            if waits {
                record::put(&mut bytes, &message.msg_type, &message.body);
            }
        }
        if has_failed {
            self.sent = Uncommitted::default();
        }
        (self.bytes, self.from, self.kept_to) = (bytes, 0, kept_to);
        // A used ticket is never reused, because another process may have read the ticket.
        self.next_ticket = next_ticket.max(self.next_ticket);
        (self.kept, self.gone) = (kept, None);
    }

    /// Returns true if the sender of the message with this ticket has received an error.
    pub(super) fn is_refused(&self, ticket: u64) -> bool {
        self.refused.contains(&ticket)
    }
}

/// The waiting messages as read from the store.
#[derive(Debug)]
pub struct Restored {
    bytes: Vec<u8>,
    kept: VecDeque<Kept>,
    next_ticket: u64,
    /// Number of records that do not contain a valid message.
    pub damaged: u64,
}

impl Default for Restored {
    fn default() -> Self {
        Self { bytes: Vec::new(), kept: VecDeque::new(), next_ticket: 1, damaged: 0 }
    }
}

impl Restored {
    /// Returns the lowest ticket that the next record may have.
    pub const fn next_ticket(&self) -> u64 {
        self.next_ticket
    }

    /// Adds this record, with the time at which it was put into the store.
    pub(super) fn add(&mut self, (ticket, time_ns): (u64, u64), record: &[u8], is_refused: bool) {
        self.next_ticket = ticket + 1;
        if is_refused {
            return;
        }
        let fields = record.strip_prefix(b"35=");
        let end = fields.and_then(|fields| fields.iter().position(|byte| *byte == 1));
        let (Some(fields), Some(end)) = (fields, end) else {
            self.damaged += 1;
            return;
        };
        record::put(&mut self.bytes, &fields[..end], &fields[end + 1..]);
        self.kept.push_back(Kept { ticket, time_ns, is_certain: true, pending: 0 });
    }
}

/// Iterates over the encoded messages in a buffer; `kept` gives the store record of each message.
fn listed(
    mut bytes: &[u8],
    mut kept: impl Iterator<Item = Option<Kept>>,
) -> impl Iterator<Item = Left> {
    std::iter::from_fn(move || {
        let message = record::first(bytes)?;
        bytes = &bytes[message.len..];
        Some(Left::of(&message, kept.next().flatten()))
    })
}
