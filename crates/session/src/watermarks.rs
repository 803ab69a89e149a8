//! Tracks up to which offset the outgoing stream is committed and durable in the store.
//!
//! Four offsets divide the stream: `written` ≤ `durable` ≤ `committed` ≤ `end`. The outbox stores
//! `written` and `end`. When a connection ends, its unwritten bytes count as written. `written` may
//! then exceed `durable` and `committed`, until the store has caught up.
//!
//! Invariant: only bytes before `durable` may be written.

use std::collections::VecDeque;

use crate::Outbox;

/// A commit that is not yet durable in the store.
#[derive(Clone, Copy, Debug)]
struct Batch {
    ticket: u64,
    /// Offset in the stream of the first byte of the commit.
    begin: u64,
}

/// The offsets up to which the bytes of an [`Outbox`] are committed and durable.
#[derive(Debug, Default)]
pub struct Watermarks {
    /// Bytes before this offset are committed.
    committed: u64,
    /// Commits that are not yet durable, in the order of their tickets.
    batches: VecDeque<Batch>,
    /// Number of times the store was reopened.
    times: u64,
}

/// A batch that a caller waits to become durable.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    ticket: u64,
    times: u64,
}

impl Watermarks {
    /// Returns the offset before which all bytes are durable.
    #[must_use]
    #[inline]
    pub fn durable(&self) -> u64 {
        self.batches.front().map_or(self.committed, |first| first.begin)
    }

    /// Returns how many bytes of the outbox may be written to the connection.
    #[must_use]
    #[inline]
    pub fn writable(&self, out: &Outbox) -> usize {
        self.durable().saturating_sub(out.written()) as usize
    }

    /// Returns true if bytes of the outbox wait until they are durable in the store.
    #[must_use]
    pub fn waits(&self, out: &Outbox) -> bool {
        self.writable(out) < out.len()
    }

    /// Returns the number of bytes between `committed` and `end`.
    #[must_use]
    pub const fn uncommitted(&self, end: u64) -> u64 {
        end.saturating_sub(self.committed)
    }

    /// Returns true if all committed bytes are durable.
    #[must_use]
    pub fn are_safe(&self) -> bool {
        self.batches.is_empty()
    }

    /// Records that all bytes before `end` are committed and durable. Returns true if a batch was
    /// pending.
    #[inline]
    pub fn all_is_safe(&mut self, end: u64) -> bool {
        self.committed = end;
        let was_pending = !self.batches.is_empty();
        if was_pending {
            self.batches.clear();
        }
        was_pending
    }

    /// Records that all bytes before `end` are committed, and become durable with this ticket.
    pub fn add(&mut self, ticket: u64, end: u64) {
        let begin = std::mem::replace(&mut self.committed, end);
        // A commit without new entries repeats the ticket of the last batch, which must not be
        // added again.
        if self.last_ticket() < ticket {
            self.batches.push_back(Batch { ticket, begin });
        }
    }

    /// Records that all batches up to this ticket are durable. Returns true if a batch was still
    /// pending.
    pub fn safe(&mut self, ticket: u64) -> bool {
        let count = self.batches.len();
        while self.batches.pop_front_if(|first| first.ticket <= ticket).is_some() {}
        self.batches.len() < count
    }

    /// Returns the ticket of the last batch that is not yet durable; 0 if all batches are durable.
    #[must_use]
    pub fn last_ticket(&self) -> u64 {
        self.batches.back().map_or(0, |last| last.ticket)
    }

    /// Returns true if the batch with this ticket is durable.
    #[must_use]
    pub fn is_safe(&self, ticket: u64) -> bool {
        self.batches.front().is_none_or(|first| ticket < first.ticket)
    }

    /// Returns the last committed batch, for a caller that waits until the batch is durable.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        Awaited { ticket: self.last_ticket(), times: self.times }
    }

    /// Returns true if this batch is durable. Returns `None` if the store was reopened since,
    /// because the state of the batch is then unknown.
    #[must_use]
    pub fn has(&self, batch: Awaited) -> Option<bool> {
        (batch.times == self.times).then(|| self.is_safe(batch.ticket))
    }

    /// Records that the store was reopened and has lost its pending batches. The stream is empty
    /// and continues at offset `end`.
    pub fn clear(&mut self, end: u64) {
        *self = Self { committed: end, times: self.times + 1, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BeginString, Config, Now, Role, Session, SessionId};

    /// The unwritten bytes of an ended connection no longer count as waiting. Otherwise a later
    /// connection without output would wait for the disk at its end.
    #[test]
    fn what_a_connection_took_with_it_waits_for_no_store() {
        let id = SessionId::new(BeginString::Fix44, "A", "B");
        let mut session = Session::new(Config::new(id, Role::Initiator), 1, 1);
        let (mut out, mut marks) = (Outbox::default(), Watermarks::default());
        session.connected(Now::default(), &mut out);
        out.clear_entries();
        marks.add(1, out.end());
        assert_eq!((marks.writable(&out), marks.uncommitted(out.end())), (0, 0), "not safe yet");
        assert!(marks.waits(&out));
        session.disconnected(&mut out);
        assert!(!marks.waits(&out) && !marks.are_safe());
        session.connected(Now::default(), &mut out);
        out.clear_entries();
        marks.add(2, out.end());
        assert_eq!((marks.safe(1), marks.writable(&out)), (true, 0), "the first batch");
        assert_eq!((marks.safe(2), marks.writable(&out)), (true, out.len()));
    }
}
