//! The deferred answer to a message, which the application gives from any thread.
//!
//! Invariant: until the answer, the application counts as called for the message, and receives no
//! other call of its session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use transfix_session::{BusinessReject, Now};

/// The bytes of the application's current message, and the time of its receipt.
pub(crate) type Parts = (Vec<u8>, Now);

/// The application's answer to a message.
pub(crate) type Answer = Result<(), BusinessReject>;

/// A function that ends the call of the application.
pub(crate) type End = Box<dyn Fn(Parts, Answer) + Send + Sync>;

enum State {
    /// The call has not returned yet.
    Called,
    /// The application has answered before the call returned.
    Given(Answer),
    /// The call has returned, and the answer is awaited.
    Awaited(Parts),
    /// The call has returned and is answered, or the answer no longer counts.
    Over,
}

/// A deferred answer.
pub(crate) struct Later {
    state: Mutex<State>,
    end: End,
}

impl Later {
    pub(crate) fn new(end: End) -> Self {
        Self { state: Mutex::new(State::Called), end }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock leaves the state inconsistent on a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the call has returned without an answer. Returns the message and the answer if
    /// the application has answered already.
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

    /// Discards the deferred answer after the call has ended with a direct answer or a panic.
    pub(crate) fn forget(&self) {
        *self.state() = State::Over;
    }

    /// Answers the message.
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
