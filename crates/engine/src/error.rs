//! Why an engine does not start.

use std::fmt;
use std::io;

use transfix_session::SessionId;
use transfix_store::StoreError;

/// Why an engine did not start.
#[non_exhaustive]
pub enum EngineError {
    /// The settings of a session contradict themselves.
    Settings(String),
    /// An address cannot be resolved, bound, or a thread not be started.
    Io {
        /// The attempt that failed.
        what: String,
        /// The error of the system.
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

impl EngineError {
    /// The number of this error, for logs and for other languages. It never changes; the page
    /// "Codes" of the book lists all.
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

/// The text: what `main` returns is printed so.
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

/// The step that failed, to be said with the error of the system.
pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> EngineError {
    let what = what.into();
    move |source| EngineError::Io { what, source }
}
