//! The state of a session in its schedule, computed once per window.

use transfix_codec::Timestamp;
use transfix_session::Now;
use transfix_session::core::schedule_state::ScheduleState;

use super::{Interval, NumbersAtOpening, Outside, Schedule};

/// The interval, in nanoseconds, at which the wall clock is checked, because it may have been set.
const LOOK_AGAIN_NS: u64 = 60_000_000_000;

/// A schedule and its last computed state.
#[derive(Clone, Debug)]
pub struct Hours {
    schedule: Schedule,
    /// The open window, as of the computed state; `None` if none is open.
    open: Option<Interval>,
    state: ScheduleState,
}

impl Hours {
    /// Returns the schedule with no computed state.
    #[must_use]
    pub const fn new(schedule: Schedule) -> Self {
        Self { schedule, open: None, state: ScheduleState::unknown() }
    }

    /// Returns the state of the schedule at `now`. Computes it only if the last one is no longer
    /// valid.
    #[inline]
    pub fn state(&mut self, now: Timestamp) -> &ScheduleState {
        if !self.state.holds(now) {
            self.open = self.schedule.at(now);
            self.state = match self.open {
                Some(window) => self.inside(window),
                None => self.outside(now),
            };
        }
        &self.state
    }

    fn inside(&self, window: Interval) -> ScheduleState {
        let restarts = self.schedule.numbers() == NumbersAtOpening::Restart;
        ScheduleState {
            from: window.open,
            until: window.close,
            numbers_from: restarts.then_some(window.open),
            refusal: None,
        }
    }

    fn outside(&self, now: Timestamp) -> ScheduleState {
        let next = self.schedule.next(now);
        let refusal = match self.schedule.outside() {
            Outside::Disconnect => None,
            Outside::Reject(text) => Some(text.clone()),
        };
        let until = next.map_or(Timestamp(i64::MAX), |next| next.open);
        ScheduleState { from: now, until, numbers_from: None, refusal }
    }

    /// Returns the window that is open at `now`, if there is one.
    #[inline]
    pub fn at(&mut self, now: Timestamp) -> Option<Interval> {
        self.state(now);
        self.open
    }

    /// Returns true if the session stays connected outside of its windows.
    #[must_use]
    #[inline]
    pub fn stays(&self) -> bool {
        *self.schedule.outside() != Outside::Disconnect
    }

    /// Returns true if the session may be connected at `now`.
    #[inline]
    pub fn may_connect(&mut self, now: Timestamp) -> bool {
        self.stays() || self.at(now).is_some()
    }

    /// Returns the monotonic time, in nanoseconds, at which the schedule must be checked again at
    /// the latest.
    #[inline]
    pub fn look_again(&mut self, now: Now) -> u64 {
        let until = self.state(now.utc).until;
        let left = u64::try_from(until.0.saturating_sub(now.utc.0)).unwrap_or(0);
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
    fn a_state_holds_from_its_moment_until_the_next_edge() {
        let mut hours = hours(|_| ());
        assert!(!ScheduleState::unknown().holds(moment("20261120-12:00:00")));
        let closed = hours.state(moment("20261120-17:30:00")).clone();
        let open = hours.state(moment("20261120-12:00:00")).clone();
        for (at, is_open, is_closed) in [
            ("20261120-07:59:59", false, false),
            ("20261120-08:00:00", true, false),
            ("20261120-16:59:59", true, false),
            ("20261120-17:00:00", false, false),
            ("20261120-17:30:00", false, true),
            ("20261121-07:59:59", false, true),
            ("20261121-08:00:00", false, false),
        ] {
            assert_eq!((open.holds(moment(at)), closed.holds(moment(at))), (is_open, is_closed));
        }
    }

    #[test]
    fn numbers_begin_again_once_a_window() {
        let mut hours = hours(|_| ());
        let since = |text: &str| moment(text).0.unsigned_abs();
        let now = moment("20261120-09:00:00");
        assert!(hours.state(now).restarts(since("20261119-08:00:00")));
        assert!(!hours.state(now).restarts(since("20261120-08:00:00")));
        let later = hours.state(moment("20261120-18:00:00"));
        assert!(!later.restarts(since("20261119-08:00:00")));
    }

    #[test]
    fn messages_outside_are_refused_with_the_text() {
        let mut hours = hours(|settings| {
            settings.outside = Outside::Reject("closed".to_owned());
            settings.numbers = NumbersAtOpening::Keep;
        });
        assert_eq!(hours.state(moment("20261120-17:00:00")).refusal(), Some("closed"));
        assert_eq!(hours.state(moment("20261120-16:00:00")).refusal(), None);
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
