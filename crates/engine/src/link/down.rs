//! Why a link goes down.

use std::io;

use transfix_session::Disconnect;
use transfix_store::StoreError;

/// Why a link went down.
#[derive(Debug)]
pub(crate) enum Down {
    /// The session layer wanted it, or the counterparty closed.
    Session(Disconnect),
    /// The socket failed.
    Io(io::Error),
    /// The store failed: the link stays down until it is open again.
    Store(StoreError),
    /// The application or the engine panicked: the session goes on from its store, if it is to.
    Panicked,
}

/// The core ends a connection for no other reasons than these. It hears of a panic of an
/// application in threads of its own.
impl From<Disconnect> for Down {
    fn from(reason: Disconnect) -> Self {
        match reason {
            Disconnect::Panicked => Self::Panicked,
            reason => Self::Session(reason),
        }
    }
}

impl Down {
    /// The reason that the application is told.
    pub(crate) const fn reason(&self) -> Disconnect {
        match self {
            Self::Session(reason) => *reason,
            Self::Io(_) => Disconnect::LinkLost,
            Self::Store(_) => Disconnect::StoreFailed,
            Self::Panicked => Disconnect::Panicked,
        }
    }
}
