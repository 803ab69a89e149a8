//! The deferred answer to a message, which the application gives from any thread.
//!
//! Invariant: until the answer, the application counts as called for the message, and receives no
//! other call of its session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use transfix_session::{BusinessReject, Now};

/// The bytes of the message in the current call, and the time at which the message arrived.
pub(crate) type Parts = (Vec<u8>, Now);

/// The application's answer to a message.
pub(crate) type Answer = Result<(), BusinessReject>;

/// A function that ends the application's call with a message and its answer.
pub(crate) type End = Box<dyn Fn(Parts, Answer) + Send + Sync>;

enum State {
    /// The call has not returned yet.
    Called,
    /// The application has answered before the call returned.
    Given(Answer),
    /// The call has returned, and the answer is awaited.
    Awaited(Parts),
    /// The message was answered, or the answer no longer has an effect.
    Over,
}

/// A deferred answer, shared by the answering thread and the session.
pub(crate) struct Later {
    state: Mutex<State>,
    end: End,
}

impl Later {
    pub(crate) fn new(end: End) -> Self {
        Self { state: Mutex::new(State::Called), end }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state stays consistent even after a panic, so a poisoned lock is used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the callback has returned without an answer. If the application has answered
    /// already, returns the message and the answer.
    pub(crate) fn returned(&self, parts: Parts) -> Option<(Parts, Answer)> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::Given(answer) => Some((parts, answer)),
            State::Called | State::Awaited(_) | State::Over => {
                *state = State::Awaited(parts);
                None
            }
        }
    }

    /// Discards the deferred answer, because the callback has answered directly or panicked.
    pub(crate) fn forget(&self) {
        *self.state() = State::Over;
    }

    /// Gives the answer. If the callback has returned, the call ends here.
    pub(crate) fn give(&self, answer: Answer) {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::Called => *state = State::Given(answer),
            State::Awaited(parts) => {
                drop(state);
                (self.end)(parts, answer);
            }
            State::Given(_) | State::Over => {}
        }
    }
}
