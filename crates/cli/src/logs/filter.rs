//! Options of `transfix logs` that select messages.

use std::str::FromStr as _;

use transfix::Timestamp;
use transfix_text::logs::{self, Condition, ConditionText, Direction, Query};

use crate::input::{Dictionaries, msg_types};

/// Conditions of the search; a message must meet all conditions.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct SearchFilter {
    /// Only messages with a field that meets this condition: name or tag, then = != < <= > >= or ~
    /// (contains), then a value. Numbers and times are compared by value. A message must meet all
    /// conditions. In a group, one entry is enough. A message without the field never meets the
    /// condition.
    #[arg(long = "where", value_name = "CONDITION", value_parser = ConditionText::from_str)]
    conditions: Vec<ConditionText>,
    /// Only messages that contain this text.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only messages of this type, such as D or NewOrderSingle; several with commas.
    #[arg(long = "type", value_name = "MSGTYPE", value_delimiter = ',')]
    msg_types: Vec<String>,
    /// Only messages of this session: one CompID, or both CompIDs as VENUE-DESK.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only messages received.
    #[arg(long = "in", conflicts_with = "outbound")]
    inbound: bool,
    /// Only messages sent.
    #[arg(long = "out")]
    outbound: bool,
    /// Only messages from this time on, in UTC, such as 20261121-09:28:25. The time of a message is
    /// that of its log line or store record, otherwise SendingTime(52).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Only messages up to this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only messages with a MsgSeqNum(34) in this range: 5..9, 5.., ..9 or 5.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seq: Option<Range>,
}

/// First and last MsgSeqNum(34) of the range, both included; without a last number, the range has
/// no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range(u64, Option<u64>);

fn moment(text: &str) -> Result<Timestamp, String> {
    let time = Timestamp::parse(text.as_bytes());
    time.ok_or_else(|| "write a time in UTC, such as 20261121-09:28:25".to_owned())
}

fn range(text: &str) -> Result<Range, String> {
    let number =
        |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
    let found = match text.split_once("..") {
        Some((first, last)) => number(first).zip(number(last)),
        None => text.parse().ok().map(|one| (Some(one), Some(one))),
    };
    match found {
        Some((first, last)) if first.is_some() || last.is_some() => {
            Ok(Range(first.unwrap_or(0), last))
        }
        _ => Err("write numbers as 5..9, 5.., ..9 or 5".to_owned()),
    }
}

impl SearchFilter {
    /// Builds the query from the options. Field and message names are looked up in the
    /// dictionaries.
    ///
    /// # Errors
    /// Returns an error if a name is unknown or a value is invalid for its field.
    pub(super) fn query(&self, dictionaries: &mut Dictionaries) -> Result<Query, String> {
        let condition = |written| Condition::of(written, dictionaries);
        let conditions = self.conditions.iter().map(condition).collect::<Result<_, _>>();
        let way = match (self.inbound, self.outbound) {
            (true, _) => Some(Direction::In),
            (_, true) => Some(Direction::Out),
            _ => None,
        };
        Ok(Query::new(logs::SearchFilter {
            conditions: conditions.map_err(|error| format!("--where: {error}"))?,
            text: self.text.clone(),
            msg_types: msg_types(&self.msg_types, dictionaries)?,
            session: self.session.clone(),
            way,
            from: self.from,
            to: self.to,
            seq: self.seq.map(|Range(first, last)| (first, last)),
        }))
    }

    /// Returns an error if an option excludes messages of a session, because a search for gaps
    /// needs all of them.
    ///
    /// # Errors
    /// Returns an error if an option excludes messages by content, because they would look like
    /// gaps.
    pub(super) fn check_for_gaps(&self) -> Result<(), String> {
        let Self { conditions, text, msg_types, seq, .. } = self;
        match conditions.is_empty() && text.is_none() && msg_types.is_empty() && seq.is_none() {
            true => Ok(()),
            false => Err("--gaps needs all messages of a session; remove --where, --text, --type \
                          and --seq"
                .to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, expected) in [
            ("5..9", Some(Range(5, Some(9)))),
            ("5..", Some(Range(5, None))),
            ("..9", Some(Range(0, Some(9)))),
            ("5", Some(Range(5, Some(5)))),
            ("..", None),
            ("", None),
            ("a..b", None),
            ("5-9", None),
        ] {
            assert_eq!(range(text).ok(), expected, "{text}");
        }
    }
}
