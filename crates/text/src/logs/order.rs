//! Finds the life of an order: all messages of the order in all sources, ordered by time.
//!
//! Invariant: the sources are read again until a pass finds no further ID. Memory is proportional
//! to the number of messages of the order.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{HashSet, hash_map::DefaultHasher};
use std::hash::{Hash, Hasher};

use transfix_codec::shown::Shown;
use transfix_codec::{CheckSumPolicy, FieldIndex, Mask, Message, Tag, Timestamp, tag};

use super::origin::WIRE;
use super::query::Query;
use super::quick::Quick;
use super::report::Report;
use super::show::{Show, code_in_words, type_of};
use super::sources::{Direction, Source};
use super::spill::spill;
use super::{Reader, each};
use crate::input::{
    Delimiter, Dictionaries, Failure, InputError, InputMessage, MessageView, Place, Sink, Wanted,
    covered, parse,
};

/// The fields that link the messages of an order: ClOrdID(11), OrigClOrdID(41), OrderID(37).
const LINKS: [Tag; 3] = [Tag(11), Tag(41), Tag(37)];

/// The maximum number of IDs of one order. The next constant limits the number of its messages.
const IDS_MAX: usize = 10_000;
const ROWS_MAX: usize = 1_000_000;

/// The maximum number of times that the sources are read.
const PASSES_MAX: usize = 100;

/// The search for the messages of an order.
#[derive(Debug)]
pub struct Order {
    ids: HashSet<Vec<u8>>,
    /// True if the current pass has found a new ID of the order.
    has_grown: bool,
    rows: Vec<Row>,
    /// The number of the source that first contained a message, by the message's hash and
    /// direction. A message in a second source is omitted.
    seen: HashMap<(u64, Option<Direction>), usize>,
    repeats: u64,
    quick: [Quick; LINKS.len()],
    query: Query,
    report: Report,
    source: Source,
    /// The number of the source that is being read.
    number: usize,
    /// The time of the last message, which a message without a time inherits.
    last: Option<Timestamp>,
    dictionaries: Dictionaries,
    mask: Option<Mask>,
    index: FieldIndex,
    /// The function that formats a message in the requested form of output; `None` for the table.
    show: Option<Show<Vec<u8>>>,
    /// The heading in the requested form of output.
    heading: Vec<u8>,
    /// The description of the limit that was exceeded.
    excess: Option<String>,
}

/// A message of the order.
#[derive(Debug)]
struct Row {
    time: Option<Timestamp>,
    shown: OrderRow,
}

/// A message of the order in the form of the output.
#[derive(Debug)]
pub enum OrderRow {
    /// A row of the table with these columns: time, session, direction, message, status, execution,
    /// quantity, price, last, cumulated and left quantity, ClOrdID(11), OrigClOrdID(41),
    /// OrderID(37) / ExecID(17).
    Cells(Vec<String>),
    /// The text of the message in the form that [`Order::show_by`] sets.
    Text(Vec<u8>),
}

/// The result: the messages of an order in all sources.
#[derive(Debug)]
#[non_exhaustive]
pub struct OrderFound {
    /// The heading above the rows, in the form that [`Order::show_by`] sets.
    pub heading: Vec<u8>,
    /// The messages of the order, ordered by time.
    pub rows: Vec<OrderRow>,
    /// The report.
    pub report: Report,
}

impl Order {
    /// Creates a search for the order with this ClOrdID(11), OrigClOrdID(41) or OrderID(37).
    ///
    /// The search includes the messages of orders that replace this order.
    #[must_use]
    pub fn new(
        id: &str,
        query: Query,
        (dictionaries, mask): (Dictionaries, Option<Mask>),
        report: Report,
    ) -> Self {
        Self {
            ids: HashSet::from([id.as_bytes().to_vec()]),
            has_grown: false,
            rows: Vec::new(),
            seen: HashMap::new(),
            repeats: 0,
            quick: LINKS.map(|tag| Quick::field(tag.0)),
            query,
            report,
            source: Source::new("-".as_ref()),
            number: 0,
            last: None,
            index: dictionaries.index(),
            dictionaries,
            mask,
            show: None,
            heading: Vec::new(),
            excess: None,
        }
    }

