//! What a session puts into its journal, and how it goes on when that is read or opened again.
//!
//! Invariant: what is on the wire was committed before.

use std::io;
use std::time::Duration;

use transfix_codec::Message;
use transfix_session::{Config, Entry, Now, Session};
use transfix_store::{Committed, StoreError};

use super::{BatchLimits, Core};
use crate::io::Io;
use crate::link::answers::Resend;
use crate::link::call::Call;
use crate::link::event::Event;
use crate::link::gate::Gate;
use crate::link::journal::Journal;
use crate::link::queue::SendQueue;
use crate::link::replay::Replay;
use crate::link::told::Undone;
use crate::link::watermarks::Awaited;

/// What a turn that nobody waits for writes at once: with fewer messages the system calls cost more
/// than is gained, with more the counterparty waits.
const EARLY: BatchLimits = BatchLimits { messages_max: 16, bytes_max: usize::MAX };

/// How long a store that is opened may take to fetch what the session goes on from.
const OPENING_NS_MAX: u64 = 60_000_000_000;
/// Time between two looks whether the store has fetched something.
const LOOK: Duration = Duration::from_millis(1);

/// The session layer that goes on from a journal.
pub(super) fn session_of(journal: &Journal, config: Config) -> Session {
    let numbers = journal.numbers();
    Session::new(config, numbers.next_in, numbers.next_out)
}

/// Asks the store until it has fetched what it is asked for, at most until this moment of the
/// monotonic clock. `ask` may be called several times.
pub(crate) fn patiently(
    io: &dyn Io,
    until_ns: u64,
    mut ask: impl FnMut() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    loop {
        match ask() {
            Err(StoreError::NotYet) if io.monotonic_ns() < until_ns => io.sleep(LOOK),
            Err(StoreError::NotYet) => return Err(unanswered()),
            done => return done,
        }
    }
}

/// The store has not answered in time.
pub(super) fn unanswered() -> StoreError {
    let why = "the store has not answered in time";
    StoreError::Own(io::Error::new(io::ErrorKind::TimedOut, why))
}

impl Core {
    /// Puts the new frames and numbers into the store and makes them durable together.
    pub(crate) fn commit(&mut self, now: Now) -> Result<(), StoreError> {
        self.put_entries(now)?;
        if self.journal.is_refreshing() || (self.has_open_answer() && self.holds_answer(now)) {
            self.note_state(now);
            return Ok(());
        }
        let numbers = self.kept_numbers();
        self.journal.put_next(now, numbers)?;
        // With the frames of those that were sent: no message is sent twice, and none is lost.
        if let Some(gone) = self.outgoing.take_gone() {
            self.journal.put(now, gone)?;
        }
        self.note_state(now);
        match self.journal.commit()? {
            Committed::Now => {
                let was_pending = self.watermarks.all_is_safe(self.out.end());
                self.outgoing.committed();
                if was_pending {
                    self.tell_unsent(now, u64::MAX);
                }
            }
            Committed::Pending(ticket) => {
                let numbers = self.journal.numbers();
                self.watermarks.add(ticket, self.out.end(), numbers);
                self.outgoing.will_be_committed(ticket);
            }
        }
        Ok(())
    }

    /// Whether the frames that are not committed yet are as many as are to be stored and written at
    /// once. `is_alone`: nobody waits for the end of the turn, so that the counterparty may work
    /// meanwhile on what it has been sent.
    pub(crate) fn is_batch_full(&self, is_alone: bool) -> bool {
        let early = (is_alone && self.options.writes_early).then_some(EARLY);
        let batch = self.options.batch.or(early);
        let uncommitted = |limit: BatchLimits| {
            let bytes = self.watermarks.uncommitted(self.out.end());
            let committed = self.journal.numbers().next_out;
            let messages = self.session.next_num_out().saturating_sub(committed);
            bytes >= limit.bytes_max as u64 || messages >= limit.messages_max
        };
        batch.is_some_and(uncommitted)
    }

