//! A received message, with its most frequently used fields parsed once.

use std::ops::Deref;

use transfix_codec::{Message, Reject, tag};

/// The classes of messages that the session layer distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Heartbeat,
    TestRequest,
    ResendRequest,
    Reject,
    SequenceReset,
    Logout,
    Logon,
    /// All other messages, which are passed to the application.
    Application,
}

impl Class {
    #[inline]
    const fn of(msg_type: &[u8]) -> Self {
        match msg_type {
            b"0" => Self::Heartbeat,
            b"1" => Self::TestRequest,
            b"2" => Self::ResendRequest,
            b"3" => Self::Reject,
            b"4" => Self::SequenceReset,
            b"5" => Self::Logout,
            b"A" => Self::Logon,
            _ => Self::Application,
        }
    }
}

/// A received message whose MsgType(35), MsgSeqNum(34) and PossDupFlag(43) are already parsed.
pub(crate) struct Received<'m, 'a> {
    message: &'m Message<'a>,
    pub(crate) class: Class,
    pub(crate) seq: Result<u64, Reject>,
    /// The value of PossDupFlag(43), or the error of parsing it.
    pub(crate) poss_dup: Result<bool, Reject>,
    /// True if the message was held until the gap below it was closed.
    pub(crate) was_held: bool,
}

impl<'m, 'a> Received<'m, 'a> {
    #[inline]
    pub(crate) fn new(message: &'m Message<'a>, was_held: bool) -> Self {
        Self {
            message,
            class: Class::of(message.msg_type().as_bytes()),
            seq: message.msg_seq_num(),
            poss_dup: message.flag(tag::POSS_DUP_FLAG),
            was_held,
        }
    }

    /// Returns true for a Reject(3) or BusinessMessageReject(j).
    pub(crate) fn is_reject(&self) -> bool {
        self.class == Class::Reject || self.message.msg_type() == b"j"
    }
}

impl<'a> Deref for Received<'_, 'a> {
    type Target = Message<'a>;

    fn deref(&self) -> &Message<'a> {
        self.message
    }
}
