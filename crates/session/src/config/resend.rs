//! Asking for lost messages, and answering those who ask.

/// How lost messages are asked for, and how much is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResendConfig {
    /// Messages that one ResendRequest(2) asks for; the next is sent when all of them, or gap
    /// fills in their place, have come. 0 for no limit. Default 0.
    pub request_max: u32,
    /// Whether EndSeqNo(16) is the last missing number even where all that follows could be asked
    /// for (0, or 999999 up to FIX 4.1). Default false.
    pub closed_ranges: bool,
    /// Whether each early message makes a ResendRequest(2), although one is open. Default false.
    pub redundant_requests: bool,
    /// Seconds after which a gap is asked for again if nothing of it has come; 0 for never.
    /// Default 20.
    pub repeat_after_s: u32,
    /// How often the same gap is asked for again before the session ends; 0 for no limit. Default
    /// 0.
    pub repeats_max: u32,
    /// Messages that the counterparty may ask for by one ResendRequest(2); one that asks for more
    /// is rejected. 0 for no limit. Default 0.
    pub answered_max: u32,
    /// How often in a row the counterparty may send the same ResendRequest(2), which makes no
    /// progress, before the session ends; 0 for no limit. Default 0.
    pub same_requests_max: u32,
    /// Whether a ResendRequest(2) with PossDupFlag(43)=Y is answered. Default true.
    pub answer_poss_dup: bool,
    /// Whether Reject(3) is sent again when asked for, instead of a gap fill. Default false.
    pub resend_rejects: bool,
    /// Whether a message with PossDupFlag(43)=Y must have OrigSendingTime(122). Default true.
    pub orig_sending_time_required: bool,
}

impl Default for ResendConfig {
    fn default() -> Self {
        Self {
            request_max: 0,
            closed_ranges: false,
            redundant_requests: false,
            repeat_after_s: 20,
            repeats_max: 0,
            answered_max: 0,
            same_requests_max: 0,
            answer_poss_dup: true,
            resend_rejects: false,
            orig_sending_time_required: true,
        }
    }
}
