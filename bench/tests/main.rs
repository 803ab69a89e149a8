//! All tests of the program that can run beside each other.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod command_line;
mod hftest;
mod two_hosts;
