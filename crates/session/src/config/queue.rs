//! Keys of the settings for messages that wait to be sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// Settings for messages that wait to be sent.
    #[derive(Copy, PartialEq, Eq)]
    pub struct QueueSettings {
        /// Treatment of messages sent while not logged on. `refuse`: `send` fails. `store`: the
        /// message receives its number and is stored. `queue`: the message waits in the store
        /// without a number. The page "Sending without a logon" of the book has the outcome in each
        /// state of the session.
        pub offline: Offline = Offline::Refuse,
        /// Pause between a logon and sending the first message that was queued before the logon.
        #[millis("queue_pause_ms")]
        pub queue_pause: Duration = 0,
        /// Time after which a message that waits for a logon (`offline = "queue"`) is returned
        /// unsent to the application. 0 = never.
        #[secs("queue_expires_s")]
        pub queue_expires: Duration = 0,
        /// Treatment of messages that still wait to be sent when the connection ends. `keep`: they
        /// are sent after the next logon. `return`: they are returned to the application. When the
        /// engine stops, messages that are not in the store are returned in any case; only
        /// `offline = "queue"` stores them.
        pub unsent: Unsent = Unsent::Keep,
        /// Maximum number of bytes that may wait for the counterparty; above this limit, `send`
        /// returns "would block".
        #[least(1)]
        pub queued_bytes_max: usize = 16 << 20,
        /// Reaction to `send` when `queued_bytes_max` is reached. `refuse`: `send` returns "would
        /// block". `wait`: `send` waits for room. `disconnect`: `send` returns "would block", and
        /// the connection ends.
        pub queue_when_full: QueueWhenFull = QueueWhenFull::Refuse,
        /// Maximum time that `send` waits for room with `queue_when_full = "wait"`.
        #[millis("queue_wait_ms")]
        pub queue_wait: Duration = 1_000,
        /// Number of unwritten bytes above which the counterparty is a slow consumer, if they
        /// persist for `slow_consumer_ms`. Must be less than `queued_bytes_max`. 0 = never.
        pub slow_consumer_bytes: usize = 0,
        /// Time for which more than `slow_consumer_bytes` must remain unwritten before the
        /// counterparty is a slow consumer.
        #[millis("slow_consumer_ms")]
        pub slow_consumer_after: Duration = 1_000,
        /// Reaction to a slow consumer. `tell`: the session reports it to the log and to the
        /// application. `disconnect`: the session also ends the connection.
        pub slow_consumer: SlowConsumer = SlowConsumer::Tell,
    }
}

/// The reaction to `send` when `queued_bytes_max` is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueWhenFull {
    /// `send` returns "would block".
    Refuse,
    /// `SessionHandle::send` waits for room, at most `queue_wait`. A thread that drives sessions
    /// never waits: in a callback on such a thread, `send` returns "would block".
    Wait,
    /// `send` returns "would block", and the connection ends, because the counterparty does not
    /// read.
    Disconnect,
}

/// The reaction to a counterparty that reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SlowConsumer {
    /// The session reports the slow consumer to the log and, as `SessionEvent::SlowConsumer`, to
    /// the application.
    Tell,
    /// The session reports the slow consumer and ends the connection.
    Disconnect,
}

/// The treatment of a message that is sent while the session is not logged on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Offline {
    /// `send` returns "not logged on".
    Refuse,
    /// The message receives its number and is stored. The counterparty requests it after the next
    /// logon.
    Store,
    /// The message waits in the store without a number. The session sends it once after the next
    /// logon, even if another process then runs the session.
    Queue,
}

/// The treatment of messages that wait to be sent when the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unsent {
    /// The messages are sent after the next logon. When the engine stops, messages that are only in
    /// memory are returned to the application.
    Keep,
    /// The messages are returned to the application: `SessionNotice::Unsent`.
    Return,
}
