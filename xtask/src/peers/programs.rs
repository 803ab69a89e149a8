//! `cargo xtask peers programs`: the tests of the workspace whose counterparty is a program that
//! people run, such as haproxy or openssl. `cargo test` runs the same cases with counterparties of
//! the testkit, and ignores these.

use std::env;
use std::process::Command;

use super::{Outcome, root, run};

/// Each program that these tests start, and the package of Debian that has it.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("haproxy", "haproxy"),
    ("microsocks", "microsocks"),
    ("openssl", "openssl"),
    ("python3", "python3"),
    ("tinyproxy", "tinyproxy-bin"),
    ("zstd", "zstd"),
];

/// Runs them.
///
/// # Errors
/// If a program is missing, or a test fails.
pub(super) fn test() -> Outcome<()> {
    let path = env::var_os("PATH").unwrap_or_default();
    // Debian's haproxy is where only root looks.
    let folders: Vec<_> = env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    let is_there = |program: &str| folders.iter().any(|folder| folder.join(program).exists());
    let missing: Vec<_> = PROGRAMS.iter().filter(|(program, _)| !is_there(program)).collect();
    if !missing.is_empty() {
        let packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
        return Err(format!("programs are missing: apt-get install {}", packages.join(" ")));
    }
    let path = env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
    // These targets alone: what is built is what `cargo test --workspace` has built already.
    let arguments = "test --workspace --test all --test strangers --test tls -- --ignored";
    let mut cargo = Command::new(env!("CARGO"));
    run(cargo.args(arguments.split(' ')).current_dir(root()).env("PATH", path))
}
