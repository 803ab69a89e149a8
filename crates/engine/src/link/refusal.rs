//! Why a counterparty that logs on gets no session.

use std::fmt;

/// Why a counterparty that no settings name gets no session.
pub(crate) struct Refusal {
    /// What is sent before its connection is closed; it may be nothing.
    pub(crate) answer: Vec<u8>,
    /// For the log.
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn silent(why: &str) -> Self {
        Self { answer: Vec::new(), why: why.to_owned() }
    }

    /// Its session could not be made.
    pub(crate) fn not_made(error: &impl fmt::Display) -> Self {
        Self::silent(&format!("its session could not be made: {error}"))
    }
}
