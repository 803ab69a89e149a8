//! Scenario S2a: encodes and decodes the NewOrderSingle(D) of the published page "Fix8 vs
//! QuickFIX", with our codec and others.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::measure::{OURS, Plan, Series, Slice};
use crate::operation::{Operation, Set};
use crate::ours::Ours;
use crate::peer::Peers;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::report::{Machine, RoundCount};
use super::shared::{TABLE, at_least_one, peers_in, print_line, save_json};
use super::summary::{Estimate, median};
use super::turns::{self, Measured};

/// Order codec (scenario S2a): encoding and decoding.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench codec
  transfix bench codec --peers --json

The page meant here is Fix8's published comparison `Fix8 vs QuickFIX`: its order, its two operations
and its table. The engines take turns, run by run; before each of them the floor has a turn, one
pass over the same bytes, and a run whose floor was disturbed is repeated. `to string` is the page's
encoding: each message is built anew, and only its turning into bytes is timed. Transfix, and the
codecs that have no message object, write while the message is built: theirs is the time of both.
`from string` is the page's decoding; the dictionary is used where an engine decodes with one.
Improvement and ratio are those over QuickFIX C++, in the same run; medians of the rounds stand
below, of ours over the floor and of others over ours, with the interval in which they lie with 95 %
confidence.
Exit code: 0 done, 1 the run failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// Number of messages in one run.
    #[arg(long, default_value_t = 100_000, value_parser = at_least_one)]
    messages: usize,
    /// Number of runs; figures are averages over them.
    #[arg(long, default_value_t = 10, value_parser = at_least_one)]
    runs: usize,
    /// Also run the codecs of other engines, from this directory or from the directory of
    /// `cargo xtask peers build`.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Path of the result as a JSON file.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match measured(args).and_then(|report| show(args, &report)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench codec: {error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    messages: usize,
    runs: usize,
    message_bytes: usize,
    rounds: RoundCount,
    /// Nanoseconds of one pass over the bytes of a message.
    floor_ns: f64,
    rows: Vec<Row>,
    not_run: Vec<String>,
    machine: Machine,
}

/// A line of the published page's table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    framework: String,
    operation: &'static str,
    messages: usize,
    /// Seconds of one run, averaged over all runs.
    seconds: f64,
    messages_per_s: f64,
    us_per_message: f64,
    /// Percentage of time saved, compared to QuickFIX C++.
    #[serde(skip_serializing_if = "Option::is_none")]
    improvement_percent: Option<f64>,
    /// Messages per second, as a multiple of QuickFIX C++.
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput_ratio: Option<f64>,
    /// Time, as a multiple of the floor.
    floor_ratio: Estimate,
    /// Time of another engine, as a multiple of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_ratio: Option<Estimate>,
}

const TO_STRING: &str = "to string";
const BUILD_TO_STRING: &str = "build and to string";
const FROM_STRING: &str = "from string";
const VALIDATED: &str = "from string, validated";
/// The engine that is the base of `improvement_percent` and `throughput_ratio`.
const BASE: &str = "quickfix-cpp";

fn measured(args: &Args) -> Result<Report, String> {
    let mut ours = Ours::new()?;
    let mut peers = start_peers(args.peers.as_ref(), &ours)?;
    let plan = Plan {
        operations: &[
            Operation::Floor,
            Operation::Encode,
            Operation::BuildEncode,
            Operation::Decode,
            Operation::DecodeValidate,
        ],
        sets: &[Set::Fixed],
        slices: args.runs,
        slice: Slice::Times(args.messages as u64),
    };
    let measured = turns::measure(&mut ours, &mut peers, plan, "codec")?;
    let message_bytes = ours.frames(Set::Fixed)[0].len();
    Ok(Report {
        scenario: "S2a",
        messages: args.messages,
        runs: args.runs,
        message_bytes,
        rounds: measured.rounds,
        floor_ns: median(&measured.floor),
        rows: rows(&measured, args.messages),
        not_run: peers.missing.iter().cloned().chain(measured.lost).collect(),
        machine: Machine::this(),
    })
}

/// Starts the peers if the command line requests them.
pub(super) fn start_peers(dir: Option<&Option<PathBuf>>, ours: &Ours) -> Result<Peers, String> {
    let Some(dir) = dir else { return Ok(Peers::default()) };
    Peers::start(&peers_in(dir.as_deref())?, ours)
}

