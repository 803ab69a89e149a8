//! Analyzes latencies: the time from each request to its answer, matched by ClOrdID(11).
//!
//! Invariants: both times are from the same log, and therefore from the same clock. A request that
//! cannot be measured is counted and reported. Memory is proportional to the number of unanswered
//! requests, and at most [`OPEN_BYTES_MAX`].

mod distribution;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io::Write;

use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, Message, SOH, Tag, Timestamp, tag};

use super::merge::{self, Held};
use super::origin::{Ends, WIRE};
use super::query::Query;
use super::quick::Quick;
use super::report::{Report, count};
use super::show::{Answer, Csv, name_of};
use super::sources::{Direction, Source};
use crate::input::{Delimiter, Dictionaries, Failure, covered, parse};
pub use distribution::Distribution;

/// The maximum memory for unanswered requests, in bytes.
const OPEN_BYTES_MAX: usize = 256 << 20;
/// The estimated memory of an unanswered request without its texts, in bytes.
const OPEN_BYTES: usize = 256;
/// The maximum number of lines, each of which is one request type in one session.
const LINES_MAX: usize = 100_000;
/// The default number of slowest requests that the result contains.
pub const SLOWEST: u64 = 10;
const SLOWEST_MAX: u64 = 1_000_000;

/// The request types that have a ClOrdID(11): NewOrderSingle(D), NewOrderList(E),
/// OrderCancelRequest(F), OrderCancelReplaceRequest(G), OrderStatusRequest(H),
/// NewOrderMultileg(AB), MultilegOrderCancelReplace(AC), OrderMassActionRequest(CA),
/// OrderMassCancelRequest(q), NewOrderCross(s), CrossOrderCancelReplaceRequest(t),
/// CrossOrderCancelRequest(u).
const REQUESTS: [&[u8]; 12] =
    [b"D", b"E", b"F", b"G", b"H", b"AB", b"AC", b"CA", b"q", b"s", b"t", b"u"];

const CL_ORD_ID: Tag = Tag(11);
const REF_SEQ_NUM: Tag = Tag(45);
const BUSINESS_REJECT_REF_ID: Tag = Tag(379);

/// A quick test on raw bytes for messages that may be requests or answers.
struct Wanted {
    cl_ord_id: Quick,
    msg_type: Quick,
}

impl Wanted {
    fn new() -> Self {
        let [cl_ord_id, msg_type] = [11, 35].map(Quick::field);
        Self { cl_ord_id, msg_type }
    }

    fn takes(&self, bytes: &[u8], by: u8) -> bool {
        self.cl_ord_id.value(bytes, by).is_some()
            || self.msg_type.value(bytes, by).is_some_and(|found| found == b"3" || found == b"j")
    }
}

/// The requests of one type in one session of one log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestLine {
    /// The session name, which begins with the own side if known.
    pub session: String,
    /// The direction of the requests, if known.
    pub way: Option<Direction>,
    /// The request type, such as `NewOrderSingle(D)`.
    pub request: String,
    /// The log.
    pub log: String,
    /// The distribution of the times from a request to its answer.
    pub answered: Distribution,
    /// The number of requests that have no answer in the log.
    pub unanswered: u64,
}

/// One of the slowest answered requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlowRequest {
    /// The time of the request according to the log.
    pub time: Timestamp,
    /// The time from the request to its answer, in nanoseconds.
    pub ns: u64,
    /// The index of the request's line in [`Latencies::lines`].
    pub line: usize,
    /// The ClOrdID(11).
    pub id: String,
    /// The message type of the answer.
    pub answer: String,
}

/// The result of the latency analysis.
#[derive(Debug)]
#[non_exhaustive]
pub struct Latencies {
    /// The requests, one line for each log, session and request type.
    pub lines: Vec<RequestLine>,
    /// The slowest requests, beginning with the slowest.
    pub slowest: Vec<SlowRequest>,
    /// The number of answered requests.
    pub answered: u64,
    /// The report.
    pub report: Report,
}

