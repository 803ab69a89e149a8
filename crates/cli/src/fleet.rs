//! `transfix fleet`: shows the gateways of a fleet, and moves sessions between them.

#[cfg(feature = "fleet")]
mod operator;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

#[cfg(feature = "fleet")]
pub(crate) use operator::shown;

/// Show the gateways of a fleet, and move sessions between them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  transfix fleet create gateway.toml                     once, before the first gateway
  transfix fleet status gateway.toml
  transfix fleet drain gateway.toml gw1                  before maintenance of gw1
  transfix fleet resume gateway.toml gw1
  transfix fleet move gateway.toml 'FIX.4.4:DESK->VENUE' gw2

The settings file is that of any gateway, or one with the section [fleet] alone: it has the
addresses of the brokers, and the access to them. The page \"Active/passive and fleets\" of the book
has a runbook.
Exit code: 0 done, 1 not done, or no gateway answers, 2 wrong usage or settings that cannot be
read.")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create the stream with the sessions, once, before the first gateway starts.
    Create {
        /// Settings file with the section `fleet`.
        settings: PathBuf,
    },
    /// Show the gateways that answer, and the owner of each session. IN and OUT are the next
    /// MsgSeqNum(34) of both directions.
    Status {
        /// Settings file with the section `fleet`.
        settings: PathBuf,
        /// Only sessions whose identity contains this text.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        session: String,
    },
    /// Log out the sessions of a gateway, so that other gateways continue them. The gateway takes
    /// none over until `resume`.
    Drain {
        /// Settings file with the section `fleet`.
        settings: PathBuf,
        /// Name of the gateway.
        gateway: String,
    },
    /// Let a drained gateway take sessions over again.
    Resume {
        /// Settings file with the section `fleet`.
        settings: PathBuf,
        /// Name of the gateway.
        gateway: String,
    },
    /// Log a session out at its gateway, so that another gateway continues it. An initiator
    /// connects from there at once. The counterparty of an acceptor has to connect there.
    Move {
        /// Settings file with the section `fleet`.
        settings: PathBuf,
        /// Identity of the session, such as FIX.4.4:DESK->VENUE.
        session: String,
        /// Name of the gateway that continues the session.
        gateway: String,
    },
}

pub(crate) fn run(args: &Args) -> ExitCode {
    #[cfg(feature = "fleet")]
    return operator::run(&args.verb);
    #[cfg(not(feature = "fleet"))]
    {
        let _ = args;
        missing()
    }
}

/// Reports that this program has no client of NATS.
#[cfg(not(feature = "fleet"))]
pub(crate) fn missing() -> ExitCode {
    eprintln!(
        "transfix: this program was built without fleets; install the package, or build it with \
         `--features fleet`"
    );
    ExitCode::FAILURE
}
