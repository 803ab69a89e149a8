//! Where a session stands in its schedule, looked up once a window.

use transfix_codec::Timestamp;
use transfix_session::Now;

use super::{Interval, NumbersAtOpening, Outside, Schedule};

/// How long the wall clock is trusted not to have been set.
const LOOK_AGAIN_NS: u64 = 60_000_000_000;

/// A schedule and the part of it that was looked up last.
#[derive(Clone, Debug)]
pub(crate) struct Hours {
    schedule: Schedule,
    /// The open window, if there is one.
    open: Option<Interval>,
    /// From and until when that holds.
    from: Timestamp,
    until: Timestamp,
}

impl Hours {
    pub(crate) const fn new(schedule: Schedule) -> Self {
        let never = Timestamp(i64::MAX);
        Self { schedule, open: None, from: never, until: never }
    }

    /// The window that is open at `now`.
    pub(crate) fn at(&mut self, now: Timestamp) -> Option<Interval> {
        if now < self.from || now >= self.until {
            self.open = self.schedule.at(now);
            let next = || self.schedule.next(now).map_or(Timestamp(i64::MAX), |next| next.open);
            (self.from, self.until) =
                self.open.map_or_else(|| (now, next()), |open| (open.open, open.close));
        }
        self.open
    }

    /// Whether the session stays connected outside of its windows.
    pub(crate) fn stays(&self) -> bool {
        *self.schedule.outside() != Outside::Disconnect
    }

    /// Whether the session may be connected at `now`.
    pub(crate) fn may_connect(&mut self, now: Timestamp) -> bool {
        self.stays() || self.at(now).is_some()
    }

    /// What application messages are answered with at `now`, if they are not taken.
    pub(crate) fn refusal(&mut self, now: Timestamp) -> Option<&str> {
        if self.at(now).is_some() {
            return None;
        }
        match self.schedule.outside() {
            Outside::Disconnect => None,
            Outside::Reject(text) => Some(text),
        }
    }

    /// Whether numbers that began at `since_ns` (UTC, since 1970) must begin again at `now`.
    pub(crate) fn restarts(&mut self, now: Timestamp, since_ns: u64) -> bool {
        let since = Timestamp(i64::try_from(since_ns).unwrap_or(i64::MAX));
        self.schedule.numbers() == NumbersAtOpening::Restart
            && self.at(now).is_some_and(|window| since < window.open)
    }

    /// When to look again at the latest, on the monotonic clock in nanoseconds.
    pub(crate) fn look_again(&mut self, now: Now) -> u64 {
        self.at(now.utc);
        let left = u64::try_from(self.until.0.saturating_sub(now.utc.0)).unwrap_or(0);
        now.monotonic_ns.saturating_add(left.min(LOOK_AGAIN_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScheduleSettings;

    fn moment(text: &str) -> Timestamp {
        Timestamp::parse(text.as_bytes()).unwrap()
    }

    fn hours(change: impl FnOnce(&mut ScheduleSettings)) -> Hours {
        let mut settings = ScheduleSettings::in_zone("UTC");
        settings.from = Some("08:00".to_owned());
        settings.to = Some("17:00".to_owned());
        change(&mut settings);
        Hours::new(Schedule::new(&settings).unwrap())
    }

    #[test]
    fn follows_the_clock_both_ways() {
        let mut hours = hours(|_| ());
        for (at, open) in [("07:59:59", false), ("08:00:00", true), ("16:59:59", true)] {
            assert_eq!(hours.may_connect(moment(&format!("20261120-{at}"))), open, "{at}");
        }
        assert!(!hours.may_connect(moment("20261120-17:00:00")));
        assert!(hours.may_connect(moment("20261121-08:00:00")));
        assert!(hours.may_connect(moment("20261120-12:00:00")), "the clock was set back");
        assert!(!hours.may_connect(moment("20261120-07:00:00")));
    }

    #[test]
    fn numbers_begin_again_once_a_window() {
        let mut hours = hours(|_| ());
        let since = |text: &str| moment(text).0.unsigned_abs();
        let now = moment("20261120-09:00:00");
        assert!(hours.restarts(now, since("20261119-08:00:00")));
        assert!(!hours.restarts(now, since("20261120-08:00:00")));
        assert!(!hours.restarts(moment("20261120-18:00:00"), since("20261119-08:00:00")));
    }

    #[test]
    fn messages_outside_are_refused_with_the_text() {
        let mut hours = hours(|settings| {
            settings.outside = Outside::Reject("closed".to_owned());
            settings.numbers = NumbersAtOpening::Keep;
        });
        assert_eq!(hours.refusal(moment("20261120-17:00:00")), Some("closed"));
        assert_eq!(hours.refusal(moment("20261120-16:00:00")), None);
        assert!(hours.may_connect(moment("20261120-17:00:00")));
    }

    #[test]
    fn looks_again_at_the_edge_or_after_a_minute() {
        let mut hours = hours(|_| ());
        let now = |text| Now { utc: moment(text), monotonic_ns: 5 };
        assert_eq!(hours.look_again(now("20261120-07:59:50")), 5 + 10_000_000_000);
        assert_eq!(hours.look_again(now("20261120-06:00:00")), 5 + LOOK_AGAIN_NS);
    }
}
