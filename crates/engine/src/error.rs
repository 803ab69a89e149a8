//! Why an engine does not start.

use std::fmt;
use std::io;

use transfix_session::SessionId;
use transfix_store::StoreError;

/// Why an engine did not start.
pub enum EngineError {
    /// The settings of a session contradict themselves.
    Settings(String),
    /// An address cannot be resolved, bound, or a thread not be started.
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The store of no session can be opened. If it is only that of some, the others start; see
    /// [`SessionHandle::store_failure`](crate::SessionHandle::store_failure).
    Store {
        /// The session.
        id: SessionId,
        /// Why.
        source: StoreError,
    },
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

/// The text: what `main` returns is printed so.
impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for EngineError {}

/// What failed, to be said with the error of the system.
pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> EngineError {
    let what = what.into();
    move |source| EngineError::Io { what, source }
}
