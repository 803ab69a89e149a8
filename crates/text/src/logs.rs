//! Searches and analyzes logs, captures and journals of Transfix and of other engines.
//!
//! A search finds messages by field, text, session and time. The analyses cover the life of an
//! order, gaps in MsgSeqNum(34), and latencies. [`Sources`] finds the files below paths. A
//! [`Query`] selects messages. [`Search`], [`Order`], [`Gaps`] and [`Latency`] read the sources,
//! and a [`Report`] counts the messages.
//!
//! ```
//! use transfix_text::input::Dictionaries;
//! use transfix_text::logs::{
//!     Condition, ConditionText, Form, Query, Report, Search, SearchFilter, Show, Sources,
//! };
//!
//! let log = std::env::temp_dir().join(format!("transfix-logs-{}.log", std::process::id()));
//! std::fs::write(&log, "8=FIX.4.4|9=10|35=D|54=1|10=201|\n8=FIX.4.4|9=10|35=D|54=2|10=202|\n")?;
//!
//! let mut dictionaries = Dictionaries::default();
//! let side: ConditionText = "Side=BUY".parse()?;
//! let conditions = vec![Condition::of(&side, &mut dictionaries)?];
//! let query = Query::new(SearchFilter { conditions, ..SearchFilter::default() });
//! let show = Show::new(Vec::new(), Form::Raw, dictionaries, None);
//! let mut search = Search::new(show, query, Report::default());
//! search.read(&Sources::of(&[log]).all, None)?;
//! let (out, report) = search.finish()?;
//! assert_eq!(out, b"8=FIX.4.4\x019=10\x0135=D\x0154=1\x0110=201\x01\n");
//! assert_eq!(report.messages(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariant: every damaged message, and every message that lacks the necessary data, is counted
//! and reported at the end.

mod condition;
mod follow;
mod gaps;
mod latency;
mod merge;
mod numbers;
mod order;
mod origin;
#[cfg(feature = "parquet")]
pub mod parquet;
mod query;
mod quick;
mod report;
mod search;
mod show;
mod sources;
mod spill;

use std::io;

use transfix_store::{StoreError, journal};

use crate::input::{self, Delimiter, Failure, Sink};
use sources::Kind;

pub use condition::{Condition, ConditionText};
pub use gaps::{Finding, Gaps, GapsFound, SessionNumbers, Verdict};
pub use latency::{Distribution, Latencies, Latency, RequestLine, SLOWEST, SlowRequest};
pub use order::{Order, OrderFound, OrderRow};
pub use query::{Query, SearchFilter};
pub use report::Report;
pub(crate) use report::count;
pub use search::Search;
pub use show::{ColumnError, Csv, Form, Rows, Show};
pub use sources::{Direction, Source, Sources};

/// A sink that is notified of the source of its messages.
trait Reader: Sink {
    fn begin(&mut self, source: &Source);
    fn report(&mut self) -> &mut Report;
}

/// Reads all sources. An unreadable source is reported, and reading continues with the next source.
fn each(
    sources: &[Source],
    delimiter: Option<Delimiter>,
    reader: &mut dyn Reader,
) -> Result<(), Failure> {
    for source in sources {
        one(source, delimiter, reader)?;
    }
    Ok(())
}

fn one(
    source: &Source,
    delimiter: Option<Delimiter>,
    reader: &mut dyn Reader,
) -> Result<(), Failure> {
    reader.begin(source);
    let before = (reader.report().messages, reader.report().garbled);
    let done = match source.kind {
        Kind::Stream if source.is_standard_input() => {
            input::stream(&mut io::stdin().lock(), delimiter, None, reader)
        }
        Kind::Stream => input::open(&source.path)
            .map_err(Failure::Read)
            .and_then(|mut file| input::stream(&mut *file, delimiter, None, reader)),
        Kind::Store => entries(journal::read(&source.path), reader),
        Kind::Segment => entries(journal::read_file(&source.path), reader),
    };
    match done {
        Err(Failure::Read(error)) => {
            let is_named = error.contains(&*source.path.to_string_lossy());
            let name = if is_named { String::new() } else { format!("{}: ", source.name) };
            reader.report().failed(&format!("{name}{error}"));
        }
        Ok(()) if source.kind == Kind::Stream => strange(source, before, reader.report()),
        other => return other,
    }
    Ok(())
}

/// Reports that a file contains no message.
fn strange(source: &Source, before: (u64, u64), report: &mut Report) {
    let is_empty = source.path.metadata().is_ok_and(|metadata| metadata.len() == 0);
    if report.messages > before.0 || is_empty {
        return;
    }
    if report.garbled > before.1 {
        report.failed(&format!("{}: not a log of FIX messages", source.name));
    } else {
        report.note(format!("{}: contains no FIX message", source.name));
    }
}

fn entries(
    entries: Result<impl Iterator<Item = Result<journal::Entry, StoreError>>, StoreError>,
    reader: &mut dyn Reader,
) -> Result<(), Failure> {
    let entries = entries.map_err(|error| Failure::Read(error.to_string()))?;
    input::store(entries, reader)
}
