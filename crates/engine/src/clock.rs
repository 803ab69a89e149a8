//! The only place where the engine reads a clock: wall time for the wire, monotonic for timing.

use rustix::time::{ClockId, Timespec, clock_gettime};
use transfix_codec::Timestamp;
use transfix_session::Now;

/// This moment on both clocks; about 50 ns.
#[must_use]
pub fn now() -> Now {
    let utc = nanoseconds(clock_gettime(ClockId::Realtime));
    Now { utc: Timestamp(utc), monotonic_ns: monotonic_ns() }
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
