//! The answer to a ResendRequest(2): a bounded, resumable cursor over the store.
//!
//! Invariant: what was sent before the request goes out first, then the replay, then what has been
//! sent since; a replay never holds more than one chunk in memory.

use transfix_codec::{CheckSumPolicy, FieldIndex, Message};
use transfix_session::{Now, Outbox, Session};
use transfix_store::{Kind, Store, StoreError};

/// Bytes encoded at a time; the socket's progress paces the rest.
const CHUNK_BYTES: usize = 64 << 10;
/// Numbers looked at in one go, so that a long run of administrative messages yields too.
const CHUNK_NUMBERS: usize = 10_000;

/// A resend under way.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    next: u64,
    end: u64,
    /// First number of the run that a gap fill will cover.
    gap_begin: Option<u64>,
    /// Bytes of the live outbox that go out before the replay.
    pub(crate) barrier: usize,
    pub(crate) out: Outbox,
    index: FieldIndex,
    pub(crate) active: bool,
}

impl Replay {
    /// Begins at `begin`; a request that comes during a replay starts it anew.
    pub(crate) fn start(&mut self, begin: u64, end: u64, live_bytes: usize) {
        if !self.active {
            self.barrier = live_bytes;
        }
        self.active = true;
        self.gap_begin = None;
        self.next = begin;
        self.end = end;
    }

    pub(crate) fn clear(&mut self) {
        self.active = false;
        self.out.clear();
    }

    /// Encodes the next chunk. The replay is over when nothing was left to encode.
    pub(crate) fn fill(
        &mut self,
        now: Now,
        session: &mut Session,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        let mut numbers = 0;
        while self.next <= self.end
            && numbers < CHUNK_NUMBERS
            && self.out.bytes().len() < CHUNK_BYTES
        {
            let seq = self.next;
            let stored = store.outbound(seq)?.filter(|s| s.kind == Kind::Application);
            let message = stored.as_ref().and_then(|stored| {
                // Our own frame, checked by the store: what can't be read is covered by a gap fill.
                Message::parse(stored.bytes, &mut self.index, CheckSumPolicy::Ignore).ok()
            });
            if let Some(message) = message {
                if let Some(begin) = self.gap_begin.take() {
                    session.gap_fill(now, begin, seq, &mut self.out);
                }
                session.resend(now, &message, &mut self.out);
            } else {
                self.gap_begin.get_or_insert(seq);
            }
            self.next += 1;
            numbers += 1;
        }
        if self.next > self.end {
            if let Some(begin) = self.gap_begin.take() {
                session.gap_fill(now, begin, self.next, &mut self.out);
            }
            self.active = !self.out.bytes().is_empty();
        }
        Ok(())
    }
}
