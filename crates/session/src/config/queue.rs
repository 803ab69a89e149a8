//! Keys about messages that wait to be sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// Messages that wait to be sent.
    #[derive(Copy, PartialEq, Eq)]
    pub struct QueueSettings {
        /// Treatment of messages sent while not logged on. `refuse`: `send` fails. `store`: the
        /// message receives its number and is stored. `queue`: the message waits in the store
        /// without a number. The page "Sending without a logon" of the book has the outcome in each
        /// state of the session.
        pub offline: Offline = Offline::Refuse,
        /// Time between a logon and the first message that was queued before the logon.
        #[millis("queue_pause_ms")]
        pub queue_pause: Duration = 0,
        /// Time after which a message that waits for a logon (`offline = "queue"`) is returned to
        /// the application unsent. 0 = never.
        #[secs("queue_expires_s")]
        pub queue_expires: Duration = 0,
        /// Treatment of messages that wait to be sent when the connection ends: `keep` or `return`
        /// to the application. When the engine stops, messages outside of the store are returned in
        /// any case; only `offline = "queue"` stores them.
        pub unsent: Unsent = Unsent::Keep,
        /// Bytes that may wait for the counterparty before `send` returns "would block".
        #[least(1)]
        pub queued_bytes_max: usize = 16 << 20,
        /// Reaction to `send` while `queued_bytes_max` wait. `refuse`: `send` returns "would
        /// block". `wait`: `send` waits for room. `disconnect`: `send` returns "would block" and
        /// the connection ends.
        pub queue_when_full: QueueWhenFull = QueueWhenFull::Refuse,
        /// Longest time that `send` waits for room with `queue_when_full = "wait"`.
        #[millis("queue_wait_ms")]
        pub queue_wait: Duration = 1_000,
        /// Unwritten bytes above which the counterparty is a slow consumer, if they persist for
        /// `slow_consumer_ms`. Must be less than `queued_bytes_max`. 0 = never.
        pub slow_consumer_bytes: usize = 0,
        /// Time for which more than `slow_consumer_bytes` must wait before the counterparty is a
        /// slow consumer.
        #[millis("slow_consumer_ms")]
        pub slow_consumer_after: Duration = 1_000,
        /// Reaction to a slow consumer: `tell` reports it to the log and the application,
        /// `disconnect` also ends the connection.
        pub slow_consumer: SlowConsumer = SlowConsumer::Tell,
    }
}

/// The reaction to `send` while `queued_bytes_max` wait for the counterparty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueWhenFull {
    /// `send` returns "would block".
    Refuse,
    /// `SessionHandle::send` waits for room, at most `queue_wait`. A thread that drives sessions
    /// never waits: in a callback there, `send` returns "would block".
    Wait,
    /// `send` returns "would block", and the connection ends, since the counterparty does not read.
    Disconnect,
}

/// The reaction to a counterparty that reads too slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SlowConsumer {
    /// Reports the slow consumer to the log and to the application: `SessionEvent::SlowConsumer`.
    Tell,
    /// Reports the slow consumer and ends the connection.
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
    /// The message waits in the store without a number. It is sent once after the next logon, also
    /// of a later process.
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
