//! Runs benchmarks and records their results in a small file for each benchmark, with the day, the
//! machine, and the command to repeat it.

mod taken;

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{USAGE, path, read};
use crate::{Outcome, root};

/// A benchmark that prints its results as one JSON object per line.
struct Scenario {
    name: &'static str,
    /// The arguments for `transfix bench`.
    args: &'static [&'static str],
    /// The additional arguments for a short run, whose results are noisier.
    short: &'static [&'static str],
    /// A function that extracts the part of the output to record.
    taken: fn(&[Value]) -> Option<Value>,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "echo",
        args: &["echo", "--self", "--peers"],
        short: &["--messages", "5000"],
        taken: taken::trips,
    },
    Scenario {
        name: "round-trip",
        args: &["round-trip", "--self", "--peers"],
        short: &["--messages", "20000", "--warmup", "1000"],
        taken: taken::trips,
    },
    Scenario {
        name: "router",
        args: &["router", "--self"],
        short: &["--slice-ms", "200"],
        taken: taken::router,
    },
    Scenario {
        name: "hftest",
        args: &["hftest", "--self", "--peers", "--rounds", "9", "--log-dir", "target/bench-out"],
        short: &["--orders", "100000"],
        taken: taken::hftest,
    },
    Scenario {
        name: "throughput",
        args: &["throughput", "--self", "--peers"],
        short: &["--sessions", "1,32,1000", "--slices", "3", "--slice-ms", "300"],
        taken: taken::throughput,
    },
];

/// The runs of S1 in order, by configuration. `true` marks the runs of the fastest configuration,
/// which also measure other engines.
const LATENCY: [(&str, bool); 6] = [
    ("optimized-hard-spin", true),
    ("optimized-hard-spin", true),
    ("optimized-hard-spin", true),
    ("default", false),
    ("aggressive", false),
    ("balanced", false),
];

/// The advice that is printed after a record is written.
const KEEP: &str =
    "look at the floors: where they are far from those of other runs, the machine was
disturbed, and `git checkout bench/results` takes the old records back;
`cargo xtask docs` writes the pages";

/// Records the named benchmarks, or all of them for `all`. Each result is saved immediately, so
/// that a later failure does not lose the earlier results.
pub(super) fn run(names: &[&str], short: bool) -> Outcome {
    let known: Vec<&str> =
        ["latency", "codec"].into_iter().chain(SCENARIOS.iter().map(|s| s.name)).collect();
    let names = match names {
        ["all"] => &known,
        names if !names.is_empty() && names.iter().all(|name| known.contains(name)) => names,
        _ => return Err(USAGE.to_owned()),
    };
    fs::create_dir_all(root().join("target/bench-out")).map_err(|error| error.to_string())?;
    // The load is read before the benchmarks run, because the benchmarks themselves add to the
    // load.
    let load = load();
    let (mut recorded, mut failed) = (Vec::new(), Vec::new());
    for name in names {
        let done = match *name {
            "latency" => latency(short, &load),
            "codec" => codec(&load),
            name => scenario(name, short, &load),
        };
        match done {
            Ok(line) => recorded.push(line),
            Err(error) => failed.push(format!("{name} was not recorded: {error}")),
        }
    }
    recorded.push(KEEP.to_owned());
    match failed.is_empty() {
        true => Ok(recorded.join("\n")),
        false => Err([recorded, failed].concat().join("\n")),
    }
}

