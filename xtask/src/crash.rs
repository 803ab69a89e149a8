//! `cargo xtask crash --loops N`: kills engine processes under load N times, and compares the
//! journals of both sides.
//!
//! The loop itself is a test of the crate transfix-cli. This command runs the test with the release
//! build and any number of loops.

use std::process::Command;

use crate::served::release_program;
use crate::{Outcome, root};

/// The name of the test in transfix-cli, with `--exact`, because the crate transfix-store also has
/// a test program called `kill`.
const TEST: &str = "kills_lose_and_double_nothing";
/// The name of the engine test that kills a process with an application thread.
const POOL_TEST: &str = "each_message_is_answered_once_however_often_the_process_is_killed";
/// The filter for the gateway tests. Each of these three tests kills a gateway N/3 times, rounded
/// up.
const GATEWAY_TESTS: &str = "command_line::gateway_kills::";

const USAGE: &str = "usage: cargo xtask crash [--loops N] [--seed S]

A venue and a client trade over loopback, each in a process of its own; again and again one of
them is killed by SIGKILL at any moment and started anew. In the end each application message must
have arrived once and in order, and the numbers of both sides must agree. Each restart has
one of twelve configurations: three modes, with and without application threads, durability
`process` or `power`. Then a process whose application has threads of its own is killed as often,
with durability `process` and with `power`: each order must be answered once. Last,
each of three tests kills a gateway N/3 times. N is 1,000 by default.";

/// Runs the crash tests.
///
/// # Errors
/// If an argument is wrong, or a message was lost or duplicated.
pub fn run(args: &[String]) -> Outcome {
    let (mut loops, mut seed) = (1_000_u64, None);
    let mut args = args.iter().map(String::as_str);
    while let Some(flag) = args.next() {
        let number = match flag {
            "--help" => return Ok(USAGE.to_owned()),
            _ => args.next().and_then(|text| text.parse().ok()),
        };
        match (flag, number) {
            ("--loops", Some(n)) => loops = n,
            ("--seed", Some(n)) => seed = Some(n),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let program = release_program()?;
    let mut command = Command::new("cargo");
    // `--workspace` selects the same features as `cargo test --workspace`, so that cargo reuses the
    // build.
    command
        .args(["test", "--workspace", "--test", "kill", "--", "--exact", TEST, "--nocapture"])
        .env("TRANSFIX_KILLS", loops.to_string())
        .env("TRANSFIX_PROGRAM", program)
        .current_dir(root());
    if let Some(seed) = seed {
        command.env("TRANSFIX_SEED", seed.to_string());
    }
    let mut pool = Command::new("cargo");
    pool.args(["test", "--workspace", "--test", "pool_kill", "--", "--exact", POOL_TEST])
        .env("TRANSFIX_KILLS", loops.to_string())
        .current_dir(root());
    let mut gateway = Command::new("cargo");
    gateway
        .args(["test", "--workspace", "--test", "all", "--", GATEWAY_TESTS, "--test-threads=1"])
        .env("TRANSFIX_KILLS", loops.div_ceil(3).to_string())
        .current_dir(root());
    for mut command in [command, pool, gateway] {
        let status = command.status().map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err("something was lost or doubled; see above".to_owned());
        }
    }
    Ok(format!("{loops} kills of each kind: nothing was lost or duplicated"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Each filter names an existing test, because a filter without a match would run nothing and
    /// succeed.
    #[test]
    fn each_filter_fits_a_test() {
        let module = GATEWAY_TESTS.trim_end_matches("::").rsplit("::").next().unwrap();
        for (file, text) in [
            ("crates/cli/tests/kill.rs", format!("fn {TEST}(")),
            ("crates/engine/tests/pool_kill.rs", format!("fn {POOL_TEST}(")),
            ("crates/cli/tests/command_line/mod.rs", format!("mod {module};")),
        ] {
            let source = fs::read_to_string(root().join(file)).unwrap();
            assert!(source.contains(&text), "{file} has no `{text}`");
        }
    }
}
