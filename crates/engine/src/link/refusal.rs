//! The refusal of a logon without a session.

use std::fmt;

/// The refusal of a Logon(A) that matches no configured session.
pub(crate) struct Refusal {
    /// The bytes to send before closing the connection; may be empty.
    pub(crate) answer: Vec<u8>,
    /// The reason, for the log.
    pub(crate) why: String,
    /// True if the refusal counts as a failed logon, because the credentials are wrong or the
    /// application has refused it.
    pub(crate) is_failed_logon: bool,
}

impl Refusal {
    pub(crate) fn silent(why: &str) -> Self {
        Self { answer: Vec::new(), why: why.to_owned(), is_failed_logon: false }
    }

    pub(crate) fn failed_logon(why: &str) -> Self {
        Self { is_failed_logon: true, ..Self::silent(why) }
    }

    /// Returns the refusal for a session that could not be made because of `error`.
    pub(crate) fn not_made(error: &impl fmt::Display) -> Self {
        Self::silent(&format!("the session could not be created: {error}"))
    }
}
