//! Events of a session besides messages that come and go: [`Event`].
//!
//! Invariant: an event is a value. The maker of an event knows nothing of its receivers, the
//! [`Sinks`](crate::link::sinks::Sinks).

use std::io;
use std::net::SocketAddr;

use transfix_session::core::event::CoreEvent;
use transfix_store::StoreError;

use crate::link::session_event::{Disconnection, Rejected};

/// Something that has happened to a session.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    /// The core has brought it about.
    Core(&'a CoreEvent),
    /// A connection has ended.
    Disconnected(&'a Disconnection<'a>),
    /// No connection could be made.
    ConnectionFailed(&'a io::Error),
    /// The connection broke: [`Event::Disconnected`] follows.
    ConnectionBroke(&'a io::Error),
    /// The attempts to connect have reached `reconnect_attempts_max`.
    AttemptsGivenUp {
        attempts: u32,
    },
    /// Another connection of this session was closed.
    ConnectionRefused {
        peer: Option<SocketAddr>,
        why: &'a str,
    },
    /// There is no dictionary to validate messages with, for this reason.
    NoValidation {
        error: String,
    },
    /// The counterparty speaks TLS, and this session does not.
    SpeaksTls,
    /// The counterparty has rejected a message of ours.
    Rejected(&'a Rejected<'a>),
    /// The store may have messages of so many bytes: that is known when it is open again.
    SentInDoubt {
        bytes: usize,
    },
    /// The engine ends, and only the store can tell whether it has so many bytes of messages.
    LeftInDoubt {
        bytes: usize,
    },
    /// So many messages of the queue in the store are damaged.
    QueueDamaged {
        damaged: u64,
    },
    StoreNotRead(&'a StoreError),
    /// The store was to be opened again, and could not be.
    StoreNotOpened(&'a StoreError),
    /// The session goes on after a failure.
    ReadyAgain,
    /// A turn has panicked at the message with this MsgSeqNum(34).
    Panicked {
        seq: u64,
    },
    /// Opening the store again has panicked.
    ReopeningPanicked,
}
