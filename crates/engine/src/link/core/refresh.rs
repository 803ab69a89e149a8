//! A store that somebody else may have written: it is refreshed before a logon, and may take its
//! time for that.
//!
//! Invariant: from the begin of a refresh to its end nothing is put into the store.

use transfix_session::{Disconnect, Now};
use transfix_store::StoreError;

use super::Core;
use super::store::unanswered;
use crate::link::down::Down;
use crate::link::event::Event;

/// Time between two looks at a refresh, if the store does not call.
const REFRESH_LOOK_NS: u64 = 10_000_000;

impl Core {
    /// Whether the connection waits for the store before the session hears of it.
    pub(crate) const fn is_refreshing(&self) -> bool {
        self.refreshes_until_ns.is_some()
    }

    /// Whether the store has taken over what another process has written, so that an initiator may
    /// begin its logon.
    pub(crate) fn is_refreshed(&mut self, now: Now) -> Result<bool, Down> {
        // What the application has of the last connection comes to the store before.
        self.refresh_look_ns = now.monotonic_ns + REFRESH_LOOK_NS;
        let refreshed = match self.delivery.stands_still() {
            true => self.refresh(now),
            false => Err(StoreError::NotYet),
        };
        match refreshed {
            Err(StoreError::NotYet) => {
                let is_over = self.refreshes_until_ns.is_some_and(|at| now.monotonic_ns >= at);
                return if is_over {
                    Err(Down::Session(self.not_refreshed(now)))
                } else {
                    Ok(false)
                };
            }
            refreshed => refreshed.map_err(Down::Store)?,
        }
        self.refreshes_until_ns = None;
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
        if let Some(until_ns) = self.judging.refreshes_until_ns() {
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
    pub(super) fn refresh_deadline(&self) -> Option<u64> {
        self.journal.is_refreshing().then_some(self.refresh_look_ns)
    }

    /// Goes on from what another process has left in the store.
    pub(super) fn refresh(&mut self, now: Now) -> Result<(), StoreError> {
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
        let is_awaited = self.is_refreshing() || self.judging.refreshes_until_ns().is_some();
        self.journal.end_refresh(is_awaited);
        self.open_window(now);
        Ok(())
    }

    pub(super) fn resume(&mut self, now: Now) -> Result<(), StoreError> {
        let (next_in, next_out) = self.journal.go_on();
        if (next_in, next_out) != (self.session.next_num_in(), self.session.next_num_out()) {
            let asked_to_reset = self.journal.asked_to_reset()?;
            self.tell(now, &Event::NumbersTaken { next_in, next_out });
            self.session.set_next_num_in(next_in);
            self.session.set_next_num_out(next_out);
            if asked_to_reset {
                self.session.reset_at_next_logon();
            }
        }
        self.restore_queued(now)
    }
}