    /// Takes note of what the store has made safe since.
    #[inline(always)]
    pub(crate) fn look_what_is_safe(&mut self, now: Now) -> Result<(), StoreError> {
        if self.watermarks.are_safe() {
            return Ok(());
        }
        let ticket = self.journal.safe()?;
        if let Some(numbers) = self.watermarks.safe(ticket) {
            self.journal.note_safe(numbers, self.watermarks.are_safe());
            self.outgoing.committed_up_to(ticket);
            self.tell_unsent(now, ticket);
        }
        Ok(())
    }

    /// The last batch that was committed, for somebody who waits until it is safe.
    pub(crate) fn awaited(&self) -> Awaited {
        self.watermarks.awaited()
    }

    /// Whether this batch is safe. `None` if nobody knows, since the store has failed before.
    pub(crate) fn is_safe(&self, batch: Awaited) -> Option<bool> {
        self.watermarks.has(batch).filter(|is_safe| *is_safe || !self.journal.has_failed())
    }

    /// Whether bytes wait for the store, not for the socket.
    pub(crate) fn waits_for_store(&self) -> bool {
        self.watermarks.waits(&self.out)
    }

    pub(crate) fn put_entries(&mut self, now: Now) -> Result<(), StoreError> {
        self.points.note_requests(&self.out);
        let Self { journal, out, published, reasons, replay, delivery, event_log, stored, .. } =
            self;
        journal.put_entries(now, out, (published, reasons), || {
            replay.stop();
            delivery.forget_numbers();
            if let Some((first, last)) = stored.take() {
                event_log.write(now, &Event::StoredGone { first, last });
            }
        })?;
        if self.late.entries().is_empty() { Ok(()) } else { self.put_late(now) }
    }

    /// Puts messages that are not written: the counterparty asks for them. They were numbered last.
    #[cold]
    fn put_late(&mut self, now: Now) -> Result<(), StoreError> {
        let Self { journal, late, published, reasons, stored, .. } = self;
        for entry in late.entries() {
            if let Entry::Frame { seq, .. } = *entry {
                *stored = Some((stored.map_or(seq, |(first, _)| first), seq));
            }
        }
        let put = journal.put_entries(now, late, (published, reasons), || ());
        self.late.clear();
        put
    }

    /// The next numbers with which a new process goes on.
    pub(crate) fn kept_numbers(&self) -> (u64, u64) {
        // After a crash, messages that the application has not taken yet are asked for again. While
        // a reset is awaited they cannot be: their numbers are no longer valid.
        let postponed = self.delivery.first_seq().filter(|_| !self.session.awaits_reset());
        let next_in = postponed.unwrap_or_else(|| self.session.stored_num_in());
        (next_in, self.session.next_num_out())
    }

