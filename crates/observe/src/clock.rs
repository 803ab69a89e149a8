//! The only place where the engine reads a clock: wall time for the wire, monotonic for timing.

use std::cell::Cell;
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};
use transfix_codec::Timestamp;
use transfix_session::Now;

/// How long the distance of the two clocks is taken as it was: a step of the wall clock is noticed
/// that much later.
const DISTANCE_NS: u64 = 10_000_000;

thread_local! {
    /// Wall clock minus monotonic clock, and until when that holds.
    static DISTANCE: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
}

/// This moment on both clocks. Mostly one clock is read, some 25 ns; the wall clock follows from it
/// and is read itself every 10 ms.
#[must_use]
pub fn now() -> Now {
    let monotonic_ns = monotonic_ns();
    let (mut distance, until) = DISTANCE.get();
    if monotonic_ns >= until {
        let utc = nanoseconds(clock_gettime(ClockId::Realtime));
        distance = utc.saturating_sub_unsigned(monotonic_ns);
        DISTANCE.set((distance, monotonic_ns + DISTANCE_NS));
    }
    let utc = distance.saturating_add_unsigned(monotonic_ns);
    Now { utc: Timestamp(utc), monotonic_ns }
}

/// The monotonic clock alone, in nanoseconds from an unknown start: for measuring.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

/// CPU time of this process so far, all threads, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime)).unsigned_abs()
}

/// Where Linux says which clock it takes the time from.
#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// How long the counter is compared with the clock, once a process: an error of 20 ns in each of
/// the two readings is then 20 millionths.
const CALIBRATION_NS: u64 = 2_000_000;
/// Readings of which the closest pair counts: the thread may have lost its CPU between two.
const PAIRS: usize = 8;
static TICKS: OnceLock<Ticks> = OnceLock::new();

/// Measures short times: by the processor's counter where the system itself trusts it (some 7 ns a
/// reading), otherwise by the monotonic clock (some 25 ns).
///
/// The counter is that of x86-64 (TSC). Linux takes the time from it only if it runs evenly, never
/// stops, and is the same on all processors. Two threads may therefore read the two ends of a time.
/// A reading is not ordered with the instructions around it: the processor may move it by a few
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks {
    has_counter: bool,
    ns_per_tick: f64,
}

impl Ticks {
    /// Those of this machine. The first call in a process calibrates the counter, 2 ms.
    pub fn of_machine() -> Self {
        *TICKS.get_or_init(|| {
            if is_counter_trusted() { Self::calibrated() } else { Self::NANOSECONDS }
        })
    }

    /// Those of the monotonic clock.
    pub const NANOSECONDS: Self = Self { has_counter: false, ns_per_tick: 1.0 };

    fn calibrated() -> Self {
        let (from, begun_ns) = pair();
        while monotonic_ns() < begun_ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let (to, ended_ns) = pair();
        if to <= from {
            // A counter that stands still is none.
            return Self::NANOSECONDS;
        }
        Self { has_counter: true, ns_per_tick: (ended_ns - begun_ns) as f64 / (to - from) as f64 }
    }

    /// This moment, in ticks from an unknown start.
    #[inline]
    pub fn read(self) -> u64 {
        if self.has_counter { counter() } else { without_counter() }
    }

    /// The same if there is a counter.
    #[inline]
    pub fn counter(self) -> Option<u64> {
        self.has_counter.then(counter)
    }

    /// So many ticks in nanoseconds.
    #[inline]
    pub const fn ns(self, ticks: u64) -> f64 {
        // The processor makes a float of a signed number by one instruction.
        ticks.cast_signed() as f64 * self.ns_per_tick
    }
}

// Out of the way of those who have one.
#[cold]
fn without_counter() -> u64 {
    monotonic_ns()
}

/// The counter and the monotonic clock at the same moment.
fn pair() -> (u64, u64) {
    let pairs = (0..PAIRS).map(|_| {
        let before = counter();
        let ns = monotonic_ns();
        let took = counter().saturating_sub(before);
        (took, (before + took / 2, ns))
    });
    pairs.min().map_or((0, 0), |(_, pair)| pair)
}

#[cfg(target_arch = "x86_64")]
fn is_counter_trusted() -> bool {
    std::fs::read_to_string(CLOCK_SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
const fn is_counter_trusted() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn counter() -> u64 {
    safe_arch::read_timestamp_counter()
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    monotonic_ns()
}

const fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_agrees_with_the_clock() {
        let ticks = Ticks::of_machine();
        assert_eq!(ticks, Ticks::of_machine());
        let (from_ns, from) = (monotonic_ns(), ticks.read());
        while monotonic_ns() < from_ns + 5_000_000 {
            std::hint::spin_loop();
        }
        let (to, to_ns) = (ticks.read(), monotonic_ns());
        let inner = ticks.ns(to - from);
        // The readings of the clock lie outside.
        let outer = (to_ns - from_ns) as f64;
        assert!(inner > 0.0 && inner <= outer * 1.01, "{inner} ns of {outer} ns");
        assert_eq!(Ticks::NANOSECONDS.ns(7), 7.0);
    }
}
