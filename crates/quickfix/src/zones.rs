//! Translates the time zone names of QuickFIX to those of Transfix.
//!
//! Invariant: an unknown zone stays unchanged: a schedule in another zone would open at other
//! hours.

use transfix_settings::schedule::is_zone;

/// The lines of the list: a name, and the IANA name.
fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("zones.txt").lines();
    lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(" | "))
}

/// Returns the zone's name in Transfix; `None` if the name is unknown.
pub(crate) fn ours(name: &str) -> Option<String> {
    if is_zone(name) {
        return Some(name.to_owned());
    }
    let known = lines().find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, zone)| zone.to_owned()).or_else(|| distance(name))
}

/// Returns the UTC offset of a zone such as `GMT+1`, `GMT-0530` or `UTC+05:30`, in the form
/// `+05:30`.
fn distance(name: &str) -> Option<String> {
    let head = name.get(..3)?;
    let is_utc = ["GMT", "UTC"].iter().any(|utc| head.eq_ignore_ascii_case(utc));
    let sign = name.get(3..4).filter(|sign| is_utc && ["+", "-"].contains(sign))?;
    let rest = &name[4..];
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() > 2 && rest.is_ascii() => rest.split_at(rest.len() - 2),
        None => (rest, "00"),
    };
    let number = |digits: &str, most: usize| {
        let is_number = (1..=most).contains(&digits.len());
        digits.parse::<u8>().ok().filter(|_| is_number && !digits.starts_with('+'))
    };
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2).filter(|_| minutes.len() == 2)?);
    let zone = format!("{sign}{hours:02}:{minutes:02}");
    is_zone(&zone).then_some(zone)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_of_the_list_leads_to_a_zone_that_is_known() {
        let mut names = HashSet::new();
        for (name, zone) in lines() {
            assert!(is_zone(zone), "{name}: {zone}");
            assert!(names.insert(name.to_ascii_lowercase()), "{name} appears twice");
            let expected = if is_zone(name) { name } else { zone };
            assert_eq!(ours(name).as_deref(), Some(expected));
        }
        // All zones of Windows, and the short names of Java.
        assert_eq!(names.len(), 142 + 25);
    }

    #[test]
    fn zones_are_read_as_their_engines_do() {
        for (name, expected) in [
            ("Europe/London", Some("Europe/London")),
            ("UTC", Some("UTC")),
            ("Eastern Standard Time", Some("America/New_York")),
            ("eastern standard time", Some("America/New_York")),
            ("W. Europe Standard Time", Some("Europe/Berlin")),
            ("PST", Some("America/Los_Angeles")),
            ("GMT+1", Some("+01:00")),
            ("GMT-05:30", Some("-05:30")),
            ("GMT+0530", Some("+05:30")),
            ("utc+10", Some("+10:00")),
            ("GMT+1:5", None),
            ("GMT+99", None),
            ("GMT++1", None),
            ("GMT+", None),
            ("GMT+1\u{e9}", None),
            ("Narnia Standard Time", None),
            ("", None),
        ] {
            assert_eq!(ours(name).as_deref(), expected, "{name}");
        }
    }
}
