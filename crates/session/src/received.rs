//! A received message, with the fields that several steps need: each is read once.

use std::ops::Deref;

use transfix_codec::{Message, Reject, tag};

/// The part of the session layer in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Heartbeat,
    TestRequest,
    ResendRequest,
    Reject,
    SequenceReset,
    Logout,
    Logon,
    /// All others: the application gets them.
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

/// A message that has come in: MsgType(35), MsgSeqNum(34) and PossDupFlag(43) are read once.
pub(crate) struct Received<'m, 'a> {
    message: &'m Message<'a>,
    pub(crate) class: Class,
    pub(crate) seq: Result<u64, Reject>,
    /// Its PossDupFlag(43).
    pub(crate) poss_dup: Result<bool, Reject>,
    /// True if it was kept above a gap until now, when its turn has come.
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

    /// Returns true if it is a Reject(3) or BusinessMessageReject(j).
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
