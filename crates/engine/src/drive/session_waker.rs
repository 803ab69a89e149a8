//! Calls the worker of a session, from any thread, wherever the session is driven now.
//!
//! Invariants: it holds nothing of the session, so its holder keeps no session alive. A session
//! that goes to another worker loses no call, for that worker looks at it when it takes it in. One
//! connection at a time waits for the session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::drive::outcome::SessionOutcome;
use crate::link::Arrival;

/// The slot of a session that is on its way to a worker.
pub(crate) const UNDER_WAY: usize = usize::MAX;

/// A worker, as other threads reach it.
pub(crate) trait WorkerHandle: Send + Sync {
    /// Something waits for the session in this slot.
    fn call(&self, slot: usize);

    /// A connection for a session of this worker.
    fn attach(&self, arrival: Arrival, pending: PendingConnection);

    /// A session of this worker is to go.
    fn release(&self, release: Release);
}

/// Where a session is driven.
struct Place {
    worker: Arc<dyn WorkerHandle>,
    slot: usize,
}

/// The means to call the worker, once it is known.
#[derive(Default)]
pub(crate) struct SessionWaker {
    place: Mutex<Option<Place>>,
    /// The worker was called, and has not looked at the session since.
    is_called: AtomicBool,
    /// Something other than a message waits for the worker.
    attention: AtomicBool,
    /// A connection waits for the worker.
    has_pending: AtomicBool,
}

impl SessionWaker {
    fn place(&self) -> MutexGuard<'_, Option<Place>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session is driven by this worker from now on.
    pub(crate) fn set(&self, worker: Arc<dyn WorkerHandle>, slot: usize) {
        *self.place() = Some(Place { worker, slot });
    }

    /// The session goes to this worker if `give` succeeds. Nobody can ask for its place while
    /// `give` runs.
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

    /// The session has ended: nobody comes to it any more.
    pub(crate) fn leave(&self) {
        *self.place() = None;
    }

    /// The session's slot in its worker.
    pub(crate) fn slot(&self) -> usize {
        self.place().as_ref().map_or(UNDER_WAY, |place| place.slot)
    }

    /// The place, free of the lock: the worker may wait.
    fn found(&self) -> Option<(Arc<dyn WorkerHandle>, usize)> {
        self.place().as_ref().map(|place| (Arc::clone(&place.worker), place.slot))
    }

    /// Calls the worker for something other than a message.
    pub(crate) fn wake(&self) {
        self.attention.store(true, Ordering::Release);
        self.wake_for_message();
    }

    /// Calls the worker, unless it was called and has not looked yet: while it is busy, no list of
    /// calls grows.
    pub(crate) fn wake_for_message(&self) {
        if self.is_called.swap(true, Ordering::AcqRel) {
            return;
        }
        match self.found() {
            Some((worker, slot)) => worker.call(slot),
            // It has no worker yet, which looks at it when it has.
            None => self.is_called.store(false, Ordering::Release),
        }
    }

    /// The worker looks at the session: who calls from here on calls again. Returns whether
    /// something other than a message waits.
    pub(crate) fn answer(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel);
        self.attention.load(Ordering::Acquire) && self.attention.swap(false, Ordering::AcqRel)
    }
}

/// A session that is to log out and leave its worker for good.
pub(crate) struct Release {
    /// Leads to its worker.
    pub(crate) session_waker: Arc<SessionWaker>,
    /// Without an answer to its Logout(5) it goes at this moment of the monotonic clock.
    pub(crate) until_ns: u64,
    /// Text(58) of the Logout(5).
    pub(crate) text: String,
    /// The listener for its end.
    pub(crate) to: Sender<SessionOutcome>,
}

impl Release {
    /// Asks the worker for the session; `false` if it has none.
    pub(crate) fn hand_over(self) -> bool {
        let found = self.session_waker.found();
        let is_found = found.is_some();
        if let Some((worker, _)) = found {
            worker.release(self);
        }
        is_found
    }
}

/// A connection that waits for the worker of its session: one at a time, or those of a worker that
/// is busy pile up. Over when it is dropped.
pub(crate) struct PendingConnection(Arc<SessionWaker>);

impl PendingConnection {
    /// `None` if another one waits already.
    pub(crate) fn at(session_waker: &Arc<SessionWaker>) -> Option<Self> {
        let is_first = !session_waker.has_pending.swap(true, Ordering::AcqRel);
        is_first.then(|| Self(Arc::clone(session_waker)))
    }

    pub(crate) const fn session_waker(&self) -> &Arc<SessionWaker> {
        &self.0
    }

    /// Hands the connection to the worker.
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
