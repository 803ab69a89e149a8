//! A hook for the administrative messages that a session is about to write.

use std::fmt;

use transfix_codec::MsgType;

/// A new administrative message of this side, before it is encoded.
#[derive(Debug)]
pub struct NewAdmin<'a> {
    /// MsgType(35).
    pub msg_type: MsgType<'a>,
    /// MsgSeqNum(34) of the message.
    pub msg_seq_num: u64,
    /// SendingTime(52), exactly as sent.
    pub sending_time: &'a str,
    /// The encoded fields after the header, each with its delimiter. The hook may change the
    /// fields. They must remain complete fields, and must not include fields that the session layer
    /// writes itself.
    pub body: &'a mut Vec<u8>,
}

/// Receives each new administrative message of a session before encoding, and may change the
/// message.
pub trait BeforeAdmin: fmt::Debug + Send + Sync {
    /// Returns true to send the message. If the method returns false, the message consumes no
    /// sequence number, and the connection ends with
    /// [`Disconnect::Vetoed`](crate::Disconnect::Vetoed).
    fn before_admin(&self, message: NewAdmin<'_>) -> bool;
}
