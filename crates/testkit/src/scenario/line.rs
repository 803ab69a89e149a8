//! Reads lines of fields such as `35=D|11=a`: messages to send, and patterns for expected messages.

use std::collections::BTreeMap;

use transfix_codec::{Message, Timestamp};

use super::Version;

/// SenderCompID(49) of the session under test in every scenario.
pub(super) const OURS: &str = "US";
/// SenderCompID(49) of the counterparty in every scenario.
pub(super) const THEIRS: &str = "THEM";

const SOH: u8 = 1;
/// The length of a time `YYYYMMDD-HH:MM:SS`. The next constant is the length with milliseconds.
const SECONDS_LEN: usize = 17;
const MILLIS_LEN: usize = 21;

/// The values that replace words in braces, such as `{next}`.
pub(super) struct Words<'a> {
    pub(super) version: Version,
    pub(super) now: Timestamp,
    /// The next MsgSeqNum(34) of the counterparty.
    pub(super) next: u64,
    /// The SendingTime(52) of each message that the session under test has sent for the first time,
    /// by MsgSeqNum(34).
    pub(super) sent: &'a BTreeMap<u64, String>,
}

impl Words<'_> {
    /// Returns `text` with the words in braces replaced by their values.
    pub(super) fn expand(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (word, after) = after.split_once('}').ok_or("a brace is not closed")?;
            out.push_str(before);
            out.push_str(&self.word(word)?);
            rest = after;
        }
        Ok(out + rest)
    }

    fn word(&self, word: &str) -> Result<String, String> {
        let appl = self.version.appl_ver_id().map(|id| id.to_string());
        Ok(match word {
            "begin" => self.version.begin_string().to_owned(),
            "appl" => appl.unwrap_or_default(),
            "us" => OURS.to_owned(),
            "them" => THEIRS.to_owned(),
            "n" => self.next.to_string(),
            "open" => if self.version.is_old() { "999999" } else { "0" }.to_owned(),
            "logon" => match appl {
                Some(id) => format!("98=0|108=30|1137={id}"),
                None => "98=0|108=30".to_owned(),
            },
            "order" if self.version.is_old() => "21=1|55=EUR/USD|54=1|38=100|40=1".to_owned(),
            "order" => format!("21=1|55=EUR/USD|54=1|60={}|38=100|40=1", self.time(0)),
            // The words for BodyLength(9) and CheckSum(10) stay in place, because the values are
            // known only when the frame is complete.
            "length" | "sum" => format!("{{{word}}}"),
            _ => match (word.strip_prefix("time"), word.strip_prefix("sent ")) {
                (Some(""), _) => self.time(0),
                (Some(offset), _) => self.time(seconds(offset)?),
                (_, Some(number)) => {
                    let number: u64 =
                        number.parse().map_err(|_| format!("{number} is no number"))?;
                    self.sent
                        .get(&number)
                        .ok_or_else(|| format!("{number} was never sent"))?
                        .clone()
                }
                _ => return Err(format!("{{{word}}} stands for nothing")),
            },
        })
    }

    fn time(&self, offset_s: i64) -> String {
        let time = Timestamp(self.now.0 + offset_s * 1_000_000_000);
        let digits = if self.version.is_old() { SECONDS_LEN } else { MILLIS_LEN };
        time.to_string()[..digits].to_owned()
    }
}

/// Parses an offset such as `+121s` or `-2h` into seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let units = [("s", 1), ("h", 3_600), ("d", 86_400)];
    let found = units.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?, s)));
    let number = found.and_then(|(number, s)| Some(number.parse::<i64>().ok()? * s));
    number.ok_or_else(|| format!("{text:?} is no time; write +5s, -2h or -1d"))
}

/// A frame that the counterparty sends. Fields of header and trailer are generated unless the line
/// contains them.
pub(super) struct Outgoing {
    /// The MsgSeqNum(34) of the frame, if present and numeric.
    pub(super) number: Option<u64>,
    pub(super) bytes: Vec<u8>,
}

/// Builds the frame of an expanded line. `9=+3` and `10=+1` add the given amount to the right
/// value; `-34` omits a field.
pub(super) fn frame(line: &str, words: &Words<'_>) -> Outgoing {
    let mut fields: Vec<(&str, &str)> = Vec::new();
    let mut omitted = Vec::new();
    for item in line.split('|').filter(|item| !item.is_empty()) {
        match (item.split_once('='), item.strip_prefix('-')) {
            (None, Some(tag)) => omitted.push(tag),
            (Some(field), _) => fields.push(field),
            // An item without `=` is written unchanged.
            (None, None) => fields.push((item, "\0")),
        }
    }
    let mut take = |tag: &str| {
        let at = fields.iter().position(|(known, _)| *known == tag)?;
        Some(fields.remove(at).1.to_owned())
    };
    let (begin, length, sum) = (take("8"), take("9"), take("10"));
    let time = words.time(0);
    let next = words.next.to_string();
    let header = [("35", ""), ("49", THEIRS), ("56", OURS), ("34", &next), ("52", &time)];
    let mut body = Vec::new();
    let mut number = None;
    for (tag, usual) in header {
        let given = take(tag);
        let value = given.as_deref().unwrap_or(usual);
        if omitted.contains(&tag) || (tag == "35" && given.is_none()) {
            continue;
        }
        if tag == "34" {
            number = value.parse().ok();
        }
        put(&mut body, tag, value);
    }
    fields.iter().for_each(|(tag, value)| put(&mut body, tag, value));
    let begin = begin.unwrap_or_else(|| words.version.begin_string().to_owned());
    let mut bytes = Vec::new();
    put(&mut bytes, "8", &begin);
    put(&mut bytes, "9", &shifted(length, body.len() as i64, 1));
    bytes.extend_from_slice(&body);
    let right = i64::from(check_sum(&bytes));
    put(&mut bytes, "10", &shifted(sum, right, 3));
    Outgoing { number, bytes }
}