    /// Sets another form of output in place of the table.
    ///
    /// # Errors
    /// None: the output is in memory.
    pub fn show_by(&mut self, mut show: Show<Vec<u8>>) -> Result<(), Failure> {
        show.names()?;
        self.heading = std::mem::take(&mut show.out);
        self.show = Some(show);
        Ok(())
    }

    /// Reads the sources repeatedly, until no further ID is found.
    ///
    /// # Errors
    /// If a dictionary cannot be read. [`Failure::Enough`] if the order exceeds a limit;
    /// [`Order::excess`] describes the limit.
    pub fn read(
        &mut self,
        mut sources: Vec<Source>,
        delimiter: Option<Delimiter>,
    ) -> Result<(), Failure> {
        // The standard input can be read only once, so it is copied to a temporary file.
        let _spilled = spill(&mut sources)?;
        for pass in 1.. {
            each(&sources, delimiter, self)?;
            if pass == PASSES_MAX || !self.wants_more() {
                break;
            }
        }
        self.query.tell(&mut self.report);
        Ok(())
    }

    /// Returns the description of the exceeded limit, if a limit ended the search.
    #[must_use]
    pub fn excess(&self) -> Option<&str> {
        self.excess.as_deref()
    }

    /// Returns true if another pass is needed. In this case, clears the results of the last pass.
    fn wants_more(&mut self) -> bool {
        let wants_more = std::mem::take(&mut self.has_grown);
        if wants_more {
            self.rows.clear();
            self.seen.clear();
            self.repeats = 0;
            self.number = 0;
            self.query.without_way = 0;
            self.query.without_time = 0;
            self.report.restart();
        }
        wants_more
    }

    /// Returns the messages of the order.
    #[must_use]
    pub fn finish(mut self) -> OrderFound {
        if self.repeats > 0 {
            let repeats = self.repeats;
            self.report.note(format!("{repeats} more copies in other sources, equal in each byte"));
        }
        // The sort is stable: messages with the same time keep the order of their log.
        self.rows.sort_by_key(|row| row.time);
        let rows = self.rows.into_iter().map(|row| row.shown).collect();
        OrderFound { heading: self.heading, rows, report: self.report }
    }

    /// Returns true if any ID of the message belongs to the order.
    fn is_of_order(&self, message: &Message<'_>) -> bool {
        LINKS.iter().any(|tag| message.all(*tag).any(|id| self.ids.contains(id)))
    }

    /// Adds all IDs of the message to the IDs of the order.
    ///
    /// A message about several orders, such as a list or a mass action, adds no IDs.
    fn link(&mut self, message: &Message<'_>) -> Result<(), Failure> {
        if LINKS.iter().any(|tag| message.all(*tag).nth(1).is_some()) {
            return Ok(());
        }
        for id in LINKS.iter().filter_map(|tag| message.raw(*tag)) {
            // Venues send these values in place of an ID if they do not know the order.
            let is_none = id.is_empty() || id.eq_ignore_ascii_case(b"NONE") || id == b"0";
            if !is_none && self.ids.insert(id.to_vec()) {
                self.has_grown = true;
            }
        }
        if self.ids.len() > IDS_MAX {
            self.excess = Some(format!("more than {IDS_MAX} IDs belong together"));
            return Err(Failure::Enough);
        }
        Ok(())
    }

    fn add(&mut self, found: &InputMessage<'_>, way: Option<Direction>) -> Result<(), Failure> {
        if self.rows.len() >= ROWS_MAX {
            self.excess = Some(format!("more than {ROWS_MAX} messages belong to it"));
            return Err(Failure::Enough);
        }
        let time = self.query.origins.time(found.bytes, WIRE, found.head.as_bytes());
        self.last = time.or(self.last);
        let shown = match &mut self.show {
            Some(show) => {
                show.message("", found, &self.source)?;
                OrderRow::Text(std::mem::take(&mut show.out))
            }
            None => match self.cells(found, way)? {
                Some(cells) => OrderRow::Cells(cells),
                None => return Ok(()),
            },
        };
        self.rows.push(Row { time: self.last, shown });
        Ok(())
    }

