//! Requests for lost messages, and answers to the counterparty's requests.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// Requests for lost messages, and limits on resends.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ResendConfig {
        /// Messages that one ResendRequest(2) asks for. The session sends the next request when all
        /// of them, or gap fills for them, are received. 0 = unlimited.
        pub request_max: u32 = 0,
        /// If true, EndSeqNo(16) is the last missing number, even where an open range is possible
        /// (0, or 999999 up to FIX 4.1).
        pub closed_ranges: bool = false,
        /// If true, the session sends a ResendRequest(2) for each early message, even while an
        /// earlier request is open.
        pub redundant_requests: bool = false,
        /// Time without progress after which the session requests a gap again. 0 = never.
        #[secs("repeat_after_s")]
        pub repeat_after: Duration = 20,
        /// Repeated requests for the same gap before the session ends. 0 = unlimited.
        pub repeats_max: u32 = 0,
        /// Messages that the counterparty may request by one ResendRequest(2). A larger request is
        /// rejected. 0 = unlimited.
        pub answered_max: u32 = 0,
        /// Consecutive times that the counterparty may send the same ResendRequest(2), which makes
        /// no progress, before the session ends. 0 = unlimited.
        pub same_requests_max: u32 = 0,
        /// If true, the session answers a ResendRequest(2) with PossDupFlag(43)=Y.
        pub answer_poss_dup: bool = true,
        /// If true, the session resends Reject(3) on request. If false, a gap fill replaces it.
        pub resend_rejects: bool = false,
        /// If true, a message with PossDupFlag(43)=Y must have OrigSendingTime(122).
        pub orig_sending_time_required: bool = true,
    }
}
