//! The outside view of an engine: counts, states, the protocol log, lines of events, threads that
//! are lost.
//!
//! Here belongs what is written by a session and read by somebody else, without the session's lock.

pub(crate) mod called;
pub(crate) mod counters;
pub(crate) mod event_codes;
pub(crate) mod latency;
pub(crate) mod protocol_log;
pub(crate) mod published;
pub(crate) mod reasons;
pub(crate) mod repeats;
pub(crate) mod supervised;
