//! Why a counterparty that logs on gets no session.

use std::fmt;

/// Why a counterparty that no settings name gets no session.
pub(crate) struct Refusal {
    /// The bytes that are sent before its connection is closed; there may be none.
    pub(crate) answer: Vec<u8>,
    /// For the log.
    pub(crate) why: String,
    /// True if it counts as a failed logon: the counterparty did not prove who it is, or the
    /// application does not want it.
    pub(crate) is_failed_logon: bool,
}

impl Refusal {
    pub(crate) fn silent(why: &str) -> Self {
        Self { answer: Vec::new(), why: why.to_owned(), is_failed_logon: false }
    }

    pub(crate) fn failed_logon(why: &str) -> Self {
        Self { is_failed_logon: true, ..Self::silent(why) }
    }

    /// Its session could not be made.
    pub(crate) fn not_made(error: &impl fmt::Display) -> Self {
        Self::silent(&format!("its session could not be made: {error}"))
    }
}
