//! `transfix bench report`: creates a page of all runs in a directory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::html::{self, Runs};
use super::page::PAGES;
use super::report::Report;
use super::shared::print_line;

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

/// Creates the page.
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

/// Prints a failure of a verb, and returns the exit code.
pub(super) fn ended(verb: &str, done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench {verb}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the runs of a directory or of one file, in the order of scenarios and configurations.
pub(super) fn read(path: &Path) -> Result<Runs, String> {
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
        if ["S2a", "S2b", "S4b"].contains(&scenario) {
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

/// Returns a run's position among the scenarios, and its configuration's position on the page.
fn place(run: &Report) -> (usize, usize, String) {
    let page = PAGES.iter().position(|page| page.scenario == run.scenario);
    let column = page.and_then(|page| {
        let mut columns = PAGES[page].columns().flatten();
        columns.position(|column| column.name == run.configuration)
    });
    let last = usize::MAX;
    (page.unwrap_or(last), column.unwrap_or(last), run.configuration.clone())
}
