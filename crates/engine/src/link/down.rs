//! Causes for which a link closes.

use std::io;

use transfix_session::Disconnect;
use transfix_store::StoreError;

/// The cause for which a link closes.
#[derive(Debug)]
pub(crate) enum Down {
    /// The session layer, an operator or the counterparty has ended the connection.
    Session(Disconnect),
    /// The socket failed.
    Io(io::Error),
    /// The store failed: the link stays down until the store is open again.
    Store(StoreError),
    /// The application or the engine has panicked. If the settings let the session restart, it
    /// continues from its store.
    Panicked,
}

/// Converts a reason of the core. A panic of an application in application threads reaches the core
/// first.
impl From<Disconnect> for Down {
    fn from(reason: Disconnect) -> Self {
        match reason {
            Disconnect::Panicked => Self::Panicked,
            reason => Self::Session(reason),
        }
    }
}

impl Down {
    /// Returns the reason as the application and the log report it.
    pub(crate) const fn reason(&self) -> Disconnect {
        match self {
            Self::Session(reason) => *reason,
            Self::Io(_) => Disconnect::LinkLost,
            Self::Store(_) => Disconnect::StoreFailed,
            Self::Panicked => Disconnect::Panicked,
        }
    }
}
