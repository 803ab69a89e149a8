//! All tests of the program that can run in parallel.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod command_line;
mod hftest;
mod two_hosts;
