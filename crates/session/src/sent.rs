//! What has become of a message that was handed over.

/// What became of a message that `SessionHandle::send` took.
///
/// "Stored" means committed. In a store whose commits are pending for a while
/// (`Committed::Pending`) a message may still be lost with the process until
/// its batch is safe; nothing of it has left before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// Stored under this MsgSeqNum(34) in the caller's thread, and written as far as the socket
    /// took it; the rest follows by itself, or is sent again after the next logon.
    Direct(u64),
    /// Stored under this MsgSeqNum(34) while there is no connection (`offline = "store"`): the
    /// counterparty asks for it after the next logon.
    Stored(u64),
    /// Handed over to the session's worker, which gives it its number. Without a logon
    /// (`offline = "queue"`) it is in the store as well.
    Queued {
        /// Bytes that wait in the queue now.
        bytes: usize,
    },
}
