//! The executor's use of the journal: puts, commits, and the restart after a refresh or a
//! reopening.
//!
//! Invariant: bytes on the wire are committed before.

use std::io;
use std::time::Duration;

use transfix_session::Now;
use transfix_session::core::event::CoreEvent;
use transfix_session::core::outgoing::Restored;
use transfix_session::core::{BatchLimits, Core};
use transfix_store::{Committed, Numbers, Record, StoreError};

use super::Executor;
use crate::io::Io;
use crate::link::event::Event;
use crate::link::outbound_filter::OutboundFilter;
use crate::link::queue::SendQueue;
use crate::link::sinks::Sinks;

/// The limits of an early batch, for a turn for which no other session waits. Smaller batches cost
/// more system calls; larger ones delay the counterparty.
const EARLY: BatchLimits = BatchLimits { messages_max: 16, bytes_max: usize::MAX };

/// The time limit, in nanoseconds, for an opened store to fetch the records that the session needs.
const OPENING_NS_MAX: u64 = 60_000_000_000;
/// The interval at which a fetch of records is checked.
const LOOK: Duration = Duration::from_millis(1);

/// Calls `ask` repeatedly until the store has fetched the requested records, or until the monotonic
/// time `until_ns`.
pub(super) fn patiently(
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

/// Returns the error of a store that has not answered in time.
pub(super) fn unanswered() -> StoreError {
    let why = "the store has not answered in time";
    StoreError::Own(io::Error::new(io::ErrorKind::TimedOut, why))
}

impl Executor {
    /// Writes the new frames and numbers to the store, and commits them together.
    pub(crate) fn commit(&mut self, now: Now) -> Result<(), StoreError> {
        let committed = self.put_and_commit(now);
        if committed.is_err() {
            self.core.not_committed(now);
        }
        committed
    }

    fn put_and_commit(&mut self, now: Now) -> Result<(), StoreError> {
        self.put_entries(now)?;
        if self.journal.is_refreshing() || self.core.holds_answer(now) {
            self.note_state(now);
            return Ok(());
        }
        let numbers = self.core.kept_numbers();
        self.journal.put_next(now, numbers)?;
        // Commit this record together with the sent frames: no message is sent twice or lost.
        if let Some(ticket) = self.core.outgoing.take_finished_ticket() {
            self.journal.put(now, Record::Unqueued(ticket))?;
        }
        self.note_state(now);
        match self.journal.commit()? {
            Committed::Now => self.core.committed(now),
            Committed::Pending(ticket) => self.core.will_be_committed(ticket),
        }
        Ok(())
    }

    /// Returns true if the uncommitted frames reach the limit of a batch. With `is_alone` the limit
    /// is smaller, so that the counterparty can process the first messages early.
    pub(crate) fn is_batch_full(&self, is_alone: bool) -> bool {
        let Core { options, watermarks, out, session, .. } = &self.core;
        let early = (is_alone && options.writes_early).then_some(EARLY);
        let batch = options.batch.or(early);
        let uncommitted = |limit: BatchLimits| {
            let bytes = watermarks.uncommitted(out.end());
            let committed = self.journal.numbers().next_out;
            let messages = session.next_num_out().saturating_sub(committed);
            bytes >= limit.bytes_max as u64 || messages >= limit.messages_max
        };
        batch.is_some_and(uncommitted)
    }

    /// Asks the store which batches have become durable, and reports their messages.
    #[inline(always)]
    pub(crate) fn look_what_is_safe(&mut self, now: Now) -> Result<(), StoreError> {
        if !self.core.watermarks.are_safe() {
            let ticket = self.journal.safe()?;
            self.core.note_safe_up_to(now, ticket);
        }
        Ok(())
    }

    /// Adds the session layer's new entries to the store's batch.
    pub(crate) fn put_entries(&mut self, now: Now) -> Result<(), StoreError> {
        let Self { core, journal, sinks, probe, .. } = self;
        probe.note_requests(&core.out);
        let Core { out, replay, delivery, stored, .. } = core;
        let Sinks { published, reasons, .. } = sinks;
        let mut gone = None;
        let put = journal.put_entries(now, out, (published, reasons), || {
            replay.stop();
            delivery.forget_numbers();
            gone = gone.or(stored.take());
        });
        if let Some((first, last)) = gone {
            core.queue_event(now, CoreEvent::StoredMessagesLost { first, last });
        }
        put?;
        if core.has_late() { self.put_late(now) } else { Ok(()) }
    }

    /// Adds messages that are only stored, and that the counterparty will request later, to the
    /// store's batch. They have the latest numbers.
    #[cold]
    fn put_late(&mut self, now: Now) -> Result<(), StoreError> {
        self.core.note_stored();
        let (late, Sinks { published, reasons, .. }) = (&mut self.core.late, &self.sinks);
        let put = self.journal.put_entries(now, late, (published, reasons), || ());
        late.clear();
        put
    }

    /// Adds a message that got its number without a connection to the store's batch, before any
    /// message with a higher number.
    pub(super) fn put_if_late(&mut self, now: Now) -> Result<(), StoreError> {
        if self.core.has_late() { self.put_entries(now) } else { Ok(()) }
    }

    /// Returns true if all batches of this store are durable, so that the next connection may use
    /// another store.
    pub(crate) fn may_change_store(&self) -> bool {
        !self.core.options.refresh_on_logon
            || (self.core.watermarks.are_safe() && !self.journal.is_refreshing())
    }

    /// Restores, at the start, the stored state besides the numbers.
    pub(crate) fn begin_from_store(&mut self, io: &dyn Io) -> Result<(), StoreError> {
        let until_ns = io.monotonic_ns() + OPENING_NS_MAX;
        patiently(io, until_ns, || self.note_asked_reset())?;
        patiently(io, until_ns, || self.restore_queued(io.now()))?;
        self.tell_events(io.now());
        self.note_state(io.now());
        Ok(())
    }

    /// If our Logon(A) with ResetSeqNumFlag(141)=Y was never answered, lets the next Logon(A)
    /// request the reset again.
    fn note_asked_reset(&mut self) -> Result<(), StoreError> {
        if self.journal.asked_to_reset()? {
            self.core.session.reset_at_next_logon();
        }
        Ok(())
    }

    /// Continues with the numbers and the queue that the store contains.
    pub(super) fn resume(&mut self, now: Now) -> Result<(), StoreError> {
        let numbers = self.journal.go_on();
        let session = &self.core.session;
        if numbers != (session.next_num_in(), session.next_num_out()) {
            let asked_to_reset = self.journal.asked_to_reset()?;
            self.core.take_numbers(now, numbers, asked_to_reset);
        }
        self.restore_queued(now)
    }

    /// Loads the messages that wait in the store for a logon.
    fn restore_queued(&mut self, now: Now) -> Result<(), StoreError> {
        let mut restored = Restored::default();
        let outgoing = &mut self.core.outgoing;
        while let Some(found) = self.journal.store().queued(restored.next_ticket())? {
            outgoing.add_restored(&mut restored, (found.seq, found.time_ns), found.bytes);
        }
        let damaged = restored.damaged;
        let how = (self.core.options.refresh_on_logon, self.journal.has_failed());
        outgoing.restore(restored, how);
        if damaged > 0 {
            self.tell(now, &Event::QueueDamaged { damaged });
        }
        Ok(())
    }

    /// Reopens the store and continues from it, after a failure of the store or a panic.
    pub(crate) fn reopen(&mut self, io: &dyn Io, queue: &SendQueue) -> Result<(), StoreError> {
        let now = io.now();
        let until_ns = now.monotonic_ns + OPENING_NS_MAX;
        self.journal.reopen()?;
        self.core.forget_unsent();
        self.probe.reset();
        self.journal.end_refresh(false);
        let before = self.journal.numbers_before_failure();
        if before.is_some_and(|before| before != self.journal.numbers()) {
            patiently(io, until_ns, || self.settle_uncommitted())?;
        }
        self.core.put_back_untold(now);
        let session = &self.core.session;
        let mut had = (session.next_num_in(), session.next_num_out());
        let was_ahead = before.is_none_or(|before| had != (before.next_in, before.next_out));
        let has_panicked = self.core.has_panicked();
        if has_panicked {
            let (begun, runs) = self.application.clear();
            let last = self.core.delivery.last_seq(begun);
            self.core.delivery.clear(begun, runs);
            had.0 = had.0.max(last.map_or(0, |last| last + 1));
            let Numbers { next_in, next_out, .. } = self.journal.numbers();
            self.core.renew((next_in, next_out));
            let look = self.filter.as_ref().and_then(OutboundFilter::admin_look);
            self.core.session.set_before_admin(look);
            self.publish(now);
            patiently(io, until_ns, || self.note_asked_reset())?;
        }
        patiently(io, until_ns, || self.resume(now))?;
        if !has_panicked && had.1 > self.journal.put_numbers().1 {
            let last = self.application.undo(&mut self.core.delivery);
            had.0 = had.0.max(last.map_or(0, |last| last + 1));
        }
        if self.journal.is_too_large() {
            self.core.outgoing.return_too_large();
        }
        self.journal.is_open_again();
        self.tell(now, &Event::ReadyAgain);
        if has_panicked || (was_ahead && had != self.journal.put_numbers()) {
            self.publish(now);
            self.core.report_rolled_back(now, had);
        }
        self.core.tell_unsent(now, u64::MAX);
        self.return_late(now, queue);
        self.make_calls(io.now(), None);
        Ok(())
    }

    /// Finds out which of the sent messages that were not yet durable at the failure the store
    /// contains.
    fn settle_uncommitted(&mut self) -> Result<(), StoreError> {
        let next_out = self.journal.numbers().next_out;
        let outgoing = &mut self.core.outgoing;
        while let Some(seq) = outgoing.first_uncommitted().filter(|seq| *seq < next_out) {
            // The message is compared, because another process may have used its number. A store
            // may also have kept no messages.
            let stored = self.journal.store().outbound(seq)?;
            if !stored.is_none_or(|stored| outgoing.may_be_stored_as(stored.bytes)) {
                break;
            }
            outgoing.forget_first_uncommitted();
        }
        Ok(())
    }

    /// Marks the session, after a panic in a turn, to restart from its last commit.
    pub(crate) fn abandon(&mut self) {
        self.core.abandon();
        self.journal.abandon();
    }

    /// Publishes the state and numbers of the session. If the state has changed, queues a call that
    /// reports it to the application.
    #[inline]
    pub(crate) fn note_state(&mut self, now: Now) {
        self.publish(now);
        self.core.note_state();
    }

    /// Publishes the state of the session for other threads.
    #[inline]
    pub(super) fn publish(&self, now: Now) {
        let has_failed = self.journal.has_failed();
        self.sinks.published.note(now.utc, &self.core.session, has_failed);
    }
}
