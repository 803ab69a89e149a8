//! Hours of a session: StartTime, EndTime and what belongs to them, as a schedule of ours.

use super::keys::quoted;
use super::session::Session;
use super::{Dialect, Fate};
use crate::schedule::{Schedule, ScheduleSettings};

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

/// The zone of a host, which is not known here.
const OF_HOST: &str = "the zone is that of the host, which this file does not name: write it in \
                       place of UTC";

/// Writes `schedule`.
pub(super) fn carry_over(session: &mut Session<'_>) {
    match found(session) {
        Ok(None) => {
            let says = "no schedule: the session may be connected at any time";
            tell(session, Fate::Mapped, "", says);
        }
        Ok(Some((hours, fate, says))) => {
            let becomes = format!("schedule = {}", hours.text());
            match Schedule::new(&hours.settings()) {
                Ok(_) => {
                    session.set("schedule", hours.text());
                    tell(session, fate, &becomes, says);
                }
                Err(error) => {
                    let says = format!("{error}; without a schedule the session is always open");
                    tell(session, Fate::NotCarriedOver, "", &says);
                }
            }
        }
        Err(says) => tell(session, Fate::NotCarriedOver, "", &says),
    }
}

/// Says it of all keys about hours; of the session, if it has none.
fn tell(session: &mut Session<'_>, fate: Fate, becomes: &str, says: &str) {
    let there: Vec<_> = KEYS.into_iter().filter(|key| session.has(key)).collect();
    for key in &there {
        session.tell(key, fate, becomes, says);
    }
    if there.is_empty() {
        session.tell_of_session(fate, becomes, says);
    }
}

/// A window as it is written.
struct Hours {
    zone: String,
    days: Option<String>,
    from: String,
    to: String,
}

impl Hours {
    fn text(&self) -> String {
        let days = self.days.iter().map(|days| format!("days = {}, ", quoted(days)));
        let (zone, from, to) = (quoted(&self.zone), quoted(&self.from), quoted(&self.to));
        format!("{{ zone = {zone}, {}from = {from}, to = {to} }}", days.collect::<String>())
    }

    fn settings(&self) -> ScheduleSettings {
        ScheduleSettings {
            days: self.days.clone(),
            from: Some(self.from.clone()),
            to: Some(self.to.clone()),
            ..ScheduleSettings::in_zone(&self.zone)
        }
    }
}

type Found = Option<(Hours, Fate, &'static str)>;

fn found(session: &Session<'_>) -> Result<Found, String> {
    if session.is_yes("NonStopSession") {
        return Ok(None);
    }
    let text = |key: &str| session.value(key).unwrap_or_default().to_owned();
    let (start, end) = (text("StartTime"), text("EndTime"));
    if start.is_empty() && end.is_empty() {
        return match session.dialect {
            Dialect::Go => Ok(None),
            dialect => Err(format!(
                "{dialect} does not start without StartTime and EndTime, or NonStopSession; here \
                 the session is always open"
            )),
        };
    }
    if start.is_empty() || end.is_empty() {
        return Err("StartTime and EndTime belong together".to_owned());
    }
    let (mut from, zone_from) = with_zone(session.dialect, &start);
    let (mut to, zone_to) = with_zone(session.dialect, &end);
    if zone_from != zone_to {
        return Err("StartTime and EndTime are in different zones".to_owned());
    }
    let (mut fate, mut says) = (Fate::Honoured, "");
    let is_weekly = session.has("StartDay") || session.has("EndDay");
    if session.has("LogonTime") || session.has("LogoutTime") {
        if is_weekly {
            return Err("a logon window of a day within a week: write `windows`".to_owned());
        }
        from = session.value("LogonTime").unwrap_or(&from).to_owned();
        to = session.value("LogoutTime").unwrap_or(&to).to_owned();
        (fate, says) = (
            Fate::Mapped,
            "the window is that of LogonTime and LogoutTime, and numbers \
                                       restart when it opens",
        );
    }
    if is_weekly {
        from = format!("{} {from}", day(&text("StartDay"))?);
        to = format!("{} {to}", day(&text("EndDay"))?);
    } else if from == to {
        (fate, says) = (
            Fate::Mapped,
            "where a window ends as the next one opens, the session logs \
                                       out and connects again",
        );
    }
    let mut days = None;
    if let Some(weekdays) = session.value("Weekdays") {
        let all: Result<Vec<_>, _> = weekdays.split(',').map(day).collect();
        days = Some(all?.join(","));
    }
    let of_host = session.is_yes("UseLocalTime") || session.value("TimeZone") == Some("Local");
    let zone = match zone_from {
        _ if of_host => "UTC",
        Some(zone) => zone,
        None => session.value("TimeZone").unwrap_or("UTC"),
    };
    if of_host {
        (fate, says) = (Fate::Dangerous, OF_HOST);
    }
    Ok(Some((Hours { zone: zone.to_owned(), days, from, to }, fate, says)))
}

/// QuickFIX/J may have a zone behind the time.
fn with_zone(dialect: Dialect, text: &str) -> (String, Option<&str>) {
    match text.split_once(' ').filter(|_| dialect == Dialect::Java) {
        Some((time, zone)) => (time.to_owned(), Some(zone.trim())),
        None => (text.to_owned(), None),
    }
}

/// `sun` for `Sunday`, `SU` and what else QuickFIX takes.
fn day(text: &str) -> Result<&'static str, String> {
    const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
    let lower = text.trim().to_ascii_lowercase();
    let is_it = |day: &&&str| lower.get(..2).is_some_and(|start| day.starts_with(start));
    DAYS.iter().find(is_it).copied().ok_or_else(|| format!("`{text}` is no day of the week"))
}
