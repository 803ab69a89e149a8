//! Scenario S4b: validates one decoded message against FIX 4.2 and FIX 4.4, and measures the time.
//!
//! Each launch is a separate process, as on the published page, and starts its own peers.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::measure::{OURS, Plan, Series, Slice};
use crate::operation::{Operation, Set};
use crate::ours::Ours;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};

use super::child::Side;
use super::codec::start_peers;
use super::report::{Machine, RoundCount};
use super::shared::{TABLE, at_least_one, peers_in, print_line, save_json};
use super::summary::{Estimate, median};
use super::turns::{self, Measured};

/// Validation (scenario S4b) of one message, in memory.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  transfix bench validation
  transfix bench validation --peers --json

The message says FIX.4.2 and carries Rule80A(47), which FIX 4.4 does not know: the FIX44 engine
reports that. Error is half of the 99.9 % confidence interval of the mean. The floor, one pass over
the message, has a turn before each slice; a round in which it was disturbed is run again.
Exit code: 0 done, 1 the run failed, 2 wrong usage.")]
pub(crate) struct Args {
    /// Processes to be started, one after the other.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    launches: usize,
    /// Also run other engines, from this directory or where `cargo xtask peers build` puts them,
    /// beside this program's own.
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    peers: Option<Option<PathBuf>>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Where its JSON file is written.
    #[arg(long, default_value = "bench-out", value_name = "DIR")]
    out: PathBuf,
    /// Measure in this process, once, and print raw values.
    #[arg(long, hide = true)]
    launch: bool,
}

/// Number of slices of one launch; each slice gives one value of the statistics.
const SLICES: usize = 15;
const SLICE_NS: u64 = 2_000_000;

