//! Limits on messages of one type per interval.

use std::time::Duration;

use serde::Deserialize;

use crate::settings_table;

/// The reaction to messages above the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThrottleAction {
    /// BusinessMessageReject(j), or Reject(3) up to FIX 4.1; the number of the message counts.
    #[default]
    Reject,
    /// Logout(5) with the reason, then disconnection.
    Disconnect,
}

settings_table! {
    /// A limit for the application messages of one type. Messages with PossDupFlag(43)=Y do not
    /// count.
    #[derive(PartialEq, Eq)]
    pub struct Throttle {
        /// MsgType(35), such as `D`.
        pub msg_type: String,
        /// How many are taken within the interval.
        pub messages_max: u32,
        /// The interval; it begins with the first message after the last one.
        #[millis("interval_ms")]
        pub interval: Duration,
        /// The reaction to more: `reject` answers with BusinessMessageReject(j), or Reject(3) up to
        /// FIX 4.1, and the message counts; `disconnect` logs out with the reason.
        pub action: ThrottleAction,
    }
}
