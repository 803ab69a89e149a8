//! Values that are made when a message is sent: `{id}`, `{now}`, `{date}`, `{n}`, `{last.FIELD}`.

/// Stands where a value is still missing.
pub(super) const MISSING: &str = "?";

/// What values are made of.
pub(super) struct Source<'s> {
    /// The number of the next request, for ClOrdID(11) and other names that nobody else has.
    pub(super) id: u64,
    /// How many messages of the same command were sent before this one.
    pub(super) n: u64,
    /// The time as UTCTimestamp, as exact as the version has it.
    pub(super) now: &'s str,
    /// The value of a field of the message that `expect` has found last.
    pub(super) last: &'s dyn Fn(&str) -> Result<String, String>,
}

/// The value with everything in braces made. Braces of other words stay.
pub(super) fn made(value: &str, source: &Source<'_>) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((word, after)) = behind.split_once('}') else { break };
        text += before;
        match word {
            "id" => text += &source.id.to_string(),
            "n" => text += &source.n.to_string(),
            "now" => text += source.now,
            "date" => text += source.now.get(..8).unwrap_or_default(),
            _ => match word.strip_prefix("last.") {
                Some(field) => text += &(source.last)(field)?,
                None => text += &format!("{{{word}}}"),
            },
        }
        rest = after;
    }
    Ok(text + rest)
}

/// Whether it takes up a number that nobody else gets.
pub(super) fn has_id(value: &str) -> bool {
    value.contains("{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_made_and_others_stay() {
        let last = |field: &str| match field {
            "OrderID" => Ok("V-7".to_owned()),
            other => Err(format!("no {other}")),
        };
        let source = Source { id: 9, n: 2, now: "20261125-07:00:00.125", last: &last };
        for (value, expected) in [
            ("", ""),
            ("plain", "plain"),
            ("c{id}-{n}", "c9-2"),
            ("{now}|{date}", "20261125-07:00:00.125|20261125"),
            ("<{last.OrderID}>", "<V-7>"),
            ("{\"a\": {}}", "{\"a\": {}}"),
            ("open {", "open {"),
            ("{id", "{id"),
        ] {
            assert_eq!(made(value, &source).as_deref(), Ok(expected), "{value}");
        }
        assert_eq!(made("{last.Side}", &source), Err("no Side".to_owned()));
        assert!(has_id("x{id}") && !has_id("{n}"));
    }
}
