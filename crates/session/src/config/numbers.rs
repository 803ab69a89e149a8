//! The treatment of messages with an unexpected MsgSeqNum(34).

use serde::Deserialize;

use crate::settings_table;

/// The reaction to a message with a number below the expected one and no PossDupFlag(43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TooLow {
    /// Logout(5) with both numbers, then disconnection.
    Logout,
    /// Reject(3) for MsgSeqNum(34); the session continues.
    Reject,
    /// No reaction: the message is skipped.
    Ignore,
}

/// The reaction to a Logon(A) with a number below the expected one.
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
    /// Policies about numbers.
    #[derive(Copy, PartialEq, Eq)]
    pub struct NumbersConfig {
        /// If true, lost messages are asked for. If not, an early message is taken as it comes, and
        /// what is missing before it is given up.
        pub request_missing: bool = true,
        /// A number too low while logged on: `logout` names both numbers and disconnects, `reject`
        /// answers with Reject(3) and goes on, `ignore` passes the message over.
        pub too_low: TooLow = TooLow::Logout,
        /// A number too low in the Logon(A): `logout` names both numbers and disconnects, `accept`
        /// goes on from the number received.
        pub too_low_at_logon: TooLowAtLogon = TooLowAtLogon::Logout,
        /// Messages that may be missing before a Logon(A); more of them mean that the counterparty
        /// has missed a reset, and the Logon(A) is refused. 0 for any.
        pub gap_at_logon_max: u32 = 0,
        /// How far a SequenceReset(4) may move the expected number: one with a NewSeqNo(36) further
        /// ahead is answered by Reject(3).
        pub sequence_reset_max: u64 = 1_000_000_000,
        /// If true, each message of ours has LastMsgSeqNumProcessed(369), from FIX 4.2 on.
        pub send_last_processed: bool = false,
        /// If true, Logon(A) has NextExpectedMsgSeqNum(789) from FIX 4.4 on, and that of the
        /// counterparty is honoured. Messages that it lacks are sent again without a
        /// ResendRequest(2). A number too high ends the session.
        pub next_expected: bool = false,
    }
}
