//! Turns: of each key one at a time, and the others of that key wait in line.
//!
//! Invariants: keys do not wait for each other; a key that nobody holds or waits for is forgotten.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Line, OwnedMutexGuard};

/// The turns of all keys.
pub(crate) struct Turns<K>(Mutex<HashMap<K, Arc<Line<()>>>>);

/// The turn of a key, until it is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] OwnedMutexGuard<()>);

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Turns<K> {
    /// Waits for the turn of this key, in the order of the calls.
    pub(crate) async fn wait(&self, key: K) -> Turn {
        let line = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody has the turn there, or waits for it.
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
