//! `cargo xtask instructions`: counts the instructions of a link's turn, and of the work of codec
//! and store for a message. The command fails if a count has grown beyond its margin.
//!
//! Callgrind gives the same count for the same binary on similar machines, under any load.
//! Callgrind does not support AVX-512, so vector code is counted with AVX2.
//! `bench/instructions.txt` contains the recorded counts. `cargo xtask instructions hostile` limits
//! the cost of hostile bytes. `cargo xtask instructions profile` shows how the instructions of a
//! turn are distributed.

mod hostile;
mod profile;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, root};

/// The number of counted turns. The same number of turns runs before, so that the logon and the
/// growth of buffers are not counted.
const TURNS: u64 = 2_000;
/// The accepted growth of a turn's count, in percent. Different compilers produce slightly
/// different counts.
const MARGIN_PERCENT: u64 = 2;
/// The accepted growth for the parts of a turn, in percent. The instruction count of a vectorized
/// loop depends on memory addresses, which even a different source path changes.
const MARGIN_PERCENT_PART: u64 = 10;
/// The maximum number of runs for a count above the margin. A run is repeated because the memory
/// layout differs each time.
const TRIES: u32 = 3;
const RECORD: &str = "bench/instructions.txt";

/// The counted subjects: the name, and the arguments of the program `count` before the number of
/// repetitions.
const COUNTED: &[(&str, &[&str])] = &[
    ("turn", &["turn"]),
    ("turn seldom", &["turn", "seldom"]),
    ("store append", &["store", "append"]),
    ("store read", &["store", "read"]),
    ("decode", &["codec", "decode", "fixed"]),
    ("decode varied", &["codec", "decode", "varied"]),
    ("decode-read", &["codec", "decode-read", "fixed"]),
    ("decode-read varied", &["codec", "decode-read", "varied"]),
    ("decode-validate", &["codec", "decode-validate", "fixed"]),
    ("decode-validate varied", &["codec", "decode-validate", "varied"]),
    ("build-encode", &["codec", "build-encode", "fixed"]),
    ("build-encode varied", &["codec", "build-encode", "varied"]),
    ("template", &["codec", "template", "fixed"]),
    ("template varied", &["codec", "template", "varied"]),
    ("whole", &["codec", "whole", "fixed"]),
    ("heartbeat", &["codec", "heartbeat", "fixed"]),
    ("typed-read", &["codec", "typed-read", "fixed"]),
    ("walk", &["codec", "walk", "fixed"]),
    ("groups", &["codec", "groups", "fixed"]),
    ("typed-groups", &["codec", "typed-groups", "fixed"]),
    ("validate-fix42", &["codec", "validate-fix42", "fixed"]),
];

