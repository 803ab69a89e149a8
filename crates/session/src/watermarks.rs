//! How far the outgoing stream has come on its way into the store.
//!
//! Four offsets divide the stream: `written` ≤ `durable` ≤ `committed` ≤ `end`. The outbox has the
//! first and the last. When a connection ends, its unwritten bytes count as written: then `written`
//! may be ahead of `durable` and `committed` until the store catches up.
//!
//! Invariant: only bytes before `durable` may be written.

use std::collections::VecDeque;

use crate::Outbox;

/// One commit, until the store has made it safe.
#[derive(Clone, Copy, Debug)]
struct Batch {
    ticket: u64,
    /// The offset of its first byte.
    begin: u64,
}

/// How far the bytes of an [`Outbox`] have come: committed, and safe.
#[derive(Debug, Default)]
pub struct Watermarks {
    /// Bytes before it are committed.
    committed: u64,
    /// Committed and not safe yet, in the order of their tickets.
    batches: VecDeque<Batch>,
    /// How often the store was opened again.
    times: u64,
}

/// A batch whose safety somebody waits for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    ticket: u64,
    times: u64,
}

impl Watermarks {
    /// Bytes before it are safe.
    #[must_use]
    #[inline]
    pub fn durable(&self) -> u64 {
        self.batches.front().map_or(self.committed, |first| first.begin)
    }

    /// How many bytes of the outbox may be written.
    #[must_use]
    #[inline]
    pub fn writable(&self, out: &Outbox) -> usize {
        self.durable().saturating_sub(out.written()) as usize
    }

    /// Returns true if bytes of the outbox wait for the store.
    #[must_use]
    pub fn waits(&self, out: &Outbox) -> bool {
        self.writable(out) < out.len()
    }

    /// How many bytes lie between `committed` and `end`.
    #[must_use]
    pub const fn uncommitted(&self, end: u64) -> u64 {
        end.saturating_sub(self.committed)
    }

    /// Returns true if all that is committed is safe.
    #[must_use]
    pub fn are_safe(&self) -> bool {
        self.batches.is_empty()
    }

    /// Everything up to `end` is committed and safe. Returns whether a batch was pending before.
    #[inline]
    pub fn all_is_safe(&mut self, end: u64) -> bool {
        self.committed = end;
        let was_pending = !self.batches.is_empty();
        if was_pending {
            self.batches.clear();
        }
        was_pending
    }

    /// Everything up to `end` is committed, and will be safe with this ticket.
    pub fn add(&mut self, ticket: u64, end: u64) {
        let begin = std::mem::replace(&mut self.committed, end);
        // A commit of nothing names the last batch once more.
        if self.last_ticket() < ticket {
            self.batches.push_back(Batch { ticket, begin });
        }
    }

    /// All batches up to this ticket are safe. Returns whether one of them was not before.
    pub fn safe(&mut self, ticket: u64) -> bool {
        let count = self.batches.len();
        while self.batches.pop_front_if(|first| first.ticket <= ticket).is_some() {}
        self.batches.len() < count
    }

    /// The ticket of the last batch that is not safe; 0 if all are.
    #[must_use]
    pub fn last_ticket(&self) -> u64 {
        self.batches.back().map_or(0, |last| last.ticket)
    }

    /// Returns true if this batch is safe.
    #[must_use]
    pub fn is_safe(&self, ticket: u64) -> bool {
        self.batches.front().is_none_or(|first| ticket < first.ticket)
    }

    /// The last batch that was committed, for somebody who waits until it is safe.
    #[must_use]
    pub fn awaited(&self) -> Awaited {
        Awaited { ticket: self.last_ticket(), times: self.times }
    }

    /// Returns true if this batch is safe; `None` if nobody knows, since the store was opened again
    /// before.
    #[must_use]
    pub fn has(&self, batch: Awaited) -> Option<bool> {
        (batch.times == self.times).then(|| self.is_safe(batch.ticket))
    }

    /// The store was opened again: batches that it does not have are lost. The stream is empty, and
    /// continues at `end`.
    pub fn clear(&mut self, end: u64) {
        *self = Self { committed: end, times: self.times + 1, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BeginString, Config, Now, Role, Session, SessionId};

    /// Else a later connection with nothing to write would wait for the device at its end.
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
