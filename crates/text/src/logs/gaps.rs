//! Analyzes sequence numbers: gaps, repetitions, and the messages that explain them.
//!
//! Invariants: numbers are compared within one log and one direction, identified by sender and
//! target CompID, so the analysis need not know the owner of the log. An event whose message is in
//! two logs is reported once.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash, Hasher};

use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, Message, SOH, Tag, Timestamp, tag};

use super::numbers::{Numbers, Step};
use super::origin::WIRE;
use super::query::{Query, is_sum_right};
use super::quick::Quick;
use super::report::{Report, count};
use super::sources::{Direction, Source};
use super::{Reader, each};
use crate::input::{
    Delimiter, Failure, InputError, InputMessage, MessageView, Place, Sink, Wanted, covered, parse,
};

/// The maximum number of lines (each for one direction of a session in one log), and the maximum
/// number of events.
const LINES_MAX: usize = 100_000;
const EVENTS_MAX: usize = 1_000_000;

/// The overall result of the gap analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every sequence number was received.
    Complete,
    /// At least one sequence number is missing.
    Missing,
    /// No message was found, so the result is unknown.
    Unknown,
}

/// An event in the sequence numbers, such as a gap or a repetition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The time of the event according to the log, if known.
    pub time: Option<Timestamp>,
    /// The session name, which begins with the own side if known.
    pub session: String,
    /// The direction of the messages, if known.
    pub way: Option<Direction>,
    /// The description of the event, such as `gap 5..9 (5), came later`.
    pub what: String,
}

/// The sequence numbers of one direction of a session in one log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionNumbers {
    /// The session name, which begins with the own side if known.
    pub session: String,
    /// The direction of the messages, if known.
    pub way: Option<Direction>,
    /// The number of messages.
    pub messages: u64,
    /// The first and the last sequence number; `None` without messages.
    pub range: Option<(u64, u64)>,
    /// The number of sequence numbers that were never received.
    pub missing: u64,
    /// The name of the log, without the suffix that rolling adds.
    pub log: String,
}

/// The result of the gap analysis for all sessions.
#[derive(Debug)]
#[non_exhaustive]
pub struct GapsFound {
    /// The events, ordered by time.
    pub findings: Vec<Finding>,
    /// The directions of all sessions, in the order of the logs.
    pub sessions: Vec<SessionNumbers>,
    /// The overall result of the analysis.
    pub verdict: Verdict,
    /// The report.
    pub report: Report,
}

/// The analysis of sequence numbers, which reads sources and collects events.
#[derive(Debug)]
pub struct Gaps {
    lines: Vec<Line>,
    /// The index of the line to which the last message belongs.
    last: usize,
    /// The indexes of the lines, by log, version and CompIDs.
    places: HashMap<Vec<u8>, usize>,
    events: Vec<Event>,
    left_out: u64,
    query: Query,
    report: Report,
    source: Source,
    msg_seq_num: Quick,
    poss_dup: Quick,
    msg_type: Quick,
    mask: Option<Mask>,
    index: FieldIndex,
}

/// The messages from one CompID to another in one log.
#[derive(Debug)]
struct Line {
    log: String,
    begin_string: Vec<u8>,
    sender: Vec<u8>,
    target: Vec<u8>,
    way: Option<Direction>,
    numbers: Numbers,
    /// The index of the last repetition event, and the number that would extend it.
    resent: Option<(usize, u64)>,
    /// The time of a reset record in the store, which is kept until the next message.
    restarted: Option<Option<Timestamp>>,
}

/// An event, which becomes a row of the result table.
#[derive(Debug)]
struct Event {
    time: Option<Timestamp>,
    line: usize,
    /// The hash of the message that shows the event. `None` if a store record without a message
    /// shows the event.
    shown_by: Option<u64>,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A gap: missing sequence numbers, and how many of them were received later.
    Gap {
        first: u64,
        last: u64,
        filled: u64,
    },
    /// Sequence numbers that were repeated with PossDupFlag(43)=Y.
    Resent {
        first: u64,
        last: u64,
    },
    Text(String),
}

impl Gaps {
    /// Creates an analysis of the sessions that the query selects.
    ///
    /// The content of `index` does not matter; the buffer is only reused.
    #[must_use]
    pub fn new(query: Query, index: FieldIndex, mask: Option<Mask>, report: Report) -> Self {
        let [msg_seq_num, poss_dup, msg_type] = [34, 43, 35].map(Quick::field);
        Self {
            lines: Vec::new(),
            last: 0,
            places: HashMap::new(),
            events: Vec::new(),
            left_out: 0,
            query,
            report,
            source: Source::new("-".as_ref()),
            msg_seq_num,
            poss_dup,
            msg_type,
            mask,
            index,
        }
    }