/// The latency analysis, which reads one log after another and matches requests and answers by
/// ClOrdID(11).
#[derive(Debug)]
pub struct Latency<W> {
    out: W,
    csv: Option<Csv>,
    log: String,
    /// True if the current log has a separate file for each direction.
    is_split: bool,
    lines: Vec<Line>,
    /// The indexes of the current log's lines, by sender, target and request type.
    places: HashMap<Vec<u8>, usize>,
    open: HashMap<Vec<u8>, Open>,
    open_bytes: usize,
    /// The open requests by MsgSeqNum(34), because a reject refers to the number of the rejected
    /// message.
    numbers: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Answers with the current time that were read before their request, which is in another file
    /// of the log.
    early: HashMap<Vec<u8>, Early>,
    /// The senders that have at least one answered request in the current log.
    answered: HashSet<Vec<u8>>,
    now: Option<Timestamp>,
    slowest: BinaryHeap<Reverse<Slow>>,
    slowest_max: usize,
    /// The number of requests read so far.
    number: u64,
    unmeasured: Unmeasured,
    query: Query,
    report: Report,
    dictionaries: Dictionaries,
    mask: Option<Mask>,
    index: FieldIndex,
}

/// The requests of one type in one session of the current log.
#[derive(Debug)]
struct Line {
    /// The key of the requests' sender in `answered`.
    asker: Vec<u8>,
    shown: RequestLine,
}

impl RequestLine {
    /// Returns true if the line has at least one measured request, answered or unanswered.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        self.answered.count() + self.unanswered > 0
    }
}

/// A request that has no answer yet.
#[derive(Debug)]
struct Open {
    time: Timestamp,
    number: u64,
    line: usize,
    /// The ClOrdID(11) as displayed, which may be masked.
    id: String,
    /// The CSV row of the request, with placeholders for the values of the answer.
    row: String,
    /// The key of the request in `numbers`.
    seq: Option<Vec<u8>>,
}

/// An answer that was read before its request.
#[derive(Debug)]
struct Early {
    log: String,
    answer: String,
}

/// An answered request, ordered by its latency.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    ns: u64,
    number: Reverse<u64>,
    time: Timestamp,
    line: usize,
    id: String,
    answer: String,
}

/// The numbers of requests that could not be measured, by reason.
#[derive(Debug, Default)]
struct Unmeasured {
    without_time: u64,
    repeated: u64,
    backward: u64,
    beyond: u64,
    one_sided: u64,
}

impl Unmeasured {
    fn say(&self, report: &mut Report) {
        let limit = OPEN_BYTES_MAX >> 20;
        let mut note = |requests: u64, why: &str| {
            if requests > 0 {
                report.note(format!("{} not measured: {why}", count(requests, "request")));
            }
        };
        note(
            self.without_time,
            "the line of the log has no time; SendingTime(52) does not \
                                 replace it",
        );
        note(
            self.repeated,
            "PossDupFlag(43)=Y, or the ClOrdID(11) of a request that is still open",
        );
        note(
            self.one_sided,
            "the log has no answers of this counterparty; the store of a session has them with \
             keep_inbound = true",
        );
        note(
            self.backward,
            "the answer has an earlier time than the request: the clock was set \
                             back",
        );
        note(
            self.beyond,
            &format!("more than {limit} MiB of requests wait; narrow it with --session"),
        );
    }
}

/// The kind of key by which an answer finds its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Id,
    Number,
}

/// Returns the key of a request: its sender, its target, and its ID or sequence number.
fn key(kind: Key, ends: Ends<'_>, value: &[u8]) -> Vec<u8> {
    let kind: &[u8] = if kind == Key::Id { b"11" } else { b"34" };
    [kind, ends.begin_string, ends.sender, ends.target, value].join(&SOH)
}

/// Returns a sequence number without leading zeros, or `None` if the value is not a number.
fn number(value: &[u8]) -> Option<String> {
    Some(std::str::from_utf8(value).ok()?.parse::<u64>().ok()?.to_string())
}

impl<W: Write> Latency<W> {
    /// Creates an analysis of the requests that the query selects.
    ///
    /// If CSV columns are given, the analysis writes a row to `out` for each request.
    pub fn new(
        (out, csv): (W, Option<Csv>),
        query: Query,
        (dictionaries, mask): (Dictionaries, Option<Mask>),
        report: Report,
    ) -> Self {
        Self {
            out,
            csv,
            log: String::new(),
            is_split: false,
            lines: Vec::new(),
            places: HashMap::new(),
            open: HashMap::new(),
            open_bytes: 0,
            numbers: HashMap::new(),
            early: HashMap::new(),
            answered: HashSet::new(),
            now: None,
            slowest: BinaryHeap::new(),
            slowest_max: SLOWEST as usize,
            number: 0,
            unmeasured: Unmeasured::default(),
            query,
            report,
            index: dictionaries.index(),
            dictionaries,
            mask,
        }
    }

