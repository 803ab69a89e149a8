//! What a Logon(A) proposes or confirms.

use crate::config::ApplVerId;

/// A Logon(A) that the session layer has found good, but for its numbers: it waits for the
/// application's answer.
#[derive(Clone, Debug)]
pub struct Offer {
    pub(crate) seq: u64,
    pub(crate) heart_bt_int_s: u32,
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408).
    pub(crate) cstm_appl_ver_id: Option<Box<[u8]>>,
    /// It has a password that only the counterparty knows.
    pub(crate) is_proven: bool,
    pub(crate) resets: bool,
    /// It is the answer to a reset of ours.
    pub(crate) answers_reset: bool,
    /// It does not ask for the reset with which we answer it.
    pub(crate) unaware: bool,
    /// MaxMessageSize(383).
    pub(crate) message_bytes_max: usize,
    /// NextExpectedMsgSeqNum(789), if it is to be honoured.
    pub(crate) next_expected: Option<u64>,
}
