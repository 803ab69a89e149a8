//! `cargo xtask sanitize`: runs the codec's tests under AddressSanitizer, under valgrind, on
//! emulated AArch64, and under Miri. The last two run only if the tools are installed. The
//! transport's unsafe code also runs under AddressSanitizer.
//!
//! AddressSanitizer is an unstable flag that the stable compiler accepts if told to. valgrind does
//! not support AVX-512, so it tests the smaller vectors. AArch64, with its NEON vectors, is
//! emulated. Miri belongs to the nightly toolchain; it interprets the code slowly, so it runs only
//! a few cases.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::fuzz::host;
use crate::{Outcome, root};

/// Arguments that select the tests of code that handles raw bytes.
const TESTS: &[&str] = &["--lib", "--test", "bytes"];
/// Name filter for the tests of unsafe code.
const UNSAFE_TESTS: &str = "scan";

/// Runs all available checks. With `--short`, Miri runs only the fast tests.
///
/// # Errors
/// If a test fails, a tool finds a fault, or a required tool is missing.
pub fn run(args: &[String]) -> Outcome {
    let length = match args {
        [] => Length::Whole,
        [flag] if flag == "--short" => Length::Short,
        _ => return Err("usage: cargo xtask sanitize [--short]".to_owned()),
    };
    Ok([address_sanitizer()?, valgrind()?, aarch64()?, miri(length)?].join("\n"))
}

/// The number of tests that Miri runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Whole,
    Short,
}

fn cargo(target_dir: &str) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root()).env("CARGO_TARGET_DIR", root().join("target").join(target_dir));
    // RUSTFLAGS of a calling cargo would otherwise apply to this build.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    command
}

fn address_sanitizer() -> Outcome {
    let host = host()?;
    for (package, tests) in [("transfix-codec", TESTS), ("transfix-transport", &["--lib", "sys"])] {
        let mut command = cargo("sanitize");
        command
            .args(["test", "--package", package, "--target", &host])
            .args(tests)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", "-Zsanitizer=address -Cdebuginfo=line-tables-only");
        succeed(command, "AddressSanitizer")?;
    }
    Ok(format!("AddressSanitizer: clean ({}; transport: --lib sys)", TESTS.join(" ")))
}

fn valgrind() -> Outcome {
    let program = test_program()?;
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=1", "--leak-check=no"])
        .arg(program)
        .arg(UNSAFE_TESTS)
        .current_dir(root().join("crates/codec"))
        // Under valgrind, each case takes about twenty times longer, so fewer cases run.
        .env("PROPTEST_CASES", "24");
    succeed(command, "valgrind")?;
    Ok(format!("valgrind: clean (--lib {UNSAFE_TESTS})"))
}

/// Runs the tests on AArch64, emulated by QEMU.
fn aarch64() -> Outcome {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    const LINKER: &str = "aarch64-linux-gnu-gcc";
    let targets = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let target = targets.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).contains(TARGET));
    if !(target && is_there(LINKER) && is_there("qemu-aarch64")) {
        return Ok(format!(
            "AArch64: not run, needs `rustup target add {TARGET}`, gcc-aarch64-linux-gnu and \
             qemu-user"
        ));
    }
    let mut command = cargo("sanitize");
    command
        .args(["test", "--package", "transfix-codec", "--target", TARGET])
        .args(TESTS)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER)
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "qemu-aarch64 -L /usr/aarch64-linux-gnu",
        )
        .env("PROPTEST_CASES", "64");
    succeed(command, "AArch64")?;
    Ok(format!("AArch64: clean ({})", TESTS.join(" ")))
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn miri(length: Length) -> Outcome {
    let nightly = || {
        let mut command = cargo("miri");
        // Miri needs the nightly toolchain, so variables that select the toolchain of this process
        // are removed.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTC").env_remove("CARGO");
        command.args(["+nightly", "miri"]);
        command
    };
    let probe = nightly().arg("--version").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return Ok("Miri: not run, needs `rustup toolchain install nightly -c miri -c rust-src`"
            .to_owned());
    }
    let mut command = nightly();
    command
        .args(["test", "--package", "transfix-codec", "--lib", UNSAFE_TESTS])
        .env("PROPTEST_CASES", if length == Length::Short { "1" } else { "4" })
        .env("MIRIFLAGS", "-Zmiri-disable-isolation");
    if length == Length::Short {
        command.args(["--", "--skip", "every_alignment", "--skip", "every_length"]);
    }
    succeed(command, "Miri")?;
    Ok(format!("Miri: clean (--lib {UNSAFE_TESTS})"))
}

fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{what} cannot be started: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} found something; see above")) }
}

/// Builds the codec's unit tests and returns the path of the test program.
fn test_program() -> Result<PathBuf, String> {
    let mut command = cargo("sanitize");
    command.args(["test", "--package", "transfix-codec", "--lib", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics");
    let output = command.output().map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    program_of(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the path of the test program from cargo's JSON messages.
fn program_of(messages: &str) -> Result<PathBuf, String> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|line| Some(line.get("executable")?.as_str()?.into()));
    programs.next().ok_or_else(|| "cargo names no test program".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\nnoise\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/a/b\"}\n";
        assert_eq!(program_of(messages), Ok(PathBuf::from("/a/b")));
        assert!(program_of("{}").is_err());
    }
}
