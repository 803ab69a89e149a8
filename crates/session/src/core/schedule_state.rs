//! The state of a session's schedule during one period, as a plain value.

use transfix_codec::Timestamp;

/// The state of a schedule, which is valid from `from` until `until`. Outside of this period the
/// executor computes a new state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    pub from: Timestamp,
    pub until: Timestamp,
    /// Start of the open schedule window. Sequence numbers that began earlier must restart at 1.
    pub numbers_from: Option<Timestamp>,
    /// Text(58) with which application messages are rejected, if the schedule does not permit them
    /// now.
    pub refusal: Option<String>,
}

impl ScheduleState {
    /// Creates a state that is never valid, so that the executor computes a new state before its
    /// first use.
    pub const fn unknown() -> Self {
        let never = Timestamp(i64::MAX);
        Self { from: never, until: never, numbers_from: None, refusal: None }
    }

    /// Returns true if the state is valid at `now`. It is invalid after its period has ended, or if
    /// the clock was set back.
    #[inline]
    pub const fn holds(&self, now: Timestamp) -> bool {
        self.from.0 <= now.0 && now.0 < self.until.0
    }

    /// Returns the Text(58) with which application messages are rejected; `None` if the schedule
    /// permits them.
    #[inline]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns true if sequence numbers that began at `since_ns` (nanoseconds since 1970, UTC) must
    /// restart.
    pub fn restarts(&self, since_ns: u64) -> bool {
        let since = Timestamp(i64::try_from(since_ns).unwrap_or(i64::MAX));
        self.numbers_from.is_some_and(|from| since < from)
    }
}
