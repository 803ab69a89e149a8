//! Wakes the worker of a session, from any thread, wherever the session is driven.
//!
//! Invariants: a waker holds no reference to its session, so it keeps no session alive. A session
//! that moves to another worker misses no call, because the new worker checks it on arrival. At
//! most one connection waits for the session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::drive::outcome::SessionOutcome;
use crate::link::Arrival;

/// The slot of a session that is moving to a worker.
pub(crate) const UNDER_WAY: usize = usize::MAX;

/// The operations of a worker that other threads may call.
pub(crate) trait WorkerHandle: Send + Sync {
    /// Requests a turn of the session in this slot.
    fn call(&self, slot: usize);

    /// Passes a connection to a session of this worker.
    fn attach(&self, arrival: Arrival, pending: PendingConnection);

    /// Asks the worker to log a session out and to release it.
    fn release(&self, release: Release);
}

/// The worker that drives a session, and the session's slot there.
struct Place {
    worker: Arc<dyn WorkerHandle>,
    slot: usize,
}

/// The waker of one session. Calls have no effect before the session has a worker.
#[derive(Default)]
pub(crate) struct SessionWaker {
    place: Mutex<Option<Place>>,
    /// True if the worker was called, and has not handled the call yet.
    is_called: AtomicBool,
    /// True if the worker must run a turn even without a queued message.
    attention: AtomicBool,
    /// True while an accepted connection waits for the worker.
    has_pending: AtomicBool,
}

impl SessionWaker {
    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this worker drives the session from now on.
    pub(crate) fn set(&self, worker: Arc<dyn WorkerHandle>, slot: usize) {
        *self.place() = Some(Place { worker, slot });
    }

    /// Records the new worker if `give` succeeds. The lock is held while `give` runs, so other
    /// threads see either the old or the new worker.
    pub(crate) fn set_after<E>(
        &self,
        worker: Arc<dyn WorkerHandle>,
        give: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut place = self.place();
        give()?;
        *place = Some(Place { worker, slot: UNDER_WAY });
        Ok(())
    }

    /// Records that the session has ended and no longer has a worker.
    pub(crate) fn leave(&self) {
        *self.place() = None;
    }

    /// Returns the session's slot in its worker.
    pub(crate) fn slot(&self) -> usize {
        self.place().as_ref().map_or(UNDER_WAY, |place| place.slot)
    }

    /// Returns worker and slot, and releases the lock, because a call of the worker may block.
    fn found(&self) -> Option<(Arc<dyn WorkerHandle>, usize)> {
        self.place().as_ref().map(|place| (Arc::clone(&place.worker), place.slot))
    }

    /// Calls the worker for work other than a message.
    pub(crate) fn wake(&self) {
        self.attention.store(true, Ordering::Release);
        self.wake_for_message();
    }

    /// Calls the worker, unless an earlier call is not handled yet. The list of calls therefore
    /// does not grow while the worker is busy.
    pub(crate) fn wake_for_message(&self) {
        if self.is_called.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.found() {
            Some((worker, slot)) => worker.call(slot),
            // Without a worker the call is dropped, because a new worker checks the session on
            // arrival.
            None => self.is_called.store(false, Ordering::Release),
        }
    }

    /// Acknowledges the call; later callers call again. Returns true if work other than a message
    /// waits.
    pub(crate) fn answer(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel);
        self.attention.load(Ordering::Acquire) && self.attention.swap(false, Ordering::AcqRel)
    }
}

/// A request to log a session out and to release it from its worker for good.
pub(crate) struct Release {
    /// The waker of the session to release.
    pub(crate) session_waker: Arc<SessionWaker>,
    /// The monotonic time at which the session leaves without an answer to its Logout(5).
    pub(crate) until_ns: u64,
    /// Text(58) of the Logout(5).
    pub(crate) text: String,
    /// The channel that receives the session's outcome.
    pub(crate) to: Sender<SessionOutcome>,
}

impl Release {
    /// Passes the request to the session's worker. Returns false if the session has no worker.
    pub(crate) fn hand_over(self) -> bool {
        let found = self.session_waker.found();
        let is_found = found.is_some();
        if let Some((worker, _)) = found {
            worker.release(self);
        }
        is_found
    }
}

/// The right to hand a connection to the session's worker. Only one exists per session, so that
/// connections do not accumulate at a busy worker. Dropping the value gives the right back.
pub(crate) struct PendingConnection(Arc<SessionWaker>);

impl PendingConnection {
    /// Returns the right to hand over a connection, or `None` if another connection already waits.
    pub(crate) fn at(session_waker: &Arc<SessionWaker>) -> Option<Self> {
        let is_first = !session_waker.has_pending.swap(true, Ordering::AcqRel);
        is_first.then(|| Self(Arc::clone(session_waker)))
    }

    pub(crate) const fn session_waker(&self) -> &Arc<SessionWaker> {
        &self.0
    }

    /// Passes the connection to the worker.
    pub(crate) fn hand_over(self, arrival: Arrival) {
        if let Some((worker, _)) = self.0.found() {
            worker.attach(arrival, self);
        }
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.0.has_pending.store(false, Ordering::Release);
    }
}
