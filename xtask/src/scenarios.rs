//! `cargo xtask scenarios`: runs the scenarios of `testdata/scenarios` in all worlds (the session
//! alone, whole engines, other engines).
//!
//! The engine's test program `scenarios` runs the scenarios. This module builds the QuickFIX
//! counterparty and selects the worlds.

use std::env;
use std::process::{Command, ExitCode};

use crate::{peers, root};

const USAGE: &str =
    "usage: cargo xtask scenarios [--world pure|loopback|quickfix]... [--filter PART-OF-A-PATH]
                             [--all-versions]

Where time is real each file is played in one of its versions, unless all are wanted.";
const WORLDS: [&str; 3] = ["pure", "loopback", "quickfix"];

/// The options of the command line.
#[derive(Default)]
struct Request {
    worlds: Vec<String>,
    filter: String,
    all_versions: bool,
}

impl Request {
    fn read(args: &[String]) -> Result<Self, String> {
        let mut request = Self::default();
        let mut args = args.iter();
        while let Some(key) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("no value for {key}"));
            match key.as_str() {
                "--world" => match value()? {
                    world if WORLDS.contains(&world.as_str()) => request.worlds.push(world.clone()),
                    world => return Err(format!("no such world: {world}")),
                },
                "--filter" => request.filter.clone_from(value()?),
                "--all-versions" => request.all_versions = true,
                _ => return Err(format!("unknown option {key}")),
            }
        }
        if request.worlds.is_empty() {
            request.worlds = WORLDS.map(str::to_owned).into();
        }
        Ok(request)
    }
}

/// Runs the scenarios. The exit code is 1 after a failure, and 2 if the arguments were wrong.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let request = match Request::read(args) {
        Ok(request) => request,
        Err(error) => {
            peers::say(&format!("error: {error}\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    match run(&request) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            peers::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(request: &Request) -> Result<bool, String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["test", "--quiet", "--package", "transfix"]);
    command.args(["--test", "scenarios", "--", "--filter", &request.filter]);
    for world in &request.worlds {
        command.args(["--world", world]);
        if world == "quickfix" {
            command.arg("--quickfix").arg(peers::build_quickfix()?.join("qf_scenario"));
        }
    }
    if request.all_versions {
        command.arg("--all-versions");
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(status.success())
}
