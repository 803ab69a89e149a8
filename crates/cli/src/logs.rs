//! `transfix logs`: searches logs, captures and journals of this and other engines.
//!
//! Invariant: damaged messages, and messages skipped for lack of data, are counted and reported at
//! the end.

mod filter;
mod tables;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transfix_codec::shown::Shown;
use transfix_text::convert::Objects;
use transfix_text::logs::{
    self, ColumnError, Csv, Form, Gaps, Latency, Order, Query, Report, Rows, Search, Show, Sources,
    Verdict,
};

use crate::input::{Choice, Delimiter, Dictionaries, Failure, Masking, ended, failed};
use crate::print::Color;
use crate::show::count;
use filter::SearchFilter;

const EXAMPLES: &str = "\
Examples:
  transfix logs --where Symbol=EU --where 'OrderQty>=1000' --type D,8 log
  transfix logs --text 'insufficient margin' log store archive/*.log
  transfix logs --session VENUE-DESK --in --from 20261121-09:28:00 --to 20261121-09:30:00 log
  transfix logs --where OrdStatus=REJECTED --context 3 today.log
  transfix logs --where ExecType=TRADE --csv time,Symbol,Side,LastQty,LastPx today.log
  transfix logs --follow --type 3,j log              new messages, also after log rotation
  transfix logs --order A-4711 log                   all messages of an order
  transfix logs --order A-4711 --json log            the same, as one JSON object in each line
  transfix logs --gaps --session DESK log            gaps and repeats of MsgSeqNum(34)
  transfix logs --latency --in --type D log          from each order received to its answer
  transfix logs --latency --csv time,ClOrdID,Symbol,latency_ns log >all.csv
  transfix logs --count --type D - <today.log

A directory is a store, or means all stores and logs in the directory. The search reads logs of
Transfix, QuickFIX C++, /J, /n and Go, Fix8 and FIX Antenna, and any other file with FIX messages,
delimited by SOH, |, ; or ^A. The direction of a message comes from the line of the log, the name of
the file, or the CompIDs; its time comes from the line, otherwise from SendingTime(52). At the end,
standard error shows the number of damaged messages and of messages that lack data for the search.

With --latency, a request is an order, a cancel, a replace or a status request with a ClOrdID(11),
or a message of --type. The answer is the first message in the other direction with the same
ClOrdID(11), or a reject of the request. All other options select requests.

Exit code: 0 messages were found, 1 no message was found, 2 wrong usage or input that cannot be
read. With --gaps: 0 no number is missing, 1 numbers are missing, or no message was found. With
--latency: 0 a request has an answer, 1 no request has an answer.";

/// Searches logs, captures and journals by field, text, session or time; shows orders, gaps and
/// latency.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, stores, directories of both, or `-` for the standard input.
    #[arg(required = true, value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    sought: SearchFilter,
    #[command(flatten)]
    forms: Forms,
    /// Shows all messages of the order with this ClOrdID(11), OrigClOrdID(41) or OrderID(37), and
    /// of orders that replace this order. Sorted by time, as a table or in the requested form.
    #[arg(long, value_name = "ID", conflicts_with = "gaps")]
    order: Option<String>,
    /// Shows the times from requests to their answers, by ClOrdID(11): count, percentiles, the
    /// slowest requests. With `--csv` shows all requests, also with the columns answer_time, answer
    /// and latency_ns.
    #[arg(long, conflicts_with_all = ["full", "raw", "json", "count", "order", "gaps"])]
    latency: bool,
    /// Continues with new messages as they are written, also after log rotation.
    #[arg(long, short, conflicts_with_all = ["count", "order", "gaps", "latency"])]
    follow: bool,
    /// Ends after this number of messages; with `--latency`, the number of slowest requests to show
    /// (default 10).
    #[arg(long, short = 'n', value_name = "N", conflicts_with_all = ["order", "gaps"])]
    limit: Option<u64>,
    /// Shows this number of messages before and after each match; a `>` marks the match.
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(conflicts_with_all = ["count", "order", "gaps", "latency", "csv", "json"])]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1000))]
    context: u16,
    /// Delimiter between fields. Default: detected for each message.
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

/// Form of the output. Default: one line for each message, with names.
#[derive(clap::Args, Debug)]
#[group(multiple = false)]
struct Forms {
    /// Prints each field in a separate line.
    #[arg(long)]
    full: bool,
    /// Prints the bytes of each message, followed by a line break.
    #[arg(long)]
    raw: bool,
    /// Prints the values of these fields as CSV; time, direction, session and file are accepted
    /// too.
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    csv: Vec<String>,
    /// Prints a JSON object in each line: time, direction, session, and the message as `transfix
    /// convert` writes it.
    #[arg(long)]
    json: bool,
    /// Prints only the number of messages.
    #[arg(long)]
    count: bool,
    /// Shows gaps and repeats of MsgSeqNum(34), and the messages about them, such as
    /// ResendRequest(2).
    #[arg(long)]
    gaps: bool,
}

/// Interval between two checks of followed files.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Runs the search and returns the exit code.
pub(crate) fn run(args: &Args) -> ExitCode {
    ended(match () {
        () if args.forms.gaps => gaps(args),
        () if args.latency => latency(args),
        () if args.order.is_some() => order(args),
        () => search(args),
    })
}

/// Returns the dictionaries and the query that the options describe.
fn asked(args: &Args) -> Result<(Dictionaries, Query), Failure> {
    let mut known = args.dictionary.load().map_err(Failure::Read)?;
    let query = args.sought.query(&mut known).map_err(Failure::Read)?;
    Ok((known, query))
}

fn search(args: &Args) -> Result<ExitCode, Failure> {
    let (mut known, query) = asked(args)?;
    let form = form(args, &mut known)?;
    let is_count = matches!(form, Form::Count);
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let show = Show::new(out, form, known, args.masking.mask());
    let mut report = report();
    let sources = sources(args, &mut report);
    let mut search = Search::new(show, query, report).around(usize::from(args.context));
    search.limit = args.limit;
    search.has_headings = sources.all.len() > 1 || args.follow;
    let delimiter = args.delimiter.map(Into::into);
    match args.follow {
        true => search.follow(&args.paths, sources.all, delimiter, &mut is_read_on)?,
        false => search.read(&sources.all, delimiter)?,
    }
    let matches = search.matches;
    let (mut out, report) = search.finish()?;
    if is_count {
        writeln!(out, "{matches}")?;
        out.flush()?;
    }
    let first = report.share(matches);
    say(&report, (!is_count).then_some(&first));
    Ok(code(&report, matches > 0))
}

/// Waits for one poll interval. Returns false if standard output is closed, so that nobody reads
/// the result.
fn is_read_on() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    // A signal only shortens the wait, so its error is ignored.
    let _ = poll(&mut ends, Some(&POLL));
    !ends[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// Returns the output form that the options select.
fn form(args: &Args, known: &mut Dictionaries) -> Result<Form, Failure> {
    let Forms { full, raw, csv, json, count, .. } = &args.forms;
    Ok(match () {
        () if *raw => Form::Raw,
        () if *json => {
            let dictionaries = args.dictionary.load().map_err(Failure::Read)?;
            Form::Json(Box::new(Objects::new(dictionaries, false)))
        }
        () if *count => Form::Count,
        () if !csv.is_empty() => Form::Csv(columns(csv, Rows::Messages, known)?),
        () => Form::Readable { one_line: !full, palette: args.color.palette() },
    })
}

fn columns(words: &[String], rows: Rows, known: &mut Dictionaries) -> Result<Csv, Failure> {
    Csv::of(words, rows, known).map_err(|error| {
        Failure::Read(match error {
            ColumnError::OfAnswers(word) => {
                format!("--csv: '{word}' is a column of --latency; add --latency")
            }
            ColumnError::Unknown(text) => format!("--csv: {text}"),
        })
    })
}

fn order(args: &Args) -> Result<ExitCode, Failure> {
    let (mut known, query) = asked(args)?;
    let id = args.order.as_deref().unwrap_or_default();
    let form = form(args, &mut known)?;
    let is_count = matches!(form, Form::Count);
    let mut report = report();
    let sources = sources(args, &mut report);
    let mut order = Order::new(id, query, (known, args.masking.mask()), report);
    // Without an option for the output form, an order is shown as a table.
    if !matches!(form, Form::Readable { one_line: true, .. }) {
        let known = args.dictionary.load().map_err(Failure::Read)?;
        order.show_by(Show::new(Vec::new(), form, known, args.masking.mask()))?;
    }
    let done = order.read(sources.all, args.delimiter.map(Into::into));
    if let Some(excess) = order.excess() {
        let remedy = "narrow the search with --session, --from and --to";
        return Err(Failure::Read(format!("--order: {excess}; {remedy}")));
    }
    done?;
    let mut found = order.finish();
    let rows = found.rows.len() as u64;
    if rows == 0 {
        let id = Shown::whole(id.as_bytes());
        let note = format!("no message has {id} as ClOrdID(11), OrigClOrdID(41) or OrderID(37)");
        found.report.note(note);
    }
    let text = match is_count {
        true => format!("{rows}\n").into_bytes(),
        false => tables::order(found.heading, found.rows),
    };
    let first = found.report.share(rows);
    tell(&text, (!is_count).then_some(&*first), rows > 0, &found.report)
}

fn gaps(args: &Args) -> Result<ExitCode, Failure> {
    args.sought.check_for_gaps().map_err(Failure::Read)?;
    let (known, query) = asked(args)?;
    let mut report = report();
    let sources = sources(args, &mut report);
    let mut gaps = Gaps::new(query, known.index(), args.masking.mask(), report);
    gaps.read(&sources.all, args.delimiter.map(Into::into))?;
    let found = gaps.finish();
    let table = tables::gaps(&found);
    let first = count(found.report.messages(), "message");
    tell(table.as_bytes(), Some(&first), found.verdict == Verdict::Complete, &found.report)
}

fn latency(args: &Args) -> Result<ExitCode, Failure> {
    let (mut known, query) = asked(args)?;
    let csv = match &args.forms.csv[..] {
        [] => None,
        _ if args.limit.is_some() => {
            let text = "--limit has no effect, because --latency --csv writes all requests; \
                        remove --limit";
            return Err(Failure::Read(text.to_owned()));
        }
        words => Some(columns(words, Rows::Requests, &mut known)?),
    };
    let has_tables = csv.is_none();
    let mut report = report();
    let sources = sources(args, &mut report);
    let out = BufWriter::new(io::stdout().lock());
    let mut latency = Latency::new((out, csv), query, (known, args.masking.mask()), report);
    latency.show_slowest(args.limit.unwrap_or(logs::SLOWEST));
    latency.read(sources.all, args.delimiter.map(Into::into))?;
    let found = latency.finish()?;
    if has_tables {
        io::stdout().lock().write_all(tables::latencies(&found).as_bytes())?;
    }
    say(&found.report, Some(&count(found.report.messages(), "message")));
    Ok(code(&found.report, found.answered > 0))
}

/// Writes a text to standard output, and the report below the line `first` to standard error.
fn tell(
    text: &[u8],
    first: Option<&str>,
    is_good: bool,
    report: &Report,
) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    say(report, first);
    Ok(code(report, is_good))
}

fn code(report: &Report, is_good: bool) -> ExitCode {
    match (report.has_failed(), is_good) {
        (true, _) => ExitCode::from(2),
        (false, false) => ExitCode::FAILURE,
        (false, true) => ExitCode::SUCCESS,
    }
}

/// Creates a report that prints problems with unreadable input at once.
pub(crate) fn report() -> Report {
    Report::telling(|text| _ = failed(text))
}

/// Prints the line `first`, if any, and the report below that line to standard error.
pub(crate) fn say(report: &Report, first: Option<&str>) {
    let mut err = io::stderr().lock();
    if let Some(first) = first {
        let _ = writeln!(err, "{first}");
    }
    let _ = write!(err, "{report}");
}

fn sources(args: &Args, report: &mut Report) -> Sources {
    let sources = Sources::of(&args.paths);
    sources.tell(report);
    sources
}
