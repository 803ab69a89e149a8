//! Migrates the hours of a session, such as StartTime and EndTime, to a schedule.

use transfix_settings::schedule::{Schedule, ScheduleSettings};

use crate::keys::quoted;
use crate::session::Session;
use crate::{Dialect, Fate, zones};

/// All keys about hours.
const KEYS: [&str; 12] = [
    "StartTime",
    "EndTime",
    "StartDay",
    "EndDay",
    "Weekdays",
    "TimeZone",
    "UseLocalTime",
    "NonStopSession",
    "LogonTime",
    "LogoutTime",
    "LogonDay",
    "LogoutDay",
];

/// Pairs of keys that have a meaning only together.
const PAIRS: [[&str; 2]; 3] =
    [["StartTime", "EndTime"], ["StartDay", "EndDay"], ["LogonDay", "LogoutDay"]];

/// A placeholder for a value that only the operator knows.
const UNKNOWN: &str = "?";

/// Writes `schedule`.
pub(crate) fn carry_over(session: &mut Session<'_>) {
    let hours = match found(session) {
        Ok(None) => {
            let says = "the file has no schedule: the session may be connected at any time";
            return tell(session, Fate::Mapped, "", says);
        }
        Ok(Some(hours)) => hours,
        Err(says) => return tell(session, Fate::NotCarriedOver, "", &says),
    };
    let error = Schedule::new(&hours.settings()).err().map(|error| error.to_string());
    match hours.wrong.clone().or(error) {
        None => {
            let becomes = format!("schedule = {}", hours.text());
            session.set("schedule", hours.text());
            tell(session, hours.fate, &becomes, &hours.says);
        }
        Some(why) => {
            let says = format!("{why}; the engine does not start until `schedule` is corrected");
            tell(session, Fate::NotCarriedOver, "", &says);
            session.set_undecided("schedule", hours.text());
        }
    }
}

/// Reports the same finding for all keys about hours, or for the session if it has none.
fn tell(session: &mut Session<'_>, fate: Fate, becomes: &str, says: &str) {
    let there: Vec<_> = KEYS.into_iter().filter(|key| session.has(key)).collect();
    for key in &there {
        session.tell(key, fate, becomes, says);
    }
    if there.is_empty() {
        session.tell_of_session(fate, becomes, says);
    }
}

/// The window of a schedule, as it will be written.
struct Hours {
    zone: String,
    days: Option<String>,
    from: String,
    to: String,
    /// The result for the keys about hours.
    fate: Fate,
    says: String,
    /// The reason why the operator must decide, because the file does not determine the window.
    wrong: Option<String>,
}

impl Hours {
    fn text(&self) -> String {
        let Self { zone, days, from, to, .. } = self;
        // Omits an unknown time, so that the error of the settings names its key.
        let time = |time| Some(time).filter(|time| *time != UNKNOWN);
        let keys = [("days", days.as_ref()), ("from", time(from)), ("to", time(to))];
        let keys = keys.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let keys = keys.map(|(key, value)| format!(", {key} = {}", quoted(value)));
        format!("{{ zone = {}{} }}", quoted(zone), keys.collect::<String>())
    }

    fn settings(&self) -> ScheduleSettings {
        ScheduleSettings {
            days: self.days.clone(),
            from: Some(self.from.clone()),
            to: Some(self.to.clone()),
            ..ScheduleSettings::in_zone(&self.zone)
        }
    }

    /// Notes the reason why the operator must decide; only the first one is kept.
    fn doubt(&mut self, why: impl Into<String>) {
        self.wrong.get_or_insert_with(|| why.into());
    }

    /// Notes a difference between the window and the file.
    fn differs(&mut self, says: &str) {
        self.fate = Fate::Mapped;
        let semicolon = if self.says.is_empty() { "" } else { "; " };
        self.says += &format!("{semicolon}{says}");
    }
}

