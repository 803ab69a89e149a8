//! `transfix demo fleet`: three gateways share a session; one of them is killed in a burst of
//! orders. With `--fault`, each fault is tried many times, and the recovery is measured.

mod fault;
#[cfg(feature = "fleet")]
mod trials;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::value_parser;

use fault::{Fault, Role};
#[cfg(feature = "fleet")]
pub(crate) use trials::gateway;

/// Show how three gateways share a session, and how one of them fails in a burst of orders.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix demo fleet
  transfix demo fleet --fault all --trials 20            a table of the recovery from each fault
  transfix demo fleet --cost                             what a fleet costs
  transfix demo fleet --sizing                           what a large fleet needs

Starts three NATS servers, three gateways and a counterparty on this machine, and uses only
loopback. First the counterparty connects to the gateways, then the gateways to the counterparty.
Needs the program nats-server, version 2.12 or later:
https://github.com/nats-io/nats-server/releases, or
`go install github.com/nats-io/nats-server/v2@latest`.
The counterparty sends orders all the time. The recovery time is the longest time without an answer
to an order. At the end, the histories of the counterparty, of the gateways and of the stream are
compared.
Exit code: 0 all checks succeeded, 1 a check failed or nats-server is missing, 2 wrong usage.")]
pub(crate) struct Args {
    /// Faults to try, separated by commas.
    #[arg(long, value_name = "FAULT", value_delimiter = ',', default_value = "gateway-killed")]
    fault: Vec<Fault>,
    /// Role of the gateways. The counterparty connects to an acceptor, and listens for an
    /// initiator.
    #[arg(long, value_name = "ROLE", value_delimiter = ',', default_value = "acceptor,initiator")]
    role: Vec<Role>,
    /// Number of trials of each fault.
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = value_parser!(u32).range(1..=10_000))]
    trials: u32,
    /// Duration of a pause of a gateway, and of a cut of the network.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    #[arg(value_parser = value_parser!(u64).range(1..=3_600))]
    pause: u64,
    /// Measures what a fleet costs, instead of faults: commits compared with bare appends, orders
    /// a second, and the take-over of 1,000 sessions.
    #[arg(long, conflicts_with_all = ["fault", "role", "trials", "pause"])]
    cost: bool,
    /// Measures the memory of a gateway and of the NATS servers, and computes large fleets from it.
    #[arg(long, conflicts_with_all = ["fault", "role", "trials", "pause", "cost"])]
    sizing: bool,
    /// The program nats-server.
    #[arg(long, default_value = "nats-server", value_name = "PATH")]
    nats_server: PathBuf,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    #[cfg(feature = "fleet")]
    return trials::run(args);
    #[cfg(not(feature = "fleet"))]
    {
        let _ = args;
        crate::fleet::missing()
    }
}
