//! Settings of messages that wait to be sent.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// Messages that wait to be sent.
    #[derive(Copy, PartialEq, Eq)]
    pub struct QueueSettings {
        /// Messages sent without a logon: `refuse`, `store` or `queue`. The page "Sending without a
        /// logon" of the book has the outcome in each state of the session.
        pub offline: Offline = Offline::Refuse,
        /// Time between a logon and the first message that was queued before it.
        #[millis("queue_pause_ms")]
        pub queue_pause: Duration = 0,
        /// Time after which a message that waits for a logon (`offline = "queue"`) is given back to
        /// the application in place of being sent; 0 for never.
        #[secs("queue_expires_s")]
        pub queue_expires: Duration = 0,
        /// Messages that wait to be sent when the connection ends: `keep` or `return`. When the
        /// engine stops, those that are not in the store go back in any case; only
        /// `offline = "queue"` puts them there.
        pub unsent: Unsent = Unsent::Keep,
        /// Bytes that may wait for the counterparty before `send` answers "would block".
        #[least(1)]
        pub queued_bytes_max: usize = 16 << 20,
        /// The reaction when more is sent while so many bytes wait: `refuse`, `wait`, `disconnect`.
        pub queue_when_full: QueueWhenFull = QueueWhenFull::Refuse,
        /// How long `send` waits for room with `queue_when_full = "wait"`.
        #[millis("queue_wait_ms")]
        pub queue_wait: Duration = 1_000,
        /// Bytes that the counterparty's socket may leave unwritten: above it, the counterparty is
        /// a slow consumer if it stays so for `slow_consumer_ms`. Less than `queued_bytes_max`; 0
        /// for never.
        pub slow_consumer_bytes: usize = 0,
        /// For how long more than `slow_consumer_bytes` must wait.
        #[millis("slow_consumer_ms")]
        pub slow_consumer_after: Duration = 1_000,
        /// The reaction to a slow consumer: `tell`, `disconnect`.
        pub slow_consumer: SlowConsumer = SlowConsumer::Tell,
    }
}

/// The reaction to a send while more than `queued_bytes_max` bytes wait for the counterparty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum QueueWhenFull {
    /// `send` returns "would block".
    Refuse,
    /// `SessionHandle::send` waits for room, at most `queue_wait`. A thread that drives sessions
    /// never waits: in its callbacks `send` returns an error.
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
    /// The log and the application receive a report: `SessionEvent::SlowConsumer`.
    Tell,
    /// The connection ends, in addition to the report.
    Disconnect,
}

/// The treatment of a message that is sent without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Offline {
    /// `send` returns "not logged on".
    Refuse,
    /// The message is numbered and stored; the counterparty requests the message after the next
    /// logon.
    Store,
    /// The message waits in the store without a number, and is sent once after the next logon,
    /// possibly by a later process.
    Queue,
}

/// The treatment of messages that still wait to be sent when the connection ends.
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
