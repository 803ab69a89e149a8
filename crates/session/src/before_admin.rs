//! A look at the administrative messages that a session is about to write.

use std::fmt;

use transfix_codec::MsgType;

/// A new administrative message of ours that is about to be encoded.
#[derive(Debug)]
pub struct NewAdmin<'a> {
    /// MsgType(35).
    pub msg_type: MsgType<'a>,
    /// MsgSeqNum(34), as it is sent.
    pub msg_seq_num: u64,
    /// SendingTime(52), digit for digit as it is sent.
    pub sending_time: &'a str,
    /// The fields behind the header, each ended by its delimiter. They may be changed; they must
    /// stay whole fields, none of which the session layer writes itself.
    pub body: &'a mut Vec<u8>,
}

/// Looks at each new administrative message of a session before it is encoded, and may change it.
pub trait BeforeAdmin: fmt::Debug + Send + Sync {
    /// Returns whether the message is sent. If it is not, it uses no number, and the connection
    /// ends by [`Disconnect::Vetoed`](crate::Disconnect::Vetoed).
    fn before_admin(&self, message: NewAdmin<'_>) -> bool;
}
