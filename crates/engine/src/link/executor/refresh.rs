//! A store that somebody else may have written: it is refreshed before a logon, and may take its
//! time for that.
//!
//! Invariant: from the begin of a refresh to its end nothing is put into the store.

use transfix_session::core::judging::Judging;
use transfix_session::{Disconnect, Now, State, Verdict};
use transfix_store::StoreError;

use super::Executor;
use super::store::unanswered;
use crate::link::down::Down;
use crate::link::event::Event;

/// Time between two looks at a refresh, if the store does not call.
const REFRESH_LOOK_NS: u64 = 10_000_000;

impl Executor {
    /// Returns true if the store has taken over what another process has written, so that an
    /// initiator may begin its logon.
    pub(super) fn is_refreshed(&mut self, now: Now) -> Result<bool, Down> {
        // Messages of the last connection that the application has come to the store before.
        self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
        let refreshed = match self.core.delivery.await_idle() {
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
            refreshed => refreshed.map_err(Down::Store)?,
        }
        self.core.refreshes_until_ns = None;
        self.journal.end_refresh(false);
        Ok(true)
    }

    /// Goes on with a refresh that was begun, if there is one.
    ///
    /// # Errors
    /// [`StoreError::NotYet`] as long as it is under way; any other error of the store.
    pub(crate) fn settle_refresh(&mut self, now: Now) -> Result<(), StoreError> {
        if self.journal.is_refreshing() { self.refresh(now) } else { Ok(()) }
    }

    /// Looks whether a refresh is over, or takes too long; also of a connection that has ended.
    pub(crate) fn look_at_refresh(&mut self, now: Now) -> Result<(), Down> {
        if let Some(until_ns) = self.core.judging.refreshes_until_ns() {
            // The turn that follows looks whether it is over.
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

    /// The store has not taken over in time what another process has written.
    fn not_refreshed(&mut self, now: Now) -> Disconnect {
        self.tell(now, &Event::StoreNotRead(&unanswered()));
        Disconnect::StoreFailed
    }

    /// When to look again at a refresh that is under way.
    fn refresh_deadline(&self) -> Option<u64> {
        self.journal.is_refreshing().then_some(self.refresh_look_ns)
    }

    /// When there is something to tell or to look at though there is no connection.
    pub(crate) fn deadline_at_rest(&self) -> Option<u64> {
        self.sinks.event_log.deadline().into_iter().chain(self.refresh_deadline()).min()
    }

    /// When [`Executor::tick`] must be called at the latest.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let others = [self.refresh_deadline(), self.sinks.event_log.deadline()];
        let others = others.into_iter().flatten().filter(|_| self.core.ending().is_none());
        self.core.next_deadline().into_iter().chain(others).min()
    }

    /// Goes on from what another process has left in the store.
    fn refresh(&mut self, now: Now) -> Result<(), StoreError> {
        self.look_what_is_safe(now)?;
        self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
        if self.journal.take_fresh() {
            return Ok(());
        }
        if !self.journal.is_refreshing() {
            // No batch may be begun.
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

    /// Refreshes the store for the Logon(A) of an acceptor, where that is wanted, until this moment
    /// of the monotonic clock if it was begun before. Returns what becomes of the Logon(A) if it
    /// cannot be accepted now.
    pub(super) fn refresh_for_logon(&mut self, now: Now, until_ns: Option<u64>) -> Option<Verdict> {
        let begins = self.core.session.state() == State::LogonAwaited;
        if !begins || !self.core.options.refresh_on_logon {
            return None;
        }
        match self.refresh(now) {
            Ok(()) => None,
            Err(StoreError::NotYet) => {
                let until_ns = until_ns.unwrap_or(now.monotonic_ns + self.core.answer_ns());
                self.core.judging = Judging::Refreshing(until_ns);
                Some(Verdict::LogonOffered)
            }
            Err(error) => {
                self.tell(now, &Event::StoreNotRead(&error));
                Some(Verdict::Disconnect(Disconnect::StoreFailed))
            }
        }
    }

    /// Returns true if nothing may be committed now: a call that has sent something has not
    /// returned, or the store is being refreshed.
    pub(crate) fn is_held(&self) -> bool {
        self.core.has_open_answer() || self.journal.is_refreshing()
    }

    /// The same, unless it is over by now.
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
