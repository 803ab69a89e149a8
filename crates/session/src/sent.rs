//! The fate of a message that was handed over.

/// The fate of a message that `SessionHandle::send` took.
///
/// "Stored" means committed. A store may answer that a commit is pending (`Committed::Pending`).
/// Until its batch is safe, the message may be lost with the process; nothing of it has left
/// before.
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
