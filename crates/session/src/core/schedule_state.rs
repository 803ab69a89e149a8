//! The state of a session's schedule between two moments, as a plain value.

use transfix_codec::Timestamp;

/// The state of a schedule from `from` until `until`. Outside of them it must be looked up again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleState {
    pub from: Timestamp,
    pub until: Timestamp,
    /// Numbers that began before this moment begin again: the open window has opened then.
    pub numbers_from: Option<Timestamp>,
    /// Text(58) of the answer to application messages, if they are not taken.
    pub refusal: Option<String>,
}

impl ScheduleState {
    /// Says nothing of any moment: it must be looked up first.
    pub const fn unknown() -> Self {
        let never = Timestamp(i64::MAX);
        Self { from: never, until: never, numbers_from: None, refusal: None }
    }

    /// Returns true if it says something of `now`; if not, the clock has gone on, or was set back.
    #[inline]
    pub const fn holds(&self, now: Timestamp) -> bool {
        self.from.0 <= now.0 && now.0 < self.until.0
    }

    /// The answer to application messages, if they are not taken.
    #[inline]
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Returns true if numbers that began at `since_ns` (UTC, since 1970) must begin again.
    pub fn restarts(&self, since_ns: u64) -> bool {
        let since = Timestamp(i64::try_from(since_ns).unwrap_or(i64::MAX));
        self.numbers_from.is_some_and(|from| since < from)
    }
}
