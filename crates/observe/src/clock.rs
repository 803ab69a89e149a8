//! The only place where the engine reads a clock: wall time for the wire, monotonic time for
//! timers.

use std::cell::Cell;
use std::sync::OnceLock;

use rustix::time::{ClockId, Timespec, clock_gettime};
use transfix_codec::Timestamp;
use transfix_session::Now;

/// The time, in nanoseconds, for which the difference of the two clocks is reused. After this time
/// at the latest, a step of the wall clock is noticed.
const DISTANCE_NS: u64 = 10_000_000;

thread_local! {
    /// Wall clock minus monotonic clock, and the monotonic time until which the difference is
    /// valid.
    static DISTANCE: Cell<(i64, u64)> = const { Cell::new((0, 0)) };
}

/// Returns the current time of both clocks. A call usually reads only the monotonic clock, in about
/// 25 ns, and computes the wall clock from it; the wall clock itself is read every 10 ms.
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

/// Returns the monotonic clock in nanoseconds since an arbitrary start, for measurements.
#[must_use]
pub fn monotonic_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

/// Returns the CPU time of all threads of this process so far, in nanoseconds.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime)).unsigned_abs()
}

/// The file in which Linux names the source of its clock.
#[cfg(target_arch = "x86_64")]
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The duration, in nanoseconds, of the counter's calibration, once per process. With an error of
/// 20 ns in each of its two readings, the result is accurate to 20 parts per million.
const CALIBRATION_NS: u64 = 2_000_000;
/// The number of reading pairs, of which the closest pair is used, because the thread may lose its
/// CPU between two readings.
const PAIRS: usize = 8;
static TICKS: OnceLock<Ticks> = OnceLock::new();

/// A clock for measuring short times. The source is the processor's counter if the system trusts it
/// (about 7 ns per reading), or else the monotonic clock (about 25 ns).
///
/// The counter is the TSC of x86-64. Linux uses the TSC as its clock only if the TSC runs evenly,
/// never stops, and is the same on all processors. The beginning and the end of a time may
/// therefore be read in different threads. The processor may move a reading by a few nanoseconds,
/// because it is not ordered with the surrounding instructions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks {
    has_counter: bool,
    ns_per_tick: f64,
}

impl Ticks {
    /// Returns the ticks of this machine. The first call in a process takes 2 ms to calibrate the
    /// counter.
    pub fn of_machine() -> Self {
        *TICKS.get_or_init(|| {
            if is_counter_trusted() { Self::calibrated() } else { Self::NANOSECONDS }
        })
    }

    /// The monotonic clock as the source, with one tick per nanosecond.
    pub const NANOSECONDS: Self = Self { has_counter: false, ns_per_tick: 1.0 };

    fn calibrated() -> Self {
        let (from, begun_ns) = pair();
        while monotonic_ns() < begun_ns + CALIBRATION_NS {
            std::hint::spin_loop();
        }
        let (to, ended_ns) = pair();
        if to <= from {
            // Uses the monotonic clock, because the counter does not advance.
            return Self::NANOSECONDS;
        }
        Self { has_counter: true, ns_per_tick: (ended_ns - begun_ns) as f64 / (to - from) as f64 }
    }

    /// Returns the current time in ticks since an arbitrary start.
    #[inline]
    pub fn read(self) -> u64 {
        if self.has_counter { counter() } else { without_counter() }
    }

    /// Returns the current time in ticks if the machine has a trusted counter.
    #[inline]
    pub fn counter(self) -> Option<u64> {
        self.has_counter.then(counter)
    }

    /// Converts ticks to nanoseconds.
    #[inline]
    pub const fn ns(self, ticks: u64) -> f64 {
        // The conversion goes through a signed integer, which takes a single instruction.
        ticks.cast_signed() as f64 * self.ns_per_tick
    }
}

// This function is marked cold, so that machines with a counter lose no time.
#[cold]
fn without_counter() -> u64 {
    monotonic_ns()
}

/// Reads the counter and the monotonic clock as simultaneously as possible.
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
        // The clock readings enclose the counter readings.
        let outer = (to_ns - from_ns) as f64;
        assert!(inner > 0.0 && inner <= outer * 1.01, "{inner} ns of {outer} ns");
        assert_eq!(Ticks::NANOSECONDS.ns(7), 7.0);
    }
}
