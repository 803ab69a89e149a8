//! `cargo xtask fuzz [--seconds N] [TARGET…]`: builds the fuzz targets, and runs each target for a
//! while.
//!
//! The stable toolchain and a C++ compiler suffice, because instrumentation and AddressSanitizer
//! are flags of rustc. The fuzzer stores new inputs in `fuzz/corpus` and failing inputs in
//! `fuzz/artifacts`. The seeds are in `testdata`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, root, shown};

/// The fuzz targets, each with the directory of its seeds in testdata.
const TARGETS: &[(&str, &str)] = &[
    ("frame", "messages"),
    ("message", "messages"),
    ("groups", "messages"),
    ("values", "messages"),
    ("validate", "messages"),
    ("json", "json"),
    ("log", "messages"),
    ("plain", "messages"),
    ("dictionary", "dictionaries"),
    ("session", "messages"),
    ("proxy", "proxy"),
    ("settings", "settings"),
    ("admin", "admin"),
];
const SECONDS: u64 = 60;
/// The maximum length of an input, in bytes. Messages are short, and longer inputs would only slow
/// down each run.
const INPUT_BYTES_MAX: &str = "2048";

/// The compiler flags for AddressSanitizer, and for coverage in the form that libFuzzer reads.
const RUSTFLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cllvm-args=-sanitizer-coverage-stack-depth",
    "-Ccodegen-units=1",
    "-Zsanitizer=address",
];

/// Builds and runs the named targets, or all targets if none is named.
///
/// # Errors
/// If an argument is wrong, the build fails, or a target crashes. A crash reports the path of the
/// artifact.
pub fn run(args: &[String]) -> Outcome {
    let (seconds, targets) = parse(args)?;
    let triple = host()?;
    let built = build(&triple, &targets)?;
    let mut report = Vec::new();
    for target in &targets {
        report.push(fuzz(&built.join(target), target, seconds)?);
    }
    Ok(report.join("\n"))
}

fn parse(args: &[String]) -> Result<(u64, Vec<&'static str>), String> {
    let (mut seconds, mut targets) = (SECONDS, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--seconds" {
            let value = args.next().and_then(|value| value.parse().ok());
            seconds = value.filter(|s| *s > 0).ok_or("--seconds needs a number above 0")?;
        } else if let Some(name) = names().find(|name| name == arg) {
            targets.push(name);
        } else {
            let known: Vec<&str> = names().collect();
            return Err(format!("no target '{arg}'; there are: {}", known.join(", ")));
        }
    }
    if targets.is_empty() {
        targets.extend(names());
    }
    Ok((seconds, targets))
}

fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// Returns the target triple of the host. Cargo does not instrument build scripts and macros if the
/// target is given explicitly.
pub(crate) fn host() -> Result<String, String> {
    let output =
        Command::new("rustc").arg("-vV").output().map_err(|error| format!("rustc -vV: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc -vV names no host")?.to_owned())
}

/// Builds the targets. Returns the directory that contains the programs.
fn build(triple: &str, targets: &[&str]) -> Result<PathBuf, String> {
    let dir = root().join("fuzz");
    let target_dir = dir.join("target");
    let mut command = Command::new("cargo");
    command
        .args(["build", "--release", "--target", triple])
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", &target_dir)
        // On a stable toolchain, rustc accepts -Z flags only if RUSTC_BOOTSTRAP is set.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", RUSTFLAGS.join(" "));
    // If this variable of the calling cargo remained set, it would take precedence over RUSTFLAGS.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    for target in targets {
        command.args(["--bin", target]);
    }
    let status = command.status().map_err(|error| format!("cargo build: {error}"))?;
    if !status.success() {
        return Err("the fuzz targets could not be built; see above".to_owned());
    }
    Ok(target_dir.join(triple).join("release"))
}

/// Runs one target. The fuzzer adds new inputs to the corpus of the target.
fn fuzz(program: &Path, target: &str, seconds: u64) -> Outcome {
    let corpus = directory(&format!("fuzz/corpus/{target}"))?;
    let artifacts = directory(&format!("fuzz/artifacts/{target}"))?;
    let seeds =
        TARGETS.iter().find(|(name, _)| *name == target).map_or("messages", |found| found.1);
    let output = Command::new(program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-print_final_stats=1", "-timeout=10"])
        .arg(&corpus)
        .arg(root().join("testdata").join(seeds))
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{log}\n{target} failed; {}", culprit(&log)));
    }
    Ok(format!("{target}: {} runs in {seconds} s", stat(&log, "number_of_executed_units")))
}

fn directory(path: &str) -> Result<PathBuf, String> {
    let path = root().join(path);
    fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Returns the path to which libFuzzer has written the failing input.
fn culprit(log: &str) -> String {
    let path = log.lines().find_map(|line| line.split_once("Test unit written to ")).map(|l| l.1);
    path.map_or_else(
        || "it left no input".to_owned(),
        |path| format!("the input is {}", shown(Path::new(path.trim()))),
    )
}

fn stat<'l>(log: &'l str, name: &str) -> &'l str {
    let line = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name));
    line.map_or("?", |value| value.trim_start_matches(':').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<(u64, Vec<String>), String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let (seconds, targets) = parse(&args)?;
        Ok((seconds, targets.into_iter().map(str::to_owned).collect()))
    }

    #[test]
    fn arguments() {
        let all = names().map(str::to_owned).collect();
        assert_eq!(parsed(&[]), Ok((SECONDS, all)));
        let one = vec!["frame".to_owned()];
        assert_eq!(parsed(&["--seconds", "5", "frame"]), Ok((5, one)));
        assert!(parsed(&["--seconds"]).is_err() && parsed(&["--seconds", "0"]).is_err());
        assert!(parsed(&["other"]).is_err_and(|e| e.contains("frame, message")));
    }

    #[test]
    fn what_libfuzzer_says() {
        let log = "x\nstat::number_of_executed_units: 12\nartifact_prefix='a/'; \
                   Test unit written to fuzz/artifacts/frame/crash-1\n";
        assert_eq!(stat(log, "number_of_executed_units"), "12");
        assert_eq!(culprit(log), "the input is fuzz/artifacts/frame/crash-1");
        assert_eq!(culprit(""), "it left no input");
    }

    /// The manifest of the fuzz crate and the table name the same targets.
    #[test]
    fn every_target_of_the_manifest() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        let bins: Vec<&str> = manifest
            .split("[[bin]]\nname = \"")
            .skip(1)
            .filter_map(|text| text.split('"').next())
            .collect();
        assert!(bins.iter().copied().eq(names()), "{bins:?}");
    }
}
