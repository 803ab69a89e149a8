//! Reads the recorded runs from the JSON files of a directory.

use std::collections::BTreeMap;
use std::path::Path;

use super::page::PAGES;
use super::report::Report;

/// The recorded runs of a directory.
#[derive(Default)]
pub(super) struct Runs {
    /// Runs of the round-trip scenarios, in the order of the scenarios.
    pub(super) round_trips: Vec<Report>,
    /// The JSON object of the scenario `throughput`, from `throughput.json`.
    pub(super) throughput: Option<serde_json::Value>,
    /// The JSON object of the scenario `router`, from `router.json`.
    pub(super) router: Option<serde_json::Value>,
    /// The results of the in-memory scenarios, by scenario number such as S2a.
    pub(super) micro: BTreeMap<String, serde_json::Value>,
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

/// Returns the sort key of a run: the position of its scenario, the position of its configuration
/// on the page, and a name.
fn place(run: &Report) -> (usize, usize, String) {
    let page = PAGES.iter().position(|page| page.scenario == run.scenario);
    let column = page.and_then(|page| {
        let mut columns = PAGES[page].columns().flatten();
        columns.position(|column| column.name == run.configuration)
    });
    let last = usize::MAX;
    (page.unwrap_or(last), column.unwrap_or(last), run.configuration.clone())
}