    /// Encodes the next chunk of a replay, of what the application wants to be sent again.
    ///
    /// # Errors
    /// As [`Replay::fill`].
    pub(crate) fn fill_replay(
        &mut self,
        now: Now,
        wants: impl FnMut(&Message<'_>, &Session) -> Resend,
    ) -> Result<(), StoreError> {
        self.replay.fill(now, &mut self.session, self.journal.store(), wants)
    }

    /// Counts what was sent again. Numbers that the store has lost, or that were passed over by
    /// hand, go as gap fills.
    pub(crate) fn note_missing(&mut self, now: Now) {
        self.published.counters.resent.add(std::mem::take(&mut self.replay.resent));
        let missing = std::mem::take(&mut self.replay.missing);
        if missing > 0 && self.journal.keeps().outbound {
            self.tell(now, &Event::NotStored { missing });
        }
    }

    /// Whether the next connection may go on in another store: of this one all is safe.
    pub(crate) fn may_change_store(&self) -> bool {
        !self.options.refresh_on_logon
            || (self.watermarks.are_safe() && !self.journal.is_refreshing())
    }

    /// Goes on, at the start, from what the store has besides numbers.
    pub(crate) fn begin_from_store(&mut self, io: &dyn Io) -> Result<(), StoreError> {
        let until_ns = io.monotonic_ns() + OPENING_NS_MAX;
        patiently(io, until_ns, || self.note_asked_reset())?;
        patiently(io, until_ns, || self.restore_queued(io.now()))
    }

    /// A Logon(A) that has asked for a reset, and is not answered, asks again.
    fn note_asked_reset(&mut self) -> Result<(), StoreError> {
        if self.journal.asked_to_reset()? {
            self.session.reset_at_next_logon();
        }
        Ok(())
    }

    /// Goes on, after the store has failed, from what it has.
    pub(crate) fn reopen(&mut self, io: &dyn Io, queue: &SendQueue) -> Result<(), StoreError> {
        let now = io.now();
        let until_ns = now.monotonic_ns + OPENING_NS_MAX;
        self.journal.reopen()?;
        // What it did not take was never on the wire.
        self.out.clear();
        self.late.clear();
        self.answering.close();
        self.watermarks.clear(self.out.end());
        self.points.reset();
        self.journal.end_refresh(false);
        let before = self.journal.numbers_before_failure();
        if let Some(before) = before {
            patiently(io, until_ns, || {
                self.outgoing.settle_uncommitted(before, self.journal.store())
            })?;
        }
        self.put_back_untold(now);
        let mut had = (self.session.next_num_in(), self.session.next_num_out());
        let was_ahead = before.is_none_or(|before| had != (before.next_in, before.next_out));
        if self.panicked {
            let last = self.delivery.last_seq();
            had.0 = had.0.max(last.map_or(0, |last| last + 1));
            self.renew();
            patiently(io, until_ns, || self.note_asked_reset())?;
        }
        patiently(io, until_ns, || self.resume(now))?;
        if !self.panicked && had.1 > self.journal.put_numbers().1 {
            had.0 = had.0.max(self.delivery.undo().map_or(0, |last| last + 1));
        }
        if self.journal.is_too_large() {
            self.outgoing.return_too_large();
        }
        self.journal.is_open_again();
        self.tell(now, &Event::ReadyAgain);
        if self.panicked || (was_ahead && had != self.journal.put_numbers()) {
            self.tell_undone(now, had);
        }
        self.tell_unsent(now, u64::MAX);
        self.return_late(now, queue);
        Ok(())
    }

    /// The application has returned from [`SessionNotice::Undone`](crate::SessionNotice::Undone).
    pub(crate) fn is_whole(&mut self) {
        self.panicked = false;
    }

    /// A turn has panicked: the session begins anew from what its store has committed.
    pub(crate) fn abandon(&mut self) {
        self.panicked = true;
        self.journal.abandon();
    }

    /// Puts fresh parts in place of those in which a panic may have left half a change.
    fn renew(&mut self) {
        self.session = session_of(&self.journal, self.session.config().clone());
        self.session.set_before_admin(self.gate.as_ref().and_then(Gate::admin_look));
        self.held_index = self.options.index();
        self.replay = Replay::new(self.options.index());
        self.answering.close();
        self.delivery.clear();
        self.cut = None;
        self.published.note(&self.session, self.journal.has_failed());
    }

    /// Tells the application that the session goes on from its store, after it had these next
    /// numbers, inbound and outbound.
    fn tell_undone(&mut self, now: Now, mut had: (u64, u64)) {
        // That of an earlier attempt may still be queued, behind a call that has panicked.
        self.calls.retain(|call| {
            let Call::Undone(earlier) = call else { return true };
            had = (had.0.max(earlier.received.end), had.1.max(earlier.sent.end));
            false
        });
        let kept = (self.session.next_num_in(), self.session.next_num_out());
        let undone =
            Undone { received: kept.0..had.0.max(kept.0), sent: kept.1..had.1.max(kept.1) };
        self.tell(now, &Event::Undone(&undone));
        self.note_state(now);
        self.calls.push_back(Call::Undone(Box::new(undone)));
    }
}
