//! The outside view of an engine: the clock, events with their codes, counts, states, latency, the
//! protocol log, and threads that are lost.
//!
//! A session writes here and somebody else reads, without the lock of the session.
//!
//! Invariant: [`clock`] alone reads a clock.
#![forbid(unsafe_code)]

pub mod called;
pub mod clock;
pub mod counters;
pub mod event_codes;
pub mod latency;
pub mod protocol_log;
pub mod published;
pub mod reasons;
pub mod repeats;
pub mod supervised;

pub use event_codes::EventCode;
