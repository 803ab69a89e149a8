//! Limits on the rate of inbound messages of a type.

use std::time::Duration;

use serde::Deserialize;

use crate::settings_table;

/// The reaction to a message above the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThrottleAction {
    /// The session answers with BusinessMessageReject(j), or with Reject(3) up to FIX 4.1. The
    /// message consumes its sequence number.
    #[default]
    Reject,
    /// The session sends a Logout(5) with the reason and disconnects.
    Disconnect,
}

settings_table! {
    /// A limit on inbound application messages of one type. Messages with PossDupFlag(43)=Y do not
    /// count.
    #[derive(PartialEq, Eq)]
    pub struct Throttle {
        /// MsgType(35) of the limited messages, such as `D`.
        pub msg_type: String,
        /// Maximum number of messages that the session accepts within the interval.
        pub messages_max: u32,
        /// Length of the interval. An interval begins with the first message after the end of the
        /// previous interval.
        #[millis("interval_ms")]
        pub interval: Duration,
        /// Reaction to a message above the limit. `reject`: the session answers with
        /// BusinessMessageReject(j), or with Reject(3) up to FIX 4.1; the message consumes its
        /// sequence number. `disconnect`: the session sends a Logout(5) with the reason and
        /// disconnects.
        pub action: ThrottleAction,
    }
}
