//! Observation of an engine from outside: clock, event codes, counts, states, latency, protocol
//! log, audit file, and supervision of threads.
//!
//! A session publishes its values here. Other threads read the values without the lock of the
//! session.
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
