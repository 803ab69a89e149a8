//! The time from each request to its answer, by ClOrdID(11).
//!
//! Invariants: both times are of one log, and so of one clock. A request that cannot be measured is
//! counted and reported. Memory is bounded by the requests that wait for an answer, up to
//! [`OPEN_BYTES_MAX`].

mod distribution;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::io::Write;

use comfy_table::{CellAlignment, Table, presets};
use transfix::{Mask, Message, Tag, Timestamp, tag};
use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, SOH};

use super::merge::Held;
use super::origin::{Ends, WIRE};
use super::query::Query;
use super::quick::Quick;
use super::report::Report;
use super::show::{Answer, Csv, name_of};
use crate::input::{Dictionaries, Failure, covered, parse};
use crate::show::count;
use distribution::Distribution;

/// Bytes of the requests that wait for an answer, with what is kept beside them.
const OPEN_BYTES_MAX: usize = 256 << 20;
/// Bytes of a request beside its texts.
const OPEN_BYTES: usize = 256;
/// Sessions and types of requests.
const LINES_MAX: usize = 100_000;
/// The slowest requests that are shown.
pub(super) const SLOWEST: u64 = 10;
const SLOWEST_MAX: u64 = 1_000_000;

/// The types that ask for something and have a ClOrdID(11): NewOrderSingle(D), NewOrderList(E),
/// OrderCancelRequest(F), OrderCancelReplaceRequest(G), OrderStatusRequest(H),
/// NewOrderMultileg(AB), MultilegOrderCancelReplace(AC), OrderMassActionRequest(CA),
/// OrderMassCancelRequest(q), NewOrderCross(s), CrossOrderCancelReplaceRequest(t),
/// CrossOrderCancelRequest(u).
const REQUESTS: [&[u8]; 12] =
    [b"D", b"E", b"F", b"G", b"H", b"AB", b"AC", b"CA", b"q", b"s", b"t", b"u"];

const CL_ORD_ID: Tag = Tag(11);
const REF_SEQ_NUM: Tag = Tag(45);
const BUSINESS_REJECT_REF_ID: Tag = Tag(379);

/// Looks at bytes for what may be a request or an answer.
pub(super) struct Wanted {
    cl_ord_id: Quick,
    msg_type: Quick,
}

impl Wanted {
    pub(super) fn new() -> Self {
        let [cl_ord_id, msg_type] = [11, 35].map(Quick::field);
        Self { cl_ord_id, msg_type }
    }

    pub(super) fn takes(&self, bytes: &[u8], by: u8) -> bool {
        self.cl_ord_id.value(bytes, by).is_some()
            || self.msg_type.value(bytes, by).is_some_and(|found| found == b"3" || found == b"j")
    }
}

/// Measures the requests of one log after the other.
pub(super) struct Latency<W> {
    out: W,
    csv: Option<Csv>,
    log: String,
    /// True if the log has a file for each direction.
    is_split: bool,
    lines: Vec<Line>,
    /// The lines of this log by who asks whom, and by type.
    places: HashMap<Vec<u8>, usize>,
    open: HashMap<Vec<u8>, Open>,
    open_bytes: usize,
    /// The requests of a MsgSeqNum(34), for a reject that names it.
    numbers: HashMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Answers of the present time that another file of the log has, and no request yet.
    early: HashMap<Vec<u8>, Early>,
    /// Senders of requests that have any answer in this log.
    answered: HashSet<Vec<u8>>,
    now: Option<Timestamp>,
    slowest: BinaryHeap<Reverse<Slow>>,
    slowest_max: usize,
    /// Requests so far.
    number: u64,
    unmeasured: Unmeasured,
    query: Query,
    dictionaries: Dictionaries,
    mask: Option<Mask>,
    index: FieldIndex,
}

/// Requests of one type in one session of one log.
struct Line {
    /// Its key in `answered`.
    asker: Vec<u8>,
    session: String,
    way: &'static str,
    request: String,
    log: String,
    answered: Distribution,
    unanswered: u64,
}

