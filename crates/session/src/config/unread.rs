//! The treatment of bytes that cannot be read as a message.

use serde::{Deserialize, Serialize};

/// The treatment of a garbled message whose frame is intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GarbledPolicy {
    /// The message is ignored and does not count.
    Skip,
    /// The message is answered with Reject(3), and counts if its MsgSeqNum(34) is readable.
    Reject,
}

/// The answer to a message longer than `message_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TooLongPolicy {
    /// Reject(3), and its MsgSeqNum(34) counts.
    Reject,
    /// Logout(5), and the session ends.
    Logout,
}
