//! Tests the administration over real sockets, while two engines trade.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod access;
mod actions;
mod described;
mod fix;
mod fix_hostile;
mod fix_page;
mod fleet;
mod health;
mod hostile;
mod http;
mod looking;
mod market;
mod metrics;
mod tls;
