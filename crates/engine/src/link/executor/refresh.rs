//! Refreshes, before a logon, a store that another process may have written. The refresh may take
//! some time.
//!
//! Invariant: no record is put between the begin and the end of a refresh.

use transfix_session::core::judging::LogonDecision;
use transfix_session::{Disconnect, Now, State, Verdict};
use transfix_store::StoreError;

use super::Executor;
use super::store::unanswered;
use crate::link::down::Down;
use crate::link::event::Event;

/// The interval, in nanoseconds, at which a refresh is checked in case the store does not wake the
/// worker.
const REFRESH_LOOK_NS: u64 = 10_000_000;

impl Executor {
    /// Returns true if an initiator may log on, because the store has read the records that another
    /// process has written.
    pub(super) fn is_refreshed(&mut self, now: Now) -> Result<bool, Down> {
        // Records about calls of the last connection must be in the store before the refresh
        // begins.
        self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
        let refreshed = match self.core.delivery.ask_for_idle() {
            true => self.refresh(now),
            false => Err(StoreError::NotYet),
        };
        match refreshed {
            Err(StoreError::NotYet) => {
                let until_ns = self.core.refreshes_until_ns;
                return if until_ns.is_some_and(|at| now.monotonic_ns >= at) {
                    Err(Down::Session(self.not_refreshed(now)))
                } else {
                    Ok(false)
                };
            }
            Err(StoreError::InUse { .. }) => return Err(Down::Session(Disconnect::InUse)),
            refreshed => refreshed.map_err(Down::Store)?,
        }
        self.core.refreshes_until_ns = None;
        self.journal.end_refresh(false);
        Ok(true)
    }

    /// Continues a refresh of the store, if one is running.
    ///
    /// # Errors
    /// [`StoreError::NotYet`] while the refresh is under way; otherwise an error of the store.
    pub(crate) fn settle_refresh(&mut self, now: Now) -> Result<(), StoreError> {
        if !self.journal.is_refreshing() {
            return Ok(());
        }
        match self.refresh(now) {
            // The store is as before. A connection that waits asks again.
            Err(StoreError::InUse { .. }) => Ok(()),
            settled => settled,
        }
    }

    /// Checks whether a refresh has ended or takes too long. Also completes a refresh after its
    /// connection has ended.
    pub(crate) fn look_at_refresh(&mut self, now: Now) -> Result<(), Down> {
        if let Some(until_ns) = self.core.judging.refreshes_until_ns() {
            // Lets the next turn check whether the refresh has ended.
            self.journal.look_again();
            self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
            let is_late = now.monotonic_ns >= until_ns;
            return if is_late { Err(Down::Session(self.not_refreshed(now))) } else { Ok(()) };
        }
        match self.settle_refresh(now) {
            Ok(()) | Err(StoreError::NotYet) => Ok(()),
            Err(error) => Err(Down::Store(error)),
        }
    }

    /// Reports that the store has not read the records of another process in time.
    fn not_refreshed(&mut self, now: Now) -> Disconnect {
        self.tell(now, &Event::StoreNotRead(&unanswered()));
        Disconnect::StoreFailed
    }

    /// Returns the time of the next check of a pending refresh.
    fn refresh_deadline(&self) -> Option<u64> {
        self.journal.is_refreshing().then_some(self.refresh_look_ns)
    }

    /// Returns the next deadline of a session without a connection.
    pub(crate) fn deadline_at_rest(&self) -> Option<u64> {
        self.sinks.event_log.deadline().into_iter().chain(self.refresh_deadline()).min()
    }

    /// Returns the monotonic time at which [`Executor::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let others = [self.refresh_deadline(), self.sinks.event_log.deadline()];
        let others = others.into_iter().flatten().filter(|_| self.core.ending().is_none());
        self.core.next_deadline().into_iter().chain(others).min()
    }

    /// Reads the records that another process has added to the store, and continues from its
    /// numbers.
    fn refresh(&mut self, now: Now) -> Result<(), StoreError> {
        self.look_what_is_safe(now)?;
        self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
        if self.journal.take_fresh() {
            return Ok(());
        }
        if !self.journal.is_refreshing() {
            // Commits first, because no batch may be open during a refresh.
            self.commit(now)?;
        }
        self.journal.refresh()?;
        if let Err(error) = self.resume(now) {
            if matches!(error, StoreError::NotYet) {
                self.journal.wait_for_fetch();
            }
            return Err(error);
        }
        self.journal.end_refresh(self.core.awaits_refresh());
        self.look_at_schedule(now);
        self.core.open_window(now, self.journal.numbers().created_ns);
        Ok(())
    }

    /// Refreshes the store for a Logon(A) that an acceptor has received, if the settings want a
    /// refresh. `until_ns` is the deadline, on the monotonic clock, of a refresh that has begun.
    /// Returns the verdict on the Logon(A) if the session cannot accept the logon now.
    pub(super) fn refresh_for_logon(&mut self, now: Now, until_ns: Option<u64>) -> Option<Verdict> {
        let begins = self.core.session.state() == State::LogonAwaited;
        if !begins || !self.core.options.refresh_on_logon {
            return None;
        }
        match self.refresh(now) {
            Ok(()) => None,
            Err(StoreError::NotYet) => {
                let until_ns = until_ns.unwrap_or(now.monotonic_ns + self.core.answer_ns());
                self.core.judging = LogonDecision::Refreshing(until_ns);
                Some(Verdict::LogonOffered)
            }
            Err(StoreError::InUse { .. }) => Some(Verdict::Disconnect(Disconnect::InUse)),
            Err(error) => {
                self.tell(now, &Event::StoreNotRead(&error));
                Some(Verdict::Disconnect(Disconnect::StoreFailed))
            }
        }
    }

    /// Returns true if commits are suspended, because a call that has sent messages has not
    /// returned or a refresh is running.
    pub(crate) fn is_held(&self) -> bool {
        self.core.has_open_answer() || self.journal.is_refreshing()
    }

    /// Advances a running refresh and answer, and returns true if commits are still suspended.
    pub(crate) fn holds(&mut self, now: Now) -> bool {
        let holds = match self.settle_refresh(now) {
            Ok(()) => self.core.holds_answer(now),
            Err(StoreError::NotYet) => true,
            Err(error) => {
                self.journal.fail(&error);
                false
            }
        };
        self.tell_events(now);
        holds
    }
}
