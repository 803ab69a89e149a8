//! `transfix bench report` and `transfix bench compare`: what the files of runs say together.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table};

use super::html::{self, Runs};
use super::page::PAGES;
use super::report::{Report, Series, us};
use super::shared::{TABLE, print_line};
use super::summary::Estimate;

/// Options of `transfix bench report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix bench report
  transfix bench report bench-out

Writes report.html into the directory: tables, curves, histograms and settings of all runs whose
files are there, beside what the vendors have published. It needs no network.
Exit code: 0 done, 1 there is no run or the page cannot be written, 2 wrong usage.")]
pub(crate) struct ReportArgs {
    /// Where the scenarios have written their files (`--out`).
    #[arg(default_value = "bench-out")]
    dir: PathBuf,
}

/// Options of `transfix bench compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix bench compare before after
  transfix bench compare before/latency-default.json after/latency-default.json

What counts is the ratio to the floor of the same run: it has moved if the intervals in which it
lies with 95 % confidence are apart; otherwise the difference is noise. Microseconds are shown, but
two runs on one machine differ by them for many reasons.
Exit code: 0 done, 1 a file cannot be read or nothing can be compared, 2 wrong usage.")]
pub(crate) struct CompareArgs {
    /// Files of the run before: a directory, or one `.json`.
    before: PathBuf,
    /// Files of the run after.
    after: PathBuf,
}

/// Makes the page.
pub(crate) fn report(args: &ReportArgs) -> ExitCode {
    let done = read(&args.dir).and_then(|runs| {
        let Runs { round_trips, throughput, router, micro } = &runs;
        let is_empty = round_trips.is_empty() && micro.is_empty();
        if is_empty && throughput.is_none() && router.is_none() {
            return Err(format!("{}: no run is there", args.dir.display()));
        }
        let path = args.dir.join("report.html");
        std::fs::write(&path, html::page(&runs))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        print_line(&path.display().to_string())
    });
    ended("report", done)
}

/// Says what moved.
pub(crate) fn compare(args: &CompareArgs) -> ExitCode {
    let done = read(&args.before).and_then(|before| {
        let after = read(&args.after)?;
        let table = table(&before.round_trips, &after.round_trips);
        if table.row_count() == 0 {
            return Err("no scenario and configuration is in both".to_owned());
        }
        print_line(&table.to_string())?;
        for remark in remarks(&before, &after) {
            print_line(&remark)?;
        }
        print_line("Two runs of one program may differ by a tenth: repeat before you believe less.")
    });
    ended("compare", done)
}

fn ended(verb: &str, done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The runs of a directory, or the one of a file, in the order of scenarios and configurations.
fn read(path: &Path) -> Result<Runs, String> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| said(&error))?;
        let all = entries.map(|entry| entry.map(|entry| entry.path()));
        files = all.collect::<Result<_, _>>().map_err(|error| said(&error))?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    }
    let mut runs = Runs::default();
    for file in files {
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(&file).map_err(|error| said(&error))?;
        let value: serde_json::Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(error) if path.is_dir() => {
                eprintln!("left out: {}", said(&error));
                continue;
            }
            Err(error) => return Err(said(&error)),
        };
        let scenario = value["scenario"].as_str().unwrap_or_default();
        if ["S2a", "S4b"].contains(&scenario) {
            runs.micro.insert(scenario.to_owned(), value);
        } else if scenario == "S3" {
            runs.router = Some(value);
        } else if scenario == "throughput" {
            runs.throughput = Some(value);
        } else if PAGES.iter().any(|page| page.scenario == scenario) {
            let run = serde_json::from_value(value).map_err(|error| said(&error))?;
            runs.round_trips.push(run);
        }
    }
    runs.round_trips.sort_by_key(place);
    Ok(runs)
}

