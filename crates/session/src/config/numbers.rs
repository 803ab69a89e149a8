//! What becomes of messages whose MsgSeqNum(34) is not the expected one.

/// What becomes of a message with a number lower than expected and no PossDupFlag(43).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TooLow {
    /// Logout(5) naming both numbers, then disconnection.
    #[default]
    Logout,
    /// Reject(3) for MsgSeqNum(34); the session goes on.
    Reject,
    /// Nothing: the message is passed over.
    Ignore,
}

/// What becomes of a Logon(A) with a number lower than expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TooLowAtLogon {
    /// Logout(5) naming both numbers, then disconnection.
    #[default]
    Logout,
    /// The counterparty's numbers go on from the one received.
    Accept,
}

/// Policies about numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumbersConfig {
    /// Whether lost messages are asked for. If not, an early message is taken as it comes, and what
    /// is missing before it is given up. Default true.
    pub request_missing: bool,
    /// A number too low while logged on: `logout` names both numbers and disconnects, `reject`
    /// answers with Reject(3) and goes on, `ignore` passes the message over. Default `logout`.
    pub too_low: TooLow,
    /// A number too low in the Logon(A): `logout` names both numbers and disconnects, `accept` goes
    /// on from the number received. Default `logout`.
    pub too_low_at_logon: TooLowAtLogon,
    /// Messages that may be missing before a Logon(A); more of them mean that the counterparty has
    /// missed a reset, and the Logon(A) is refused. 0 for any. Default 0.
    pub gap_at_logon_max: u32,
    /// How far a SequenceReset(4) may move the expected number: one with a NewSeqNo(36) further
    /// ahead is answered by Reject(3). Default 1,000,000,000.
    pub sequence_reset_max: u64,
    /// Whether each message of ours has LastMsgSeqNumProcessed(369), from FIX 4.2 on. Default
    /// false.
    pub send_last_processed: bool,
    /// Whether Logon(A) has NextExpectedMsgSeqNum(789), and that of the counterparty is honoured,
    /// from FIX 4.4 on: what it lacks is sent again without a ResendRequest(2), and one too high
    /// ends the session. Default false.
    pub next_expected: bool,
}

impl Default for NumbersConfig {
    fn default() -> Self {
        Self {
            request_missing: true,
            too_low: TooLow::Logout,
            too_low_at_logon: TooLowAtLogon::Logout,
            gap_at_logon_max: 0,
            sequence_reset_max: 1_000_000_000,
            send_last_processed: false,
            next_expected: false,
        }
    }
}
