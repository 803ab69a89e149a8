//! The files of an engine: the protocol log and the store's segments.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(clippy::print_stdout, reason = "a child says how it went")]

mod counterparty;
mod errors;
mod log;
mod many;
mod retention;
mod stores;

use std::time::Duration;

/// A time limit that suffices on the slowest machine; only a failing test waits this long.
const LONG: Duration = Duration::from_secs(300);
