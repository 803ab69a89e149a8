//! Test cases of the FIX session layer, one exchange of inbound and outbound messages each.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod admin;
mod counterparty;
mod garbled;
mod logon;
mod numbers;
mod refusals;
mod resend;
mod resets;
mod sending;
mod standard;
mod states;
mod timing;
mod versions;
