//! `cargo xtask fleet`: measures the recovery of a fleet from each fault, with real NATS servers.

use std::path::PathBuf;
use std::process::Command;

use crate::served::fleet_program;
use crate::{Outcome, peers};

const USAGE: &str = "usage: cargo xtask fleet [--short] [OPTIONS OF transfix demo fleet]

Installs nats-server with Go unless it is there, builds `transfix` with the feature `fleet`, and
runs `transfix demo fleet --fault all --trials 20`. The short form tries four faults once.";

/// The faults of the short form.
const SHORT: &str = "gateway-killed,leader-killed,cut-to-brokers,bit-flipped";

/// Runs `fleet <arguments>`.
///
/// # Errors
/// Says what could not be built or which check has failed.
pub fn run(arguments: &[String]) -> Outcome {
    let (is_short, own) = match arguments.split_first() {
        Some((first, rest)) if first == "--short" => (true, rest),
        _ => (false, arguments),
    };
    if own.iter().any(|argument| argument == "--help") {
        return Err(USAGE.to_owned());
    }
    let nats_server: PathBuf = peers::nats_server()?;
    let program = fleet_program()?;
    let mut command = Command::new(program);
    command.args(["demo", "fleet", "--nats-server"]).arg(nats_server);
    let names_faults = own.iter().any(|argument| argument == "--fault" || argument == "--cost");
    match (is_short, names_faults) {
        (_, true) => {}
        (true, false) => _ = command.args(["--fault", SHORT, "--pause", "5"]),
        (false, false) => _ = command.args(["--fault", "all", "--trials", "20"]),
    }
    command.args(own);
    let status = command.status().map_err(|error| format!("transfix: {error}"))?;
    if status.success() {
        Ok("no acknowledged message was lost, doubled or changed".to_owned())
    } else {
        Err(format!("transfix demo fleet: {status}"))
    }
}
