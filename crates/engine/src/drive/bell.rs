//! Calls the worker of a session, from any thread.
//!
//! Invariant: it holds nothing of the session, so that whoever keeps it keeps no session alive.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes the worker of a session from its wait.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// What calls the worker, once it is known.
#[derive(Default)]
pub(crate) struct Bell {
    wake: OnceLock<Wake>,
    /// The worker was called, and has not looked at the session since.
    is_called: AtomicBool,
    /// Something other than a message waits for the worker.
    attention: AtomicBool,
}

impl Bell {
    /// The session has a worker: `wake` ends its wait.
    pub(crate) fn set(&self, wake: Wake) {
        assert!(self.wake.set(wake).is_ok(), "a session has one worker");
    }

    /// Calls the worker for something other than a message.
    pub(crate) fn call(&self) {
        self.attention.store(true, Ordering::Release);
        self.ring();
    }

    /// Calls the worker, unless it was called and has not looked yet: while it is busy, no list of
    /// calls grows.
    pub(crate) fn ring(&self) {
        if let Some(wake) = self.wake.get()
            && !self.is_called.swap(true, Ordering::AcqRel)
        {
            wake();
        }
    }

    /// The worker looks at the session: who calls from here on calls again. Returns whether
    /// something other than a message waits.
    pub(crate) fn answer(&self) -> bool {
        self.is_called.swap(false, Ordering::AcqRel);
        self.attention.load(Ordering::Acquire) && self.attention.swap(false, Ordering::AcqRel)
    }
}
