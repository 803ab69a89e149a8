//! What is known of a session without its lock.

use std::sync::atomic::{AtomicU8, Ordering};

use transfix_session::State;

/// The state of a session: its link writes it, anybody reads it.
#[derive(Debug, Default)]
pub(crate) struct PublishedState(AtomicU8);

impl PublishedState {
    pub(crate) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }

    pub(crate) fn get(&self) -> State {
        State::ALL[usize::from(self.0.load(Ordering::Acquire))]
    }
}
