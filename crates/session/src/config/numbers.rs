//! Reactions to messages with an unexpected MsgSeqNum(34).

use serde::Deserialize;

use crate::settings_table;

/// The reaction to a message with a number lower than expected and no PossDupFlag(43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLow {
    /// Logout(5) with both numbers, then disconnection.
    Logout,
    /// Reject(3) for MsgSeqNum(34); the session continues.
    Reject,
    /// The message is ignored.
    Ignore,
}

/// The reaction to a Logon(A) with a number lower than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLowAtLogon {
    /// Logout(5) with both numbers, then disconnection.
    Logout,
    /// The counterparty's numbers continue from the received number.
    Accept,
}

settings_table! {
    /// Reactions to an unexpected MsgSeqNum(34).
    #[derive(Copy, PartialEq, Eq)]
    pub struct NumbersConfig {
        /// If true, the session requests lost messages. Danger: if false, the session accepts an
        /// early message at once, and gives up the messages before it.
        pub request_missing: bool = true,
        /// Reaction to a number lower than expected while logged on. `logout`: Logout(5) with both
        /// numbers, then disconnection. `reject`: Reject(3), and the session continues. `ignore`:
        /// the message is ignored.
        pub too_low: TooLow = TooLow::Logout,
        /// Reaction to a Logon(A) with a number lower than expected. `logout`: Logout(5) with both
        /// numbers, then disconnection. `accept`: the session continues from the received number.
        pub too_low_at_logon: TooLowAtLogon = TooLowAtLogon::Logout,
        /// Messages that may be missing before a Logon(A). A larger gap means that the counterparty
        /// has missed a reset, and the Logon(A) is rejected. 0 = unlimited.
        pub gap_at_logon_max: u32 = 0,
        /// Farthest distance by which a SequenceReset(4) may advance the expected number. A
        /// NewSeqNo(36) beyond it is answered with Reject(3).
        pub sequence_reset_max: u64 = 1_000_000_000,
        /// If true, each outbound message has LastMsgSeqNumProcessed(369), since FIX 4.2.
        pub send_last_processed: bool = false,
        /// If true, the Logon(A) has NextExpectedMsgSeqNum(789), since FIX 4.4, and the session
        /// honours the counterparty's value. The session resends the missing messages without a
        /// ResendRequest(2). A value that is too high ends the session.
        pub next_expected: bool = false,
    }
}
