//! Requests for lost messages, and answers to the counterparty's resend requests.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// Settings for requesting lost messages, and limits on resending.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ResendConfig {
        /// Maximum number of messages that one ResendRequest(2) requests. The session sends the
        /// next request when it has received all of these messages or gap fills for them. 0 =
        /// unlimited.
        pub request_max: u32 = 0,
        /// If true, EndSeqNo(16) is always the last missing number, even if the standard permits an
        /// open range (0, or 999999 up to FIX 4.1).
        pub closed_ranges: bool = false,
        /// If true, the session sends a ResendRequest(2) for each message with a number that is too
        /// high, even while an earlier request is unanswered.
        pub redundant_requests: bool = false,
        /// Time without progress after which the session repeats the request for a gap. 0 = never.
        #[secs("repeat_after_s")]
        pub repeat_after: Duration = 20,
        /// Maximum number of repeated requests for the same gap, after which the session ends. 0 =
        /// unlimited.
        pub repeats_max: u32 = 0,
        /// Maximum number of messages that the counterparty may request by one ResendRequest(2). A
        /// larger request is rejected. 0 = unlimited.
        pub answered_max: u32 = 0,
        /// Maximum number of consecutive times that the counterparty may send the same
        /// ResendRequest(2) without progress, after which the session ends. 0 = unlimited.
        pub same_requests_max: u32 = 0,
        /// If true, the session answers a ResendRequest(2) that itself has PossDupFlag(43)=Y.
        pub answer_poss_dup: bool = true,
        /// If true, the session resends its Reject(3) messages on request. If false, a gap fill
        /// replaces them.
        pub resend_rejects: bool = false,
        /// If true, a message with PossDupFlag(43)=Y must have OrigSendingTime(122).
        pub orig_sending_time_required: bool = true,
    }
}