/// Where a run stands among the scenarios, and its configuration among those of the page.
fn place(run: &Report) -> (usize, usize, String) {
    let page = PAGES.iter().position(|page| page.scenario == run.scenario);
    let column = page.and_then(|page| {
        let mut columns = PAGES[page].columns().flatten();
        columns.position(|column| column.name == run.configuration)
    });
    let last = usize::MAX;
    (page.unwrap_or(last), column.unwrap_or(last), run.configuration.clone())
}

fn table(before: &[Report], after: &[Report]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE);
    table.set_header([
        "scenario, side",
        "p50 µs",
        "p50/floor",
        "at p50",
        "p99 µs",
        "p99/floor",
        "at p99",
    ]);
    for now in after {
        let is_same =
            |run: &&Report| run.scenario == now.scenario && run.configuration == now.configuration;
        let Some(then) = before.iter().find(is_same) else { continue };
        for series in &now.series {
            let Some(old) = then.series.iter().find(|old| old.name == series.name) else {
                continue;
            };
            if series.ratio.is_some() {
                table.add_row(row(
                    (&now.scenario, now.rounds.kept.min(then.rounds.kept)),
                    old,
                    series,
                ));
            }
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What makes two runs hard to compare, and what was not compared.
fn remarks(before: &Runs, after: &Runs) -> Vec<String> {
    let mut remarks = Vec::new();
    let name = |run: &Report| format!("{} {}", run.scenario, run.configuration);
    let finds =
        |runs: &Runs, of: &Report| runs.round_trips.iter().position(|run| name(run) == name(of));
    for then in before.round_trips.iter().filter(|run| finds(after, run).is_none()) {
        remarks.push(format!("{}: only before", name(then)));
    }
    for now in &after.round_trips {
        let Some(then) = finds(before, now).map(|n| &before.round_trips[n]) else {
            remarks.push(format!("{}: only after", name(now)));
            continue;
        };
        if then.settings != now.settings {
            remarks.push(format!("{}: the settings differ", name(now)));
        }
        if then.machine.words() != now.machine.words() {
            remarks.push(format!("{}: the machines differ", name(now)));
        }
    }
    let others =
        |runs: &Runs| runs.throughput.is_some() || runs.router.is_some() || !runs.micro.is_empty();
    if others(before) || others(after) {
        remarks.push("Router, throughput, codec and validation are not compared.".to_owned());
    }
    remarks
}

fn row((scenario, rounds): (&str, usize), old: &Series, new: &Series) -> Vec<String> {
    let (was, is) = (old.ratio.unwrap_or_default(), new.ratio.unwrap_or_default());
    let mut row = vec![format!("{scenario} {}", new.name)];
    for (times, was, is) in [
        ([old.figures.p50_ns, new.figures.p50_ns], was.p50(), is.p50()),
        ([old.figures.p99_ns, new.figures.p99_ns], was.p99(), is.p99()),
    ] {
        row.push(times.map(us).join(" → "));
        row.push(format!("{:.2} → {:.2}", was.median, is.median));
        row.push(if rounds < ROUNDS_MIN { FEW.to_owned() } else { verdict(was, is) });
    }
    row
}

/// Fewer rounds say nothing of their differences.
const ROUNDS_MIN: usize = 5;
const FEW: &str = "too few rounds";

/// What moved, in words.
fn verdict(was: Estimate, is: Estimate) -> String {
    let percent = 100.0 * (is.median / was.median - 1.0);
    if is.low > was.high {
        format!("slower by {percent:.0} %")
    } else if is.high < was.low {
        format!("faster by {:.0} %", -percent)
    } else {
        "noise".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_both_intervals_is_noise() {
        let estimate = |median, low, high| Estimate { median, low, high };
        let was = estimate(1.20, 1.18, 1.23);
        for (is, expected) in [
            (estimate(1.22, 1.19, 1.25), "noise"),
            (estimate(1.32, 1.30, 1.35), "slower by 10 %"),
            (estimate(1.08, 1.05, 1.10), "faster by 10 %"),
        ] {
            assert_eq!(verdict(was, is), expected);
        }
    }
}
