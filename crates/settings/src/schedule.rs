//! Times at which a session may be connected: windows in a time zone, compiled into absolute times.
//!
//! A window opens and closes at local times of one IANA time zone. An [`Interval`] in UTC is
//! computed from the window, so that all other code compares moments without zones.
//!
//! When clocks change, a skipped local time means the time of the change, and a repeated local time
//! means its first occurrence. A window that lies entirely in a skipped time does not open. Windows
//! never overlap: if a change of clocks would make two windows overlap, the later window begins
//! when the earlier one ends.
//!
//! ```
//! use transfix_codec::Timestamp;
//! use transfix_settings::schedule::{Schedule, ScheduleSettings};
//!
//! let settings = ScheduleSettings {
//!     days: Some("mon-fri".to_owned()),
//!     from: Some("08:00".to_owned()),
//!     to: Some("17:00".to_owned()),
//!     ..ScheduleSettings::in_zone("America/New_York")
//! };
//! let schedule = Schedule::new(&settings)?;
//! let saturday = Timestamp::parse(b"20261121-12:00:00").expect("a time");
//! assert_eq!(schedule.at(saturday), None);
//! let next = schedule.next(saturday).expect("a Monday");
//! assert_eq!(next.open.to_string(), "20261123-13:00:00.000000000");
//! # Ok::<(), transfix_settings::schedule::ScheduleError>(())
//! ```

mod cron;
mod holidays;
mod hours;
mod settings;
#[cfg(test)]
mod tests;
mod window;

use std::collections::BTreeSet;
use std::fmt;
use std::iter;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use transfix_codec::Timestamp;

pub use hours::Hours;
pub use settings::{NumbersAtOpening, Outside, ScheduleSettings, WindowSettings};
use window::Window;

use crate::check::Step;

/// More days than a window can be long: a window that opened earlier has closed.
const LONGEST_DAYS: i64 = 8;
/// Days ahead in which the next window is searched.
const HORIZON_DAYS: i64 = 5 * 366;
/// Days that are checked for overlapping windows, from [`TRIED_FROM`] on.
const TRIED_DAYS: usize = 2 * 366;
const TRIED_WINDOWS: usize = 20_000;
/// The maximum number of windows per day, because the session's thread searches them.
const WINDOWS_A_DAY: usize = 500;
const TRIED_FROM: Date = jiff::civil::date(2024, 1, 1);

/// A time during which a session may be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interval {
    /// The time at which the window opens.
    pub open: Timestamp,
    /// The time at which the window closes, which no longer belongs to the period.
    pub close: Timestamp,
}

impl Interval {
    /// Returns true if the time is in the period.
    #[must_use]
    pub fn contains(&self, moment: Timestamp) -> bool {
        self.open <= moment && moment < self.close
    }
}

/// The reason why a schedule is not valid.
#[derive(Clone, PartialEq, Eq)]
pub struct ScheduleError {
    message: String,
    /// The name of the wrong key; empty if the error concerns the whole schedule.
    key: &'static str,
    /// The index of the wrong window, if the schedule has a list of windows.
    window: Option<usize>,
}

impl ScheduleError {
    fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), key: "", window: None }
    }

    /// Sets the key of the error, unless it already has one.
    fn at(self, key: &'static str) -> Self {
        if self.key.is_empty() { Self { key, ..self } } else { self }
    }

    fn in_window(self, n: usize) -> Self {
        Self { window: Some(n), ..self }
    }

    /// Returns the path from the schedule to the error.
    pub(crate) fn path(&self) -> Vec<Step> {
        let window = self.window.into_iter().flat_map(|n| [Step::Key("windows"), Step::Entry(n)]);
        window.chain([Step::Key(self.key)]).collect()
    }
}