    /// Reads these sources. An unreadable source is reported, and the other sources are still read.
    ///
    /// # Errors
    /// Currently none: read errors are in the report.
    pub fn read(
        &mut self,
        sources: &[Source],
        delimiter: Option<Delimiter>,
    ) -> Result<(), Failure> {
        each(sources, delimiter, self)?;
        self.query.tell(&mut self.report);
        Ok(())
    }

    /// Returns the overall result.
    ///
    /// A sequence number counts as received if its message, a repetition, or a SequenceReset(4)
    /// that fills the gap was received. Without any message, the result is `Unknown`.
    fn verdict(&self) -> Verdict {
        let has_all = |line: &Line| line.numbers.missing == 0;
        match self.lines.is_empty() {
            true => Verdict::Unknown,
            false if self.left_out == 0 && self.lines.iter().all(has_all) => Verdict::Complete,
            false => Verdict::Missing,
        }
    }

    /// Returns the result of the analysis.
    #[must_use]
    pub fn finish(mut self) -> GapsFound {
        let verdict = self.verdict();
        if verdict == Verdict::Unknown {
            let note = "the log has no message to examine, so gaps cannot be found";
            self.report.note(note.to_owned());
        }
        for line in 0..self.lines.len() {
            self.tell_of_restart(line, None);
        }
        if self.left_out > 0 {
            self.report.note(format!("and {} more; narrow it with --session", self.left_out));
        }
        self.events.sort_by_key(|event| event.time);
        let repeats = self.drop_repeats();
        if repeats > 0 {
            let lines = count(repeats, "line");
            self.report.note(format!("{lines} omitted: another log has the same message"));
        }
        let finding = |event: &Event| {
            let line = &self.lines[event.line];
            let (session, way, what) = (line.session(), line.way, event.what.text());
            Finding { time: event.time, session, way, what }
        };
        let findings = self.events.iter().map(finding).collect();
        self.lines.sort_by(|a, b| (&a.log, a.way).cmp(&(&b.log, b.way)));
        let sessions = self.lines.iter().map(Line::summary).collect();
        GapsFound { findings, sessions, verdict, report: self.report }
    }

    /// Removes events that a message shows in more than one log, except in the first of these logs.
    /// Returns the number of removed events.
    fn drop_repeats(&mut self) -> u64 {
        let (all, lines) = (self.events.len(), &self.lines);
        let mut first = HashMap::new();
        self.events.retain(|event| {
            let Some(message) = event.shown_by else { return true };
            let line = &lines[event.line];
            match first.entry((message, line.way, event.what.text())) {
                // A message that one log contains twice is not removed.
                Entry::Occupied(log) => *log.get() == &line.log,
                Entry::Vacant(entry) => {
                    entry.insert(&line.log);
                    true
                }
            }
        });
        (all - self.events.len()) as u64
    }

    /// Returns the index of the line to which the message belongs, and creates the line if needed.
    fn line(&mut self, bytes: &[u8], by: u8, head: &[u8]) -> Option<usize> {
        let ends = self.query.origins.ends(bytes, by);
        let is_it = |line: &Line| {
            line.sender == ends.sender
                && line.target == ends.target
                && line.begin_string == ends.begin_string
                && line.log == self.source.log
        };
        if self.lines.get(self.last).is_some_and(is_it) {
            return Some(self.last);
        }
        let log = self.source.log.as_bytes();
        let key = [log, ends.begin_string, ends.sender, ends.target].join(&SOH);
        if let Some(found) = self.places.get(&key) {
            self.last = *found;
            return Some(*found);
        }
        if self.lines.len() >= LINES_MAX {
            return None;
        }
        let way = self.query.origins.way(bytes, by, head, &self.source);
        self.lines.push(Line {
            log: self.source.log.clone(),
            begin_string: ends.begin_string.to_vec(),
            sender: ends.sender.to_vec(),
            target: ends.target.to_vec(),
            way,
            numbers: Numbers::default(),
            resent: None,
            restarted: None,
        });
        self.last = self.lines.len() - 1;
        self.places.insert(key, self.last);
        Some(self.last)
    }

