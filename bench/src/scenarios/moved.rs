//! `transfix bench compare`: reports which figures changed between two runs, and which changes are
//! noise.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{CellAlignment, Table};
use serde_json::{Value, json};

use super::directory::{Runs, read};
use super::report::{Report, us};
use super::shared::{TABLE, print_line};
use super::summary::Estimate;

/// Options of `transfix bench compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix bench compare before after
  transfix bench compare before/latency-default.json after/latency-default.json

What counts is the ratio to the floor of the same run: it has moved if the intervals in which it
lies with 95 % confidence are apart; otherwise the difference is noise. Times and rates are shown,
but two runs on one machine differ by them for many reasons.
Exit code: 0 done, 1 a file cannot be read or nothing can be compared, 2 wrong usage.")]
pub(crate) struct CompareArgs {
    /// Result files of the earlier run: a directory, or one `.json` file.
    before: PathBuf,
    /// Result files of the later run: a directory, or one `.json` file.
    after: PathBuf,
}

/// Prints the changes between two runs.
pub(crate) fn compare(args: &CompareArgs) -> ExitCode {
    let done = read(&args.before).and_then(|before| {
        let after = read(&args.after)?;
        let (before, after) = (all(&before), all(&after));
        let table = table(&before, &after);
        if table.row_count() > 0 {
            print_line(&table.to_string())?;
        }
        for remark in remarks(&before, &after) {
            print_line(&remark)?;
        }
        if table.row_count() == 0 {
            return Err("there is nothing that can be compared".to_owned());
        }
        print_line("Two runs of one program may differ by a tenth: repeat before you believe less.")
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("transfix bench compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A run of a scenario, with all its ratios.
#[derive(Debug)]
struct Run {
    /// The name of the scenario, followed by the configuration if the scenario has several.
    name: String,
    settings: Value,
    machine: Value,
    /// The build of the program; `None` if the file does not record the build.
    built: Option<Value>,
    figures: Vec<Figure>,
}

/// A measured value, with its ratio to the floor.
#[derive(Debug)]
struct Figure {
    what: String,
    /// The measured value with its unit.
    shown: String,
    ratio: Estimate,
    /// True if the figure is a rate, so that a higher value is better.
    is_rate: bool,
    /// Number of rounds; the ratio is their median.
    rounds: u64,
}

/// Returns all runs of a directory.
fn all(runs: &Runs) -> Vec<Run> {
    let run = |name: String, of: &Value, figures: Option<Vec<Figure>>| {
        let (machine, built) = machine(&of["machine"]);
        let (settings, figures) = (of["settings"].clone(), figures.unwrap_or_default());
        Run { name, settings, machine, built, figures }
    };
    let mut all: Vec<Run> = runs.round_trips.iter().map(round_trip).collect();
    for (scenario, of) in &runs.micro {
        let rows = of["rows"].as_array().or_else(|| of["all"]["rows"].as_array());
        let rounds = of["rounds"]["kept"].as_u64();
        let of_rows = rows.map(|rows| rows.iter().filter_map(|row| codec(row, rounds?)).collect());
        let mut figures: Vec<Figure> = of_rows.unwrap_or_default();
        if let Some((ratio, rounds)) = Estimate::read(&of["all"]["orders_ratio"]).zip(rounds) {
            let shown = format!("{:.0} /s", of["all"]["orders_per_s"].as_f64().unwrap_or(0.0));
            let what = "orders a second".to_owned();
            figures.insert(0, Figure { what, shown, ratio, is_rate: true, rounds });
        }
        let one = run(scenario.clone(), of, Some(figures));
        // Some scenarios have no table of settings; their option values are compared instead.
        let settings = json!([one.settings, of["messages"], of["launches"]]);
        all.push(Run { settings, ..one });
    }
    all.extend(runs.router.iter().map(|of| run("S3".to_owned(), of, router(of))));
    all.extend(runs.throughput.iter().map(|of| run("throughput".to_owned(), of, throughput(of))));
    all
}

/// Returns the machine of a run, and the build of the program that ran there.
fn machine(of: &Value) -> (Value, Option<Value>) {
    let mut machine = of.clone();
    let built = machine.as_object_mut().and_then(|fields| fields.remove("built"));
    (machine, built.filter(|built| built != ""))
}

fn round_trip(run: &Report) -> Run {
    let mut figures = Vec::new();
    for series in &run.series {
        let Some(ratio) = series.ratio else { continue };
        let rounds = run.rounds.kept as u64;
        for (part, ns, ratio) in [
            ("p50", series.figures.p50_ns, ratio.p50()),
            ("p99", series.figures.p99_ns, ratio.p99()),
        ] {
            let (what, shown) = (format!("{}, {part}", series.name), format!("{} µs", us(ns)));
            figures.push(Figure { what, shown, ratio, is_rate: false, rounds });
        }
    }
    let (machine, built) = machine(&json!(run.machine));
    let name = format!("{} {}", run.scenario, run.configuration);
    Run { name, settings: run.settings.clone(), machine, built, figures }
}

/// Reads a row of the scenarios S2a, S2b or S4b.
fn codec(row: &Value, rounds: u64) -> Option<Figure> {
    let [who, what] = [["framework", "runtime"], ["operation", "method"]]
        .map(|names| names.iter().find_map(|name| row[*name].as_str()));
    let ns = row["ns"].as_f64().or_else(|| row["median_ns"].as_f64());
    let ns = ns.or_else(|| Some(1e3 * row["us_per_message"].as_f64()?))?;
    Some(Figure {
        what: format!("{}, {}", who?, what?),
        shown: format!("{ns:.0} ns"),
        ratio: Estimate::read(&row["floor_ratio"])?,
        is_rate: false,
        rounds,
    })
}

/// Reads the half trips of all rows and modes of the scenario `router`.
fn router(run: &Value) -> Option<Vec<Figure>> {
    let modes = run["modes"].as_array()?;
    let mut figures = Vec::new();
    for row in run["rows"].as_array()? {
        let [senders, rate, receivers] = ["senders", "rate", "receivers"].map(|name| &row[name]);
        let routers = row["routers"].as_array()?.iter().skip(1);
        for (mode, router) in modes.iter().filter_map(Value::as_str).zip(routers) {
            let Some(ratio) = Estimate::read(&router["ratio"]) else { continue };
            figures.push(Figure {
                what: format!("{mode}, {senders} × {receivers} at {rate}, p50"),
                shown: format!("{} ns", router["half_trip_p50_ns"]),
                ratio,
                is_rate: false,
                rounds: row["rounds"]["kept"].as_u64()?,
            });
        }
    }
    let [highest, ratios] =
        ["highest", "highest_ratios"].map(|name| run[name].as_array().into_iter().flatten());
    let highest = highest.skip(1);
    for ((mode, rate), ratio) in modes.iter().filter_map(Value::as_str).zip(highest).zip(ratios) {
        let Some(ratio) = Estimate::read(ratio) else { continue };
        figures.push(Figure {
            what: format!("{mode}, highest rate"),
            shown: format!("{:.0} /s", rate.as_f64().unwrap_or(0.0)),
            ratio,
            is_rate: true,
            rounds: run["highest_rounds"].as_u64().unwrap_or_default(),
        });
    }
    Some(figures)
}

/// Reads orders per second and p99 at full speed, of all sides and numbers of sessions, of the
/// scenario `throughput`.
fn throughput(run: &Value) -> Option<Vec<Figure>> {
    let mut figures = Vec::new();
    for run in run["runs"].as_array()? {
        let rounds = run["rounds"]["kept"].as_u64()?;
        for (side, of) in run["sides"].as_object()? {
            let (ratio, full) = (&of["ratio"], &of["full"]);
            let sessions = &run["sessions"];
            let p99 = us(full["p99_ns"].as_u64().unwrap_or(0));
            for (name, words, shown, is_rate) in [
                (
                    "orders",
                    "orders a second",
                    format!("{:.0} /s", full["orders_per_s"].as_f64().unwrap_or(0.0)),
                    true,
                ),
                ("p99", "p99", format!("{p99} µs"), false),
            ] {
                let Some(ratio) = Estimate::read_between(ratio, name) else { continue };
                let what = format!("{sessions} sessions, {side}, {words}");
                figures.push(Figure { what, shown, ratio, is_rate, rounds });
            }
        }
    }
    Some(figures)
}

fn table(before: &[Run], after: &[Run]) -> Table {
    let mut table = Table::new();
    table.load_style(TABLE);
    table.set_header(["scenario, what", "measured", "ratio", "which is"]);
    for now in after {
        let Some(then) = before.iter().find(|run| run.name == now.name) else { continue };
        for new in &now.figures {
            if let Some(old) = then.figures.iter().find(|old| old.what == new.what) {
                table.add_row(row(&now.name, old, new));
            }
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Returns remarks: why two runs are hard to compare, and which results were not compared.
fn remarks(before: &[Run], after: &[Run]) -> Vec<String> {
    let mut remarks = Vec::new();
    let find = |runs: &[Run], name: &str| runs.iter().position(|run| run.name == name);
    for then in before.iter().filter(|run| find(after, &run.name).is_none()) {
        remarks.push(format!("{}: only before", then.name));
    }
    for now in after {
        let Some(then) = find(before, &now.name).map(|n| &before[n]) else {
            remarks.push(format!("{}: only after", now.name));
            continue;
        };
        if then.settings != now.settings {
            remarks.push(format!("{}: the settings differ", now.name));
        }
        if then.machine != now.machine {
            remarks.push(format!("{}: the machines differ", now.name));
        }
        if let (Some(then), Some(built)) = (&then.built, &now.built)
            && then != built
        {
            remarks.push(format!("{}: built {then} before, {built} after", now.name));
        }
        if now.figures.is_empty() || then.figures.is_empty() {
            remarks.push(format!("{}: a run has no ratios, by an older program", now.name));
        }
    }
    remarks
}

fn row(name: &str, old: &Figure, new: &Figure) -> Vec<String> {
    let few = old.rounds.min(new.rounds) < ROUNDS_MIN;
    vec![
        format!("{name} {}", new.what),
        format!("{} → {}", old.shown, new.shown),
        format!("{:.2} → {:.2}", old.ratio.median, new.ratio.median),
        if few { FEW.to_owned() } else { verdict(old.ratio, new.ratio, new.is_rate) },
    ]
}

/// Minimum number of rounds for which a change can be distinguished from noise.
const ROUNDS_MIN: u64 = 5;
const FEW: &str = "too few rounds";

/// Returns the change as text, such as "faster by 12 %".
fn verdict(was: Estimate, is: Estimate, is_rate: bool) -> String {
    let percent = 100.0 * (is.median / was.median - 1.0);
    let words = match (is.low > was.high, is.high < was.low) {
        (false, false) => return "noise".to_owned(),
        (is_more, _) if is_more == is_rate => "faster",
        _ => "slower",
    };
    // If the earlier rate was 0, the change has no percentage.
    if percent.is_finite() {
        format!("{words} by {:.0} %", percent.abs())
    } else {
        words.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_within_both_intervals_is_noise() {
        let estimate = |median, low, high| Estimate { median, low, high };
        let was = estimate(1.20, 1.18, 1.23);
        for (is, expected, of_a_rate) in [
            (estimate(1.22, 1.19, 1.25), "noise", "noise"),
            (estimate(1.32, 1.30, 1.35), "slower by 10 %", "faster by 10 %"),
            (estimate(1.08, 1.05, 1.10), "faster by 10 %", "slower by 10 %"),
        ] {
            assert_eq!(verdict(was, is, false), expected);
            assert_eq!(verdict(was, is, true), of_a_rate);
        }
        assert_eq!(verdict(estimate(0.0, 0.0, 0.0), was, true), "faster");
    }

    /// Returns the files of a run whose ratios are `ratio`.
    fn runs(ratio: f64) -> Runs {
        let estimate = json!({ "median": ratio, "low": ratio - 0.1, "high": ratio + 0.1 });
        let rounds = json!({ "kept": 5, "repeated": 0, "disturbed": 0 });
        let codec = json!({ "rounds": rounds, "rows": [
            { "framework": "transfix", "operation": "from string", "us_per_message": 0.05,
              "floor_ratio": estimate },
            { "framework": "other", "operation": "from string", "us_per_message": 1.0,
              "floor_ratio": estimate, "ours_ratio": { "median": 1, "low": 1, "high": 1 } },
        ]});
        let hftest = json!({ "rounds": rounds, "all": {
            "orders_per_s": 300_000.0, "orders_ratio": estimate,
            "rows": [{ "framework": "transfix", "operation": "encode", "ns": 150.0,
                       "floor_ratio": estimate }],
        }});
        let router = json!({ "modes": ["A"], "rows": [{
            "senders": 1, "rate": 1_000, "receivers": 10, "rounds": rounds,
            "routers": [{ "half_trip_p50_ns": 5 }, { "half_trip_p50_ns": 7, "ratio": estimate }],
        }], "highest": [9.0, 5.0], "highest_ratios": [estimate], "highest_rounds": 5 });
        let between = json!([ratio - 0.1, ratio + 0.1]);
        let throughput = json!({ "runs": [{ "sessions": 32, "rounds": rounds, "sides": {
            "floor": { "full": { "orders_per_s": 9.0 } },
            "transfix-file": { "full": { "orders_per_s": 5.0, "p99_ns": 1_000 }, "ratio": {
                "orders": ratio, "orders_between": between, "p99": ratio, "p99_between": between,
            }},
        }}]});
        Runs {
            micro: [("S2a".to_owned(), codec), ("S2b".to_owned(), hftest)].into(),
            router: Some(router),
            throughput: Some(throughput),
            ..Runs::default()
        }
    }

    #[test]
    fn another_machine_and_another_build_are_told_apart() {
        let with = |machine: Value| {
            let runs = Runs { router: Some(json!({ "machine": machine })), ..Runs::default() };
            all(&runs)
        };
        let was = with(json!({ "cpus": 2, "built": "optimized" }));
        for (is, expected) in [
            (json!({ "cpus": 2, "built": "optimized" }), vec![]),
            // This machine's file was written by a program without build information.
            (json!({ "cpus": 2, "built": "" }), vec![]),
            (json!({ "cpus": 4, "built": "optimized" }), vec!["S3: the machines differ"]),
            (
                json!({ "cpus": 2, "built": "with debug assertions" }),
                vec!["S3: built \"optimized\" before, \"with debug assertions\" after"],
            ),
        ] {
            let remarks = remarks(&was, &with(is));
            let of_them = remarks.iter().filter(|remark| !remark.contains("no ratios"));
            assert_eq!(of_them.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn each_scenario_has_its_ratios() {
        let (before, after) = (all(&runs(2.0)), all(&runs(3.0)));
        let table = table(&before, &after).to_string();
        for expected in [
            ("S2a transfix, from string", "slower by 50 %"),
            ("S2a other, from string", "slower by 50 %"),
            ("S2b orders a second", "faster by 50 %"),
            ("S2b transfix, encode", "slower by 50 %"),
            ("S3 A, 1 × 10 at 1000, p50", "slower by 50 %"),
            ("S3 A, highest rate", "faster by 50 %"),
            ("throughput 32 sessions, transfix-file, orders a second", "faster by 50 %"),
            ("throughput 32 sessions, transfix-file, p99", "slower by 50 %"),
        ] {
            let (what, moved) = expected;
            let line = table.lines().find(|line| line.contains(what));
            assert!(line.is_some_and(|line| line.contains(moved)), "{what}: {table}");
        }
        assert_eq!(remarks(&before, &after), [""; 0]);
        let mut other = all(&runs(2.0));
        other[1].settings = json!({ "orders": 5 });
        other[2].figures.clear();
        let expected = ["S2b: the settings differ", "S3: a run has no ratios, by an older program"];
        assert_eq!(remarks(&before, &other), expected);
        assert_eq!(remarks(&before[1..], &other[..2]).len(), 4);
    }
}
