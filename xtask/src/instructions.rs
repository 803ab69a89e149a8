//! `cargo xtask instructions`: how many instructions one turn of a link takes, guarded.
//!
//! Callgrind counts them: the same number for the same binary on any machine of the kind, however
//! busy. `bench/instructions.txt` holds the recorded count; more than the margin above it fails.
//! `cargo xtask instructions codec` prints those of the codec's operations, and judges nothing:
//! callgrind knows no AVX-512, so they are those of AVX2 where a message is looked at in vectors.
//! `cargo xtask instructions hostile` bounds what bytes that are made to cost much can cost.

mod hostile;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::{Outcome, root};

/// Turns counted, after as many uncounted ones of the logon and of growing buffers.
const TURNS: u64 = 2_000;
/// Growth that is let pass, in percent: compilers differ.
const MARGIN_PERCENT: u64 = 5;
const RECORD: &str = "bench/instructions.txt";

/// Counts, and compares with the record; `--record` writes the record anew.
///
/// # Errors
/// If valgrind is missing, the build fails, or the count has grown beyond the margin.
pub fn run(args: &[String]) -> Outcome {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if !matches!(args[..], [] | ["--record" | "codec" | "hostile"]) {
        return Err("usage: cargo xtask instructions [--record | codec | hostile]".to_owned());
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is missing; install the package `valgrind`".to_owned());
    }
    let program = build()?;
    match args[..] {
        ["codec"] => return codec_table(&program),
        ["hostile"] => return hostile::run(&program),
        _ => {}
    }
    let counted = count(&program)?;
    let path = root().join(RECORD);
    if args == ["--record"] {
        let text = format!("turn {counted}\n");
        fs::write(&path, text).map_err(|error| format!("{RECORD}: {error}"))?;
        return Ok(format!("turn: {counted} instructions, recorded in {RECORD}"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{RECORD}: {error}"))?;
    let recorded: u64 = text
        .split_whitespace()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| format!("{RECORD} is not `turn COUNT`"))?;
    verdict(counted, recorded)
}

/// Whether `counted` may stand beside `recorded`.
fn verdict(counted: u64, recorded: u64) -> Outcome {
    let limit = recorded + recorded * MARGIN_PERCENT / 100;
    let change = (counted as f64 / recorded as f64 - 1.0) * 100.0;
    let line = format!("turn: {counted} instructions, recorded {recorded} ({change:+.1} %)");
    if counted > limit {
        return Err(format!(
            "{line}: above the margin of {MARGIN_PERCENT} %; find what has grown, or accept it \
             with `cargo xtask instructions --record`"
        ));
    }
    Ok(line)
}

fn build() -> Result<std::path::PathBuf, String> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "transfix-bench", "--example", "count"])
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !status.success() {
        return Err("the counts of transfix-bench do not build".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), std::path::PathBuf::from);
    Ok(target.join("release/examples/count"))
}

/// Operations of the codec: `count codec OPERATION SET N`.
const CODEC: [&str; 6] =
    ["decode", "decode-read", "decode-validate", "build-encode", "template", "validate-fix42"];

fn codec_table(program: &Path) -> Outcome {
    let mut table = format!("{:<16} {:>7} {:>7}\n", "instructions", "fixed", "varied");
    for operation in CODEC {
        let count = |set: &str| {
            let all = |n: u64| collected(program, &[], &["codec", operation, set, &n.to_string()]);
            Ok::<_, String>((all(2 * TURNS)? - all(TURNS)?) / TURNS)
        };
        table += &format!("{operation:<16} {:>7} {:>7}\n", count("fixed")?, count("varied")?);
    }
    Ok(table.trim_end().to_owned())
}

/// Instructions of one turn: NewOrderSingle(D) in, ExecutionReport(8) out, file store.
fn count(program: &Path) -> Result<u64, String> {
    let only = ["--collect-atstart=no", "--toggle-collect=*Probe*turn*"];
    let turns = |n: u64| collected(program, &only, &["turn", &n.to_string()]);
    Ok((turns(2 * TURNS)? - turns(TURNS)?) / TURNS)
}

/// Instructions of a run, or of the part of it that `only` chooses.
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
        assert!(verdict(1_050, 1_000).is_ok());
        assert!(verdict(900, 1_000).is_ok());
        assert!(verdict(1_051, 1_000).is_err());
    }
}
