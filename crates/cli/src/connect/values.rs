//! Placeholders that are replaced when a message is sent: `{id}`, `{now}`, `{date}`, `{n}`,
//! `{sent.FIELD}`, `{last.FIELD}`.

use super::fault::Fault;

/// Value of a field that the user still has to set.
pub(super) const MISSING: &str = "?";

/// Number of base-36 digits of the start time in an identifier. Eight digits hold milliseconds
/// until the year 2059.
const START_DIGITS: usize = 8;

/// Generator of identifiers that are unique across runs. Each identifier is the start time of the
/// run and a number.
#[derive(Debug)]
pub(super) struct Ids {
    start: String,
    next: u64,
}

impl Ids {
    /// Creates the generator of a run that started at `start_ms`, in milliseconds since 1970.
    pub(super) fn new(start_ms: u64) -> Self {
        let (mut left, mut digits) = (start_ms, Vec::new());
        while left > 0 || digits.len() < START_DIGITS {
            digits.extend(char::from_digit((left % 36) as u32, 36));
            left /= 36;
        }
        Self { start: digits.into_iter().rev().collect(), next: 1 }
    }

    /// Returns the identifier for the next message, without marking it as used.
    pub(super) fn next(&self) -> String {
        // The start time has a fixed number of digits, so different pairs of start time and number
        // give different identifiers.
        format!("{}{}", self.start, self.next)
    }

    /// Marks the current identifier as used.
    pub(super) fn given(&mut self) {
        self.next += 1;
    }
}

/// Function that returns the value of a field, given its name or tag.
pub(super) type Lookup<'s> = dyn Fn(&str) -> Result<String, Fault> + 's;

/// Values that replace the placeholders in one message.
pub(super) struct Source<'s> {
    /// Value of `{id}`: a new identifier for ClOrdID(11) and other fields.
    pub(super) id: String,
    /// Value of `{n}`: the number of messages that the same command has already sent.
    pub(super) n: u64,
    /// Value of `{now}`: the current time as UTCTimestamp, in the precision of the session.
    pub(super) now: &'s str,
    /// Reads a field of the last sent message.
    pub(super) sent: &'s Lookup<'s>,
    /// Reads a field of the last message that `expect` found.
    pub(super) last: &'s Lookup<'s>,
}

/// Replaces the placeholders in a value. Other text in braces stays unchanged.
pub(super) fn made(value: &str, source: &Source<'_>) -> Result<String, Fault> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((word, after)) = behind.split_once('}') else { break };
        text += before;
        match (word, word.split_once('.')) {
            ("id", _) => text += &source.id,
            ("n", _) => text += &source.n.to_string(),
            ("now", _) => text += source.now,
            ("date", _) => text += source.now.get(..8).unwrap_or_default(),
            (_, Some(("sent", field))) => text += &(source.sent)(field)?,
            (_, Some(("last", field))) => text += &(source.last)(field)?,
            _ => text += &format!("{{{word}}}"),
        }
        rest = after;
    }
    Ok(text + rest)
}

/// Returns true if the value contains `{id}`.
pub(super) fn has_id(value: &str) -> bool {
    value.contains("{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_made_and_others_stay() {
        let sent = |field: &str| Ok(format!("sent {field}"));
        let last = |field: &str| match field {
            "OrderID" => Ok("V-7".to_owned()),
            other => Err(Fault::Wrong(format!("no {other}"))),
        };
        let now = "20261125-07:00:00.125";
        let source = Source { id: "a9".to_owned(), n: 2, now, sent: &sent, last: &last };
        for (value, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("c{id}-{n}", "ca9-2"),
            ("{now}|{date}", "20261125-07:00:00.125|20261125"),
            ("<{last.OrderID}>{sent.11}", "<V-7>sent 11"),
            ("{\"a\": {}}", "{\"a\": {}}"),
            ("{other.field}", "{other.field}"),
            ("open {", "open {"),
            ("{id", "{id"),
        ] {
            assert_eq!(made(value, &source).as_deref(), Ok(expected), "{value}");
        }
        assert_eq!(made("{last.Side}", &source), Err(Fault::Wrong("no Side".to_owned())));
        assert!(has_id("x{id}") && !has_id("{n}"));
    }

    #[test]
    fn names_are_those_of_one_run() {
        let mut ids = Ids::new(1_795_597_449_123);
        assert_eq!(ids.next(), "mwvwcyw31");
        ids.given();
        assert_eq!(ids.next(), "mwvwcyw32");
        assert_eq!(Ids::new(1_795_597_449_124).next(), "mwvwcyw41", "a millisecond later");
        assert_eq!(Ids::new(0).next(), "000000001", "a clock that has not been set");
    }
}
