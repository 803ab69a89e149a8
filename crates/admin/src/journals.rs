//! Reads messages from a session's store, and lines from the audit file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use transfix::{Durability, Message, SessionDictionaries, SessionSettings, Tag, Timestamp, clock};
use transfix_codec::{CheckSumPolicy, FieldIndex};
use transfix_store::StoreError;
use transfix_store::journal::{self, Direction, Entry, Event};

use crate::access::Access;
use crate::answer::{Named, Refusal, Wanted};
use crate::app::{App, in_place};
use crate::order::Order;
use crate::shown::moment;

/// Maximum number of messages in one answer.
const MESSAGES_MAX: usize = 1_000;
/// Time limit of a search, in nanoseconds; the answer contains the messages found within it.
const SEARCH_NS: u64 = 5_000_000_000;
/// Number of bytes that are read at the end of the audit file.
const AUDIT_TAIL: u64 = 1 << 20;

/// The criteria of a search for messages, as the query string states them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Search {
    /// Direction of the messages: `in` or `out`.
    direction: Option<String>,
    seq_from: Option<u64>,
    seq_to: Option<u64>,
    msg_type: Option<String>,
    /// `TAG=VALUE`.
    field: Option<String>,
    text: Option<String>,
    /// ClOrdID(11), OrigClOrdID(41) or OrderID(37) of an order; the search then finds all messages
    /// of the order.
    order: Option<String>,
    limit: Option<usize>,
    /// True to show each message also with the names from the dictionary.
    names: bool,
}

pub(crate) async fn messages(
    State(app): State<Arc<App>>,
    access: Access,
    Named(id): Named<String>,
    Wanted(search): Wanted<Search>,
) -> Result<Json<Answer>, Refusal> {
    let handle = app.session(&id)?;
    if handle.settings().store.durability == Durability::Memory {
        return Err(Refusal::not_found(format!(
            "{id} keeps its messages only in memory, so they \
            cannot be searched"
        )));
    }
    let wanted = Compiled::of(search)?;
    let place = app.limits.search(&access.name).await?;
    let found = in_place(place, move || wanted.search(handle.settings())).await?;
    found.map(Json).map_err(|error| Refusal::failed(error.to_string()))
}

/// The result of a search.
#[derive(Serialize)]
pub(crate) struct Answer {
    messages: Vec<Shown>,
    /// True if the search read all necessary entries within the time limit.
    whole: bool,
    keeps_inbound: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Shown {
    Note {
        at: String,
        note: String,
    },
    Message {
        at: String,
        direction: &'static str,
        seq: u64,
        msg_type: String,
        text: String,
        /// The message as JSON with the names from the dictionary, its fields in their original
        /// order.
        names: Option<Box<RawValue>>,
    },
}

/// The validated criteria of a search.
struct Compiled {
    search: Search,
    direction: Option<Direction>,
    field: Option<(Tag, Vec<u8>)>,
}

impl Compiled {
    fn of(search: Search) -> Result<Self, Refusal> {
        let direction = match search.direction.as_deref() {
            None | Some("") => None,
            Some("in") => Some(Direction::Inbound),
            Some("out") => Some(Direction::Outbound),
            Some(other) => {
                return Err(Refusal::bad(format!(
                    "direction must be `in` or `out`, not `{other}`"
                )));
            }
        };
        let field = match search.field.as_deref() {
            None | Some("") => None,
            Some(field) => {
                let found = field.split_once('=').and_then(|(tag, value)| {
                    Some((Tag(tag.parse().ok()?), value.as_bytes().to_vec()))
                });
                let why = || Refusal::bad(format!("field must be TAG=VALUE, not `{field}`"));
                Some(found.ok_or_else(why)?)
            }
        };
        Ok(Self { search, direction, field })
    }

    /// Returns the last matching messages, with the journal's notes between them. The newest
    /// segments are read first, so that the last messages of a long journal are found quickly.
    fn search(&self, settings: &SessionSettings) -> Result<Answer, StoreError> {
        let until_ns = clock::monotonic_ns() + SEARCH_NS;
        let limit = self.search.limit.unwrap_or(100).clamp(1, MESSAGES_MAX);
        let segments = journal::segments(&settings.store_path())?;
        let mut index = FieldIndex::default();
        let mut order = self.search.order.as_deref().filter(|id| !id.is_empty()).map(Order::of);
        let mut is_whole = match &mut order {
            Some(order) => order.complete(&segments, until_ns, &mut index)?,
            None => true,
        };
        let (mut parts, mut left) = (Vec::new(), limit);
        for path in segments.iter().rev() {
            let mut part: VecDeque<(u64, Found)> = VecDeque::new();
            is_whole &= each_entry(path, until_ns, |entry| {
                let found = self.found(entry.event, order.as_ref(), &mut index);
                let Some(found) = found else { return };
                if part.len() == left {
                    part.pop_front();
                }
                part.push_back((entry.time_ns, found));
            })?;
            left -= part.len();
            parts.push(part);
            if left == 0 || clock::monotonic_ns() > until_ns {
                break;
            }
        }
        is_whole &= left == 0 || parts.len() == segments.len();
        let found = parts.iter().rev().flatten();
        let mut names = self.search.names.then(|| Names::of(settings)).flatten();
        let mask = settings.mask();
        let messages = found.map(|(time_ns, event)| {
            let at = moment(Timestamp(i64::try_from(*time_ns).unwrap_or(i64::MAX)));
            match event {
                Found::Note(note) => Shown::Note { at, note: note.clone() },
                Found::Message(direction, message) => {
                    let bytes = mask.message(&message.bytes);
                    Shown::Message {
                        at,
                        direction: match direction {
                            Direction::Inbound => "in",
                            Direction::Outbound => "out",
                        },
                        seq: message.seq,
                        msg_type: msg_type(&bytes),
                        text: String::from_utf8_lossy(&bytes).replace('\x01', "|"),
                        names: names.as_mut().and_then(|names| names.of_message(&bytes)),
                    }
                }
            }
        });
        let messages = messages.collect();
        Ok(Answer { messages, whole: is_whole, keeps_inbound: settings.store.keep_inbound })
    }