    /// Sets the number of slowest requests that the result contains.
    pub fn show_slowest(&mut self, limit: u64) {
        self.slowest_max = usize::try_from(limit.min(SLOWEST_MAX)).unwrap_or(0);
    }

    /// Reads these sources. The files of one log are merged by time.
    ///
    /// # Errors
    /// If the output cannot be written, or a dictionary cannot be read.
    pub fn read(
        &mut self,
        sources: Vec<Source>,
        delimiter: Option<Delimiter>,
    ) -> Result<(), Failure> {
        let wanted = Wanted::new();
        let is_wanted = |bytes: &[u8], by| wanted.takes(bytes, by);
        for (name, files) in merge::logs(sources) {
            self.begin(&name, files.len() > 1)?;
            let mut report = std::mem::take(&mut self.report);
            let mut take = |held: &Held| self.take(held);
            let done = merge::read(files, delimiter, &mut report, &is_wanted, &mut take);
            self.report = report;
            done?;
            self.end()?;
        }
        Ok(())
    }

    /// Begins the next log. `is_split` is true if the log has a separate file for each direction.
    fn begin(&mut self, log: &str, is_split: bool) -> Result<(), Failure> {
        log.clone_into(&mut self.log);
        self.is_split = is_split;
        match &mut self.csv {
            Some(csv) => csv.begin(&mut self.out),
            None => Ok(()),
        }
    }

    /// Processes the next message of the log.
    fn take(&mut self, held: &Held) -> Result<(), Failure> {
        if self.now != held.time {
            self.now = held.time;
            self.early.clear();
        }
        let mut index = std::mem::take(&mut self.index);
        let done = match parse(&held.bytes, &mut index, CheckSumPolicy::Ignore) {
            Ok(message) if self.is_request(message.msg_type().as_bytes()) => {
                self.request(&message, held)
            }
            Ok(message) => self.answer(&message, held),
            Err(_) => Ok(()),
        };
        self.index = index;
        done
    }

    fn is_request(&self, msg_type: &[u8]) -> bool {
        REQUESTS.contains(&msg_type) || self.query.names_type(msg_type)
    }

    fn request(&mut self, message: &Message<'_>, held: &Held) -> Result<(), Failure> {
        if message.raw(CL_ORD_ID).is_none()
            || !self.query.takes(&held.found(), Some(message), &held.source)
        {
            return Ok(());
        }
        if message.raw(tag::POSS_DUP_FLAG) == Some(b"Y") {
            self.unmeasured.repeated += 1;
            return Ok(());
        }
        let Some(time) = held.time else {
            self.unmeasured.without_time += 1;
            return Ok(());
        };
        let Some(line) = self.line(message, held)? else {
            self.unmeasured.beyond += 1;
            return Ok(());
        };
        let shown = match &self.mask {
            Some(mask) => covered(mask, &held.bytes, &mut self.index).into_owned(),
            None => held.bytes.clone(),
        };
        let mut index = std::mem::take(&mut self.index);
        let shown_message = parse(&shown, &mut index, CheckSumPolicy::Ignore).ok();
        let row = self.csv.as_ref().map(|csv| {
            let origin = (&self.query.origins, &*held.source);
            csv.row(&shown, shown_message.as_ref(), held.head.as_bytes(), origin)
        });
        let shown_ids = shown_message.iter().flat_map(|shown| shown.all(CL_ORD_ID));
        let shown_ids: Vec<_> = shown_ids.map(|id| Shown::whole(id).to_string()).collect();
        self.index = index;
        for (n, id) in message.all(CL_ORD_ID).enumerate() {
            let ends = self.query.origins.ends(&held.bytes, WIRE);
            let seq = message.raw(tag::MSG_SEQ_NUM).and_then(number);
            let seq = seq.map(|seq| key(Key::Number, ends, seq.as_bytes()));
            let (id, shown) = (key(Key::Id, ends, id), shown_ids.get(n).cloned());
            let row = row.clone().unwrap_or_default();
            self.number += 1;
            let (number, shown) = (self.number, shown.unwrap_or_default());
            self.open(id, Open { time, number, line, id: shown, row, seq }, held)?;
        }
        Ok(())
    }

