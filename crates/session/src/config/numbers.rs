//! Reactions to messages with an unexpected MsgSeqNum(34).

use serde::Deserialize;

use crate::settings_table;

/// The reaction to a message with a number lower than expected and no PossDupFlag(43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLow {
    /// The session sends a Logout(5) that names both numbers, and disconnects.
    Logout,
    /// The session sends a Reject(3) for MsgSeqNum(34) and continues.
    Reject,
    /// The session ignores the message.
    Ignore,
}

/// The reaction to a Logon(A) with a number lower than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLowAtLogon {
    /// The session sends a Logout(5) that names both numbers, and disconnects.
    Logout,
    /// The session accepts the Logon(A); the counterparty's numbers continue from the received
    /// number.
    Accept,
}

settings_table! {
    /// Reactions to an unexpected MsgSeqNum(34).
    #[derive(Copy, PartialEq, Eq)]
    pub struct NumbersConfig {
        /// If true, the session requests lost messages. Danger: if false, the session accepts a
        /// message with a number that is too high at once, and abandons the missing messages before
        /// it.
        pub request_missing: bool = true,
        /// Reaction to a number lower than expected while logged on. `logout`: the session sends a
        /// Logout(5) with both numbers and disconnects. `reject`: the session sends a Reject(3) and
        /// continues. `ignore`: the session ignores the message.
        pub too_low: TooLow = TooLow::Logout,
        /// Reaction to a Logon(A) with a number lower than expected. `logout`: the session sends a
        /// Logout(5) with both numbers and disconnects. `accept`: the session continues from the
        /// received number.
        pub too_low_at_logon: TooLowAtLogon = TooLowAtLogon::Logout,
        /// Maximum number of messages that may be missing before a Logon(A). A larger gap means
        /// that the counterparty has missed a reset; the session then rejects the Logon(A). 0 =
        /// unlimited.
        pub gap_at_logon_max: u32 = 0,
        /// Maximum distance by which a SequenceReset(4) may advance the expected number. A
        /// NewSeqNo(36) beyond this distance is answered with Reject(3).
        pub sequence_reset_max: u64 = 1_000_000_000,
        /// If true, each outbound message has LastMsgSeqNumProcessed(369), since FIX 4.2.
        pub send_last_processed: bool = false,
        /// If true, our Logon(A) has NextExpectedMsgSeqNum(789), since FIX 4.4, and the session
        /// honours the counterparty's value: it resends the missing messages without a
        /// ResendRequest(2). A value that is too high ends the session.
        pub next_expected: bool = false,
    }
}
