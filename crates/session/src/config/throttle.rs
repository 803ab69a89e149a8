//! Limits on the rate of messages of a type.

use std::time::Duration;

use serde::Deserialize;

use crate::settings_table;

/// The reaction to messages above the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThrottleAction {
    /// BusinessMessageReject(j), or Reject(3) up to FIX 4.1; the message counts.
    #[default]
    Reject,
    /// Logout(5) with the reason, then disconnection.
    Disconnect,
}

settings_table! {
    /// A limit on application messages of one type. Messages with PossDupFlag(43)=Y do not count.
    #[derive(PartialEq, Eq)]
    pub struct Throttle {
        /// MsgType(35), such as `D`.
        pub msg_type: String,
        /// Messages that the session accepts within the interval.
        pub messages_max: u32,
        /// Length of the interval. An interval begins with the first message after the previous
        /// interval.
        #[millis("interval_ms")]
        pub interval: Duration,
        /// Reaction to messages above the limit. `reject`: BusinessMessageReject(j), or Reject(3)
        /// up to FIX 4.1; the message counts. `disconnect`: Logout(5) with the reason.
        pub action: ThrottleAction,
    }
}
