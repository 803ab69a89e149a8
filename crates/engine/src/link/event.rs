//! [`Event`]s: what happens in a session besides inbound and outbound messages.
//!
//! Invariant: an event is a plain value, so that its source does not depend on its receivers, the
//! [`Sinks`](crate::link::sinks::Sinks).

use std::io;
use std::net::SocketAddr;

use transfix_session::core::event::CoreEvent;
use transfix_store::StoreError;

use crate::link::session_event::{Disconnection, Rejected};

/// An event of a session, to be counted and logged.
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
    /// A connection of this session was closed at once, for example because the session is already
    /// connected.
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
    /// The counterparty has rejected a message that we sent.
    Rejected(&'a Rejected<'a>),
    /// After a failure, it is unknown whether the store contains `bytes` bytes of sent messages.
    /// Reopening the store will show it.
    SentInDoubt {
        bytes: usize,
    },
    /// The engine ends, and it is unknown whether the store contains `bytes` bytes of sent
    /// messages.
    LeftInDoubt {
        bytes: usize,
    },
    /// The queue in the store contains `damaged` messages that cannot be read.
    QueueDamaged {
        damaged: u64,
    },
    StoreNotRead(&'a StoreError),
    /// Reopening the store failed.
    StoreNotOpened(&'a StoreError),
    /// The session can connect again after a failure.
    ReadyAgain,
    /// A panic has occurred while the message with this MsgSeqNum(34) was processed.
    Panicked {
        seq: u64,
    },
    /// The thread that reopens the store has panicked.
    ReopeningPanicked,
}