fn found(session: &Session<'_>) -> Result<Option<Hours>, String> {
    if session.is_yes("NonStopSession") {
        return Ok(None);
    }
    let text = |key: &str| session.value(key).unwrap_or_default().to_owned();
    let (start, end) = (text("StartTime"), text("EndTime"));
    if start.is_empty() && end.is_empty() {
        return match session.dialect {
            Dialect::Go => Ok(None),
            dialect => Err(format!(
                "{dialect} does not start without StartTime and EndTime, or NonStopSession; in \
                 Transfix this session is always open"
            )),
        };
    }
    let (from, zone_from) = with_zone(session.dialect, &start);
    let (to, zone_to) = with_zone(session.dialect, &end);
    let (fate, says) = (Fate::Honoured, String::new());
    let zone = String::new();
    let mut hours = Hours { zone, days: None, from, to, fate, says, wrong: None };
    for [first, second] in PAIRS {
        let is_there = |key| session.value(key).is_some_and(|value| !value.is_empty());
        let (there, missing) = match (is_there(first), is_there(second)) {
            (true, false) => (first, second),
            (false, true) => (second, first),
            _ => continue,
        };
        hours.doubt(format!("{}; set both keys, or remove {there}", session.missing(missing)));
    }
    for time in [&mut hours.from, &mut hours.to].into_iter().filter(|time| time.is_empty()) {
        UNKNOWN.clone_into(time);
    }
    days(session, &mut hours);
    zone_of(session, &mut hours, (zone_from, zone_to));
    Ok(Some(hours))
}

/// Reads the days of the window, and the times of the logon.
fn days(session: &Session<'_>, hours: &mut Hours) {
    let has_any = |keys: &[&str]| keys.iter().any(|key| session.has(key));
    let is_weekly = has_any(&["StartDay", "EndDay"]);
    if has_any(&["LogonTime", "LogoutTime", "LogonDay", "LogoutDay"]) {
        if is_weekly || has_any(&["LogonDay", "LogoutDay"]) {
            hours.doubt(
                "the file sets a daily logon window within a weekly session; write \
                         `windows`",
            );
            UNKNOWN.clone_into(&mut hours.from);
        } else {
            let time = |key: &str, other: &str| session.value(key).unwrap_or(other).to_owned();
            hours.from = time("LogonTime", &hours.from);
            hours.to = time("LogoutTime", &hours.to);
            hours.differs(
                "the window runs from LogonTime to LogoutTime, and sequence numbers restart when \
                 the window opens",
            );
        }
    }
    if is_weekly {
        let (mut from, mut to) = (hours.from.clone(), hours.to.clone());
        for (key, time) in [("StartDay", &mut from), ("EndDay", &mut to)] {
            // The missing day was already reported.
            let Some(text) = session.value(key).filter(|text| !text.is_empty()) else { continue };
            let day = day(text).unwrap_or_else(|why| {
                hours.doubt(why);
                UNKNOWN
            });
            *time = format!("{day} {time}");
        }
        (hours.from, hours.to) = (from, to);
    } else if hours.from == hours.to {
        hours.differs(
            "if a window ends when the next one opens, the session logs out and connects again",
        );
    }
    if let Some(weekdays) = session.value("Weekdays") {
        let all: Result<Vec<_>, _> = weekdays.split(',').map(day).collect();
        match all {
            Ok(all) => hours.days = Some(all.join(",")),
            Err(why) => {
                hours.doubt(why);
                hours.days = Some(UNKNOWN.to_owned());
            }
        }
    }
}

/// Returns the time zone of the window, which is given after its times or for the session.
fn zone_of(
    session: &Session<'_>,
    hours: &mut Hours,
    (zone_from, zone_to): (Option<&str>, Option<&str>),
) {
    UNKNOWN.clone_into(&mut hours.zone);
    if zone_from != zone_to {
        return hours.doubt("StartTime and EndTime have different time zones");
    }
    if session.is_yes("UseLocalTime") || session.value("TimeZone") == Some("Local") {
        return hours.doubt(
            "the schedule uses the time zone of the host, which the file does not \
                            name",
        );
    }
    let name = zone_from.or_else(|| session.value("TimeZone")).unwrap_or("UTC");
    match zones::ours(name) {
        Some(zone) => {
            if zone != name {
                hours.differs(&format!("{name} is {zone} here"));
            }
            hours.zone = zone;
        }
        // An unknown zone stays as it is, because the schedule reports the error.
        None => name.clone_into(&mut hours.zone),
    }
}

/// Splits a time of QuickFIX/J into the time and the zone that may follow it.
fn with_zone(dialect: Dialect, text: &str) -> (String, Option<&str>) {
    match text.split_once(' ').filter(|_| dialect == Dialect::Java) {
        Some((time, zone)) => (time.to_owned(), Some(zone.trim())),
        None => (text.to_owned(), None),
    }
}

/// Returns the day's name in Transfix, such as `sun` for `Sunday`, `SU` and other names in
/// QuickFIX.
fn day(text: &str) -> Result<&'static str, String> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let lower = text.trim().to_ascii_lowercase();
    let is_it = |day: &&&str| lower.get(..2).is_some_and(|start| day.starts_with(start));
    DAYS.iter().find(is_it).copied().ok_or_else(|| format!("`{text}` is not a day of the week"))
}