    /// Adds an event that this message shows. Returns the index of the event.
    fn event(
        &mut self,
        time: Option<Timestamp>,
        line: usize,
        bytes: Option<&[u8]>,
        what: What,
    ) -> usize {
        if self.events.len() >= EVENTS_MAX {
            self.left_out += 1;
            return EVENTS_MAX;
        }
        let shown_by = bytes.map(|bytes| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            hasher.finish()
        });
        self.events.push(Event { time, line, shown_by, what });
        self.events.len() - 1
    }

    /// Adds the event for a reset record in the store, if the line has a pending one.
    ///
    /// The event refers to the first message after the reset, so that the same event in another log
    /// can be recognized.
    fn tell_of_restart(&mut self, line: usize, bytes: Option<&[u8]>) {
        if let Some(time) = self.lines[line].restarted.take() {
            self.event(time, line, bytes, What::restart());
        }
    }

    /// Adds the event for a step of the sequence numbers, unless the step is the expected number.
    fn tell(
        &mut self,
        line: usize,
        step: Step,
        bytes: &[u8],
        time: impl Fn(&Self) -> Option<Timestamp>,
    ) {
        let what = match step {
            Step::Next => return self.lines[line].resent = None,
            Step::Gap { first, last } => {
                let time = time(self);
                let what = What::Gap { first, last, filled: 0 };
                let place = self.event(time, line, Some(bytes), what);
                self.lines[line].numbers.open(first, last, place);
                return self.lines[line].resent = None;
            }
            Step::Resent { first, last } => return self.resent(line, (first, last), bytes, time),
            Step::Again { number, expected } => {
                What::Text(format!("{number} again, expected {expected}"))
            }
            Step::Restart => What::restart(),
        };
        let time = time(self);
        self.event(time, line, Some(bytes), what);
    }

    /// Fills open gaps with repeated numbers, and records the repetition.
    fn resent(
        &mut self,
        line: usize,
        (first, last): (u64, u64),
        bytes: &[u8],
        time: impl Fn(&Self) -> Option<Timestamp>,
    ) {
        for (place, count) in self.lines[line].numbers.fill(first, last) {
            if let Some(Event { what: What::Gap { filled, .. }, .. }) = self.events.get_mut(place) {
                *filled += count;
            }
        }
        if let Some((place, next)) = self.lines[line].resent
            && next == first
            && let Some(Event { what: What::Resent { last: end, .. }, .. }) =
                self.events.get_mut(place)
        {
            *end = last;
            self.lines[line].resent = Some((place, last.saturating_add(1)));
            return;
        }
        let time = time(self);
        let place = self.event(time, line, Some(bytes), What::Resent { first, last });
        self.lines[line].resent = Some((place, last.saturating_add(1)));
    }

    /// Adds the event for a session-level message that concerns sequence numbers.
    fn said(&mut self, line: usize, message: &Message<'_>, bytes: &[u8], time: Option<Timestamp>) {
        let text = |tag: u32| {
            let value = message.raw(Tag(tag)).unwrap_or(b"?");
            Shown::whole(value).to_string()
        };
        let said = match message.msg_type().as_bytes() {
            b"2" => format!("ResendRequest(2) {}..{}", text(7), text(16)),
            b"3" => {
                let why = message.raw(tag::TEXT).map(|text| Shown::whole(text).to_string());
                format!("Reject(3) of {}: {}", text(45), why.unwrap_or_default())
            }
            b"4" if message.raw(Tag(123)) == Some(b"Y") => {
                format!("SequenceReset(4) fills {}, next is {}", text(34), text(36))
            }
            b"4" => format!("SequenceReset(4) to {}", text(36)),
            _ => return,
        };
        self.event(time, line, Some(bytes), What::Text(said));
    }
}

impl Line {
    fn session(&self) -> String {
        let Self { begin_string, sender, target, .. } = self;
        super::origin::Ends { begin_string, sender, target }.session(self.way)
    }

    fn summary(&self) -> SessionNumbers {
        let Numbers { first, last, messages, missing, .. } = self.numbers;
        let log = Shown::whole(self.log.as_bytes()).to_string();
        let (session, way, range) = (self.session(), self.way, first.zip(last));
        SessionNumbers { session, way, messages, range, missing, log }
    }
}

impl What {
    fn restart() -> Self {
        Self::Text("the numbers start again at 1".to_owned())
    }

    fn text(&self) -> String {
        match self {
            Self::Gap { first, last, filled } => {
                let all = (last - first).saturating_add(1);
                let later = match filled {
                    0 => "never came".to_owned(),
                    filled if *filled == all => "came later".to_owned(),
                    filled => format!("{filled} came later"),
                };
                format!("gap {first}..{last} ({all}), {later}")
            }
            Self::Resent { first, last } if first == last => format!("{first} again (PossDup)"),
            Self::Resent { first, last } => format!("{first}..{last} again (PossDup)"),
            Self::Text(text) => text.clone(),
        }
    }
}

