//! The journal as the core sees it: how much of it is safe, and how the session goes on when it is
//! read or opened again.

use super::Core;
use super::event::CoreEvent;
use crate::core::call::Call;
use crate::rolled_back::RolledBack;
use crate::{Awaited, Config, Entry, Now, Replay, Session};

/// The session layer that goes on from these next numbers, inbound and outbound.
pub(super) fn session_of(config: Config, (next_in, next_out): (u64, u64)) -> Session {
    Session::new(config, next_in, next_out)
}

impl Core {
    /// All that was put is committed, and safe.
    pub fn committed(&mut self, now: Now) {
        let was_pending = self.watermarks.all_is_safe(self.out.end());
        let has_untold = self.outgoing.committed();
        if was_pending || has_untold {
            self.tell_unsent(now, u64::MAX);
        }
    }

    /// All that was put is committed, and will be safe with this ticket.
    pub fn will_be_committed(&mut self, ticket: u64) {
        self.watermarks.add(ticket, self.out.end());
        self.outgoing.will_be_committed(ticket);
    }

    /// All batches up to this ticket are safe.
    #[inline]
    pub fn note_safe_up_to(&mut self, now: Now, ticket: u64) {
        if self.watermarks.safe(ticket) {
            self.outgoing.committed_up_to(ticket);
            self.tell_unsent(now, ticket);
        }
    }

    /// The last batch that was committed, for somebody who waits until it is safe.
    pub fn awaited(&self) -> Awaited {
        self.watermarks.awaited()
    }

    /// Returns true if bytes wait for the store, not for the socket.
    pub fn waits_for_store(&self) -> bool {
        self.watermarks.waits(&self.out)
    }

    /// Returns true if messages are to be put that have numbers and are not written.
    #[inline]
    pub fn has_late(&self) -> bool {
        !self.late.entries().is_empty()
    }

    /// Takes note of the numbers of such messages.
    pub fn note_stored(&mut self) {
        for entry in self.late.entries() {
            if let Entry::Frame { seq, .. } = *entry {
                self.stored = Some((self.stored.map_or(seq, |(first, _)| first), seq));
            }
        }
    }

    /// The next numbers with which a new process goes on.
    pub fn kept_numbers(&self) -> (u64, u64) {
        // After a crash, messages that the application has not taken yet are asked for again. While
        // a reset is awaited they cannot be: their numbers are no longer valid.
        let postponed = self.delivery.first_seq().filter(|_| !self.session.awaits_reset());
        let next_in = postponed.unwrap_or_else(|| self.session.stored_num_in());
        (next_in, self.session.next_num_out())
    }

    /// Tells of numbers that the store has lost, or that were passed over by hand: they go as gap
    /// fills.
    pub fn note_missing(&mut self, now: Now) {
        let missing = std::mem::take(&mut self.replay.missing);
        if missing > 0 && self.options.keeps.outbound {
            self.queue_event(now, CoreEvent::NotStored { missing });
        }
    }

    /// The store is open again: what it did not take was never on the wire.
    pub fn forget_unsent(&mut self) {
        self.out.clear();
        self.late.clear();
        self.answering.close();
        self.watermarks.clear(self.out.end());
    }

    /// Takes over the numbers of the store.
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

    /// The application has returned from `SessionNotice::RolledBack`.
    pub fn is_whole(&mut self) {
        self.panicked = false;
    }

    /// A turn has panicked.
    pub fn abandon(&mut self) {
        self.panicked = true;
    }

    /// Returns true if a turn has panicked: its memory is not to be trusted.
    pub const fn has_panicked(&self) -> bool {
        self.panicked
    }

    /// Puts fresh parts in place of those in which a panic may have left half a change. The numbers
    /// are those of the store.
    pub fn renew(&mut self, numbers: (u64, u64)) {
        self.session = session_of(self.session.config().clone(), numbers);
        self.held_index = self.options.index();
        self.replay = Replay::default();
        self.answering.close();
        self.cut = None;
    }

    /// Tells the application that the session goes on from its store, after it had these next
    /// numbers, inbound and outbound.
    pub fn tell_undone(&mut self, now: Now, mut had: (u64, u64)) {
        // That of an earlier attempt may still be queued, behind a call that has panicked.
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
