//! The value type for a call of the application, which is queued until the application can be
//! called.

use crate::answers::Direction;
use crate::rolled_back::RolledBack;
use crate::{Disconnect, SendError, State};

/// A call of the application. The bytes of its message or frame are stored separately.
pub enum Call {
    /// A message of the counterparty that the application must handle.
    Message,
    /// An administrative message of the counterparty.
    AdminMessage,
    /// A message of the counterparty that rejects one of our messages. The bytes are the
    /// MsgType(35) of our message, as found in the store. They are empty if the rejection itself
    /// has the MsgType(35).
    Rejected(Vec<u8>),
    Event(PlainEvent),
    StateChanged(State, State),
    /// The connection has ended for this reason; the text is Text(58) of the counterparty's
    /// Logout(5).
    Disconnected(Disconnect, Option<Vec<u8>>),
    /// A message of the application was not sent: its MsgType(35), its body and the reason.
    Unsent(Vec<u8>, Vec<u8>, SendError),
    RolledBack(Box<RolledBack>),
    /// A frame that was received or sent, for the application's view of raw frames.
    Wire(Direction),
}

impl Call {
    /// Returns true if the queued call counts toward `messages_max`.
    pub const fn counts(&self) -> bool {
        matches!(self, Self::Message | Self::AdminMessage | Self::Rejected(_) | Self::Wire(_))
    }

    /// Returns true if the call refers to the current message.
    pub const fn has_message(&self) -> bool {
        matches!(self, Self::Message | Self::AdminMessage | Self::Rejected(_))
    }

    /// Returns true for a `SessionEvent`, during which the application may send.
    pub const fn is_event(&self) -> bool {
        matches!(self, Self::AdminMessage | Self::Rejected(_) | Self::Event(_))
    }
}

/// A `SessionEvent` that refers to no message.
#[derive(Clone, Copy, Debug)]
pub enum PlainEvent {
    LoggedOn,
    NumbersReset,
    ResendLoop { times: u32 },
    SlowConsumer,
    CaughtUp,
}
