//! `cargo xtask fleet`: measures the recovery from each fault: of a fleet on real NATS servers, and
//! of a pair on PostgreSQL with a synchronous standby.

use std::path::PathBuf;
use std::process::Command;

use crate::served::{fleet_program, target};
use crate::{Outcome, peers, root};

const USAGE: &str = "usage: cargo xtask fleet [--short] [OPTIONS OF transfix demo fleet]

Installs nats-server with Go unless it is there, builds `transfix` with the feature `fleet`, and
runs `transfix demo fleet --fault all --trials 20`, which takes hours. Then measures a pair of
gateways on PostgreSQL, which must be installed. The short form tries four faults once, without
PostgreSQL.";

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
    let parts = ["--fault", "--cost", "--sizing"];
    let names_part = own.iter().any(|argument| parts.contains(&&**argument));
    match (is_short, names_part) {
        (_, true) => {}
        (true, false) => {
            // The tests of the stores move initiators.
            command.args(["--fault", SHORT, "--role", "acceptor", "--pause", "5"]);
        }
        (false, false) => _ = command.args(["--fault", "all", "--trials", "20"]),
    }
    command.args(own);
    let status = command.status().map_err(|error| format!("transfix: {error}"))?;
    if !status.success() {
        return Err(format!("transfix demo fleet: {status}"));
    }
    if !is_short && !names_part {
        pair()?;
    }
    Ok("no acknowledged message was lost, doubled or changed".to_owned())
}

/// Measures two gateways on PostgreSQL with a synchronous standby.
fn pair() -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--quiet", "--test", "stores", "--manifest-path"]);
    command.arg(root().join("stores/Cargo.toml"));
    command.args(["--", "pair::recovery::recovery", "--ignored", "--exact", "--nocapture"]);
    let status = command.env("CARGO_TARGET_DIR", target().join("stores")).status();
    match status.map_err(|error| format!("cargo: {error}"))? {
        status if status.success() => Ok(()),
        status => Err(format!("the recovery of a pair on PostgreSQL: {status}")),
    }
}
