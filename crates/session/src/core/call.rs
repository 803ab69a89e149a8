//! A call of an application, as a value: it waits until the application can be called.

use crate::answers::Direction;
use crate::rolled_back::RolledBack;
use crate::{Disconnect, SendError, State};

/// One call of an application. The bytes of a message or of a frame are kept beside it.
pub enum Call {
    /// A message of the counterparty, which the application answers.
    Message,
    /// An administrative message of the counterparty.
    AdminMessage,
    /// A message of the counterparty that rejects one of ours. If it does not name MsgType(35) of
    /// ours, the store does; else this is empty.
    Rejected(Vec<u8>),
    Event(PlainEvent),
    StateChanged(State, State),
    /// The connection has ended, with this Text(58) of the counterparty.
    Disconnected(Disconnect, Option<Vec<u8>>),
    /// A message of ours with this MsgType(35) and body is not sent.
    Unsent(Vec<u8>, Vec<u8>, SendError),
    RolledBack(Box<RolledBack>),
    /// A frame of the connection.
    Wire(Direction),
}

impl Call {
    /// Returns true if the call counts toward `messages_max` while it waits.
    pub const fn counts(&self) -> bool {
        matches!(self, Self::Message | Self::AdminMessage | Self::Rejected(_) | Self::Wire(_))
    }

    /// Returns true if the call is about the message in hand.
    pub const fn has_message(&self) -> bool {
        matches!(self, Self::Message | Self::AdminMessage | Self::Rejected(_))
    }

    /// Returns true for a `SessionEvent`, in which the application may send.
    pub const fn is_event(&self) -> bool {
        matches!(self, Self::AdminMessage | Self::Rejected(_) | Self::Event(_))
    }
}

/// A `SessionEvent` that is about no message.
#[derive(Clone, Copy, Debug)]
pub enum PlainEvent {
    LoggedOn,
    NumbersReset,
    ResendLoop { times: u32 },
    SlowConsumer,
    CaughtUp,
}
