//! The core's view of the journal: which data is durable, and how the session continues after the
//! store was reopened.

use super::Core;
use super::event::CoreEvent;
use crate::core::call::Call;
use crate::rolled_back::RolledBack;
use crate::{Awaited, Config, Entry, Now, Replay, Session};

/// Creates a session layer whose next sequence numbers, inbound and outbound, are `next_in` and
/// `next_out`.
pub(super) fn session_of(config: Config, (next_in, next_out): (u64, u64)) -> Session {
    Session::new(config, next_in, next_out)
}

impl Core {
    /// Records that everything put into the journal is committed and durable.
    pub fn committed(&mut self, now: Now) {
        let was_pending = self.watermarks.all_is_safe(self.out.end());
        let has_untold = self.outgoing.committed();
        if was_pending || has_untold {
            self.tell_unsent(now, u64::MAX);
        }
    }

    /// Records that everything put into the journal is committed, and becomes durable with this
    /// ticket.
    pub fn will_be_committed(&mut self, ticket: u64) {
        self.watermarks.add(ticket, self.out.end());
        self.outgoing.will_be_committed(ticket);
    }

    /// Records that all batches up to this ticket are durable.
    #[inline]
    pub fn note_safe_up_to(&mut self, now: Now, ticket: u64) {
        if self.watermarks.safe(ticket) {
            self.outgoing.committed_up_to(ticket);
            self.tell_unsent(now, ticket);
        }
    }

    /// Returns the last committed batch, for a caller that waits until the batch is durable.
    pub fn awaited(&self) -> Awaited {
        self.watermarks.awaited()
    }

    /// Returns true if bytes of the outbox wait for the store.
    pub fn waits_for_store(&self) -> bool {
        self.watermarks.waits(&self.out)
    }

    /// Returns true if there are numbered messages that were not written and must be stored.
    #[inline]
    pub fn has_late(&self) -> bool {
        !self.late.entries().is_empty()
    }

    /// Records the numbers of the messages in `late`.
    pub fn note_stored(&mut self) {
        for entry in self.late.entries() {
            if let Entry::Frame { seq, .. } = *entry {
                self.stored = Some((self.stored.map_or(seq, |(first, _)| first), seq));
            }
        }
    }

    /// Returns the next sequence numbers, inbound and outbound, with which a new process must
    /// continue.
    pub fn kept_numbers(&self) -> (u64, u64) {
        // After a crash, undelivered messages are requested again. This is not possible during a
        // reset, because their numbers are no longer valid.
        let postponed = self.delivery.first_seq().filter(|_| !self.session.awaits_reset());
        let next_in = postponed.unwrap_or_else(|| self.session.stored_num_in());
        (next_in, self.session.next_num_out())
    }

    /// Reports requested messages that the store does not contain. Gap fills cover their numbers.
    pub fn note_missing(&mut self, now: Now) {
        let missing = std::mem::take(&mut self.replay.missing);
        if missing > 0 && self.options.keeps.outbound {
            self.queue_event(now, CoreEvent::NotStored { missing });
        }
    }

    /// Drops the outgoing bytes that were never written to the socket, after the store was
    /// reopened.
    pub fn forget_unsent(&mut self) {
        self.out.clear();
        self.late.clear();
        self.answering.close();
        self.watermarks.clear(self.out.end());
    }

    /// Continues with the sequence numbers of the store.
    pub fn take_numbers(
        &mut self,
        now: Now,
        (next_in, next_out): (u64, u64),
        asked_to_reset: bool,
    ) {
        self.queue_event(now, CoreEvent::NumbersTaken { next_in, next_out });
        self.session.set_next_num_in(next_in);
        self.session.set_next_num_out(next_out);
        if asked_to_reset {
            self.session.reset_at_next_logon();
        }
    }

    /// Records that the application has returned from `SessionNotice::RolledBack`, so that the
    /// effects of the panic are over.
    pub fn is_whole(&mut self) {
        self.panicked = false;
    }

    /// Records that a turn of the session has panicked.
    pub fn abandon(&mut self) {
        self.panicked = true;
    }

    /// Returns true if a turn of the session has panicked and may have left inconsistent memory.
    pub const fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// Replaces the parts that a panic may have left inconsistent. `numbers` are the next sequence
    /// numbers according to the store.
    pub fn renew(&mut self, numbers: (u64, u64)) {
        self.session = session_of(self.session.config().clone(), numbers);
        self.held_index = self.options.index();
        self.replay = Replay::default();
        self.answering.close();
        self.cut = None;
    }

    /// Reports to the application that the session continues from the state of its store. `had` are
    /// the previous next numbers, inbound and outbound.
    pub fn report_rolled_back(&mut self, now: Now, mut had: (u64, u64)) {
        // A report of an earlier attempt may still be queued behind a call that has panicked; the
        // new report replaces it.
        self.calls.retain(|call| {
            let Call::RolledBack(earlier) = call else { return true };
            had = (had.0.max(earlier.received.end), had.1.max(earlier.sent.end));
            false
        });
        let kept = (self.session.next_num_in(), self.session.next_num_out());
        let undone =
            RolledBack { received: kept.0..had.0.max(kept.0), sent: kept.1..had.1.max(kept.1) };
        self.queue_event(now, CoreEvent::RolledBack(undone.clone()));
        self.note_state();
        self.calls.push_back(Call::RolledBack(Box::new(undone)));
    }
}
