//! Bounds the lines of the log that strangers can make come again and again.
//!
//! Invariant: their number grows with time, not with what strangers do.

use std::sync::{Mutex, PoisonError};

use transfix::clock;

/// Lines that are written at once.
const AT_ONCE: u64 = 10;
/// Time after which one more may be, in nanoseconds.
const ONE_MORE_NS: u64 = 1_000_000_000;

/// When lines of one kind may be written, and how many were left out.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When as many as ever may be written again.
    full_at_ns: u64,
    left_out: u64,
}

impl Seldom {
    /// Whether a line may be written now; if so, how many were left out before.
    pub(crate) fn tell(&self) -> Option<u64> {
        self.tell_at(clock::monotonic_ns())
    }

    fn tell_at(&self, now_ns: u64) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full_at_ns = state.full_at_ns.max(now_ns) + ONE_MORE_NS;
        if full_at_ns > now_ns + AT_ONCE * ONE_MORE_NS {
            state.left_out += 1;
            return None;
        }
        state.full_at_ns = full_at_ns;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_are_some_and_then_one_in_a_while() {
        let seldom = Seldom::default();
        assert_eq!((0..1_000).filter_map(|_| seldom.tell_at(1)).count(), 10);
        assert_eq!(seldom.tell_at(ONE_MORE_NS + 1), Some(990));
        assert_eq!(seldom.tell_at(ONE_MORE_NS + 2), None);
    }
}
