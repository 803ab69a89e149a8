//! The only place where the engine reads a clock: wall time for the wire, monotonic for timing.

use std::cell::Cell;

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

const fn nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