/// The message types that concern sequence numbers: Logon(A), ResendRequest(2), Reject(3) and
/// SequenceReset(4).
const SAYING: [&[u8]; 4] = [b"A", b"2", b"3", b"4"];

fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Reader for Gaps {
    fn begin(&mut self, source: &Source) {
        self.source.clone_from(source);
        self.report.file = format!("{}: ", source.name);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl Sink for Gaps {
    /// Counts a message without parsing it, if the message has the expected number and a type that
    /// does not concern sequence numbers. Most messages are of this kind.
    fn glance(&mut self, glance: &MessageView<'_>) -> Wanted {
        let MessageView { bytes, by, head } = *glance;
        if self.query.glance(glance, &self.source) == Wanted::No {
            self.report.messages += 1;
            return Wanted::No;
        }
        let is_plain = by == SOH
            && is_sum_right(bytes, by)
            && self.poss_dup.value(bytes, by).is_none()
            && self.msg_type.value(bytes, by).is_some_and(|found| !SAYING.contains(&found));
        let number = self.msg_seq_num.value(bytes, by).and_then(number);
        let (true, Some(number)) = (is_plain, number) else { return Wanted::Perhaps };
        let Some(line) = self.line(bytes, by, head) else { return Wanted::Perhaps };
        self.report.messages += 1;
        self.tell_of_restart(line, Some(bytes));
        let step = self.lines[line].numbers.message(number);
        self.tell(line, step, bytes, |all| all.query.origins.time(bytes, by, head));
        Wanted::No
    }

    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.report.messages += 1;
        if let Some(wrong) = found.fault(&mut self.index) {
            self.report.garbled(found.place, wrong);
        }
        let bytes = match &self.mask {
            Some(mask) => covered(mask, found.bytes, &mut self.index),
            None => found.bytes.into(),
        };
        let mut index = std::mem::take(&mut self.index);
        if let Ok(message) = parse(&bytes, &mut index, CheckSumPolicy::Ignore)
            && self.query.takes(found, Some(&message), &self.source)
        {
            self.follow(&message, found);
        }
        self.index = index;
        Ok(())
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }

    /// Handles a store record that is not a message: a `reset`, or a change of the next number.
    fn mark(&mut self, text: &str) -> Result<(), Failure> {
        let mut words = text.split(' ');
        let (kind, number) = (words.next(), words.next().and_then(|word| word.parse::<u64>().ok()));
        for at in 0..self.lines.len() {
            let line = &mut self.lines[at];
            if line.log != self.source.log {
                continue;
            }
            match (kind, line.way, number) {
                (Some("reset"), ..) => {
                    line.numbers.restart();
                    let time = text.split(' ').nth(1).map(str::as_bytes).and_then(Timestamp::parse);
                    line.restarted = Some(time);
                }
                (Some("next_in"), Some(Direction::In), Some(number))
                | (Some("next_out"), Some(Direction::Out), Some(number)) => {
                    line.numbers.set(number)
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Gaps {
    /// Processes the sequence number of a parsed message.
    fn follow(&mut self, message: &Message<'_>, found: &InputMessage<'_>) {
        let head = found.head.as_bytes();
        let time = self.query.origins.time(found.bytes, WIRE, head);
        let Some(line) = self.line(found.bytes, WIRE, head) else {
            self.left_out += 1;
            return;
        };
        let Some(seq) = message.raw(tag::MSG_SEQ_NUM).and_then(number) else {
            let text = format!("{} without a number", Shown::whole(message.msg_type().as_bytes()));
            self.event(time, line, Some(found.bytes), What::Text(text));
            return;
        };
        let is_dup = message.raw(tag::POSS_DUP_FLAG) == Some(b"Y");
        let new = message.raw(Tag(36)).and_then(number);
        let is_fill = message.raw(Tag(123)) == Some(b"Y");
        self.tell_of_restart(line, Some(found.bytes));
        self.said(line, message, found.bytes, time);
        let numbers = &mut self.lines[line].numbers;
        let steps = match (message.msg_type().as_bytes(), new) {
            (b"4", Some(new)) if is_fill => numbers.fills(seq, new),
            (b"4", Some(new)) => {
                numbers.reset_to(new);
                Vec::new()
            }
            (b"A", _) if seq == 1 && !is_dup => numbers.logon().into_iter().collect(),
            _ if is_dup => vec![numbers.resent(seq)],
            _ => vec![numbers.message(seq)],
        };
        for step in steps {
            self.tell(line, step, found.bytes, |_| time);
        }
    }
}
