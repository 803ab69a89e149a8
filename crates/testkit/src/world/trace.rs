//! The last events of a world, for the analysis of a failure.
//!
//! Invariant: without a trace, events are neither formatted nor stored.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// A bounded list of lines, in which a new line replaces the oldest.
#[derive(Debug)]
struct Lines {
    max: usize,
    lines: VecDeque<String>,
}

/// A trace, or no trace. Clones share the same lines.
#[derive(Clone, Debug, Default)]
pub struct Trace(Option<Arc<Mutex<Lines>>>);

impl Trace {
    /// Creates a trace that keeps the last `max` lines.
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

    /// Returns the lines of the trace, beginning with the oldest.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.0.as_ref().map_or_else(Vec::new, |lines| {
            lines.lock().unwrap_or_else(PoisonError::into_inner).lines.iter().cloned().collect()
        })
    }
}
