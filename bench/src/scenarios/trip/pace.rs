//! The open-loop pace of scenario S1: message i is due (i + 1) / rate seconds after the start.

use transfix::clock::monotonic_ns;

/// The schedule of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    start_ns: u64,
    interval_ns: u64,
}

impl Pace {
    /// Starts now, with `rate` messages per second.
    pub(super) fn start(rate: u64) -> Self {
        Self { start_ns: monotonic_ns(), interval_ns: 1_000_000_000 / rate.max(1) }
    }

    /// Returns true if message `i` is due.
    pub(super) fn is_due(self, i: usize) -> bool {
        monotonic_ns() >= self.start_ns + (i as u64 + 1) * self.interval_ns
    }

    /// Returns the delay after message `i`'s due time.
    pub(super) fn late_ns(self, i: usize) -> u64 {
        monotonic_ns().saturating_sub(self.start_ns + (i as u64 + 1) * self.interval_ns)
    }

    /// Spins until message `i` is due, as the scenario demands.
    pub(super) fn wait(self, i: usize) {
        while !self.is_due(i) {
            std::hint::spin_loop();
        }
    }
}
