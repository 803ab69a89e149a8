//! Events of a session besides inbound and outbound messages: [`Event`].
//!
//! Invariant: an event is a value. The source of an event does not depend on the receivers, the
//! [`Sinks`](crate::link::sinks::Sinks).

use std::io;
use std::net::SocketAddr;

use transfix_session::core::event::CoreEvent;
use transfix_store::StoreError;

use crate::link::session_event::{Disconnection, Rejected};

/// An event of a session.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    /// An event of the core.
    Core(&'a CoreEvent),
    /// A connection has ended.
    Disconnected(&'a Disconnection<'a>),
    /// A connection attempt failed.
    ConnectionFailed(&'a io::Error),
    /// The connection broke: [`Event::Disconnected`] follows.
    ConnectionBroke(&'a io::Error),
    /// The attempts to connect have reached `reconnect_attempts_max`.
    AttemptsGivenUp {
        attempts: u32,
    },
    /// A second connection of this session was closed.
    ConnectionRefused {
        peer: Option<SocketAddr>,
        why: &'a str,
    },
    /// Messages are not validated because no dictionary is available; `error` is the reason.
    NoValidation {
        error: String,
    },
    /// The counterparty uses TLS, and this session does not.
    SpeaksTls,
    /// The counterparty has rejected a message of ours.
    Rejected(&'a Rejected<'a>),
    /// The store may contain `bytes` bytes of sent messages; their fate is known after reopening.
    SentInDoubt {
        bytes: usize,
    },
    /// The engine ends while the fate of `bytes` bytes of sent messages is unknown.
    LeftInDoubt {
        bytes: usize,
    },
    /// The stored queue contains `damaged` damaged messages.
    QueueDamaged {
        damaged: u64,
    },
    StoreNotRead(&'a StoreError),
    /// Reopening the store failed.
    StoreNotOpened(&'a StoreError),
    /// The session continues after a failure.
    ReadyAgain,
    /// A turn has panicked at the message with this MsgSeqNum(34).
    Panicked {
        seq: u64,
    },
    /// Reopening the store has panicked.
    ReopeningPanicked,
}
