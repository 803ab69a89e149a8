//! Detects counterparties that read too slowly.
//!
//! Invariant: a slow counterparty is reported only in a tick, when the application may be called.

use crate::{Now, QueueSettings, SlowConsumer, nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The number of waiting bytes is within the limit.
    InTime,
    /// The number of waiting bytes has exceeded the limit since this time on the monotonic clock.
    Behind(u64),
    /// The limit was exceeded for the configured time, and the slow counterparty was reported.
    Slow,
    /// The number of waiting bytes has fallen to half of the limit; this is not reported yet.
    CaughtUp,
}

/// Detects a slow counterparty from the number of waiting bytes and the time since the limit was
/// exceeded.
#[derive(Debug)]
pub struct Slow {
    /// Limit of waiting bytes; 0 means unlimited.
    bytes_max: usize,
    after_ns: u64,
    then: SlowConsumer,
    stage: Stage,
    has_new_deadline: bool,
}

impl Slow {
    pub fn of(queue: &QueueSettings) -> Self {
        Self {
            bytes_max: queue.slow_consumer_bytes,
            after_ns: nanos(queue.slow_consumer_after),
            then: queue.slow_consumer,
            stage: Stage::InTime,
            has_new_deadline: false,
        }
    }

    /// Records the number of bytes that wait to be written.
    #[inline]
    pub fn note(&mut self, now: Now, bytes: usize) {
        if self.bytes_max > 0 {
            self.note_some(now, bytes);
        }
    }

    #[inline(never)]
    fn note_some(&mut self, now: Now, bytes: usize) {
        let is_above = bytes > self.bytes_max;
        let next = match self.stage {
            Stage::InTime if is_above => Stage::Behind(now.monotonic_ns),
            Stage::Behind(_) if !is_above => Stage::InTime,
            Stage::Slow if bytes <= self.bytes_max / 2 => Stage::CaughtUp,
            Stage::CaughtUp if is_above => Stage::Slow,
            same => same,
        };
        self.has_new_deadline |= next != self.stage;
        self.stage = next;
    }

    /// Returns true if [`Slow::deadline`] has changed, so that the worker must read it again.
    #[inline]
    pub fn calls_worker(&mut self) -> bool {
        std::mem::take(&mut self.has_new_deadline)
    }

    /// Returns the time on the monotonic clock at which [`Slow::due`] will return a report.
    pub const fn deadline(&self) -> Option<u64> {
        match self.stage {
            Stage::Behind(since_ns) => Some(since_ns.saturating_add(self.after_ns)),
            Stage::CaughtUp => Some(0),
            Stage::InTime | Stage::Slow => None,
        }
    }

    /// Returns a report that is due: true if the counterparty has become slow, false if it has
    /// caught up.
    pub fn due(&mut self, now: Now) -> Option<bool> {
        let is_due = self.deadline().is_some_and(|at| now.monotonic_ns >= at);
        is_due.then(|| {
            let is_slow = matches!(self.stage, Stage::Behind(_));
            self.stage = if is_slow { Stage::Slow } else { Stage::InTime };
            is_slow
        })
    }

    /// Returns true if the settings require a disconnect from a slow counterparty.
    pub fn disconnects(&self) -> bool {
        self.then == SlowConsumer::Disconnect
    }

    /// Resets the detection after the end of the connection.
    pub const fn reset(&mut self) {
        self.stage = Stage::InTime;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Now {
        Now { monotonic_ns: ms * MS, ..Now::default() }
    }

    fn slow(bytes: usize) -> Slow {
        let mut queue = QueueSettings::default();
        (queue.slow_consumer_bytes, queue.slow_consumer_after) =
            (bytes, Duration::from_millis(100));
        Slow::of(&queue)
    }

    #[test]
    fn is_slow_when_too_much_has_waited_for_long() {
        let mut slow = slow(1_000);
        slow.note(at(0), 1_000);
        assert_eq!((slow.deadline(), slow.calls_worker()), (None, false));
        slow.note(at(1), 1_001);
        assert_eq!((slow.deadline(), slow.calls_worker()), (Some(101 * MS), true));
        slow.note(at(50), 900);
        assert_eq!(slow.deadline(), None, "in time again");
        slow.note(at(60), 5_000);
        slow.note(at(90), 9_000);
        assert_eq!(slow.due(at(159)), None);
        assert_eq!(
            (slow.due(at(160)), slow.due(at(170)), slow.deadline()),
            (Some(true), None, None)
        );
        slow.note(at(180), 501);
        assert_eq!(slow.deadline(), None, "half of it must be left");
        slow.note(at(190), 500);
        assert_eq!(slow.deadline(), Some(0));
        slow.note(at(191), 2_000);
        assert_eq!(slow.due(at(191)), None, "slow as before, and told already");
        slow.note(at(192), 0);
        assert_eq!((slow.due(at(192)), slow.due(at(193))), (Some(false), None));
    }

    #[test]
    fn nobody_is_slow_without_a_limit_or_a_connection() {
        let mut free = slow(0);
        free.note(at(0), usize::MAX);
        assert_eq!(free.deadline(), None);
        let mut ended = slow(1);
        ended.note(at(0), 2);
        ended.reset();
        assert_eq!(ended.due(at(1_000)), None);
    }
}
