//! What a session's core puts into its store, and goes on from when it is read or opened again.
//!
//! Invariant: what is on the wire was committed before.

use transfix_codec::{CheckSumPolicy, FieldIndex, Message, tag};
use transfix_session::{Entry, Kind, Now, SendError, Session};
use transfix_store::{Numbers, Record, Store, StoreError};

use super::Core;
use super::delivery::Postponed;
use crate::link::queue::SendQueue;
use crate::link::replay::Replay;
use crate::observe::mask::masked;
use crate::observe::repeats::tell;

impl Core {
    /// Puts the new frames and numbers into the store and makes them durable together.
    pub(crate) fn journal(&mut self, now: Now) -> Result<(), StoreError> {
        self.put_entries(now)?;
        let time_ns = now.utc.0.unsigned_abs();
        let numbers = self.kept_numbers();
        if numbers.0 != self.stored.0 {
            self.store.put(time_ns, Record::NextIn(numbers.0))?;
        }
        if numbers.1 != self.stored.1 {
            self.store.put(time_ns, Record::NextOut(numbers.1))?;
        }
        self.stored = numbers;
        // With the frames of those that were sent: no message is sent twice, and none is lost.
        if let Some(gone) = self.backlog.take_gone() {
            self.store.put(time_ns, gone)?;
        }
        self.note_state();
        self.store.commit()?;
        self.backlog.committed();
        Ok(())
    }

    pub(super) fn put_entries(&mut self, now: Now) -> Result<(), StoreError> {
        let time_ns = now.utc.0.unsigned_abs();
        for entry in self.out.entries() {
            match entry {
                Entry::Frame { seq, kind, range } => {
                    let bytes = &self.out.bytes()[range.clone()];
                    let shown;
                    let seq = *seq;
                    let record = match kind {
                        // Never sent again: no password need be kept.
                        Kind::Admin => {
                            shown = masked(bytes);
                            let kind = transfix_store::Kind::Admin;
                            Record::Outbound { seq, kind, bytes: &shown }
                        }
                        Kind::Application if !self.options.keep_outbound => {
                            Record::NextOut(seq + 1)
                        }
                        Kind::Application => {
                            let kind = transfix_store::Kind::Application;
                            Record::Outbound { seq, kind, bytes }
                        }
                    };
                    self.store.put(time_ns, record)?;
                    self.stored.1 = seq + 1;
                    self.published.sent(now.utc);
                }
                Entry::Reset(cause) => {
                    self.store.put(time_ns, Record::Reset)?;
                    // Behind the reset, which may give the room free that the note needs.
                    let note = format!("reset: {cause}");
                    self.store.put(time_ns, Record::Note(&note))?;
                    self.stored = (1, 1);
                    self.replay.stop();
                    self.postponed.forget_numbers();
                }
            }
        }
        self.out.clear_entries();
        Ok(())
    }

    /// The next numbers with which a new process goes on.
    pub(crate) fn kept_numbers(&self) -> (u64, u64) {
        // After a crash, messages that the application has not taken yet are asked for again. While
        // a reset is awaited they cannot be: their numbers are no longer valid.
        let postponed = self.postponed.first_seq().filter(|_| !self.session.awaits_reset());
        let next_in = postponed.unwrap_or_else(|| self.session.stored_num_in());
        (next_in, self.session.next_num_out())
    }

    /// Leaves a note of what befell the session in its journal.
    pub(crate) fn note(&mut self, now: Now, text: &str) -> Result<(), StoreError> {
        self.store.put(now.utc.0.unsigned_abs(), Record::Note(text))
    }

    /// Numbers that the store has lost, or that were passed over by hand, go as gap fills.
    pub(super) fn note_missing(&mut self, now: Now) {
        let missing = std::mem::take(&mut self.replay.missing);
        if missing > 0 && self.options.keep_outbound {
            self.published.counters.not_stored.add(missing);
            tell!(
                self.repeats,
                now.monotonic_ns,
                Resend,
                warn,
                session = display(self.id()),
                missing,
                "not in the store, filled as a gap"
            );
        }
    }