impl ScheduleError {
    /// Returns the number of this error, for logs and other languages. The number never changes;
    /// the page "Codes" of the book lists all numbers.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        804
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schedule: {}", self.message)
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ScheduleError {}

/// The windows of one session, ready to be searched.
#[derive(Clone, Debug)]
pub struct Schedule {
    zone: TimeZone,
    /// The name of the zone, as in the settings.
    zone_name: String,
    windows: Vec<Window>,
    holidays: BTreeSet<Date>,
    numbers: NumbersAtOpening,
    outside: Outside,
}

impl Schedule {
    /// Converts the settings to a schedule, and reads the files of holidays that they name.
    ///
    /// # Errors
    /// [`ScheduleError`]: an unknown zone, an invalid time or day, windows that overlap or never
    /// open, or ambiguous combinations.
    pub fn new(settings: &ScheduleSettings) -> Result<Self, ScheduleError> {
        let zone = zone_of(&settings.zone)?;
        let windows = settings.windows()?;
        let holidays = holidays::read(&settings.holidays).map_err(|error| error.at("holidays"))?;
        if !holidays.is_empty() && windows.iter().any(Window::spans_days) {
            return Err(ScheduleError::new(
                "holidays cannot be combined with a window of more than one day, because the \
                 effect of a holiday would be unclear; write one window for each day",
            )
            .at("holidays"));
        }
        let stays = matches!(settings.outside, Outside::Reject(_));
        if stays && settings.numbers == NumbersAtOpening::Restart {
            return Err(ScheduleError::new(
                "outside = { reject = ... } keeps the session connected, so the numbers cannot \
                 restart; write numbers = \"keep\"",
            )
            .at("outside"));
        }
        let (numbers, outside) = (settings.numbers, settings.outside.clone());
        let zone_name = settings.zone.clone();
        let schedule = Self { zone, zone_name, windows, holidays, numbers, outside };
        schedule.check_overlaps()?;
        Ok(schedule)
    }

    /// Returns the period that contains `moment`, or `None` if no window is open then.
    #[must_use]
    pub fn at(&self, moment: Timestamp) -> Option<Interval> {
        self.intervals(moment).next().filter(|interval| interval.contains(moment))
    }

    /// Returns the first interval that opens after `moment`; `None` if there is none within five
    /// years.
    #[must_use]
    pub fn next(&self, moment: Timestamp) -> Option<Interval> {
        self.intervals(moment).find(|interval| interval.open > moment)
    }

    /// Returns the intervals that end after `from`, in order.
    pub fn intervals(&self, from: Timestamp) -> impl Iterator<Item = Interval> + '_ {
        let day = self.local(from).date();
        let first = day.checked_sub(days(LONGEST_DAYS)).unwrap_or(Date::MIN);
        let last = day.checked_add(days(HORIZON_DAYS)).unwrap_or(Date::MAX);
        let all = first.series(days(1)).take_while(move |day| *day <= last);
        let mut end = Timestamp(i64::MIN);
        all.flat_map(|day| self.opening_on(day)).filter_map(move |(open, close)| {
            let open = self.moment(open)?.max(end);
            let close = self.moment(close)?;
            end = end.max(close);
            (open < close && close > from).then_some(Interval { open, close })
        })
    }

    /// Returns what happens to the numbers when a window opens.
    #[must_use]
    pub const fn numbers(&self) -> NumbersAtOpening {
        self.numbers
    }

    /// Returns what happens to the session outside of its windows.
    #[must_use]
    pub const fn outside(&self) -> &Outside {
        &self.outside
    }

    /// Returns `moment` in the local time of the zone: `Mon 2026-11-23 08:00:00 GMT`.
    #[must_use]
    pub fn local_text(&self, moment: Timestamp) -> String {
        instant(moment).to_zoned(self.zone.clone()).strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
    }

    fn local(&self, moment: Timestamp) -> DateTime {
        self.zone.to_datetime(instant(moment))
    }

    /// Returns the name of the zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// Returns the windows that open on `day`, in order. Their times are local.
    fn opening_on(&self, day: Date) -> Vec<(DateTime, DateTime)> {
        if self.holidays.contains(&day) {
            return Vec::new();
        }
        let mut opening: Vec<_> = self.windows.iter().flat_map(|w| w.opening_on(day)).collect();
        opening.sort_unstable();
        opening
    }

    fn moment(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let instant = match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } => {
                // A time that a change of clocks skips means the time of the change.
                let before = ambiguous.earlier().ok()?;
                self.zone.following(before).next()?.timestamp()
            }
            _ => ambiguous.earlier().ok()?,
        };
        i64::try_from(instant.as_nanosecond()).ok().map(Timestamp)
    }

    fn check_overlaps(&self) -> Result<(), ScheduleError> {
        let mut last: Option<(DateTime, DateTime)> = None;
        let (mut day, mut of_day) = (Date::MIN, 0);
        let tried = TRIED_FROM.series(days(1)).take(TRIED_DAYS);
        let windows = tried.flat_map(|day| self.opening_on(day)).take(TRIED_WINDOWS);
        for (open, close) in windows {
            if let Some((before, end)) = last.filter(|(_, end)| *end > open) {
                return Err(ScheduleError::new(format!(
                    "two windows overlap: {before} to {end}, and {open} to {close}"
                )));
            }
            last = Some((open, close));
            of_day = if day == open.date() { of_day + 1 } else { 1 };
            day = open.date();
            if of_day > WINDOWS_A_DAY {
                return Err(ScheduleError::new(format!(
                    "a day has more than {WINDOWS_A_DAY} windows"
                )));
            }
        }
        last.map(|_| ()).ok_or_else(|| ScheduleError::new("the schedule never opens a window"))
    }
}