    fn found(&self, event: Event, order: Option<&Order>, index: &mut FieldIndex) -> Option<Found> {
        let (direction, message) = match event {
            Event::Inbound(message) => (Direction::Inbound, message),
            Event::Outbound(message) => (Direction::Outbound, message),
            Event::Reset if self.is_open() => return Some(Found::Note("reset".to_owned())),
            Event::Note(text) if self.is_open() => return Some(Found::Note(text)),
            _ => return None,
        };
        let Search { seq_from, seq_to, msg_type: wanted, text, .. } = &self.search;
        let is_in = seq_from.is_none_or(|from| message.seq >= from)
            && seq_to.is_none_or(|to| message.seq <= to)
            && self.direction.is_none_or(|wanted| wanted == direction)
            && text.as_ref().is_none_or(|text| holds(&message.bytes, text.as_bytes()));
        let wanted = wanted.as_ref().filter(|wanted| !wanted.is_empty());
        let is_in = is_in && wanted.is_none_or(|wanted| msg_type(&message.bytes) == *wanted);
        let is_in = is_in
            && self.field.as_ref().is_none_or(|(tag, value)| {
                let parsed = Message::parse(&message.bytes, index, CheckSumPolicy::Ignore);
                parsed.is_ok_and(|m| m.fields().any(|f| f.tag == *tag && f.value == &**value))
            });
        let is_in = is_in && order.is_none_or(|order| order.has(&message.bytes, index));
        is_in.then_some(Found::Message(direction, message))
    }

    /// Returns true if the search is restricted by sequence numbers at most; its result then
    /// includes the journal's notes.
    const fn is_open(&self) -> bool {
        self.direction.is_none()
            && self.field.is_none()
            && self.search.text.is_none()
            && self.search.order.is_none()
            && self.search.msg_type.is_none()
    }
}

/// Calls `look` for each entry of a segment until the time limit. Returns true if the time sufficed
/// for all entries.
pub(crate) fn each_entry(
    path: &Path,
    until_ns: u64,
    mut look: impl FnMut(Entry),
) -> Result<bool, StoreError> {
    let entries = match journal::read_file(path) {
        Ok(entries) => entries,
        // Retention may have removed the segment since the directory was read.
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(true);
        }
        Err(error) => return Err(error),
    };
    for (n, entry) in entries.enumerate() {
        if n % 1_024 == 1_023 && clock::monotonic_ns() > until_ns {
            return Ok(false);
        }
        look(entry?);
    }
    Ok(true)
}

enum Found {
    Message(Direction, journal::Message),
    Note(String),
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}

/// Returns MsgType(35), the third field of a message.
fn msg_type(frame: &[u8]) -> String {
    let field = frame.split(|byte| *byte == 1).nth(2).unwrap_or_default();
    let value = field.strip_prefix(b"35=").unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Formats messages with the names from the dictionaries of a session.
struct Names {
    dictionaries: SessionDictionaries,
    index: FieldIndex,
}

impl Names {
    fn of(settings: &SessionSettings) -> Option<Self> {
        let dictionaries = settings.dictionaries().ok()?;
        Some(Self { index: dictionaries.index(), dictionaries })
    }

    fn of_message(&mut self, frame: &[u8]) -> Option<Box<RawValue>> {
        let message = Message::parse(frame, &mut self.index, CheckSumPolicy::Ignore).ok()?;
        let [session, application] = self.dictionaries.of_message(&message);
        let mut text = String::new();
        let mut writer = transfix_text::json::Writer::named(session, application);
        // Writing to a `String` never fails.
        let _ = writer.write(&message, &mut text);
        RawValue::from_string(text).ok()
    }
}

/// Returns the last lines of the audit file, at most `limit`.
pub(crate) fn last_lines(path: &Path, limit: usize) -> io::Result<Vec<Value>> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(AUDIT_TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(AUDIT_TAIL).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // If the read starts inside the file, the first line may be incomplete.
    let lines = text.lines().skip(usize::from(start > 0)).collect::<Vec<_>>();
    let lines = lines.iter().rev().take(limit);
    let mut lines: Vec<_> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    lines.reverse();
    Ok(lines)
}
