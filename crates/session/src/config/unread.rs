//! The treatment of bytes that are not parsed as a message.

use serde::{Deserialize, Serialize};

/// The treatment of a garbled message with a valid frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GarbledPolicy {
    /// The message is skipped and does not count.
    Skip,
    /// Reject(3) answers the message, which counts if its MsgSeqNum(34) is readable.
    Reject,
}

/// The answer to a message above `message_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TooLongPolicy {
    /// Reject(3), and its MsgSeqNum(34) counts.
    Reject,
    /// Logout(5), and the session ends.
    Logout,
}
