//! `cargo xtask scenarios`: plays the scenarios of `testdata/scenarios` in all worlds.
//!
//! The player is the engine's test `scenarios`; this builds the counterparty of the third world
//! and says which worlds to play.

use std::env;
use std::process::{Command, ExitCode};

use crate::{peers, root};

const USAGE: &str =
    "usage: cargo xtask scenarios [--world pure|loopback|quickfix]... [--filter PART-OF-A-PATH]";
const WORLDS: [&str; 3] = ["pure", "loopback", "quickfix"];

/// Plays them; the exit code is 1 if something failed, 2 if the call was wrong.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let (mut worlds, mut filter) = (Vec::new(), String::new());
    let mut args = args.iter();
    while let Some(key) = args.next() {
        match (key.as_str(), args.next()) {
            ("--world", Some(world)) if WORLDS.contains(&world.as_str()) => {
                worlds.push(world.as_str());
            }
            ("--filter", Some(part)) => filter.clone_from(part),
            _ => {
                peers::say(&format!("error: {key} is wrong\n{USAGE}"));
                return ExitCode::from(2);
            }
        }
    }
    if worlds.is_empty() {
        worlds.extend(WORLDS);
    }
    match run(&worlds, &filter) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            peers::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(worlds: &[&str], filter: &str) -> Result<bool, String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["test", "--quiet", "--package", "transfix"]);
    command.args(["--test", "scenarios", "--", "--filter", filter]);
    for world in worlds {
        command.args(["--world", world]);
    }
    if worlds.contains(&"quickfix") {
        command.arg("--quickfix").arg(peers::build_quickfix()?.join("qf_scenario"));
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(status.success())
}