    /// Stores a request until its answer arrives.
    fn open(&mut self, id: Vec<u8>, open: Open, held: &Held) -> Result<(), Failure> {
        if self.open.contains_key(&id) {
            self.unmeasured.repeated += 1;
            return Ok(());
        }
        let early = [Some(&id), open.seq.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| self.early.get(*key).is_some_and(|early| early.log != held.source.log));
        if let Some(early) = early.and_then(|key| self.early.get(key)) {
            let answer = early.answer.clone();
            return self.measured(&open, Some(open.time), &answer);
        }
        let bytes = open.bytes(&id);
        if self.open_bytes + bytes > OPEN_BYTES_MAX {
            self.unmeasured.beyond += 1;
            return Ok(());
        }
        self.open_bytes += bytes;
        if let Some(seq) = &open.seq {
            self.numbers.entry(seq.clone()).or_default().push(id.clone());
        }
        self.open.insert(id, open);
        Ok(())
    }

    fn answer(&mut self, message: &Message<'_>, held: &Held) -> Result<(), Failure> {
        let ends = self.query.origins.ends(&held.bytes, WIRE);
        let asked = Ends { sender: ends.target, target: ends.sender, ..ends };
        let asker = key(Key::Id, asked, b"");
        if !self.answered.contains(&asker) && self.answered.len() < LINES_MAX {
            self.answered.insert(asker);
        }
        let ids = |tag| message.all(tag).map(|id| key(Key::Id, asked, id)).collect::<Vec<_>>();
        let msg_type = message.msg_type().as_bytes();
        let mut keys = match msg_type {
            b"3" => Vec::new(),
            b"j" => ids(BUSINESS_REJECT_REF_ID),
            _ => ids(CL_ORD_ID),
        };
        if matches!(msg_type, b"3" | b"j") {
            let of = message.raw(REF_SEQ_NUM).and_then(number);
            keys.extend(of.map(|of| key(Key::Number, asked, of.as_bytes())));
        }
        let mut is_open = false;
        for key in &keys {
            let ids = self.numbers.get(key).cloned().unwrap_or_else(|| vec![key.clone()]);
            for id in ids {
                let Some(open) = self.close(&id) else { continue };
                is_open = true;
                let answer = self.name(message)?;
                self.measured(&open, held.time, &answer)?;
            }
        }
        // The other file of the log may still contain the request, with the same time.
        if self.is_split && !is_open && held.time.is_some() && self.early.len() < LINES_MAX {
            let answer = self.name(message)?;
            for key in keys {
                let early = Early { log: held.source.log.clone(), answer: answer.clone() };
                self.early.insert(key, early);
            }
        }
        Ok(())
    }

    /// Removes a request from the open requests, and returns it.
    fn close(&mut self, id: &[u8]) -> Option<Open> {
        let open = self.open.remove(id)?;
        self.open_bytes -= open.bytes(id);
        if let Some(seq) = &open.seq
            && let Some(ids) = self.numbers.get_mut(seq)
        {
            ids.retain(|other| other != id);
            if ids.is_empty() {
                self.numbers.remove(seq);
            }
        }
        Some(open)
    }

    /// Records the latency of an answered request.
    fn measured(
        &mut self,
        open: &Open,
        time: Option<Timestamp>,
        answer: &str,
    ) -> Result<(), Failure> {
        let Some(time) = time else {
            self.unmeasured.without_time += 1;
            return Ok(());
        };
        let Ok(ns) = u64::try_from(time.since(open.time)) else {
            self.unmeasured.backward += 1;
            return Ok(());
        };
        self.lines[open.line].shown.answered.record(ns);
        if self.csv.is_some() {
            return self.row(open, &time.to_string(), answer, &ns.to_string());
        }
        let is_slow = self.slowest.peek().is_none_or(|Reverse(least)| least.ns < ns);
        if is_slow || self.slowest.len() < self.slowest_max {
            let (number, id) = (Reverse(open.number), open.id.clone());
            let answer = answer.to_owned();
            let Open { time, line, .. } = *open;
            self.slowest.push(Reverse(Slow { ns, number, time, line, id, answer }));
            if self.slowest.len() > self.slowest_max {
                self.slowest.pop();
            }
        }
        Ok(())
    }

