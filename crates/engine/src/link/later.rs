//! The answer to a message that the application gives later, from any thread.
//!
//! Invariant: until it is given, the application counts as called for the message: nothing more of
//! its session comes to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use transfix_session::{BusinessReject, Now};

/// The message that the application was called for: its bytes, and when it came.
pub(crate) type Parts = (Vec<u8>, Now);

/// The application's answer to a message.
pub(crate) type Answer = Result<(), BusinessReject>;

/// Ends the call of the application.
pub(crate) type End = Box<dyn Fn(Parts, Answer) + Send + Sync>;

enum State {
    /// The call has not returned yet.
    CurrentCall,
    /// The answer is here, before the call has returned.
    Given(Answer),
    /// The call has returned, and the answer is awaited.
    Awaited(Parts),
    /// Both are here, or the answer counts no more.
    Over,
}

/// An answer that comes later.
pub(crate) struct Later {
    state: Mutex<State>,
    end: End,
}

impl Later {
    pub(crate) fn new(end: End) -> Self {
        Self { state: Mutex::new(State::CurrentCall), end }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call has returned without an answer. Returns what it was called for, if the answer is
    /// here already.
    pub(crate) fn returned(&self, parts: Parts) -> Option<(Parts, Answer)> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::Given(answer) => Some((parts, answer)),
            State::CurrentCall | State::Awaited(_) | State::Over => {
                *state = State::Awaited(parts);
                None
            }
        }
    }

    /// The call has ended with an answer of its own, or by a panic: no other one counts.
    pub(crate) fn forget(&self) {
        *self.state() = State::Over;
    }

    /// The answer.
    pub(crate) fn give(&self, answer: Answer) {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::CurrentCall => *state = State::Given(answer),
            State::Awaited(parts) => {
                drop(state);
                (self.end)(parts, answer);
            }
            State::Given(_) | State::Over => {}
        }
    }
}
