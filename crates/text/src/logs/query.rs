//! Selection of messages: a quick check of the raw bytes, and an exact check of the parsed message.
//!
//! Invariant: the quick check may accept a message that does not match, but never rejects a match.

use memchr::memmem::Finder;
use transfix_codec::{Message, SOH, Timestamp, raw, tag};

use super::condition::{Condition, Operator};
use super::origin::{Origins, WIRE};
use super::quick::Quick;
use super::report::{Report, count};
use super::sources::{Direction, Source};
use crate::input::{InputMessage, MessageView, Wanted};

/// The criteria of a search, all of which a message must meet.
#[derive(Clone, Debug, Default)]
pub struct SearchFilter {
    /// Conditions on fields. If a field occurs several times, one matching value suffices. A
    /// message without the field does not meet the condition.
    pub conditions: Vec<Condition>,
    /// Text that may occur anywhere in the message.
    pub text: Option<String>,
    /// Accepted values of MsgType(35); an empty list accepts all types.
    pub msg_types: Vec<String>,
    /// The session: one CompID, or both CompIDs such as `VENUE-DESK`.
    pub session: Option<String>,
    /// The direction.
    pub way: Option<Direction>,
    /// The earliest accepted time. The time of a message is that of the log line or store record;
    /// without one, SendingTime(52) counts.
    pub from: Option<Timestamp>,
    /// The latest accepted time.
    pub to: Option<Timestamp>,
    /// The first and last accepted MsgSeqNum(34); without a last number, the range is open.
    pub seq: Option<(u64, Option<u64>)>,
}

/// A search filter, compiled for fast checks of messages.
#[derive(Debug)]
pub struct Query {
    conditions: Vec<Condition>,
    text: Option<Text>,
    msg_types: Vec<String>,
    msg_type: Quick,
    session: Option<Vec<u8>>,
    way: Option<Direction>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    pub(super) origins: Origins,
    /// Number of messages skipped because their direction is unknown.
    pub(super) without_way: u64,
    /// Number of messages skipped because their time is unknown.
    pub(super) without_time: u64,
}

/// Finders for a text in messages, one for each form of the delimiter.
#[derive(Debug)]
struct Text {
    exact: Finder<'static>,
    /// Finds the same text with `|` in place of SOH. The next field does so with `;`.
    pipe: Finder<'static>,
    semicolon: Finder<'static>,
}

impl Text {
    fn new(text: &str) -> Self {
        let with = |by| {
            let bytes = text.bytes().map(|b| if b == SOH { by } else { b });
            Finder::new(&bytes.collect::<Vec<_>>()).into_owned()
        };
        Self { exact: with(SOH), pipe: with(b'|'), semicolon: with(b';') }
    }

    fn may_be_in(&self, bytes: &[u8], by: u8) -> bool {
        let finder = match by {
            SOH => &self.exact,
            b'|' => &self.pipe,
            _ => &self.semicolon,
        };
        finder.find(bytes).is_some()
    }
}

impl Query {
    /// Compiles a search filter.
    #[must_use]
    pub fn new(sought: SearchFilter) -> Self {
        let SearchFilter { mut conditions, text, msg_types, session, way, from, to, seq } = sought;
        if let Some((first, last)) = seq {
            let bound = |operator, number| Condition::bound(tag::MSG_SEQ_NUM, operator, number);
            conditions.push(bound(Operator::GreaterOrEqual, first));
            conditions.extend(last.map(|last| bound(Operator::LessOrEqual, last)));
        }
        Self {
            conditions,
            text: text.as_deref().map(Text::new),
            msg_types,
            msg_type: Quick::field(35),
            session: session.map(String::into_bytes),
            way,
            from,
            to,
            origins: Origins::new(),
            without_way: 0,
            without_time: 0,
        }
    }

    /// Reports the number of messages skipped because direction or time is unknown.
    pub(super) fn tell(&self, report: &mut Report) {
        let mut note = |messages: u64, text: &str| {
            if messages > 0 {
                let messages = count(messages, "message");
                report.note(format!("{messages} left out: {text}"));
            }
        };
        note(self.without_way, "neither the log nor its name shows the direction");
        note(self.without_time, "neither the log nor SendingTime(52) shows the time");
    }

