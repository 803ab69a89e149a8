//! `cargo xtask simulate`: builds the program for simulated worlds (test runs with a simulated
//! network, disk and clock), and runs worlds on all cores.
//!
//! `[--kind K] --seed N --worlds M` runs M worlds, starting with seed N. A violated law ends the
//! run. The report then contains the last steps of the world, its seed, and a command that repeats
//! this world alone. `--faults` tests the laws: each deliberate fault in the code must be caught
//! within its number of worlds.

mod faults;
mod list;
mod threads;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::peers::say;
use crate::{Outcome, root};

const USAGE: &str = "usage: cargo xtask simulate [--kind KIND] [--seed N] [--worlds M] [--lines N]
       cargo xtask simulate --faults | --fault NAME

kinds: links, crashes, disks, resets, damage, clocks, operators, mixed, applications, schedules,
forgeries, hostile, engines; without one each seed has its own. The worlds of the kind fleet run the
stores of gateways over simulated brokers, on one core.";

/// Runs simulated worlds, or tests the deliberate faults.
///
/// # Errors
/// If an argument is wrong, the build fails, a law is broken, or a fault is not caught.
pub fn run(args: &[String]) -> Outcome {
    match args {
        [flag] if flag == "--help" => Ok(USAGE.to_owned()),
        [flag] if flag == "--faults" => faults::run(None),
        [flag, name] if flag == "--fault" => faults::run(Some(name)),
        [flag, kind, rest @ ..] if flag == "--kind" && kind == "fleet" => fleet(rest),
        _ => worlds(args),
    }
}

fn worlds(args: &[String]) -> Outcome {
    let program = build(&root(), "simulate", None)?;
    let status = Command::new(&program)
        .args(args)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    match status.code() {
        Some(0) => Ok("no law is broken".to_owned()),
        Some(2) => Err(USAGE.to_owned()),
        _ => Err("a law is broken; see above".to_owned()),
    }
}

/// Runs the worlds of the package `stores`, which is not part of the workspace.
fn fleet(args: &[String]) -> Outcome {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--release", "--manifest-path"]);
    command.arg(root().join("stores/Cargo.toml"));
    command.args(["--lib", "--", "--nocapture", "--exact"]);
    command.arg("jetstream::simulated::no_fault_of_brokers_or_gateways_breaks_a_law");
    let (mut seed, mut worlds) = (0, 1_000);
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let number = rest.next().and_then(|number| number.parse::<u64>().ok());
        match (flag.as_str(), number) {
            ("--seed", Some(number)) => seed = number,
            ("--worlds", Some(number)) => worlds = number,
            _ => return Err(USAGE.to_owned()),
        }
    }
    command.env("TRANSFIX_SEED", seed.to_string()).env("TRANSFIX_WORLDS", worlds.to_string());
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), PathBuf::from);
    command.env("CARGO_TARGET_DIR", target.join("stores"));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    say(&said);
    // A filter that fits no test is no error of cargo.
    if output.status.success() && said.contains("1 passed") {
        Ok("no law is broken".to_owned())
    } else {
        Err("a law is broken, or the test is missing; see above".to_owned())
    }
}

/// Builds the simulation program from the sources in `dir`. Returns its path.
fn build(dir: &Path, profile: &str, target_dir: Option<&Path>) -> Result<PathBuf, String> {
    let mut command = Command::new("cargo");
    command
        .args(["build", "--quiet", "--profile", profile, "--package", "transfix-testkit"])
        .args(["--features", "world", "--example", "simulate", "--message-format", "json"])
        .current_dir(dir);
    if let Some(target_dir) = target_dir {
        command.env("CARGO_TARGET_DIR", target_dir);
    }
    let output = command.output().map_err(|error| format!("cargo build: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the simulation could not be built:\n{}\n{}",
            rendered(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let messages = stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
    let program = messages
        .filter(|message: &serde_json::Value| message["target"]["name"] == "simulate")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    program.ok_or_else(|| "cargo build names no program".to_owned())
}

/// Returns the compiler's error messages as text, from cargo's JSON output.
fn rendered(stdout: &[u8]) -> String {
    let stdout = String::from_utf8_lossy(stdout);
    let messages = stdout.lines().filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &serde_json::Value| message["message"]["level"] == "error")
        .filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned))
        .collect()
}