/// Counts all subjects, and compares the counts with the record. `--record` rewrites the record.
///
/// # Errors
/// If valgrind is missing, the build fails, or a count exceeds the margin.
pub fn run(args: &[String]) -> Outcome {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if !matches!(args[..], [] | ["--record" | "hostile" | "profile"] | ["profile", "--record"]) {
        let usage = "usage: cargo xtask instructions [--record | hostile | profile [--record]]";
        return Err(usage.to_owned());
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is missing; install the package `valgrind`".to_owned());
    }
    let program = build()?;
    if args == ["hostile"] {
        return hostile::run(&program);
    }
    if let ["profile", records @ ..] = &args[..] {
        return profile::run(&program, !records.is_empty());
    }
    let path = root().join(RECORD);
    if args == ["--record"] {
        let counts: Result<Vec<_>, String> =
            COUNTED.iter().map(|(name, args)| Ok((*name, count(&program, args)?))).collect();
        let counts = counts?;
        let text: String = counts.iter().map(|(name, n)| format!("{name}: {n}\n")).collect();
        fs::write(&path, &text).map_err(|error| format!("{RECORD}: {error}"))?;
        return Ok(format!("{text}recorded in {RECORD}"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{RECORD}: {error}"))?;
    let least = |(name, args): &(&'static str, &[&str])| {
        let recorded = recorded(name, &text)?;
        let mut least = count(&program, args)?;
        for _ in 1..TRIES {
            if is_within(name, least, recorded) {
                break;
            }
            least = least.min(count(&program, args)?);
        }
        Ok((*name, least))
    };
    let counts: Result<Vec<_>, String> = COUNTED.iter().map(least).collect();
    verdict(&counts?, &text)
}

/// Returns the count that is recorded under this name.
fn recorded(name: &str, record: &str) -> Result<u64, String> {
    let line = record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.and_then(|count| count.parse().ok())
        .ok_or_else(|| format!("{RECORD} has no line `{name}: COUNT`; see --record"))
}

fn is_within(name: &str, counted: u64, recorded: u64) -> bool {
    let margin = if name.starts_with("turn") { MARGIN_PERCENT } else { MARGIN_PERCENT_PART };
    counted <= recorded + recorded * margin / 100
}

/// Compares these counts with the record. Returns an error if a count exceeds its margin.
fn verdict(counts: &[(&str, u64)], record: &str) -> Outcome {
    let (mut lines, mut has_grown) = (Vec::new(), false);
    for (name, counted) in counts {
        let recorded = recorded(name, record)?;
        let change = (*counted as f64 / recorded as f64 - 1.0) * 100.0;
        let is_above = !is_within(name, *counted, recorded);
        has_grown |= is_above;
        let mark = if is_above { "  <- above the margin" } else { "" };
        lines.push(format!(
            "{name:<24} {counted:>6}, recorded {recorded:>6} ({change:+.1} %){mark}"
        ));
    }
    let table = lines.join("\n");
    if has_grown {
        return Err(format!(
            "{table}\nthe margin is {MARGIN_PERCENT} %, {MARGIN_PERCENT_PART} % for parts; find \
             what has grown, or accept it with `cargo xtask instructions --record`"
        ));
    }
    Ok(table)
}

fn build() -> Result<std::path::PathBuf, String> {
    let status = Command::new(env!("CARGO"))
        .args(["rustc", "--profile", "dist", "--package", "transfix-bench", "--example", "count"])
        // The function names are needed for counting, and are not in the file records: the profile
        // would otherwise strip all symbols.
        .args(["--", "-C", "strip=none"])
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the counts of transfix-bench do not build".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), std::path::PathBuf::from);
    Ok(target.join("dist/examples/count"))
}

/// Returns the number of instructions of one repetition of a subject.
fn count(program: &Path, args: &[&str]) -> Result<u64, String> {
    // The orders are encoded before counting begins. A turn receives a NewOrderSingle(D) and sends
    // an ExecutionReport(8).
    let only: &[&str] = match args {
        ["turn", ..] => &["--collect-atstart=no", "--toggle-collect=*Probe*turn*"],
        // Only the functions of the measuring thread are counted, because the store's helper
        // threads execute a varying number of instructions.
        ["store", ..] => &["--collect-atstart=no", "--toggle-collect=*count*store_*"],
        _ => &[],
    };
    let all = |n: u64| collected(program, only, &[args, &[&n.to_string()]].concat());
    Ok((all(2 * TURNS)? - all(TURNS)?) / TURNS)
}

/// Returns the number of instructions of a whole run, or of the part that the callgrind options in
/// `only` select.
fn collected(program: &Path, only: &[&str], args: &[&str]) -> Result<u64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(only)
        .arg(program)
        .args(args)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    number.filter(|n| *n > 0).ok_or_else(|| format!("valgrind counted nothing:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_the_margin_fails() {
        let judge = |turn, read| verdict(&[("turn", turn), ("store read", read)], RECORDED);
        const RECORDED: &str = "turn: 1000\nstore read: 100\n";
        assert!(judge(1_020, 110).is_ok());
        assert!(judge(900, 90).is_ok());
        assert!(
            judge(1_021, 100).unwrap_err().contains("1021, recorded   1000 (+2.1 %)  <- above")
        );
        assert!(judge(1_000, 111).is_err());
        assert!(verdict(&[("decode", 1)], RECORDED).is_err(), "nothing is recorded for it");
    }
}
