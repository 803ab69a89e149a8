//! What the worker of a session and those who send into it share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use transfix_codec::CheckSumPolicy;
use transfix_session::SessionId;

use crate::drive::registry::Registry;
use crate::drive::waiting::Waiting;
use crate::link::Link;
use crate::link::core::Core;
use crate::link::queue::SendQueue;
use crate::observe::published::Published;
use crate::settings::{AfterPanic, Offline, SendMode};

/// Wakes the worker of a link from its wait.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// What handle and worker of one session share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) link: Mutex<Link>,
    pub(crate) queue: SendQueue,
    pub(crate) send_mode: SendMode,
    pub(crate) wake: OnceLock<Wake>,
    pub(crate) offline: Offline,
    pub(crate) published: Arc<Published>,
    pub(crate) waiting: Waiting,
    /// The engine has been stopped.
    pub(crate) closed: AtomicBool,
    /// Whether the session may be connected; the operator's wish.
    pub(crate) enabled: AtomicBool,
    /// The worker was called, and has not looked at the session since.
    pub(crate) is_called: AtomicBool,
    /// Something other than a message waits for the worker.
    pub(crate) attention: AtomicBool,
    /// An operator wants the session back, or connected, without a further wait.
    pub(crate) hurry: AtomicBool,
    pub(crate) after_panic: AfterPanic,
    /// All sessions of the engine, to find the one in which most waits.
    pub(crate) registry: Arc<Registry>,
}

impl Shared {
    /// The lock of the session. A thread that panicked with it may have left half a turn behind:
    /// the worker finds that out for itself.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session has a worker, which `wake` calls: for others, and for its store.
    pub(crate) fn belongs_to(self: &Arc<Self>, wake: Wake) {
        assert!(self.wake.set(wake).is_ok(), "a session has one worker");
        let session = Arc::downgrade(self);
        let call = move || {
            if let Some(session) = session.upgrade() {
                session.call_worker();
            }
        };
        self.with_core(|core| core.journal.wake_by(Arc::new(call)));
    }

    /// Something other than a message waits for the worker.
    pub(crate) fn call_worker(&self) {
        self.attention.store(true, Ordering::Release);
        self.wake();
    }

    /// Calls the worker, unless it was called and has not looked yet: while it is busy, no list of
    /// calls grows.
    pub(crate) fn wake(&self) {
        if let Some(wake) = self.wake.get()
            && !self.is_called.swap(true, Ordering::AcqRel)
        {
            wake();
        }
    }

    /// Whether CheckSum(10) of what it receives is verified.
    pub(crate) fn check_sum(&self) -> CheckSumPolicy {
        self.with_core(|core| core.options.check_sum)
    }

    pub(crate) fn with_core<T>(&self, call: impl FnOnce(&mut Core) -> T) -> T {
        call(&mut self.lock().core)
    }
}