fn put(bytes: &mut Vec<u8>, tag: &str, value: &str) {
    bytes.extend_from_slice(tag.as_bytes());
    if value != "\0" {
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes.push(SOH);
}

fn shifted(given: Option<String>, right: i64, digits: usize) -> String {
    match given {
        None => format!("{right:0digits$}"),
        Some(text) => match text.strip_prefix('+').unwrap_or(&text).parse::<i64>() {
            Ok(off) if text.starts_with(['+', '-']) && digits == 3 => {
                format!("{:03}", (right + off).rem_euclid(256))
            }
            Ok(off) if text.starts_with(['+', '-']) => (right + off).to_string(),
            _ => text,
        },
    }
}

fn check_sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Returns the bytes of a raw line. `|` stands for SOH, `\r`, `\n` and `\0` stand for these bytes,
/// and `{length}` and `{sum}` for the right BodyLength(9) and CheckSum(10).
pub(super) fn raw(line: &str) -> Vec<u8> {
    let text = line.replace('|', "\x01").replace("\\r", "\r").replace("\\n", "\n");
    let text = text.replace("\\0", "\0");
    let text = match text.split_once("{length}\x01") {
        Some((head, tail)) => {
            let end = tail.rfind("\x0110=").map_or(tail.len(), |at| at + 1);
            format!("{head}{end}\x01{tail}")
        }
        None => text,
    };
    match text.split_once("{sum}") {
        Some((head, tail)) => {
            let sum = check_sum(&head.as_bytes()[..head.len() - 3]);
            format!("{head}{sum:03}{tail}").into_bytes()
        }
        None => text.into_bytes(),
    }
}

/// Returns the first difference between `message` and the expanded `line`. An item of the line is a
/// condition: `35=0` equals, `!58` is absent, `112` is present, `58~low` contains the text, `49!=x`
/// differs, and `52#17` has this length.
pub(super) fn mismatch(line: &str, message: &Message<'_>) -> Option<String> {
    let value = |tag: &str| {
        let found = message.fields().find(|field| field.tag.0.to_string() == tag);
        found.map(|field| String::from_utf8_lossy(field.value).into_owned())
    };
    let shown = |tag: &str| value(tag).map_or("nothing".to_owned(), |value| format!("{value:?}"));
    for item in line.split('|').filter(|item| !item.is_empty()) {
        let (tag, ok) = if let Some(tag) = item.strip_prefix('!') {
            (tag, value(tag).is_none())
        } else if let Some((tag, other)) = item.split_once("!=") {
            (tag, value(tag).is_some_and(|value| value != other))
        } else if let Some((tag, wanted)) = item.split_once('=') {
            (tag, value(tag).as_deref() == Some(wanted))
        } else if let Some((tag, length)) = item.split_once('#') {
            (tag, value(tag).is_some_and(|value| value.len().to_string() == length))
        } else if let Some((tag, part)) = item.split_once('~') {
            (tag, value(tag).is_some_and(|value| value.contains(part)))
        } else {
            (item, value(item).is_some())
        };
        if !ok {
            return Some(format!("expected {item}, but {tag} is {}", shown(tag)));
        }
    }
    None
}

/// Returns the pattern of an expected Reject(3) in this version. Up to FIX 4.1, the pattern has no
/// tag, type or reason. In later versions, the pattern omits a reason that the version does not
/// define.
pub(super) fn reject(line: &str, version: Version) -> String {
    let mut out = String::from("35=3");
    for item in line.split('|').filter(|item| !item.is_empty()) {
        let (tag, value) = item.split_once('=').unwrap_or((item, ""));
        let known = match tag {
            "371" | "372" => !version.is_old(),
            "373" => value.parse().is_ok_and(|reason| version.has_reason(reason)),
            _ => true,
        };
        out.push('|');
        if known {
            out.push_str(item);
        } else {
            out.push('!');
            out.push_str(tag);
        }
    }
    out
}

/// Returns the frame as readable text, with `|` as the delimiter.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text: Vec<u8> = bytes.iter().map(|b| if *b == SOH { b'|' } else { *b }).collect();
    text.escape_ascii().to_string()
}