pub(crate) fn run(args: &Args) -> ExitCode {
    let done = if args.launch { launch(args) } else { run_all(args) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench validation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The measurements of one launch.
#[derive(Serialize, Deserialize)]
struct Launch {
    rounds: RoundCount,
    floor_ns: Vec<f64>,
    series: Vec<Raw>,
    not_run: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Raw {
    method: String,
    runtime: String,
    ns: Vec<f64>,
    /// Time of each slice relative to the floor of its round.
    over_floor: Vec<f64>,
    /// Time of each slice relative to that of Transfix; empty for Transfix.
    over_ours: Vec<f64>,
}

fn launch(args: &Args) -> Result<(), String> {
    let mut ours = Ours::new()?;
    let mut peers = start_peers(args.peers.as_ref(), &ours)?;
    let plan = Plan {
        operations: &[Operation::ValidateFloor, Operation::Validate42, Operation::Validate44],
        sets: &[Set::Fixed],
        slices: SLICES,
        slice: Slice::Ns(SLICE_NS),
    };
    let Measured { floor, series, rounds, lost } =
        turns::measure(&mut ours, &mut peers, plan, "validation")?;
    let raw = |one: &Series| {
        let is_ours = |of: &&Series| of.engine == OURS && of.operation == one.operation;
        let ours = series.iter().find(is_ours).filter(|_| one.engine != OURS);
        Raw {
            method: if one.operation == Operation::Validate42 { "FIX42" } else { "FIX44" }
                .to_owned(),
            runtime: one.engine.clone(),
            ns: one.ns.clone(),
            over_floor: turns::ratios(&one.ns, &floor),
            over_ours: ours.map(|ours| turns::ratios(&one.ns, &ours.ns)).unwrap_or_default(),
        }
    };
    let not_run = peers.missing.iter().cloned().chain(lost).collect();
    let series = series.iter().map(raw).collect();
    let launch = Launch { rounds, floor_ns: floor, series, not_run };
    print_line(&serde_json::to_string(&launch).map_err(|error| error.to_string())?)
}

#[derive(Serialize)]
struct Report {
    scenario: &'static str,
    launches: usize,
    rounds: RoundCount,
    /// Time of the floor in nanoseconds: one pass over the bytes of the message.
    floor_ns: f64,
    rows: Vec<Row>,
    not_run: Vec<String>,
    machine: Machine,
}

/// A row of the published table; times are in nanoseconds.
#[derive(Debug, Serialize, PartialEq)]
struct Row {
    method: String,
    runtime: String,
    mean_ns: f64,
    error_ns: f64,
    std_dev_ns: f64,
    median_ns: f64,
    /// Time relative to the floor.
    floor_ratio: Estimate,
    /// Time relative to that of Transfix; `None` for Transfix.
    #[serde(skip_serializing_if = "Option::is_none")]
    ours_ratio: Option<Estimate>,
}

fn run_all(args: &Args) -> Result<(), String> {
    let mut report = Report {
        scenario: "S4b",
        launches: args.launches,
        rounds: RoundCount::default(),
        floor_ns: f64::NAN,
        rows: Vec::new(),
        not_run: Vec::new(),
        machine: Machine::this(),
    };
    let (mut all, mut floor_ns) = (Vec::<Raw>::new(), Vec::new());
    for _ in 0..args.launches {
        let launch = in_child(args)?;
        let Launch { rounds, floor_ns: floor, series, not_run } = launch;
        for why in not_run {
            if !report.not_run.contains(&why) {
                report.not_run.push(why);
            }
        }
        report.rounds = report.rounds.with(rounds);
        floor_ns.extend(floor);
        for raw in series {
            let is_same =
                |known: &&mut Raw| (&known.method, &known.runtime) == (&raw.method, &raw.runtime);
            match all.iter_mut().find(is_same) {
                Some(known) => {
                    known.ns.extend(raw.ns);
                    known.over_floor.extend(raw.over_floor);
                    known.over_ours.extend(raw.over_ours);
                }
                None => all.push(raw),
            }
        }
    }
    report.floor_ns = median(&floor_ns);
    report.rows = all.into_iter().map(Row::of).collect();
    show(args, &report)
}

fn in_child(args: &Args) -> Result<Launch, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args(["validation", "--launch"]);
    if let Some(dir) = &args.peers {
        peers_in(dir.as_deref())?;
        command.arg("--peers").args(dir);
    }
    let mut side = Side::start("launch", &mut command)?;
    let launch = serde_json::from_str(&side.line()?).map_err(|error| error.to_string())?;
    side.finish()?;
    Ok(launch)
}

impl Row {
    fn of(raw: Raw) -> Self {
        let Raw { method, runtime, ns, over_floor, over_ours } = raw;
        let n = ns.len().max(1) as f64;
        let mean_ns = ns.iter().sum::<f64>() / n;
        let variance = ns.iter().map(|v| (v - mean_ns).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
        let std_dev_ns = variance.sqrt();
        Self {
            method,
            runtime,
            mean_ns,
            // This factor is the quantile of the normal distribution; Student's t for 75 values
            // would be 4 % larger.
            error_ns: 3.291 * std_dev_ns / n.sqrt(),
            std_dev_ns,
            median_ns: median(&ns),
            floor_ratio: Estimate::of(&over_floor),
            ours_ratio: (!over_ours.is_empty()).then(|| Estimate::of(&over_ours)),
        }
    }
}

fn show(args: &Args, report: &Report) -> Result<(), String> {
    let json = save_json(&args.out, "validation", report)?;
    if args.json {
        return print_line(&json);
    }
    print_line(&format!("{}\n", report.machine.words()))?;
    let mut table = Table::new();
    table.load_style(TABLE);
    table.set_header(["Method", "Runtime", "Mean", "Error", "StdDev", "Median"]);
    for row in &report.rows {
        let mut cells = vec![row.method.clone(), row.runtime.clone()];
        let times = [row.mean_ns, row.error_ns, row.std_dev_ns, row.median_ns];
        cells.extend(times.map(|ns| format!("{ns:.1} ns")));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    print_line(&table.to_string())?;
    let rows = report.rows.iter().map(|row| {
        let who = format!("{}, {}", row.runtime, row.method);
        (who, row.floor_ratio, row.ours_ratio)
    });
    turns::print(rows, report.floor_ns, report.rounds, &report.not_run)?;
    print_line(&format!("176 bytes, decoded before; LaunchCount={}", report.launches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_row() {
        let raw = |over_ours: &[f64]| Raw {
            method: "FIX42".to_owned(),
            runtime: OURS.to_owned(),
            ns: vec![4.0, 2.0, 9.0, 1.0],
            over_floor: vec![1.0, 2.0, 3.0],
            over_ours: over_ours.to_vec(),
        };
        let row = Row::of(raw(&[]));
        assert_eq!((row.mean_ns, row.median_ns), (4.0, 3.0));
        assert!((row.std_dev_ns - (38.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert!((row.error_ns - 3.291 * row.std_dev_ns / 2.0).abs() < 1e-9);
        assert_eq!((row.floor_ratio.median, row.ours_ratio), (2.0, None));
        let other = Row::of(raw(&[7.0]));
        assert_eq!(other.ours_ratio.map(|of| of.median), Some(7.0));
    }
}
