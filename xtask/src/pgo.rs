//! `cargo xtask pgo`: builds `transfix` and `transfix-bench` with profile-guided optimization.
//!
//! A link turn uses more code than the first-level cache holds, with many branches that are almost
//! never taken. A profile lets the compiler move these branches out of the way. There are three
//! steps: build with counters, run benchmarks and the demo, and build again with the counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fuzz::host;
use crate::served::PACKAGED;
use crate::{Outcome, root};

/// Directory of all files that this verb creates.
const DIR: &str = "target/pgo";

/// The profiled commands: round trips with spinning and with waiting threads, with one session and
/// with many, with both stores; also the codec and the demo's tools. Runs are short, because the
/// profile counts executions and not time.
const WORK: [&str; 6] = [
    "transfix-bench latency --self --messages 2000 --slices 2 --config optimized-hard-spin",
    "transfix-bench latency --self --messages 2000 --slices 2 --config default",
    "transfix-bench throughput --self --sessions 1,32 --slices 1 --slice-ms 500",
    "transfix-bench hftest --self --orders 50000 --rounds 1 --valid",
    "transfix-bench codec --runs 2 --messages 50000",
    "transfix demo",
];

/// Builds the programs with a profile.
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
    /// The cargo target directory of the build.
    pub(crate) target: PathBuf,
    /// The target triple, which is also the name of a subdirectory of `target`.
    pub(crate) host: String,
}

impl Profiled {
    pub(crate) fn program(&self) -> PathBuf {
        self.target.join(&self.host).join("dist/transfix")
    }
}

/// Builds the programs with a profile, and returns their location.
///
/// # Errors
/// If `llvm-profdata` is missing, or a build or run fails.
pub(crate) fn profiled() -> Result<Profiled, String> {
    let merges = profdata()?;
    let (dir, host) = (root().join(DIR), host()?);
    let (raw, profile) = (dir.join("raw"), dir.join("transfix.profdata"));
    // Old counts are removed, because they do not fit this build. On the first run there are none.
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
    // The variable makes `transfix --version --verbose` and benchmark headers report the profile.
    build(&built, &flag("use", &profile), &[("TRANSFIX_PROFILED", "yes")])?;
    Ok(built)
}

fn flag(what: &str, path: &Path) -> String {
    format!("-Cprofile-{what}={}", path.display())
}

/// Returns the path of `llvm-profdata` that belongs to this project's compiler.
fn profdata() -> Result<PathBuf, String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| format!("rustc: {error}"))?;
    let lib = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tool = lib.with_file_name("bin").join("llvm-profdata");
    let missing = "llvm-profdata is missing; install it: rustup component add llvm-tools";
    if tool.exists() { Ok(tool) } else { Err(missing.to_owned()) }
}

/// Builds the programs with one more compiler flag, which does not apply to build scripts.
fn build(to: &Profiled, flag: &str, says: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .args(["build", "--profile", "dist", "--locked", "--bins", "--package", "transfix-cli"])
        .args(["--package", "transfix-bench", "--features", PACKAGED, "--target"])
        .arg(&to.host)
        .env("CARGO_TARGET_DIR", &to.target)
        .envs(says.iter().copied())
        // CARGO_ENCODED_RUSTFLAGS, set by a calling cargo, would take precedence over RUSTFLAGS.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flag);
    succeed(command, "the build")
}

fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{what}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} has failed: {status}")) }
}
