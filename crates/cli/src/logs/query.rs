//! Which messages are sought, decided from their bytes.
//!
//! Invariant: a glance may take a message that is not sought, and never leaves one out that is.

use memchr::memmem::Finder;
use transfix::{Message, Timestamp, tag};
use transfix_codec::{SOH, raw};

use super::condition::{Condition, Operator, Written, written};
use super::origin::{Origins, WIRE};
use super::quick::Quick;
use super::sources::{Source, Way};
use crate::input::{Dictionaries, Found, Glance, Wanted, msg_types};

/// Conditions of the search; a message must meet all of them.
#[derive(clap::Args, Clone, Debug, Default)]
pub(super) struct Sought {
    /// Only messages with a field that is so: its name or tag, then = != < <= > >= or ~ (contains),
    /// and a value. Numbers and times are compared by what they mean; with several conditions all
    /// must be met. In a group one entry is enough. A message without the field meets none.
    #[arg(long = "where", value_name = "CONDITION", value_parser = written)]
    conditions: Vec<Written>,
    /// Only messages with these bytes anywhere in them.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only messages of this type, such as D or NewOrderSingle; several with commas.
    #[arg(long = "type", value_name = "MSGTYPE", value_delimiter = ',')]
    msg_types: Vec<String>,
    /// Only messages of this session: a CompID, or both as VENUE-DESK.
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Only messages received.
    #[arg(long = "in", conflicts_with = "outbound")]
    inbound: bool,
    /// Only messages sent.
    #[arg(long = "out")]
    outbound: bool,
    /// Only messages from this time on, in UTC, such as 20261121-09:28:25: that of the log's line
    /// or the store's record, else SendingTime(52).
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Only messages up to this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only messages with a MsgSeqNum(34) in this range: 5..9, 5.., ..9 or 5.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seq: Option<Range>,
}

/// The first and the last number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range(u64, Option<u64>);

fn moment(text: &str) -> Result<Timestamp, String> {
    let time = Timestamp::parse(text.as_bytes());
    time.ok_or_else(|| "write a time in UTC as 20261121-09:28:25".to_owned())
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

impl Sought {
    /// # Errors
    /// If messages are left out by what they say: their numbers would look like gaps.
    pub(super) fn check_for_gaps(&self) -> Result<(), String> {
        let Self { conditions, text, msg_types, seq, .. } = self;
        match conditions.is_empty() && text.is_none() && msg_types.is_empty() && seq.is_none() {
            true => Ok(()),
            false => Err("--gaps looks at all messages of a session; leave out --where, --text, \
                          --type and --seq"
                .to_owned()),
        }
    }
}

/// The conditions of the search, with all names looked up.
pub(super) struct Query {
    conditions: Vec<Condition>,
    text: Option<Text>,
    msg_types: Vec<String>,
    msg_type: Quick,
    session: Option<Vec<u8>>,
    way: Option<Way>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    pub(super) origins: Origins,
    /// Messages of which nothing says the direction that is asked for.
    pub(super) without_way: u64,
    /// Messages of which nothing says the time.
    pub(super) without_time: u64,
}

/// Bytes that are sought in messages.
struct Text {
    exact: Finder<'static>,
    /// The same where these stand in place of SOH.
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
    /// Looks up fields and messages.
    ///
    /// # Errors
    /// If a name is none, or a value is none of the field.
    pub(super) fn of(sought: &Sought, dictionaries: &mut Dictionaries) -> Result<Self, String> {
        let conditions = sought.conditions.iter();
        let conditions = conditions.map(|written| Condition::of(written, dictionaries));
        let mut conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        if let Some(Range(first, last)) = sought.seq {
            let bound = |operator, number| Condition::bound(tag::MSG_SEQ_NUM, operator, number);
            conditions.push(bound(Operator::GreaterOrEqual, first));
            conditions.extend(last.map(|last| bound(Operator::LessOrEqual, last)));
        }
        let way = match (sought.inbound, sought.outbound) {
            (true, _) => Some(Way::In),
            (_, true) => Some(Way::Out),
            _ => None,
        };
        Ok(Self {
            conditions,
            text: sought.text.as_deref().map(Text::new),
            msg_types: msg_types(&sought.msg_types, dictionaries)?,
            msg_type: Quick::field(35),
            session: sought.session.clone().map(String::into_bytes),
            way,
            from: sought.from,
            to: sought.to,
            origins: Origins::new(),
            without_way: 0,
            without_time: 0,
        })
    }

    /// Returns true if the user names this type.
    pub(super) fn names_type(&self, msg_type: &[u8]) -> bool {
        self.msg_types.iter().any(|named| named.as_bytes() == msg_type)
    }

    /// Decides by the bytes of a message of a stream, before the message is parsed.
    pub(super) fn glance(&mut self, glance: &Glance<'_>, source: &Source) -> Wanted {
        let Glance { bytes, by, head } = *glance;
        // A wrong sum is damage, or a delimiter within a value: both want a closer look.
        if !is_sum_right(bytes, by) {
            return Wanted::Perhaps;
        }
        let is_wanted = self.takes_type(self.msg_type.value(bytes, by))
            && self.text.as_ref().is_none_or(|text| text.may_be_in(bytes, by))
            && self.conditions.iter().all(|condition| condition.may_hold(bytes, by))
            && self.takes_origin(bytes, by, head, source);
        if is_wanted { Wanted::Perhaps } else { Wanted::No }
    }

    /// Returns true if the message is sought.
    pub(super) fn takes(
        &mut self,
        found: &Found<'_>,
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
            // Text that is no message has only its bytes to search.
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

    /// Returns true if session, direction and time are those that are sought. A message of which
    /// nothing says them is counted.
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

/// Bytes of `10=ddd` and its delimiter.
const TRAILER: usize = 7;

/// Returns true if CheckSum(10) is right if each `by` stands for SOH.
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
