//! The public interface of the package `transfix`: its public items, and the numeric codes of its
//! errors and reasons.
//!
//! The tests parse the sources. A committed file lists the whole interface, so every change appears
//! in a diff.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod codes;
mod items;
mod mentioned;
mod sources;
mod spelled;
mod tree;
