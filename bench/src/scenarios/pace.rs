//! The open-loop pace of scenario S1: message i is due (i + 1) / rate seconds after the start.

use transfix::clock::monotonic_ns;

/// When each message is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    start_ns: u64,
    interval_ns: u64,
}

impl Pace {
    /// Starts now, with `rate` messages a second.
    pub(crate) fn start(rate: u64) -> Self {
        Self { start_ns: monotonic_ns(), interval_ns: 1_000_000_000 / rate.max(1) }
    }

    /// Whether message `i` is due.
    pub(crate) fn is_due(self, i: usize) -> bool {
        monotonic_ns() >= self.start_ns + (i as u64 + 1) * self.interval_ns
    }

    /// Spins until message `i` is due, as the scenario demands.
    pub(crate) fn wait(self, i: usize) {
        while !self.is_due(i) {
            std::hint::spin_loop();
        }
    }
}
