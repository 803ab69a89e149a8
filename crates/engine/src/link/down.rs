//! Causes for which a link closes.

use std::io;

use transfix_session::Disconnect;
use transfix_store::StoreError;

/// The cause for which a link closes.
#[derive(Debug)]
pub(crate) enum Down {
    /// The session layer or the counterparty closed the connection.
    Session(Disconnect),
    /// The socket failed.
    Io(io::Error),
    /// The store failed: the link stays down until the store is open again.
    Store(StoreError),
    /// The application or the engine panicked: the session continues from its store if it restarts.
    Panicked,
}

/// Converts the reasons of the core. The core reports a panic of an application in its own threads.
impl From<Disconnect> for Down {
    fn from(reason: Disconnect) -> Self {
        match reason {
            Disconnect::Panicked => Self::Panicked,
            reason => Self::Session(reason),
        }
    }
}

impl Down {
    /// Returns the reason for the application.
    pub(crate) const fn reason(&self) -> Disconnect {
        match self {
            Self::Session(reason) => *reason,
            Self::Io(_) => Disconnect::LinkLost,
            Self::Store(_) => Disconnect::StoreFailed,
            Self::Panicked => Disconnect::Panicked,
        }
    }
}
