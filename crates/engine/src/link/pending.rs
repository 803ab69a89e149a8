//! Batches that are committed and not safe yet.
//!
//! Invariant: of the outbox only bytes of batches that are safe may be written.

use std::collections::VecDeque;

use transfix_store::Numbers;

#[derive(Clone, Copy, Debug)]
struct Batch {
    ticket: u64,
    /// Bytes of the outbox before it.
    begin: usize,
    /// The next numbers behind it.
    numbers: Numbers,
}

/// What the store has still to make safe.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// In the order of their tickets.
    batches: VecDeque<Batch>,
    /// Bytes of the outbox that were committed.
    committed: usize,
    /// How often the store was opened again.
    times: u64,
    /// Something behind these bytes is put and not committed.
    holds: bool,
}

/// A batch whose safety somebody waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    ticket: u64,
    times: u64,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// All is safe, with so many bytes in the outbox. Returns whether something was not before.
    #[inline]
    pub(super) fn all_is_safe(&mut self, outbox_bytes: usize) -> bool {
        self.committed = outbox_bytes;
        self.holds = false;
        let was_pending = !self.batches.is_empty();
        if was_pending {
            self.batches.clear();
        }
        was_pending
    }

    /// A batch with the last of so many bytes in the outbox will be safe.
    pub(super) fn add(&mut self, ticket: u64, outbox_bytes: usize, numbers: Numbers) {
        let begin = std::mem::replace(&mut self.committed, outbox_bytes);
        self.holds = false;
        // A commit of nothing names the last batch once more.
        if self.last_ticket() < ticket {
            self.batches.push_back(Batch { ticket, begin, numbers });
        }
    }

    /// What was put since the last commit is not committed yet.
    pub(super) const fn hold(&mut self) {
        self.holds = true;
    }

    /// All up to this ticket are safe. Returns the numbers behind the last of those that were not.
    pub(super) fn safe(&mut self, ticket: u64) -> Option<Numbers> {
        let mut numbers = None;
        while let Some(first) = self.batches.front().filter(|first| first.ticket <= ticket) {
            numbers = Some(first.numbers);
            self.batches.pop_front();
        }
        numbers
    }

    /// The ticket of the last batch that is not safe; 0 if all are.
    pub(super) fn last_ticket(&self) -> u64 {
        self.batches.back().map_or(0, |last| last.ticket)
    }

    /// Whether this batch is safe.
    pub(super) fn is_safe(&self, ticket: u64) -> bool {
        self.batches.front().is_none_or(|first| ticket < first.ticket)
    }

    /// The last batch that was committed, for somebody who waits until it is safe.
    pub(super) fn awaited(&self) -> Awaited {
        Awaited { ticket: self.last_ticket(), times: self.times }
    }

    /// Whether this batch is safe. `None` if nobody knows: the store was opened again before it
    /// was.
    pub(super) fn has(&self, batch: Awaited) -> Option<bool> {
        (batch.times == self.times).then(|| self.is_safe(batch.ticket))
    }

    /// How many of so many bytes in the outbox may be written.
    #[inline]
    pub(super) fn writable(&self, outbox_bytes: usize) -> usize {
        let is_all = self.is_empty() && !self.holds;
        if is_all { outbox_bytes } else { self.writable_before(outbox_bytes) }
    }

    /// The same where batches are pending.
    #[inline(never)]
    fn writable_before(&self, outbox_bytes: usize) -> usize {
        let committed = if self.holds { self.committed } else { outbox_bytes };
        self.batches.front().map_or(committed, |first| first.begin).min(outbox_bytes)
    }

    /// How many of so many bytes in the outbox are not committed.
    pub(super) const fn uncommitted(&self, outbox_bytes: usize) -> usize {
        outbox_bytes.saturating_sub(self.committed)
    }

    /// So many bytes of the outbox are written.
    #[inline]
    pub(super) fn written(&mut self, bytes: usize) {
        self.committed = self.committed.saturating_sub(bytes);
        if !self.is_empty() {
            self.move_batches(bytes);
        }
    }

    #[inline(never)]
    fn move_batches(&mut self, bytes: usize) {
        for batch in &mut self.batches {
            batch.begin = batch.begin.saturating_sub(bytes);
        }
    }

    /// The outbox is empty, since a new connection begins.
    pub(super) fn begin_anew(&mut self) {
        self.written(usize::MAX);
    }

    /// The store has been opened again: what is not in it never will be.
    pub(super) fn clear(&mut self) {
        *self = Self { times: self.times + 1, ..Self::default() };
    }
}
