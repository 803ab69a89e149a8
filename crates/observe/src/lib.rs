//! Observation of an engine from outside: clock, event codes, counters, states, latency, protocol
//! log and audit file. Also supervises threads.
//!
//! A session publishes its values here, so that other threads read them without the session's lock.
//!
//! Invariant: [`clock`] alone reads a clock.
#![forbid(unsafe_code)]

pub mod audit;
pub mod called;
pub mod clock;
pub mod counters;
pub mod event_codes;
pub mod latency;
pub mod mappings;
pub mod protocol_log;
pub mod published;
pub mod reasons;
pub mod repeats;
pub mod supervised;

pub use event_codes::EventCode;
