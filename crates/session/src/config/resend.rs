//! Requests for missing messages, and answers to such requests.

use std::time::Duration;

use crate::settings_table;

settings_table! {
    /// How lost messages are asked for, and how much is sent again.
    #[derive(Copy, PartialEq, Eq)]
    pub struct ResendConfig {
        /// Messages that one ResendRequest(2) asks for; the next is sent when all of them, or gap
        /// fills in their place, have come. 0 for no limit.
        pub request_max: u32 = 0,
        /// If true, EndSeqNo(16) is the last missing number even where all that follows could be
        /// asked for (0, or 999999 up to FIX 4.1).
        pub closed_ranges: bool = false,
        /// If true, each early message makes a ResendRequest(2), although one is open.
        pub redundant_requests: bool = false,
        /// Time after which a gap is asked for again if nothing of it has come; 0 for never.
        #[secs("repeat_after_s")]
        pub repeat_after: Duration = 20,
        /// How often the same gap is asked for again before the session ends; 0 for no limit.
        pub repeats_max: u32 = 0,
        /// Messages that the counterparty may ask for by one ResendRequest(2); one that asks for
        /// more is rejected. 0 for no limit.
        pub answered_max: u32 = 0,
        /// How often in a row the counterparty may send the same ResendRequest(2), which makes no
        /// progress, before the session ends; 0 for no limit.
        pub same_requests_max: u32 = 0,
        /// If true, a ResendRequest(2) with PossDupFlag(43)=Y is answered.
        pub answer_poss_dup: bool = true,
        /// If true, Reject(3) is sent again when asked for, instead of a gap fill.
        pub resend_rejects: bool = false,
        /// If true, a message with PossDupFlag(43)=Y must have OrigSendingTime(122).
        pub orig_sending_time_required: bool = true,
    }
}