    fn row(&mut self, open: &Open, time: &str, answer: &str, ns: &str) -> Result<(), Failure> {
        let row = open.row.replace(Answer::Time.place(), time);
        let row = row.replace(Answer::Type.place(), answer).replace(Answer::LatencyNs.place(), ns);
        Ok(writeln!(self.out, "{row}")?)
    }

    /// Counts the requests that have no answer at the end of a log.
    fn end(&mut self) -> Result<(), Failure> {
        let mut left: Vec<_> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_by_key(|open| open.number);
        for open in left {
            let line = &mut self.lines[open.line];
            if !self.answered.contains(&line.asker) {
                self.unmeasured.one_sided += 1;
                continue;
            }
            line.shown.unanswered += 1;
            if self.csv.is_some() {
                self.row(&open, "", "", "")?;
            }
        }
        self.numbers.clear();
        self.places.clear();
        self.early.clear();
        self.answered.clear();
        self.open_bytes = 0;
        Ok(())
    }

    /// Returns the index of the line for a request. Returns `None` if the log already has the
    /// maximum number of lines.
    fn line(&mut self, message: &Message<'_>, held: &Held) -> Result<Option<usize>, Failure> {
        let ends = self.query.origins.ends(&held.bytes, WIRE);
        let place = key(Key::Id, ends, message.msg_type().as_bytes());
        if let Some(line) = self.places.get(&place) {
            return Ok(Some(*line));
        }
        if self.lines.len() >= LINES_MAX {
            return Ok(None);
        }
        let head = held.head.as_bytes();
        let way = self.query.origins.way(&held.bytes, WIRE, head, &held.source);
        let (asker, session) = (key(Key::Id, ends, b""), ends.session(way));
        let request = self.name(message)?;
        let log = Shown::whole(self.log.as_bytes()).to_string();
        let (answered, unanswered) = (Distribution::default(), 0);
        let shown = RequestLine { session, way, request, log, answered, unanswered };
        self.lines.push(Line { asker, shown });
        self.places.insert(place, self.lines.len() - 1);
        Ok(Some(self.lines.len() - 1))
    }

    /// Returns the name of the message type, such as `NewOrderSingle(D)`.
    fn name(&mut self, message: &Message<'_>) -> Result<String, Failure> {
        let pair = self.dictionaries.find(message).map_err(Failure::Read)?;
        Ok(name_of(&self.dictionaries, pair, message.msg_type().as_bytes()))
    }

    /// Ends the last log and returns the result.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(mut self) -> Result<Latencies, Failure> {
        self.query.tell(&mut self.report);
        self.unmeasured.say(&mut self.report);
        let lines: Vec<_> = self.lines.into_iter().map(|line| line.shown).collect();
        let answered = lines.iter().map(|line| line.answered.count()).sum();
        let unanswered: u64 = lines.iter().map(|line| line.unanswered).sum();
        self.report.note(format!(
            "{} answered, {unanswered} without an answer",
            count(answered, "request")
        ));
        self.out.flush()?;
        // The entries are wrapped in `Reverse`, so the ascending sort puts the slowest request
        // first.
        let slowest = self.slowest.into_sorted_vec().into_iter().map(|Reverse(slow)| {
            let Slow { ns, time, line, id, answer, .. } = slow;
            SlowRequest { time, ns, line, id, answer }
        });
        Ok(Latencies { lines, slowest: slowest.collect(), answered, report: self.report })
    }
}

impl Open {
    fn bytes(&self, key: &[u8]) -> usize {
        let Self { id, row, seq, .. } = self;
        // The ID and the number are each stored twice, because the maps `open` and `numbers` refer
        // to each other.
        let keys = key.len() + seq.as_ref().map_or(0, Vec::len);
        OPEN_BYTES + 2 * keys + id.len() + row.len()
    }
}
