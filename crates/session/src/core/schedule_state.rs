//! The state of a session's schedule for a period, as a plain value.

use transfix_codec::Timestamp;

/// The state of a schedule from `from` until `until`. The executor updates the state outside of
/// this period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    pub from: Timestamp,
    pub until: Timestamp,
    /// Start of the open window: numbers that began before this moment restart.
    pub numbers_from: Option<Timestamp>,
    /// Text(58) of the rejection of application messages, while the schedule refuses them.
    pub refusal: Option<String>,
}

impl ScheduleState {
    /// Creates a state that is valid at no moment, and must be updated first.
    pub const fn unknown() -> Self {
        let never = Timestamp(i64::MAX);
        Self { from: never, until: never, numbers_from: None, refusal: None }
    }

    /// Returns true if the state is valid at `now`. Otherwise the period has ended, or the clock
    /// was set back.
    #[inline]
    pub const fn holds(&self, now: Timestamp) -> bool {
        self.from.0 <= now.0 && now.0 < self.until.0
    }

    /// Returns the text of the rejection of application messages, while the schedule refuses them.
    #[inline]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns true if numbers that began at `since_ns` (UTC, since 1970) must restart.
    pub fn restarts(&self, since_ns: u64) -> bool {
        let since = Timestamp(i64::try_from(since_ns).unwrap_or(i64::MAX));
        self.numbers_from.is_some_and(|from| since < from)
    }
}