    /// Returns true if the query explicitly lists this message type.
    pub(super) fn names_type(&self, msg_type: &[u8]) -> bool {
        self.msg_types.iter().any(|named| named.as_bytes() == msg_type)
    }

    /// Checks the raw bytes of a message in a stream, before the message is parsed.
    pub(super) fn glance(&mut self, glance: &MessageView<'_>, source: &Source) -> Wanted {
        let MessageView { bytes, by, head } = *glance;
        // A wrong CheckSum(10) indicates damage, or a delimiter within a value; both cases need the
        // full check.
        if !is_sum_right(bytes, by) {
            return Wanted::Perhaps;
        }
        let is_wanted = self.takes_type(self.msg_type.value(bytes, by))
            && self.text.as_ref().is_none_or(|text| text.may_be_in(bytes, by))
            && self.conditions.iter().all(|condition| condition.may_hold(bytes, by))
            && self.takes_origin(bytes, by, head, source);
        if is_wanted { Wanted::Perhaps } else { Wanted::No }
    }

    /// Returns true if the message meets all criteria of the query.
    pub(super) fn takes(
        &mut self,
        found: &InputMessage<'_>,
        message: Option<&Message<'_>>,
        source: &Source,
    ) -> bool {
        let bytes = found.bytes;
        let msg_type = match message {
            Some(message) => Some(message.msg_type().as_bytes()),
            None => self.msg_type.value(bytes, WIRE),
        };
        let is_met = |condition: &Condition| match message {
            Some(message) => message.all(condition.tag).any(|value| condition.holds(value)),
            // If the message cannot be parsed, the condition is checked on the raw bytes.
            None => condition.may_hold(bytes, WIRE),
        };
        self.takes_type(msg_type)
            && self.text.as_ref().is_none_or(|text| text.exact.find(bytes).is_some())
            && self.conditions.iter().all(is_met)
            && self.takes_origin(bytes, WIRE, found.head.as_bytes(), source)
    }

    fn takes_type(&self, msg_type: Option<&[u8]>) -> bool {
        let is_it = |wanted: &String| Some(wanted.as_bytes()) == msg_type;
        self.msg_types.is_empty() || self.msg_types.iter().any(is_it)
    }

    /// Returns true if the session, direction and time of the message match the query.
    ///
    /// If the query needs a direction or time that the message lacks, the message is counted and
    /// rejected.
    fn takes_origin(&mut self, bytes: &[u8], by: u8, head: &[u8], source: &Source) -> bool {
        let Self { origins, session, .. } = &*self;
        if session.as_ref().is_some_and(|session| !origins.ends(bytes, by).is_of(session)) {
            return false;
        }
        if let Some(wanted) = self.way {
            match self.origins.way(bytes, by, head, source) {
                Some(way) if way == wanted => {}
                Some(_) => return false,
                None => {
                    self.without_way += 1;
                    return false;
                }
            }
        }
        if self.from.is_none() && self.to.is_none() {
            return true;
        }
        let Some(time) = self.origins.time(bytes, by, head) else {
            self.without_time += 1;
            return false;
        };
        self.from.is_none_or(|from| from <= time) && self.to.is_none_or(|to| time <= to)
    }
}

/// Length of the final field `10=ddd` with its delimiter, in bytes.
const TRAILER: usize = 7;

/// Returns true if CheckSum(10) is correct after each delimiter byte `by` is replaced by SOH.
pub(super) fn is_sum_right(bytes: &[u8], by: u8) -> bool {
    let (summed, trailer) = bytes.split_at(bytes.len() - TRAILER);
    let sum = raw::check_sum(summed);
    if by == SOH {
        return sum == trailer[3..6];
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |n, b| n * 10 + usize::from(b - b'0'));
    let each = usize::from(by - SOH);
    let count = memchr::memchr_iter(by, summed).count();
    (number(&trailer[3..6]) + count * each) % 256 == number(&sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_with_each_delimiter() {
        let wire = b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01";
        for by in *b"\x01|;" {
            let mut bytes = wire.map(|b| if b == SOH { by } else { b });
            assert!(is_sum_right(&bytes, by));
            bytes[16] = b'9';
            assert!(!is_sum_right(&bytes, by));
        }
    }
}
