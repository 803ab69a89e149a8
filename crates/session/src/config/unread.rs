//! The treatment of received bytes that are not a valid message.

use serde::{Deserialize, Serialize};

/// The treatment of a garbled message whose BodyLength(9) is nevertheless correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum GarbledPolicy {
    /// The session ignores the message, which does not count as received.
    Skip,
    /// The session answers with Reject(3). The message counts as received if its MsgSeqNum(34) is
    /// readable.
    Reject,
}

/// The answer to a message longer than `message_bytes_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TooLongPolicy {
    /// The session sends a Reject(3), and the message counts as received: its MsgSeqNum(34) is
    /// consumed.
    Reject,
    /// The session sends a Logout(5) and ends.
    Logout,
}