    /// A message that was sent, as it is stored.
    pub(crate) fn sent_message(&mut self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.store.outbound(seq)?.map(|stored| stored.bytes.to_vec()))
    }

    /// Goes on from what another process has left in the store.
    pub(super) fn refresh(&mut self, now: Now) -> Result<(), StoreError> {
        self.store.refresh()?;
        self.resume(now)?;
        self.open_window(now);
        Ok(())
    }

    fn resume(&mut self, now: Now) -> Result<(), StoreError> {
        let Numbers { next_in, next_out, .. } = self.store.numbers();
        self.stored = (next_in, next_out);
        if self.stored != (self.session.next_num_in(), self.session.next_num_out()) {
            tell!(
                self.repeats,
                now.monotonic_ns,
                Numbers,
                info,
                session = display(self.id()),
                next_in,
                next_out,
                "numbers of the store taken"
            );
            self.session.set_next_num_in(next_in);
            self.session.set_next_num_out(next_out);
            if next_in == 1 && asked_to_reset(&mut self.store) {
                self.session.reset_at_next_logon();
            }
        }
        self.restore_queued(now)
    }

    /// Whether the store has failed: the link must go down, and the store be opened again.
    pub(crate) const fn has_failed(&self) -> bool {
        self.store.failure().is_some()
    }

    /// Why the store takes nothing now.
    pub(crate) fn store_failure(&self) -> Option<&str> {
        self.store.cause()
    }

    /// The store cannot go on.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        self.store.fail(error);
    }

    /// Goes on, after the store has failed, from what it has.
    pub(crate) fn reopen(&mut self, now: Now, queue: &SendQueue) -> Result<(), StoreError> {
        self.store.reopen()?;
        // What it did not take was never on the wire.
        self.out.clear();
        self.settle_uncommitted()?;
        let had = (self.session.next_num_in(), self.session.next_num_out());
        let before = self.store.failure().map(|failure| failure.numbers);
        let was_ahead = before.is_none_or(|before| had != (before.next_in, before.next_out));
        if self.panicked {
            self.renew()?;
        }
        self.resume(now)?;
        if self.store.failure().is_some_and(|failure| failure.is_too_large) {
            // Or it would fail at the same message again.
            self.returns.get_or_insert(SendError::Failed);
        }
        self.store.go_on();
        tell!(
            self.repeats,
            now.monotonic_ns,
            Store,
            info,
            session = display(self.id()),
            "the session is ready again"
        );
        if self.panicked || (was_ahead && had != self.stored) {
            self.tell_undone(now, had);
        }
        // Behind the call, which may panic once more.
        self.panicked = false;
        self.return_late(now, queue);
        Ok(())
    }

    /// A turn has panicked: the session begins anew from what its store has committed.
    pub(crate) fn abandon(&mut self) {
        self.panicked = true;
        self.store.abandon();
    }

    /// Puts fresh parts in place of those in which a panic may have left half a change.
    fn renew(&mut self) -> Result<(), StoreError> {
        let Numbers { next_in, next_out, .. } = self.store.numbers();
        self.session = Session::new(self.session.config().clone(), next_in, next_out);
        if next_in == 1 && asked_to_reset(&mut self.store) {
            self.session.reset_at_next_logon();
        }
        self.held_index = self.options.index();
        self.replay = Replay::new(self.options.index());
        self.postponed = Postponed::default();
        self.cut = None;
        self.shown = 0;
        self.note_state();
        Ok(())
    }
}

/// Whether our last word before the end of the process was a Logon(A) with ResetSeqNumFlag(141)=Y:
/// as long as none is answered, the counterparty may still count on from the old numbers.
pub(crate) fn asked_to_reset(store: &mut dyn Store) -> bool {
    let Ok(Some(first)) = store.outbound(1) else { return false };
    let mut index = FieldIndex::default();
    Message::parse(first.bytes, &mut index, CheckSumPolicy::Ignore)
        .is_ok_and(|logon| logon.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true))
}
