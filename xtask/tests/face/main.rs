//! What users of the package `transfix` build upon: its public items, and the numbers of its errors
//! and reasons.
//!
//! All of it is read out of the sources. What a user may rely on stands in a file of the project,
//! so that no change of it goes unseen.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod codes;
mod items;
mod mentioned;
mod sources;
mod spelled;
mod tree;
