//! The files of an engine: the protocol log, and what becomes of the store's segments.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(clippy::print_stdout, reason = "a child says how it went")]

mod counterparty;
mod errors;
mod log;
mod many;
mod retention;
mod stores;

use std::time::Duration;

/// Long enough for the slowest machine; no test waits that long unless it fails.
const LONG: Duration = Duration::from_secs(300);