impl Line {
    fn is_measured(&self) -> bool {
        self.answered.count + self.unanswered > 0
    }
}

/// A request that waits for its answer.
struct Open {
    time: Timestamp,
    number: u64,
    line: usize,
    /// The ClOrdID(11) as it is shown.
    id: String,
    /// The row of CSV.
    row: String,
    /// The key in `numbers`.
    seq: Option<Vec<u8>>,
}

/// An answer before its request.
struct Early {
    log: String,
    answer: String,
}

/// An answered request, as it is shown.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    ns: u64,
    number: Reverse<u64>,
    time: Timestamp,
    line: usize,
    id: String,
    answer: String,
}

/// Requests that are in no line, and why.
#[derive(Default)]
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
        note(self.without_time, "the log has no time of its own there; SendingTime(52) is not one");
        note(self.repeated, "PossDupFlag(43)=Y, or its ClOrdID(11) is that of an open request");
        note(
            self.one_sided,
            "the log has no answer of this counterparty to any request; the store of a session \
             has them with keep_inbound = true",
        );
        note(self.backward, "the answer has an earlier time: the clock was set back");
        note(
            self.beyond,
            &format!("more than {limit} MiB of requests wait; narrow it with --session"),
        );
    }
}

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Id,
    Number,
}

/// The key of a request: who asks whom, and its ID or number.
fn key(kind: Key, ends: Ends<'_>, value: &[u8]) -> Vec<u8> {
    let kind: &[u8] = if kind == Key::Id { b"11" } else { b"34" };
    [kind, ends.begin_string, ends.sender, ends.target, value].join(&SOH)
}

/// Numbers may have zeros before them.
fn number(value: &[u8]) -> Option<String> {
    Some(std::str::from_utf8(value).ok()?.parse::<u64>().ok()?.to_string())
}