/// Runs cargo from the root of the project. Returns its standard output.
fn cargo(args: &[&str]) -> Result<String, String> {
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `transfix bench` with these arguments. Returns the JSON objects that it prints.
fn bench(args: &[&str]) -> Result<Vec<Value>, String> {
    let program = ["run", "--quiet", "--profile", "dist", "-p", "transfix-bench", "--"];
    let printed = cargo(&[&program, args, &["--json"]].concat())?;
    let objects = printed.lines().map(serde_json::from_str);
    objects.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Returns the text of a record's file.
pub(crate) fn text(record: &Value) -> String {
    taken::text(record, 0)
}

fn save(name: &str, record: &Value) -> Outcome {
    let path = path(name);
    let text = text(record) + "\n";
    fs::write(root().join(&path), text).map_err(|error| format!("{path}: {error}"))?;
    Ok(format!("recorded in {path}"))
}

/// Returns the first output line of a program.
fn line_of(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}

/// Returns the current day in UTC, such as `2026-11-21`.
fn today() -> Result<String, String> {
    line_of("date", &["-u", "+%Y-%m-%d"])
}

/// Returns the load average of the last minute.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns a text that describes the machine of a run.
fn machine(said: &Value) -> Option<String> {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let kind = if cpu_info.contains("hypervisor") { "virtual machine" } else { "machine" };
    let kernel: Vec<&str> = said["kernel"].as_str()?.splitn(3, '.').take(2).collect();
    let (cpus, model) = (&said["cpus"], said["cpu_model"].as_str()?);
    Some(format!("{kind} of {cpus} cores, {model}, kernel {}", kernel.join(".")))
}

/// Returns the newest version of another engine that `cargo xtask peers build` has built.
fn version(engine: &str) -> Option<String> {
    let list = fs::read_to_string(root().join("target/peers/acceptors.json")).ok()?;
    let list: Value = serde_json::from_str(&list).ok()?;
    let listed = list.as_array()?.iter().find(|listed| listed["engine"] == engine)?;
    listed["version"].as_str().map(|version| format!("{engine} {version}"))
}

/// Runs a benchmark scenario, and records the figures that the pages show.
fn scenario(name: &str, short: bool, load: &str) -> Outcome {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).ok_or(USAGE)?;
    let mut args = scenario.args.to_vec();
    args.extend(if short { scenario.short } else { &[] });
    let lines = bench(&[&args[..], &["--out", "target/bench-out"]].concat())?;
    let rust = line_of("rustc", &["--version"])?;
    let rust = rust.split(' ').nth(1).unwrap_or_default();
    let mut software = format!("Rust {rust}");
    if scenario.args.contains(&"--peers")
        && let Some(version) = version("QuickFIX C++")
    {
        software += &format!(", {version}");
    }
    let machine = lines.first().and_then(|line| machine(&line["machine"]));
    let runs = (scenario.taken)(&lines).ok_or("it printed not all that is recorded")?;
    let record = json!({
        "recorded": today()?,
        "machine": machine.ok_or("it does not name the machine")?,
        "software": software,
        "command": format!("transfix bench {}", args.join(" ")),
        "load_before": load,
        "runs": runs,
    });
    save(name, &record)
}

/// Runs the round-trip benchmark S1 in all configurations, and records the results.
fn latency(short: bool, load: &str) -> Outcome {
    let mut record = read("latency")?;
    let mut runs = Vec::new();
    for (configuration, has_peers) in LATENCY {
        let mut args = vec!["latency", "--self", "--config", configuration];
        args.extend(["--out", "target/bench-out"]);
        args.extend(has_peers.then_some("--peers"));
        args.extend(if short { &["--messages", "2000"][..] } else { &[] });
        let printed = bench(&args)?;
        let report = printed.first().ok_or("it printed nothing")?;
        record["machine"] = machine(&report["machine"]).into();
        runs.push(taken::latency(report).ok_or("it printed not all that is recorded")?);
    }
    record["runs"] = Value::Array(runs);
    record["recorded"] = today()?.into();
    record["load_before"] = load.into();
    save("latency", &record)
}

/// Runs the codec benchmarks, including the operations on the messages of S2b, and records the
/// results. The record keeps results of other commands.
fn codec(load: &str) -> Outcome {
    let text = cargo(&["bench", "--quiet", "-p", "transfix-bench", "--bench", "codec"])?;
    let mut saved = Vec::new();
    for name in ["codec", "hftest-codec"] {
        let mut record = read(name)?;
        let rows = record["rows"].as_array_mut().ok_or("no rows")?;
        taken::codec(rows, &text)?;
        record["recorded"] = today()?.into();
        record["load_before"] = load.into();
        saved.push(save(name, &record)?);
    }
    Ok(saved.join("\n"))
}
