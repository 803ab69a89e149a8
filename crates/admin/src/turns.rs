//! Locks by key: each key has one holder at a time, and other callers wait in line.
//!
//! Invariants: callers with different keys do not wait for each other. A key that nobody holds or
//! waits for is removed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Line, OwnedMutexGuard};

/// The locks of all keys.
pub(crate) struct Turns<K>(Mutex<HashMap<K, Arc<Line<()>>>>);

/// The lock of one key, released on drop.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Turns<K> {
    /// Waits for the lock of `key`; callers receive the lock in the order of their calls.
    pub(crate) async fn wait(&self, key: K) -> Turn {
        let line = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody holds these locks or waits for them.
            lines.retain(|_, line| Arc::strong_count(line) > 1);
            Arc::clone(lines.entry(key).or_default())
        };
        Turn(line.lock_owned().await)
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
