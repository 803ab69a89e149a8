//! `transfix logs`: a search in logs, captures and journals, of this engine and of others.
//!
//! Invariant: a message that is left out because nothing tells enough of it is counted, and said at
//! the end; so is what is damaged.

mod condition;
mod follow;
mod gaps;
mod latency;
mod merge;
mod numbers;
mod order;
mod origin;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod query;
mod quick;
mod report;
mod search;
mod show;
mod sources;
mod spill;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use transfix_codec::shown::Shown;
use transfix_store::StoreError;
use transfix_store::journal;

use crate::convert::ToJson;
use crate::input::{self, Choice, Delimiter, Dictionaries, Failure, Masking, Sink, failed};
use crate::print::Color;
use gaps::{Gaps, Verdict};
use latency::Latency;
use order::{Order, PASSES_MAX};
use query::{Query, Sought};
use report::Report;
use search::Search;
use show::{Csv, Form, Rows, Show};
use sources::{Kind, Source, Sources};

const EXAMPLES: &str = "\
Examples:
  transfix logs --where Symbol=EU --where 'OrderQty>=1000' --type D,8 log
  transfix logs --text 'insufficient margin' log store archive/*.log
  transfix logs --session VENUE-DESK --in --from 20261121-09:28:00 --to 20261121-09:30:00 log
  transfix logs --where OrdStatus=REJECTED --context 3 today.log
  transfix logs --where ExecType=TRADE --csv time,Symbol,Side,LastQty,LastPx today.log
  transfix logs --follow --type 3,j log              what comes in, over the rolling of files
  transfix logs --order A-4711 log                   the life of an order
  transfix logs --order A-4711 --json log            the same, an object a line
  transfix logs --gaps --session DESK log            gaps and repeats of MsgSeqNum(34)
  transfix logs --latency --in --type D log          from each order received to its answer
  transfix logs --latency --csv time,ClOrdID,Symbol,latency_ns log >all.csv
  transfix logs --count --type D - <today.log

A directory stands for the store that it is, or for all stores and logs in it. Read are the logs of
this engine, of QuickFIX C++, /J, /n and Go, of Fix8 and FIX Antenna, and whatever else holds FIX
messages, delimited by SOH, |, ; or ^A. A direction is taken from the line of the log, the name of
the file, or the CompIDs in it; a time from the line, else from SendingTime(52).
Damaged messages, and messages that lack data for the search, are counted at the end on the standard
error.

With --latency a request is a message with a ClOrdID(11) that asks for something: an order, a
cancel, a replace, a status request, or the types of --type. The answer is the first message the
other way with that ClOrdID(11), or a reject of it. All other options choose requests.

Exit code: 0 something was found, 1 nothing was found, 2 wrong usage or input that cannot be read.
With --gaps: 0 no number is missing, 1 some are, or there is no message to look at.
With --latency: 0 a request has an answer, 1 none has.";

/// Searches logs, captures and journals: by field, text, session, time; orders, gaps, latency.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, stores, directories of both, or `-` for the standard input.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    sought: Sought,
    #[command(flatten)]
    forms: Forms,
    /// All messages of the order with this ClOrdID(11), OrigClOrdID(41) or OrderID(37), and of
    /// orders that replace it. Sorted by time, as a table or in the requested form.
    #[arg(long, value_name = "ID", conflicts_with = "gaps")]
    order: Option<String>,
    /// Times from requests to their answers, by ClOrdID(11): how many, percentiles, the slowest.
    /// With `--csv` all of them, which may have the columns answer_time, answer and latency_ns.
    #[arg(long, conflicts_with_all = ["full", "raw", "json", "count", "order", "gaps"])]
    latency: bool,
    /// Goes on with what is written later, over the rolling of files.
    #[arg(long, short, conflicts_with_all = ["count", "order", "gaps", "latency"])]
    follow: bool,
    /// Ends after so many messages; with `--latency` shows so many of the slowest, else 10.
    #[arg(long, short = 'n', value_name = "N", conflicts_with_all = ["order", "gaps"])]
    limit: Option<u64>,
    /// Shows so many messages before and after each that is found, which has a `>`.
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(conflicts_with_all = ["count", "order", "gaps", "latency", "csv", "json"])]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1000))]
    context: u16,
    /// Delimiter between fields; detected for each message if left out.
    #[arg(long, value_enum)]
    delimiter: Option<Delimiter>,
    #[command(flatten)]
    dictionary: Choice,
    #[command(flatten)]
    masking: Masking,
    /// Use of colours; `auto` uses colours on a terminal, unless NO_COLOR is set.
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    color: Color,
}

/// The form of the output; the default is one line a message, with names.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct Forms {
    /// Each field in a line of its own.
    #[arg(long)]
    full: bool,
    /// The bytes of each message, and a line break.
    #[arg(long)]
    raw: bool,
    /// The values of these fields; also time, direction, session and file.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    csv: Vec<String>,
    /// An object a line: time, direction, session, and the message as `transfix convert` writes it.
    #[arg(long)]
    json: bool,
    /// Only the number of messages.
    #[arg(long)]
    count: bool,
    /// Gaps and repeats of MsgSeqNum(34), and what was said of them.
    #[arg(long)]
    gaps: bool,
}

/// Searches.
pub(crate) fn run(args: &Args) -> ExitCode {
    let done = match () {
        () if args.forms.gaps => gaps(args),
        () if args.latency => latency(args),
        () if args.order.is_some() => order(args),
        () => search(args),
    };
    match done {
        Ok(code) => code,
        // A closed pipe (`| head`) is the reader's choice.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Write(error)) => failed(&format!("cannot write: {error}")),
        Err(Failure::Read(error)) => failed(&error),
        Err(Failure::Enough) => ExitCode::SUCCESS,
    }
}

fn search(args: &Args) -> Result<ExitCode, Failure> {
    let mut known = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let query = Query::of(&args.sought, &mut known).map_err(Failure::Read)?;
    let form = form(args, &mut known)?;
    let is_count = matches!(form, Form::Count);
    let index = known.index();
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let show = Show::new(out, form, known, args.masking.mask());
    let mut search = Search::new(show, query, index);
    search.limit = args.limit;
    search.around.count = usize::from(args.context);
    let sources = sources(args, &mut search.report);
    search.has_headings = sources.all.len() > 1 || args.follow;
    let done = if search.is_enough() {
        Ok(())
    } else if args.follow {
        follow::follow(&args.paths, sources.all, args.delimiter, &mut search)
    } else {
        each(&sources.all, args.delimiter, &mut search)
    };
    match done {
        Ok(()) | Err(Failure::Enough) => {}
        Err(other) => return Err(other),
    }
    search.show.names()?;
    if is_count {
        writeln!(search.show.out, "{}", search.matches)?;
    }
    search.show.out.flush()?;
    left_out(&search.query, &mut search.report);
    let first = search.report.share(search.matches);
    search.report.say((!is_count).then_some(&first));
    Ok(code(&search.report, search.matches > 0))
}

/// The form in which messages are shown.
fn form(args: &Args, known: &mut Dictionaries) -> Result<Form, Failure> {
    let Forms { full, raw, csv, json, count, .. } = &args.forms;
    Ok(match () {
        () if *raw => Form::Raw,
        () if *json => {
            let dictionaries = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
            Form::Json(Box::new(ToJson::new(dictionaries, false, io::sink())))
        }
        () if *count => Form::Count,
        () if !csv.is_empty() => {
            Form::Csv(Csv::of(csv, Rows::Messages, known).map_err(Failure::Read)?)
        }
        () => Form::Readable { one_line: !full, palette: args.color.palette() },
    })
}

fn order(args: &Args) -> Result<ExitCode, Failure> {
    let mut known = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let query = Query::of(&args.sought, &mut known).map_err(Failure::Read)?;
    let id = args.order.as_deref().unwrap_or_default();
    let form = form(args, &mut known)?;
    let is_count = matches!(form, Form::Count);
    let mut order = Order::new(id, query, known, args.masking.mask());
    // Without another form it is a table.
    if !matches!(form, Form::Readable { one_line: true, .. }) {
        let known = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
        order.show_by(Show::new(Vec::new(), form, known, args.masking.mask()))?;
    }
    let mut sources = sources(args, &mut order.report);
    // It is read several times.
    let _spilled = spill::spill(&mut sources.all)?;
    for pass in 1.. {
        each(&sources.all, args.delimiter, &mut order)?;
        if pass == PASSES_MAX || !order.wants_more() {
            break;
        }
    }
    left_out(&order.query, &mut order.report);
    let (mut text, rows, mut report) = order.text();
    if rows == 0 {
        let id = Shown::whole(id.as_bytes());
        report.note(format!("no message has {id} as ClOrdID(11), OrigClOrdID(41) or OrderID(37)"));
    }
    if is_count {
        text = format!("{rows}\n").into_bytes();
    }
    let first = report.share(rows);
    tell(&text, (!is_count).then_some(&*first), rows > 0, &report)
}

fn gaps(args: &Args) -> Result<ExitCode, Failure> {
    args.sought.check_for_gaps().map_err(Failure::Read)?;
    let mut known = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let query = Query::of(&args.sought, &mut known).map_err(Failure::Read)?;
    let mut gaps = Gaps::new(query, known.index(), args.masking.mask());
    let sources = sources(args, &mut gaps.report);
    each(&sources.all, args.delimiter, &mut gaps)?;
    left_out(&gaps.query, &mut gaps.report);
    let verdict = gaps.verdict();
    if verdict == Verdict::Unknown {
        gaps.report.note("no message to look at, so nothing is known of gaps".to_owned());
    }
    let (table, report) = gaps.table();
    let first = crate::show::count(report.messages, "message");
    tell(table.as_bytes(), Some(&first), verdict == Verdict::Complete, &report)
}

fn latency(args: &Args) -> Result<ExitCode, Failure> {
    let mut known = Dictionaries::new(&args.dictionary).map_err(Failure::Read)?;
    let query = Query::of(&args.sought, &mut known).map_err(Failure::Read)?;
    let csv = match &args.forms.csv[..] {
        [] => None,
        _ if args.limit.is_some() => {
            let text = "--limit: --latency --csv writes all requests; leave it out";
            return Err(Failure::Read(text.to_owned()));
        }
        words => Some(Csv::of(words, Rows::Requests, &mut known).map_err(Failure::Read)?),
    };
    let mut report = Report::default();
    let sources = sources(args, &mut report);
    let out = BufWriter::new(io::stdout().lock());
    let mut latency = Latency::new(out, csv, query, known, args.masking.mask());
    latency.show_slowest(args.limit.unwrap_or(latency::SLOWEST));
    let wanted = latency::Wanted::new();
    let is_wanted = |bytes: &[u8], by| wanted.takes(bytes, by);
    for (name, files) in merge::logs(sources.all) {
        latency.begin(&name, files.len() > 1)?;
        merge::read(files, args.delimiter, &mut report, &is_wanted, &mut |held| {
            latency.take(held)
        })?;
        latency.end()?;
    }
    let answered = latency.finish(&mut report)?;
    report.say(Some(&crate::show::count(report.messages, "message")));
    Ok(code(&report, answered > 0))
}

/// Writes a text, and what is to be said below a first line.
fn tell(
    text: &[u8],
    first: Option<&str>,
    is_good: bool,
    report: &Report,
) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    report.say(first);
    Ok(code(report, is_good))
}

fn code(report: &Report, is_good: bool) -> ExitCode {
    match (report.has_failed(), is_good) {
        (true, _) => ExitCode::from(2),
        (false, false) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
    }
}

fn sources(args: &Args, report: &mut Report) -> Sources {
    let sources = Sources::of(&args.paths);
    say_sources(&sources, report);
    sources
}

/// Says what is not read of the paths.
fn say_sources(sources: &Sources, report: &mut Report) {
    sources.unreadable.iter().for_each(|error| report.failed(error));
    if sources.others > 0 {
        let others = crate::show::count(sources.others, "other file");
        report.note(format!("{others} in the directories: not read, by their names no logs"));
    }
}

/// Says how many messages were left out since nothing told of them what was asked for.
fn left_out(query: &Query, report: &mut Report) {
    let mut note = |messages: u64, text: &str| {
        if messages > 0 {
            let messages = crate::show::count(messages, "message");
            report.note(format!("{messages} left out: {text}"));
        }
    };
    note(query.without_way, "neither the log nor its name tells the direction");
    note(query.without_time, "neither the log nor SendingTime(52) tells the time");
}

/// A sink that is told where messages come from.
trait Reader: Sink {
    fn begin(&mut self, source: &Source);
    fn report(&mut self) -> &mut Report;
}

impl<W: Write> Reader for Search<W> {
    fn begin(&mut self, source: &Source) {
        Self::begin(self, source);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl Reader for Order {
    fn begin(&mut self, source: &Source) {
        Self::begin(self, source);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

impl Reader for Gaps {
    fn begin(&mut self, source: &Source) {
        Self::begin(self, source);
    }

    fn report(&mut self) -> &mut Report {
        &mut self.report
    }
}

/// Reads all sources; one that cannot be read does not keep the others from it.
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

/// Says so if a file has no message in it.
fn strange(source: &Source, before: (u64, u64), report: &mut Report) {
    let is_empty = source.path.metadata().is_ok_and(|metadata| metadata.len() == 0);
    if report.messages > before.0 || is_empty {
        return;
    }
    if report.garbled > before.1 {
        report.failed(&format!("{}: no log of FIX messages", source.name));
    } else {
        report.note(format!("{}: no FIX message in it", source.name));
    }
}

fn entries(
    entries: Result<impl Iterator<Item = Result<journal::Entry, StoreError>>, StoreError>,
    reader: &mut dyn Reader,
) -> Result<(), Failure> {
    let entries = entries.map_err(|error| Failure::Read(error.to_string()))?;
    input::store(entries, reader)
}