    /// Returns the cells of the message's row in the table.
    fn cells(
        &mut self,
        found: &InputMessage<'_>,
        way: Option<Direction>,
    ) -> Result<Option<Vec<String>>, Failure> {
        let session = self.query.origins.ends(found.bytes, WIRE).session(way);
        let bytes = match &self.mask {
            Some(mask) => covered(mask, found.bytes, &mut self.index),
            None => found.bytes.into(),
        };
        let Ok(message) = parse(&bytes, &mut self.index, CheckSumPolicy::Ignore) else {
            return Ok(None);
        };
        let pair = self.dictionaries.find(&message).map_err(Failure::Read)?;
        let text = |tag: u32| {
            let value = message.raw(Tag(tag));
            value.map(|value| Shown::whole(value).to_string()).unwrap_or_default()
        };
        let word = |tag: u32| {
            let value = message.raw(Tag(tag));
            value.map(|value| code_in_words(&self.dictionaries, pair, Tag(tag), value))
        };
        let last = match (text(32), text(31)) {
            (last, _) if last.is_empty() || last == "0" => String::new(),
            (last, price) if price.is_empty() => last,
            (last, price) => format!("{last} @ {price}"),
        };
        let ids = [text(37), text(17)].into_iter().filter(|id| !id.is_empty());
        let dup = if message.raw(tag::POSS_DUP_FLAG) == Some(b"Y") { " PossDup" } else { "" };
        Ok(Some(vec![
            self.last.map(|time| time.to_string()).unwrap_or_default(),
            session,
            way.map_or("", Direction::word).to_owned(),
            type_of(&self.dictionaries, pair, &message) + dup,
            word(39).unwrap_or_default(),
            // The execution column shows ExecType(150), or ExecTransType(20) before FIX 4.3.
            word(150).or_else(|| word(20)).unwrap_or_default(),
            text(38),
            text(44),
            last,
            text(14),
            text(151),
            text(11),
            text(41),
            ids.collect::<Vec<_>>().join(" / "),
        ]))
    }

    /// Returns true if another source has already contained the same bytes in the same direction.
    fn is_repeat(&mut self, bytes: &[u8], way: Option<Direction>) -> bool {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        match self.seen.entry((hasher.finish(), way)) {
            Entry::Occupied(first) => *first.get() != self.number,
            Entry::Vacant(entry) => {
                entry.insert(self.number);
                false
            }
        }
    }
}

impl Reader for Order {
    fn begin(&mut self, source: &Source) {
        self.source.clone_from(source);
        self.report.file = format!("{}: ", source.name);
        self.number += 1;
        self.last = None;
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl Sink for Order {
    fn glance(&mut self, glance: &MessageView<'_>) -> Wanted {
        let Self { quick, ids, .. } = self;
        let is_known = |id: &[u8]| ids.contains(id);
        let may_be = !super::query::is_sum_right(glance.bytes, glance.by)
            || quick.iter().any(|quick| quick.values(glance.bytes, glance.by).any(is_known));
        self.report.messages += u64::from(!may_be);
        if may_be { Wanted::Perhaps } else { Wanted::No }
    }

    fn message(&mut self, found: &InputMessage<'_>) -> Result<(), Failure> {
        self.report.messages += 1;
        if let Some(wrong) = found.fault(&mut self.index) {
            self.report.garbled(found.place, wrong);
        }
        let mut index = std::mem::take(&mut self.index);
        let done = match parse(found.bytes, &mut index, CheckSumPolicy::Ignore) {
            Ok(message) if self.is_of_order(&message) => {
                match self.query.takes(found, Some(&message), &self.source) {
                    true => self.link(&message).map(|()| true),
                    false => Ok(false),
                }
            }
            _ => Ok(false),
        };
        self.index = index;
        if !done? {
            return Ok(());
        }
        let head = found.head.as_bytes();
        let way = self.query.origins.way(found.bytes, WIRE, head, &self.source);
        if self.is_repeat(found.bytes, way) {
            self.repeats += 1;
            return Ok(());
        }
        self.add(found, way)
    }

    fn garbled(&mut self, place: Place, wrong: InputError) -> Result<(), Failure> {
        self.report.garbled(place, wrong);
        Ok(())
    }
}
