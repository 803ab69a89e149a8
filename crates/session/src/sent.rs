//! The result of sending a message.

/// The way in which `SessionHandle::send` has processed an accepted message.
///
/// "Stored" means committed. A store may report a commit as pending (`Committed::Pending`); until
/// that batch is durable, a crash may lose the message. No byte of the message is written to the
/// socket before the batch is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sent {
    /// Stored under this MsgSeqNum(34) in the caller's thread, and written as far as the socket
    /// accepted bytes. The session writes the remaining bytes later, or resends the message after
    /// the next logon.
    Direct(u64),
    /// Stored under this MsgSeqNum(34) without a logon (`offline = "store"`). The counterparty
    /// requests the message after the next logon.
    Stored(u64),
    /// Queued for the session's worker, which assigns the number. Without a logon (`offline =
    /// "queue"`) the message is also in the store.
    Queued {
        /// Total bytes in the queue, including this message.
        bytes: usize,
    },
}
