//! The treatment of bytes that are not read as a message.

use serde::{Deserialize, Serialize};

/// The treatment of a framed message that is garbled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GarbledPolicy {
    /// It is passed over and does not count.
    Skip,
    /// It is answered by Reject(3), and counts if its MsgSeqNum(34) can be read.
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
