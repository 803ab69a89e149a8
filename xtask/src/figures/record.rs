//! Measures anew and records it: the runs of the round trip, the operations of the codec.

use std::fs;
use std::process::Command;

use serde_json::{Map, Value};

use super::{CODEC, LATENCY};
use crate::{Outcome, root};

/// The runs of the record, in order; those of the fastest configuration have peers.
const RUNS: [(&str, bool); 6] = [
    ("optimized-hard-spin", true),
    ("optimized-hard-spin", true),
    ("optimized-hard-spin", true),
    ("default", false),
    ("aggressive", false),
    ("balanced", false),
];

/// Runs cargo from the root; what it wrote to the standard output.
fn cargo(args: &[&str]) -> Result<String, String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn read(path: &str) -> Result<Value, String> {
    let text = fs::read_to_string(root().join(path)).map_err(|e| format!("{path}: {e}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))
}

fn save(path: &str, record: &Value) -> Outcome {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())? + "\n";
    fs::write(root().join(path), text).map_err(|error| format!("{path}: {error}"))?;
    Ok(format!("recorded in {path}; look at machine and software there, then `cargo xtask docs`"))
}

/// The day, in UTC, as the system names it.
fn today() -> Result<Value, String> {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    let output = output.map_err(|error| format!("date: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Runs the round trip in all configurations.
pub(super) fn latency() -> Outcome {
    let mut record = read(LATENCY)?;
    let mut runs = Vec::new();
    for (configuration, has_peers) in RUNS {
        let mut args = vec!["run", "--quiet", "--release", "-p", "transfix-cli", "--", "bench"];
        args.extend(["latency", "--self", "--json", "--config", configuration]);
        args.extend(["--out", "target/bench-out"]);
        args.extend(has_peers.then_some("--peers"));
        let report: Value =
            serde_json::from_str(cargo(&args)?.trim()).map_err(|error| error.to_string())?;
        let keys = ["configuration", "engine", "floor", "peers", "machine"];
        let taken =
            keys.iter().filter_map(|key| Some(((*key).to_owned(), report.get(key)?.clone())));
        runs.push(Value::Object(taken.collect::<Map<_, _>>()));
    }
    record["runs"] = Value::Array(runs);
    record["recorded"] = today()?;
    save(LATENCY, &record)
}

/// Runs the operations of the codec. What other commands measure stays as it is.
pub(super) fn codec() -> Outcome {
    let mut record = read(CODEC)?;
    let text = cargo(&["bench", "--quiet", "-p", "transfix-bench", "--bench", "codec"])?;
    let rows = record["rows"].as_array_mut().ok_or("no rows")?;
    take(rows, &text)?;
    record["recorded"] = today()?;
    save(CODEC, &record)
}

/// Takes the figures out of the benchmark's table: operation, engine, fixed, varied.
fn take(rows: &mut [Value], table: &str) -> Result<(), String> {
    for row in rows {
        let operation = row["operation"].as_str().unwrap_or_default().to_owned();
        // A prepared message has no counterpart but the encoding of one that is already built.
        let of_peers = if operation == "template" { "encode" } else { &operation };
        for line in table.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, engine, fixed, ..] = words[..] else { continue };
            let Ok(fixed) = fixed.parse::<f64>() else { continue };
            let shown = |ns: f64| match ns < 10.0 {
                true => Value::from((ns * 10.0).round() / 10.0),
                false => Value::from(ns.round() as u64),
            };
            let engines = ["quickfix-cpp", "quickfixj", "rustyfix", "ironfix"];
            if engine == "transfix" && name == operation {
                row["fixed"] = shown(fixed);
                if let (Some(_), Some(Ok(varied))) =
                    (row.get("varied"), words.get(3).map(|word| word.parse::<f64>()))
                {
                    row["varied"] = shown(varied);
                }
            } else if let Some(key) = engines.iter().find(|key| engine.starts_with(*key))
                && name == of_peers
            {
                row[*key] = shown(fixed);
            }
        }
        if row["fixed"].is_null() {
            return Err(format!("the benchmark has no row {operation}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_out_of_the_benchmarks_table() {
        let table = "operation        engine                    fixed   varied    v/f   of peer\n\
            floor            transfix                    7.5      7.0   0.93          \n\
            template         transfix                   32.4     40.1   1.24    1/18.5\n\
            encode           quickfix-cpp-1.15.1       600.2    610.0   1.02          \n";
        let mut rows = vec![
            serde_json::json!({"operation": "floor", "fixed": 1, "varied": 1}),
            serde_json::json!({"operation": "template", "fixed": 1, "asked": "1/18"}),
        ];
        take(&mut rows, table).unwrap_or_else(|error| panic!("{error}"));
        let expected = [
            serde_json::json!({"operation": "floor", "fixed": 7.5, "varied": 7.0}),
            serde_json::json!(
                {"operation": "template", "fixed": 32, "quickfix-cpp": 600, "asked": "1/18"}
            ),
        ];
        assert_eq!(rows, expected);
    }
}
