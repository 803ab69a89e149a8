//! The terms of a Logon(A): the values that it proposes or confirms.

use std::time::Duration;

use crate::config::ApplVerId;

/// A valid Logon(A) that awaits the application's answer. Its sequence number is checked later, in
/// [`Session::accept_logon`](crate::Session::accept_logon).
#[derive(Clone, Debug)]
pub struct Offer {
    pub(crate) seq: u64,
    /// HeartBtInt(108).
    pub(crate) heart_bt_int: Duration,
    pub(crate) appl_ver_id: Option<ApplVerId>,
    /// DefaultCstmApplVerID(1408).
    pub(crate) cstm_appl_ver_id: Option<Box<[u8]>>,
    /// True if the Logon(A) contains the configured password of the counterparty.
    pub(crate) is_proven: bool,
    /// True if the Logon(A) resets both numbers to 1.
    pub(crate) resets: bool,
    /// True if the Logon(A) answers a reset that this side requested.
    pub(crate) answers_reset: bool,
    /// True if our answer requests a reset that the Logon(A) did not request.
    pub(crate) requests_reset_in_answer: bool,
    /// MaxMessageSize(383).
    pub(crate) message_bytes_max: usize,
    /// The value of NextExpectedMsgSeqNum(789); `None` if the settings disable the field.
    pub(crate) next_expected: Option<u64>,
}
