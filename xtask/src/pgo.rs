//! `cargo xtask pgo`: `transfix` and `transfix-bench` built with a profile of their own work.
//!
//! A turn walks through more code than the first cache holds, part of it branches that are
//! never taken. A compiler that knows which ones these are puts them elsewhere. Three steps: build
//! with counters, let benchmarks and the demo run, build with what was counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fuzz::host;
use crate::served::PACKAGED;
use crate::{Outcome, root};

/// Where all of it is.
const DIR: &str = "target/pgo";

/// The work that the profile counts: round trips of threads that spin and that wait, one session
/// and many. Both stores, the codec, and the tools of the demo are in it too. Short runs: it is
/// counted which code is executed, and not how fast.
const WORK: [&str; 6] = [
    "transfix-bench latency --self --messages 2000 --slices 2 --config optimized-hard-spin",
    "transfix-bench latency --self --messages 2000 --slices 2 --config default",
    "transfix-bench throughput --self --sessions 1,32 --slices 1 --slice-ms 500",
    "transfix-bench hftest --self --orders 50000 --rounds 1 --valid",
    "transfix-bench codec --runs 2 --messages 50000",
    "transfix demo",
];

/// Builds it.
///
/// # Errors
/// If `llvm-profdata` is missing, a build fails, or the program does.
pub fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err("usage: cargo xtask pgo".to_owned());
    }
    let program = profiled()?.program();
    Ok(format!("built with a profile of its own work: {}", program.display()))
}

/// Where cargo has put a program that was built with a profile.
pub(crate) struct Profiled {
    /// The target directory.
    pub(crate) target: PathBuf,
    /// The architecture, by which a directory in there is named.
    pub(crate) host: String,
}

impl Profiled {
    pub(crate) fn program(&self) -> PathBuf {
        self.target.join(&self.host).join("dist/transfix")
    }
}

/// Builds it.
///
/// # Errors
/// If `llvm-profdata` is missing, a build fails, or the program does.
pub(crate) fn profiled() -> Result<Profiled, String> {
    let merges = profdata()?;
    let (dir, host) = (root().join(DIR), host()?);
    let (raw, profile) = (dir.join("raw"), dir.join("transfix.profdata"));
    // Counts of another build say nothing of this build; the first time there are none.
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
    // For `transfix --version --verbose`, and for the heads of benchmarks.
    build(&built, &flag("use", &profile), &[("TRANSFIX_PROFILED", "yes")])?;
    Ok(built)
}

fn flag(what: &str, path: &Path) -> String {
    format!("-Cprofile-{what}={}", path.display())
}

/// The tool of the compiler that this project is built with.
fn profdata() -> Result<PathBuf, String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| format!("rustc: {error}"))?;
    let lib = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tool = lib.with_file_name("bin").join("llvm-profdata");
    let missing = "llvm-profdata is missing; install it: rustup component add llvm-tools";
    if tool.exists() { Ok(tool) } else { Err(missing.to_owned()) }
}

/// Builds the program with one more flag, which build scripts don't get.
fn build(to: &Profiled, flag: &str, says: &[(&str, &str)]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .args(["build", "--profile", "dist", "--locked", "--bins", "--package", "transfix-cli"])
        .args(["--package", "transfix-bench", "--features", PACKAGED, "--target"])
        .arg(&to.host)
        .env("CARGO_TARGET_DIR", &to.target)
        .envs(says.iter().copied())
        // The flags of the caller's own cargo would otherwise take precedence.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flag);
    succeed(command, "the build")
}

fn succeed(mut command: Command, what: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{what}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} has failed: {status}")) }
}
