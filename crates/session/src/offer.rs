//! The values that a Logon(A) proposes or confirms.

use std::time::Duration;

use crate::config::ApplVerId;

/// A Logon(A) that the session layer has found good, but for its numbers: it waits for the
/// application's answer.
#[derive(Clone, Debug)]
pub struct Offer {
    pub(crate) seq: u64,
    /// HeartBtInt(108).
    pub(crate) heart_bt_int: Duration,
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408).
    pub(crate) cstm_appl_ver_id: Option<Box<[u8]>>,
    /// True if the Logon(A) has a password that only the counterparty knows.
    pub(crate) is_proven: bool,
    /// True if both numbers start again at 1 with it.
    pub(crate) resets: bool,
    /// True if it answers a reset of ours.
    pub(crate) answers_reset: bool,
    /// True if we answer it by a reset that it does not ask for.
    pub(crate) unaware: bool,
    /// MaxMessageSize(383).
    pub(crate) message_bytes_max: usize,
    /// NextExpectedMsgSeqNum(789), if the settings want it honoured.
    pub(crate) next_expected: Option<u64>,
}
