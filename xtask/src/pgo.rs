//! `cargo xtask pgo`: builds `transfix` and `transfix-bench` with a profile of their own work.
//!
//! A turn uses more code than the first-level cache holds, with many branches that are never taken.
//! A profile lets the compiler move these branches elsewhere. Three steps: build with counters, run
//! benchmarks and the demo, build with the counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fuzz::host;
use crate::served::PACKAGED;
use crate::{Outcome, root};

/// Directory of all files.
const DIR: &str = "target/pgo";

/// The profiled work: round trips of spinning and waiting threads, of one session and of many, with
/// both stores, the codec, and the demo's tools. Runs are short, because the profile counts
/// executions and not time.
const WORK: [&str; 6] = [
    "transfix-bench latency --self --messages 2000 --slices 2 --config optimized-hard-spin",
    "transfix-bench latency --self --messages 2000 --slices 2 --config default",
    "transfix-bench throughput --self --sessions 1,32 --slices 1 --slice-ms 500",
    "transfix-bench hftest --self --orders 50000 --rounds 1 --valid",
    "transfix-bench codec --runs 2 --messages 50000",
    "transfix demo",
];

/// Builds the programs.
///
/// # Errors
/// If `llvm-profdata` is missing, or a build or run fails.
pub fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err("usage: cargo xtask pgo".to_owned());
    }
    let program = profiled()?.program();
    Ok(format!("built with a profile of its own work: {}", program.display()))
}

/// The location of programs built with a profile.
pub(crate) struct Profiled {
    /// The target directory.
    pub(crate) target: PathBuf,
    /// The architecture, which names a directory in the target directory.
    pub(crate) host: String,
}

impl Profiled {
    pub(crate) fn program(&self) -> PathBuf {
        self.target.join(&self.host).join("dist/transfix")
    }
}

/// Builds the programs.
///
/// # Errors
/// If `llvm-profdata` is missing, or a build or run fails.
pub(crate) fn profiled() -> Result<Profiled, String> {
    let merges = profdata()?;
    let (dir, host) = (root().join(DIR), host()?);
    let (raw, profile) = (dir.join("raw"), dir.join("transfix.profdata"));
    // Counts of an earlier build do not fit this build. The first time there are none.
    let _ = fs::remove_dir_all(&raw);
    let counting = Profiled { target: dir.join("counting"), host: host.clone() };
    build(&counting, &flag("generate", &raw), &[])?;
    let scratch = dir.join("scratch");
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    for work in WORK {
        let mut words = work.split(' ');
        let program = counting.program().with_file_name(words.next().unwrap_or_default());
        let mut command = Command::new(program);
        command.args(words).current_dir(&scratch).stdout(Stdio::null());
        succeed(command, work)?;
    }
    let mut command = Command::new(merges);
    command.arg("merge").arg("-o").arg(&profile).arg(&raw);
    succeed(command, "llvm-profdata")?;
    let built = Profiled { target: dir.join("profiled"), host };
    // For `transfix --version --verbose`, and for the headers of benchmarks.
    build(&built, &flag("use", &profile), &[("TRANSFIX_PROFILED", "yes")])?;
    Ok(built)
}

fn flag(what: &str, path: &Path) -> String {
    format!("-Cprofile-{what}={}", path.display())
}

/// Returns the profile tool of this project's compiler.
fn profdata() -> Result<PathBuf, String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| format!("rustc: {error}"))?;
    let lib = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tool = lib.with_file_name("bin").join("llvm-profdata");
    let missing = "llvm-profdata is missing; install it: rustup component add llvm-tools";
    if tool.exists() { Ok(tool) } else { Err(missing.to_owned()) }
}

/// Builds the programs with one more flag, which does not apply to build scripts.
fn build(to: &Profiled, flag: &str, says: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .args(["build", "--profile", "dist", "--locked", "--bins", "--package", "transfix-cli"])
        .args(["--package", "transfix-bench", "--features", PACKAGED, "--target"])
        .arg(&to.host)
        .env("CARGO_TARGET_DIR", &to.target)
        .envs(says.iter().copied())
        // Otherwise the flags of the caller's own cargo would take precedence.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flag);
    succeed(command, "the build")
}

fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{what}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} has failed: {status}")) }
}