fn instant(moment: Timestamp) -> jiff::Timestamp {
    let instant = jiff::Timestamp::from_nanosecond(i128::from(moment.0));
    // The fallback is never used, because every 64-bit number of nanoseconds is in the range of
    // jiff.
    instant.unwrap_or(jiff::Timestamp::UNIX_EPOCH)
}

fn days(n: i64) -> jiff::Span {
    jiff::Span::new().days(n)
}

/// Largest offset of a zone from UTC, in hours.
const OFFSET_HOURS_MAX: i8 = 14;

/// Returns the zone of an IANA name, or of a UTC offset such as `+02:00`.
fn zone_of(name: &str) -> Result<TimeZone, ScheduleError> {
    let Some(sign) = name.chars().next().filter(|sign| "+-".contains(*sign)) else {
        return TimeZone::get(name).map_err(|_| unknown_zone(name));
    };
    let wrong = || {
        let what =
            format!("`{name}` is not an offset from UTC; write for example +02:00 or -05:30");
        ScheduleError::new(what).at("zone")
    };
    let two = |digits: &str| {
        let is_plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<i8>().ok().filter(|_| is_plain).ok_or_else(wrong)
    };
    let (hours, minutes) = name[1..].split_once(':').ok_or_else(wrong)?;
    let (hours, minutes) = (two(hours)?, two(minutes)?);
    if minutes > 59 || (hours, minutes) > (OFFSET_HOURS_MAX, 0) {
        return Err(wrong());
    }
    let seconds = (i32::from(hours) * 60 + i32::from(minutes)) * 60;
    let seconds = if sign == '-' { -seconds } else { seconds };
    jiff::tz::Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| wrong())
}

/// Returns the offsets of a zone: a Unix time in seconds, and the seconds that the zone is ahead of
/// UTC from then on. Empty for UTC and for unknown zones.
pub(crate) fn offsets_of(zone: &str) -> Vec<(i64, i32)> {
    /// The years 2000 to 2100. Outside of these years, the nearest of the offsets applies.
    const BETWEEN_S: std::ops::Range<i64> = 946_684_800..4_102_444_800;
    let Some(zone) = zone_of(zone).ok().filter(|_| !zone.is_empty()) else { return Vec::new() };
    let Ok(first) = jiff::Timestamp::from_second(BETWEEN_S.start) else { return Vec::new() };
    let begin = (i64::MIN, zone.to_offset(first).seconds());
    let changes = zone.following(first);
    let changes = changes.map(|one| (one.timestamp().as_second(), one.offset().seconds()));
    iter::once(begin).chain(changes.take_while(|(at, _)| *at < BETWEEN_S.end)).collect()
}

/// Checks that a zone with this name exists. The error suggests the nearest name.
pub(crate) fn check_zone(name: &str) -> Result<(), String> {
    zone_of(name).map(drop).map_err(|error| error.message)
}

/// Returns true if the zone exists.
#[must_use]
pub fn is_zone(name: &str) -> bool {
    zone_of(name).is_ok()
}

fn unknown_zone(name: &str) -> ScheduleError {
    let all: Vec<String> = jiff::tz::db().available().map(|zone| zone.to_string()).collect();
    let similar = |zone: &&String| (strsim::jaro_winkler(name, zone) * 1000.0) as u32;
    let near = all.iter().max_by_key(similar).filter(|zone| similar(zone) > 700);
    let near = near.map(|zone| format!("did you mean `{zone}`?"));
    let forms = "a zone must be an IANA name such as Europe/London, or an offset such as +02:00";
    let near = near.unwrap_or_else(|| forms.to_owned());
    ScheduleError::new(format!("unknown time zone `{name}`; {near}")).at("zone")
}
