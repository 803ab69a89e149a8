//! The public interface of the package `transfix`: its public items, and the numbers of its errors
//! and reasons.
//!
//! All of it is read out of the sources. A file of the project has the whole interface, so that no
//! change of it goes unseen.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod codes;
mod items;
mod mentioned;
mod sources;
mod spelled;
mod tree;
