//! `cargo xtask peers programs`: runs the tests whose counterparties are real programs, such as
//! haproxy or openssl. `cargo test` ignores these tests and runs the same cases with counterparties
//! from the testkit.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::{Outcome, root, run};
use crate::served::target;

/// Each program that these tests start, with its Debian package.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("haproxy", "haproxy"),
    ("microsocks", "microsocks"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("tinyproxy", "tinyproxy-bin"),
    ("zstd", "zstd"),
];

/// Python packages that read the files written by `convert --to parquet`, with tested versions.
const ANALYSTS: [&str; 3] = ["duckdb==2.0.1", "pandas==3.1.1", "pyarrow==26.0.1"];

/// Runs the tests with real programs.
///
/// # Errors
/// If a program is missing, or a test fails.
pub(super) fn test() -> Outcome<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian installs haproxy in a directory that is only in the PATH of root.
    let folders: Vec<_> = env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let is_there = |program: &str| folders.iter().any(|folder| folder.join(program).exists());
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_there(program)).collect();
    if !missing.is_empty() {
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        return Err(format!("programs are missing: apt-get install {}", packages.join(" ")));
    }
    let folders = std::iter::once(analysts()?).chain(folders);
    let path = env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
    // Only these test targets run, so that the build of `cargo test --workspace` is reused, except
    // for the Parquet feature.
    let arguments = "test --workspace --features transfix-cli/parquet --test all --test strangers \
                     --test tls -- --ignored";
    let mut cargo = Command::new(env!("CARGO"));
    run(cargo.args(arguments.split(' ')).current_dir(root()).env("PATH", path))
}

/// Returns the python3 with these packages, which are installed once in their own environment.
fn analysts() -> Outcome<PathBuf> {
    let dir = target().join("analysts");
    let frozen = Command::new(dir.join("bin/pip")).arg("freeze").output();
    let frozen = frozen.map(|all| String::from_utf8_lossy(&all.stdout).into_owned());
    let has = |package: &str| frozen.as_ref().is_ok_and(|all| all.contains(package));
    if !ANALYSTS.iter().all(|package| has(package)) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&dir))
            .map_err(|error| format!("{error}; Debian's package python3-venv has it"))?;
        run(Command::new(dir.join("bin/pip")).args(["install", "--quiet"]).args(ANALYSTS))?;
    }
    Ok(dir.join("bin"))
}
