//! Errors at the start of an engine, or when adding a session.

use std::fmt;
use std::io;

use transfix_session::SessionId;
use transfix_store::StoreError;

/// The reason why an engine did not start.
#[non_exhaustive]
pub enum EngineError {
    /// The settings are wrong or contradict each other; the text is the reason.
    Settings(String),
    /// An address cannot be resolved or bound, or a thread cannot be started.
    Io {
        /// The step that failed.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// No session's store can be opened. If only some stores fail, the other sessions start; see
    /// [`SessionHandle::store_failure`](crate::SessionHandle::store_failure).
    Store {
        /// The session.
        id: SessionId,
        /// The error of the store.
        source: StoreError,
    },
}

impl EngineError {
    /// Returns the number of this error, for logs and other languages. The number never changes.
    /// The page "Codes" of the book lists all numbers.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::Settings(_) => 701,
            Self::Io { .. } => 702,
            Self::Store { source, .. } => source.as_u16(),
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(message) => f.write_str(message),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Store { id, source } => write!(f, "the store of {id}: {source}"),
        }
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for EngineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Settings(_) => None,
            Self::Io { source, .. } => Some(source),
            Self::Store { source, .. } => Some(source),
        }
    }
}

/// Returns a function that adds the failed step to an error of the system.
pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> EngineError {
    let what = what.into();
    move |source| EngineError::Io { what, source }
}