impl<W: Write> Latency<W> {
    pub(super) fn new(
        out: W,
        csv: Option<Csv>,
        query: Query,
        dictionaries: Dictionaries,
        mask: Option<Mask>,
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
            slowest_max: 0,
            number: 0,
            unmeasured: Unmeasured::default(),
            query,
            index: dictionaries.index(),
            dictionaries,
            mask,
        }
    }

    /// So many of the slowest are shown.
    pub(super) fn show_slowest(&mut self, limit: u64) {
        self.slowest_max = usize::try_from(limit.min(SLOWEST_MAX)).unwrap_or(0);
    }

    /// Goes on with another log, whose files are `is_split` by direction.
    pub(super) fn begin(&mut self, log: &str, is_split: bool) -> Result<(), Failure> {
        log.clone_into(&mut self.log);
        self.is_split = is_split;
        match &mut self.csv {
            Some(csv) => csv.begin(&mut self.out),
            None => Ok(()),
        }
    }

    /// Takes the next message of the log.
    pub(super) fn take(&mut self, held: &Held) -> Result<(), Failure> {
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

    /// Takes down a request.
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
        // In another file a request may have the same time.
        if self.is_split && !is_open && held.time.is_some() && self.early.len() < LINES_MAX {
            let answer = self.name(message)?;
            for key in keys {
                let early = Early { log: held.source.log.clone(), answer: answer.clone() };
                self.early.insert(key, early);
            }
        }
        Ok(())
    }

    /// Takes a request out of those that wait.
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

    /// A request has its answer.
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
        self.lines[open.line].answered.record(ns);
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

    /// Closes the requests that have no answer at the end of a log, because none follows.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        let mut left: Vec<_> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_by_key(|open| open.number);
        for open in left {
            let line = &mut self.lines[open.line];
            if !self.answered.contains(&line.asker) {
                self.unmeasured.one_sided += 1;
                continue;
            }
            line.unanswered += 1;
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

    /// The line of a request; none if there are too many.
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
        self.lines.push(Line {
            asker,
            session,
            way: way.map_or("", super::sources::Way::word),
            request,
            log: Shown::whole(self.log.as_bytes()).to_string(),
            answered: Distribution::default(),
            unanswered: 0,
        });
        self.places.insert(place, self.lines.len() - 1);
        Ok(Some(self.lines.len() - 1))
    }

    /// The name of the message's type.
    fn name(&mut self, message: &Message<'_>) -> Result<String, Failure> {
        let pair = self.dictionaries.find(message).map_err(Failure::Read)?;
        Ok(name_of(&self.dictionaries, pair, message.msg_type().as_bytes()))
    }

    /// Writes the tables, and says what could not be measured; returns how many requests have an
    /// answer.
    pub(super) fn finish(mut self, report: &mut Report) -> Result<u64, Failure> {
        super::left_out(&self.query, report);
        self.unmeasured.say(report);
        let answered = self.lines.iter().map(|line| line.answered.count).sum();
        if self.csv.is_none() && self.lines.iter().any(Line::is_measured) {
            self.tables()?;
        }
        let unanswered: u64 = self.lines.iter().map(|line| line.unanswered).sum();
        report.note(format!(
            "{} answered, {unanswered} without an answer",
            count(answered, "request")
        ));
        self.out.flush()?;
        Ok(answered)
    }

    fn tables(&mut self) -> Result<(), Failure> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(HEADER);
        let mut all = Distribution::default();
        for line in self.lines.iter().filter(|line| line.is_measured()) {
            let Line { session, way, request, log, answered, unanswered, .. } = line;
            all.add(answered);
            let names = [session.clone(), (*way).to_owned(), request.clone()];
            table.add_row(
                [&names[..], &figures(answered, *unanswered), std::slice::from_ref(log)].concat(),
            );
        }
        if self.lines.len() > 1 {
            let unanswered = self.lines.iter().map(|line| line.unanswered).sum();
            let names = ["all".to_owned(), String::new(), String::new()];
            table.add_row([&names[..], &figures(&all, unanswered)].concat());
        }
        write_table(&mut self.out, table, 3..10)?;
        if self.slowest.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(SLOWEST_HEADER);
        // The slowest first: the order of what is reversed.
        for Reverse(slow) in std::mem::take(&mut self.slowest).into_sorted_vec() {
            let Line { session, way, request, .. } = &self.lines[slow.line];
            let (time, way) = (slow.time.to_string(), (*way).to_owned());
            let names = [session.clone(), way, request.clone(), slow.id, slow.answer];
            table.add_row([&[time, micros(slow.ns)], &names[..]].concat());
        }
        writeln!(self.out)?;
        write_table(&mut self.out, table, 1..2)
    }
}

impl Open {
    fn bytes(&self, key: &[u8]) -> usize {
        let Self { id, row, seq, .. } = self;
        // The number's key is there twice, and that of the ID too.
        let keys = key.len() + seq.as_ref().map_or(0, Vec::len);
        OPEN_BYTES + 2 * keys + id.len() + row.len()
    }
}

const HEADER: [&str; 11] = [
    "session",
    "",
    "request",
    "answered",
    "p50 µs",
    "p90 µs",
    "p99 µs",
    "p99.9 µs",
    "max µs",
    "unanswered",
    "log",
];

const SLOWEST_HEADER: [&str; 7] = ["slowest", "µs", "session", "", "request", "ClOrdID", "answer"];

fn figures(answered: &Distribution, unanswered: u64) -> [String; 7] {
    let part = |part| answered.per_mille(part).map(micros).unwrap_or_default();
    let max = if answered.count > 0 { micros(answered.max) } else { String::new() };
    let [p50, p90, p99, p999] = [500, 900, 990, 999].map(part);
    [answered.count.to_string(), p50, p90, p99, p999, max, unanswered.to_string()]
}

/// Microseconds with all their nanoseconds.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn write_table(
    out: &mut impl Write,
    mut table: Table,
    right: std::ops::Range<usize>,
) -> Result<(), Failure> {
    for column in right {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
