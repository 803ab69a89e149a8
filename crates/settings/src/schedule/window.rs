//! A window of a schedule, in local times.

use jiff::civil::{Date, DateTime, Time, Weekday};

use super::cron::Cron;
use super::{ScheduleError, WindowSettings};

/// Names of the days, Monday first.
pub(super) const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
/// The number of days after an opening in which a closing given by a cron expression is searched.
const CRON_DAYS_MAX: i64 = 7;

/// The times at which a window opens and closes.
#[derive(Clone, Debug)]
pub(super) enum Window {
    /// The window opens on each of these days, Monday first.
    Days {
        days: [bool; 7],
        from: Time,
        to: Time,
    },
    /// The window opens once a week.
    Week {
        from: (Weekday, Time),
        to: (Weekday, Time),
    },
    Cron {
        open: Cron,
        close: Cron,
    },
}

impl Window {
    pub(super) fn new(settings: &WindowSettings) -> Result<Self, ScheduleError> {
        let WindowSettings { days, from, to, open, close } = settings;
        match (days, from, to, open, close) {
            (None, None, None, Some(open), Some(close)) => {
                let open = Cron::parse(open).map_err(|error| error.at("open"))?;
                let close = Cron::parse(close).map_err(|error| error.at("close"))?;
                Ok(Self::Cron { open, close })
            }
            (days, Some(from), Some(to), None, None) => Self::between(days.as_deref(), from, to),
            (_, from, to, None, None) => Err(missing(["from", "to"], [from, to])),
            (None, None, None, ..) => Err(missing(["open", "close"], [open, close])),
            _ => Err(ScheduleError::new(
                "a window needs either from and to (with optional days), or open and close in \
                 cron form, not a mixture",
            )),
        }
    }

    fn between(days: Option<&str>, from: &str, to: &str) -> Result<Self, ScheduleError> {
        let open = day_and_time(from).map_err(|error| error.at("from"))?;
        let close = day_and_time(to).map_err(|error| error.at("to"))?;
        match (open, close, days) {
            ((None, from), (None, to), days) => Ok(Self::Days {
                days: days.map_or(Ok([true; 7]), days_of).map_err(|error| error.at("days"))?,
                from,
                to,
            }),
            ((Some(open), from), (Some(close), to), None) => {
                Ok(Self::Week { from: (open, from), to: (close, to) })
            }
            ((Some(_), _), (Some(_), _), Some(_)) => Err(ScheduleError::new(
                "days cannot be combined with days in from and to; remove days, or write from and \
                 to without a day",
            )
            .at("days")),
            ((Some(_), _), (None, _), _) => Err(without_day(("to", to), ("from", from))),
            ((None, _), (Some(_), _), _) => Err(without_day(("from", from), ("to", to))),
        }
    }

    /// Returns true if the window may be longer than a day.
    pub(super) const fn spans_days(&self) -> bool {
        matches!(self, Self::Week { .. })
    }

    /// Returns the windows that open on that day, as pairs of opening and closing.
    pub(super) fn opening_on(&self, day: Date) -> Vec<(DateTime, DateTime)> {
        match self {
            Self::Days { days, from, to } => {
                if !days[usize::from(day.weekday().to_monday_zero_offset().unsigned_abs())] {
                    return Vec::new();
                }
                let last = if to > from { Some(day) } else { day.tomorrow().ok() };
                pair(day.to_datetime(*from), last.map(|last| last.to_datetime(*to)))
            }
            Self::Week { from, to } => {
                if day.weekday() != from.0 {
                    return Vec::new();
                }
                let ahead = i64::from(from.0.until(to.0));
                let ahead = if ahead == 0 && to.1 <= from.1 { 7 } else { ahead };
                let last = day.checked_add(super::days(ahead)).ok();
                pair(day.to_datetime(from.1), last.map(|last| last.to_datetime(to.1)))
            }
            Self::Cron { open, close } => {
                let closed = |open| pair(open, close.next_after(open, CRON_DAYS_MAX));
                open.times_of(day).flat_map(closed).collect()
            }
        }
    }
}

/// Returns the error about a pair of keys of which one or both are missing. The error concerns the
/// window, because a wrong key may have been removed in the search for further errors.
fn missing([first, second]: [&str; 2], values: [&Option<String>; 2]) -> ScheduleError {
    let (missing, there) = match values {
        [Some(_), _] => (second, first),
        [_, Some(_)] => (first, second),
        _ => return ScheduleError::new(format!("a window needs both {first} and {second}")),
    };
    ScheduleError::new(format!("`{missing}` is missing: `{there}` requires this key"))
}

/// Returns the error about a time without a day, while the other time of the window has one.
fn without_day(
    (key, value): (&'static str, &str),
    (other, with_day): (&str, &str),
) -> ScheduleError {
    ScheduleError::new(format!(
        "{key} = \"{value}\" has no day, but {other} = \"{with_day}\" has one: write a day in \
         both or in neither"
    ))
    .at(key)
}

fn pair(open: DateTime, close: Option<DateTime>) -> Vec<(DateTime, DateTime)> {
    close.map(|close| (open, close)).into_iter().collect()
}

/// Parses a time such as `17:00` or `17:00:30`, which may have a day before it.
fn day_and_time(text: &str) -> Result<(Option<Weekday>, Time), ScheduleError> {
    let wrong = || {
        ScheduleError::new(format!("`{text}` is not a time; write 17:00, 17:00:30, or fri 17:00"))
    };
    let (day, time) = match text.split_once(' ') {
        Some((day, time)) => (Some(day_of(day)?), time.trim()),
        None => (None, text),
    };
    let parts: Vec<&str> = time.split(':').collect();
    let is_number = |part: &&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    if !(2..=3).contains(&parts.len()) || !parts.iter().all(is_number) {
        return Err(wrong());
    }
    let number = |n: usize| parts.get(n).map_or(Ok(0), |part| part.parse::<i8>());
    let (hour, minute, second) = (number(0), number(1), number(2));
    let (Ok(hour), Ok(minute), Ok(second)) = (hour, minute, second) else { return Err(wrong()) };
    let time = Time::new(hour, minute, second, 0).map_err(|_| wrong())?;
    Ok((day, time))
}

/// Returns the number of a day of the week, from Monday = 0. The first three letters of its name
/// suffice.
pub(super) fn day_number(text: &str) -> Option<usize> {
    const WHOLE: [&str; 7] =
        ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let text = text.trim().to_ascii_lowercase();
    WHOLE.iter().position(|day| text.len() >= 3 && day.starts_with(&text))
}

fn day_of(text: &str) -> Result<Weekday, ScheduleError> {
    let number = day_number(text).and_then(|n| Weekday::from_monday_zero_offset(n as i8).ok());
    number.ok_or_else(|| {
        ScheduleError::new(format!("`{text}` is not a day; write one of {}", DAYS.join(", ")))
    })
}

/// Parses days such as `mon-fri`, `mon,wed`, `sat-sun,wed`.
fn days_of(text: &str) -> Result<[bool; 7], ScheduleError> {
    let number = |text: &str| Ok(day_of(text)?.to_monday_zero_offset().unsigned_abs());
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (number(first)?, number(last)?);
        loop {
            days[usize::from(day)] = true;
            if day == last {
                break;
            }
            day = (day + 1) % 7;
        }
    }
    Ok(days)
}