fn rows(measured: &Measured, messages: usize) -> Vec<Row> {
    let series = &measured.series;
    let has_encode = |engine: &str| {
        series.iter().any(|s| s.engine == engine && s.operation == Operation::Encode)
    };
    let mut rows = Vec::new();
    for (operation, name) in [
        (Operation::Encode, TO_STRING),
        (Operation::BuildEncode, BUILD_TO_STRING),
        (Operation::Decode, FROM_STRING),
        (Operation::DecodeValidate, VALIDATED),
    ] {
        let stands = |s: &&Series| {
            // An engine that encodes while it builds the message has no separate step, so both rows
            // show the total time.
            let is_both = operation == Operation::Encode && s.operation == Operation::BuildEncode;
            s.operation == operation || is_both && !has_encode(&s.engine)
        };
        let base = series.iter().find(|s| s.operation == operation && s.engine.starts_with(BASE));
        let ours = series.iter().find(|s| stands(s) && s.engine == OURS);
        let row = |s| row(s, (name, messages), &measured.floor, (ours, base));
        let mut group: Vec<Row> = series.iter().filter(stands).map(row).collect();
        // Our rows come first, whatever their operation is called.
        group.sort_by_key(|row| row.framework != OURS);
        rows.extend(group);
    }
    rows
}

/// Creates a row. `ours` and `base` are the series to compare with; `None` if `series` itself is
/// that series.
fn row(
    series: &Series,
    (operation, messages): (&'static str, usize),
    floor: &[f64],
    (ours, base): (Option<&Series>, Option<&Series>),
) -> Row {
    let ns = series.mean_ns();
    let is_other = |one: &&Series| one.engine != series.engine;
    let ratio = base.filter(is_other).map(|base| base.mean_ns() / ns);
    Row {
        framework: series.engine.clone(),
        operation,
        messages,
        seconds: ns * messages as f64 / 1e9,
        messages_per_s: 1e9 / ns,
        us_per_message: ns / 1e3,
        improvement_percent: ratio.map(|ratio| (1.0 - 1.0 / ratio) * 100.0),
        throughput_ratio: ratio,
        floor_ratio: turns::over(&series.ns, floor),
        ours_ratio: ours.filter(is_other).map(|ours| turns::over(&series.ns, &ours.ns)),
    }
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    let json = save_json(&args.out, "codec", report)?;
    if args.json {
        return print_line(&json);
    }
    print_line(&format!("{}\n", report.machine.words()))?;
    // Prints the lines of the published page, one pair for each framework.
    for row in &report.rows {
        if [TO_STRING, FROM_STRING].contains(&row.operation) {
            print_line(&format!(
                "{}: {} - {:.6} seconds",
                row.framework, row.operation, row.seconds
            ))?;
        }
    }
    print_line(&table(&report.rows).to_string())?;
    let rows = report.rows.iter().map(|row| {
        let who = format!("{}, {}", row.framework, row.operation);
        (who, row.floor_ratio, row.ours_ratio)
    });
    turns::print(rows, report.floor_ns, report.rounds, &report.not_run)?;
    print_line(&format!(
        "NewOrderSingle(D), {} bytes; {} messages a run, average of {} runs",
        report.message_bytes, report.messages, report.runs
    ))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE);
    table.set_header([
        "framework",
        "operation",
        "messages",
        "seconds",
        "msg/s",
        "µs/msg",
        "% improvement",
        "throughput ratio",
    ]);
    for row in rows {
        table.add_row([
            row.framework.clone(),
            row.operation.to_owned(),
            row.messages.to_string(),
            format!("{:.4}", row.seconds),
            format!("{:.0}", row.messages_per_s),
            format!("{:.3}", row.us_per_message),
            row.improvement_percent.map(|p| format!("{p:.1}")).unwrap_or_default(),
            row.throughput_ratio.map(|r| format!("{r:.1}")).unwrap_or_default(),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(engine: &str, operation: Operation, ns: f64) -> Series {
        Series { engine: engine.to_owned(), operation, set: Set::Fixed, ns: vec![ns] }
    }

    #[test]
    fn rows_of_the_page() {
        let series = vec![
            series("quickfix-cpp-1", Operation::Encode, 500.0),
            series(OURS, Operation::BuildEncode, 100.0),
            series("quickfix-cpp-1", Operation::BuildEncode, 2_000.0),
            series(OURS, Operation::Decode, 50.0),
            series("other", Operation::Decode, 2_000.0),
        ];
        let measured =
            Measured { floor: vec![10.0], series, rounds: RoundCount::default(), lost: Vec::new() };
        let got: Vec<_> = rows(&measured, 1_000)
            .into_iter()
            .map(|r| (r.framework, r.operation, r.throughput_ratio, r.improvement_percent))
            .collect();
        let expected = [
            (OURS, TO_STRING, Some(5.0), Some(80.0)),
            ("quickfix-cpp-1", TO_STRING, None, None),
            (OURS, BUILD_TO_STRING, Some(20.0), Some(95.0)),
            ("quickfix-cpp-1", BUILD_TO_STRING, None, None),
            (OURS, FROM_STRING, None, None),
            ("other", FROM_STRING, None, None),
        ];
        assert_eq!(got, expected.map(|(name, o, r, p)| (name.to_owned(), o, r, p)));
        let rows = rows(&measured, 1_000);
        let ratios =
            |n: usize| (rows[n].floor_ratio.median, rows[n].ours_ratio.map(|of| of.median));
        assert_eq!([0, 1, 5].map(ratios), [(10.0, None), (50.0, Some(5.0)), (200.0, Some(40.0))]);
    }
}
