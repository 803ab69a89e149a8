//! The open-loop pace: message i is due (i + 1) / rate seconds after the start, whether or not
//! earlier messages were answered.

use transfix::clock::monotonic_ns;

/// The planned sending times of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    start_ns: u64,
    interval_ns: u64,
}

impl Pace {
    /// Starts the schedule now, with `rate` messages per second.
    pub(super) fn start(rate: u64) -> Self {
        Self { start_ns: monotonic_ns(), interval_ns: 1_000_000_000 / rate.max(1) }
    }

    /// Returns true if the planned time of message `i` has come.
    pub(super) fn is_due(self, i: usize) -> bool {
        monotonic_ns() >= self.start_ns + (i as u64 + 1) * self.interval_ns
    }

    /// Returns the delay after the planned time of message `i`, in nanoseconds.
    pub(super) fn late_ns(self, i: usize) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns + (i as u64 + 1) * self.interval_ns)
    }

    /// Spins until the planned time of message `i`, because a sleep would be too inexact.
    pub(super) fn wait(self, i: usize) {
        while !self.is_due(i) {
            std::hint::spin_loop();
        }
    }
}
