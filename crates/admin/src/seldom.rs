//! A rate limit for log and audit lines that clients can cause.
//!
//! Invariant: the number of lines is bounded by time, not by the number of causes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::clock;

/// Number of lines that may be written without a pause.
const AT_ONCE: u64 = 10;
/// Time after which one more line is allowed.
pub(crate) const ONE_MORE: Duration = Duration::from_secs(1);
const ONE_MORE_NS: u64 = ONE_MORE.as_nanos() as u64;

/// The rate limit of one kind of line, with the number of suppressed lines.
#[derive(Debug, Default)]
pub(crate) struct RateLimit(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Monotonic time from which [`AT_ONCE`] lines are allowed again, in nanoseconds.
    full_at_ns: u64,
    left_out: u64,
}

impl State {
    /// If a line is allowed now, uses that permission and returns the number of lines suppressed
    /// before it.
    fn take(&mut self, now_ns: u64) -> Option<u64> {
        let full_at_ns = self.full_at_ns.max(now_ns) + ONE_MORE_NS;
        if full_at_ns > now_ns + AT_ONCE * ONE_MORE_NS {
            return None;
        }
        self.full_at_ns = full_at_ns;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl RateLimit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If a line is allowed now, returns the number of lines suppressed before it. Otherwise counts
    /// this line as suppressed.
    pub(crate) fn tell(&self) -> Option<u64> {
        self.tell_at(clock::monotonic_ns())
    }

    fn tell_at(&self, now_ns: u64) -> Option<u64> {
        let mut state = self.state();
        let left_out = state.take(now_ns);
        state.left_out += u64::from(left_out.is_none());
        left_out
    }

    /// If lines were suppressed and a line is allowed now, returns their number for a line that
    /// reports them.
    pub(crate) fn tell_left_out(&self) -> Option<u64> {
        let mut state = self.state();
        (state.left_out > 0).then(|| state.take(clock::monotonic_ns())).flatten()
    }

    /// Returns the number of suppressed lines, if any, even if no line is allowed now.
    pub(crate) fn take_left_out(&self) -> Option<u64> {
        Some(std::mem::take(&mut self.state().left_out)).filter(|left_out| *left_out > 0)
    }

    pub(crate) fn has_left_out(&self) -> bool {
        self.state().left_out > 0
    }

    /// Returns true if no line is suppressed and `AT_ONCE` lines are allowed, as for a new rate
    /// limit.
    pub(crate) fn is_as_new(&self) -> bool {
        let state = self.state();
        state.left_out == 0 && state.full_at_ns <= clock::monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_are_some_and_then_one_in_a_while() {
        let seldom = RateLimit::default();
        assert_eq!((0..1_000).filter_map(|_| seldom.tell_at(1)).count(), 10);
        assert_eq!(seldom.tell_at(ONE_MORE_NS + 1), Some(990));
        assert_eq!(seldom.tell_at(ONE_MORE_NS + 2), None);
    }
}
