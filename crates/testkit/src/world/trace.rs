//! The last events of a world, for a reader.
//!
//! Invariant: a disabled trace writes and allocates nothing.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of a trace. New lines replace the oldest.
#[derive(Debug)]
struct Lines {
    max: usize,
    lines: VecDeque<String>,
}

/// A trace, possibly disabled. Clones share their lines.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Mutex<Lines>>>);

impl Trace {
    /// Creates a trace of the last `max` lines.
    #[must_use]
    pub fn last(max: usize) -> Self {
        Self(Some(Arc::new(Mutex::new(Lines { max, lines: VecDeque::new() }))))
    }

    pub(crate) const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn add(&self, now: u64, line: impl FnOnce() -> String) {
        let Some(lines) = &self.0 else { return };
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.lines.len() >= lines.max.max(1) {
            lines.lines.pop_front();
        }
        let ms = now / 1_000_000;
        lines.lines.push_back(format!("{:>6}.{:03} {}", ms / 1_000, ms % 1_000, line()));
    }

    /// Returns the lines, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.as_ref().map_or_else(Vec::new, |lines| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().cloned().collect()
        })
    }
}
