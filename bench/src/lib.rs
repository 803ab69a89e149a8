//! Codec benchmarks: the messages, what is done with them, and the measuring of it beside the same
//! work of other engines, slice by slice.
//!
//! `cargo bench` and `transfix bench` print what [`measure::run`] answers.

pub mod measure;
pub mod operation;
pub mod ours;
pub mod peer;
pub mod workload;
