//! Times of day as cron expressions. An expression has five fields (minute, hour, day of the month,
//! month, day of the week), or six fields with the second first, as in Quartz.
//!
//! A field is `*` or `?`, a number, a range `8-17`, a step `*/15` or `8-17/3`, or a list of these.
//! Months and days of the week also have names; 0 and 7 are Sunday. If day of the month and day of
//! the week are both restricted, either match is sufficient, as in cron.

use jiff::civil::{Date, DateTime, Time};

use super::ScheduleError;
use super::window::day_number;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// A set of numbers below 64.
type Set = u64;

/// Recurring times of day, given by a cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cron {
    seconds: Set,
    minutes: Set,
    hours: Set,
    days: Option<Set>,
    months: Set,
    /// The days of the week, from Monday = 0; `None` if all days match.
    weekdays: Option<Set>,
}

impl Cron {
    pub(super) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (seconds, fields) = match fields[..] {
            [minute, hour, day, month, weekday] => (None, [minute, hour, day, month, weekday]),
            [second, minute, hour, day, month, weekday] => {
                (Some(second), [minute, hour, day, month, weekday])
            }
            _ => {
                return Err(ScheduleError::new(format!(
                    "`{text}` has {} fields; a cron text has five (minute, hour, day, month, \
                     weekday), or six with the second in front",
                    fields.len()
                )));
            }
        };
        let seconds_first = seconds.is_some();
        let seconds = seconds.unwrap_or("0");
        let [minutes, hours, days, months, weekdays] = fields;
        let number = |text: &str| text.parse().ok();
        let month = |text: &str| {
            let named = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(text));
            named.map(|n| n as u32 + 1).or_else(|| text.parse().ok())
        };
        // Sunday is both 0 and 7, so that a range can end with it.
        let weekday =
            |text: &str| day_number(text).map(|n| n as u32 + 1).or_else(|| text.parse().ok());
        if seconds_first && weekdays.bytes().any(|b| b.is_ascii_digit()) {
            return Err(ScheduleError::new(format!(
                "`{text}`: in six fields write days of the week by name, because Quartz counts \
                 from Sunday = 1 and cron from Sunday = 0"
            )));
        }
        let set = |text, range, number: &dyn Fn(&str) -> Option<u32>| {
            set_of(text, range, number).ok_or_else(|| {
                let (first, last) = range;
                ScheduleError::new(format!(
                    "`{text}` is not a valid cron field from {first} to \
                    {last}"
                ))
            })
        };
        let any = |text: &str| matches!(text, "*" | "?");
        let weekdays_set = set(weekdays, (0, 7), &weekday)?;
        Ok(Self {
            seconds: set(seconds, (0, 59), &number)?,
            minutes: set(minutes, (0, 59), &number)?,
            hours: set(hours, (0, 23), &number)?,
            days: (!any(days)).then_some(set(days, (1, 31), &number)?),
            months: set(months, (1, 12), &month)?,
            weekdays: (!any(weekdays))
                .then_some((weekdays_set >> 1 & 0x7F) | (weekdays_set & 1) << 6),
        })
    }

    /// Returns all times on that day, in order.
    pub(super) fn times_of(&self, day: Date) -> impl Iterator<Item = DateTime> + '_ {
        let first = self.next_on(day, Time::midnight());
        std::iter::successors(first, move |time| self.next_on(day, after(*time)?))
            .map(move |time| day.to_datetime(time))
    }

    /// Returns the first time after `moment`, or `None` if there is none within `within_days` days.
    pub(super) fn next_after(&self, moment: DateTime, within_days: i64) -> Option<DateTime> {
        let today = after(moment.time()).and_then(|from| self.next_on(moment.date(), from));
        if let Some(time) = today {
            return Some(moment.date().to_datetime(time));
        }
        (1..=within_days).find_map(|ahead| {
            let day = moment.date().checked_add(super::days(ahead)).ok()?;
            Some(day.to_datetime(self.next_on(day, Time::midnight())?))
        })
    }

    /// Returns the first time on that day, not before `from`.
    fn next_on(&self, day: Date, from: Time) -> Option<Time> {
        if !self.is_day(day) {
            return None;
        }
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let first = |set, at| next_in(set, at);
        let whole = |h, m, s| Time::new(h, m, s, 0).ok();
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, second)
            {
                return whole(hour, minute, second);
            }
            if let Some(minute) = first(self.minutes, minute + 1) {
                return whole(hour, minute, first(self.seconds, 0)?);
            }
        }
        let hour = first(self.hours, hour + 1)?;
        whole(hour, first(self.minutes, 0)?, first(self.seconds, 0)?)
    }

    fn is_day(&self, day: Date) -> bool {
        let weekday = day.weekday().to_monday_zero_offset();
        let is_day = match (self.days, self.weekdays) {
            (None, None) => true,
            (Some(days), None) => has(days, day.day()),
            (None, Some(weekdays)) => has(weekdays, weekday),
            (Some(days), Some(weekdays)) => has(days, day.day()) || has(weekdays, weekday),
        };
        is_day && has(self.months, day.month())
    }
}

/// Returns the time one second after `time`, or `None` if that is on the next day.
fn after(time: Time) -> Option<Time> {
    time.checked_add(jiff::Span::new().seconds(1)).ok()
}

const fn has(set: Set, n: i8) -> bool {
    set >> n & 1 == 1
}

/// Returns the lowest number in the set that is at least `from`.
const fn next_in(set: Set, from: i8) -> Option<i8> {
    let left = set >> from;
    if left == 0 { None } else { Some(from + left.trailing_zeros() as i8) }
}

fn set_of(
    text: &str,
    (first, last): (u32, u32),
    number: &dyn Fn(&str) -> Option<u32>,
) -> Option<Set> {
    let mut set = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (first, last),
            Some((from, to)) => match (number(from)?, number(to)?) {
                // A range of days of the week may also begin with Sunday.
                (7, to) if last == 7 && to < 7 => (0, to),
                range => range,
            },
            // A number with a step, such as `5/15`, means a range from this number to the end.
            None if part.contains('/') => (number(range)?, last),
            None => (number(range)?, number(range)?),
        };
        if from < first || to > last || from > to {
            return None;
        }
        (from..=to).step_by(step).for_each(|n| set |= 1 << n);
    }
    Some(set)
}
