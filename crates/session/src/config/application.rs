//! The table `application`: messages that wait for an application in separate threads.

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `application`: limits on messages that wait for an application in separate threads.
    /// `application_threads` of `[engine]` creates these threads.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct ApplicationSettings {
        /// If true, the threads of `application_threads` call the application. If false, the thread
        /// that drives the session calls the application.
        pub in_pool: bool = true,
        /// Messages that may wait for the application, including administrative messages.
        #[least(1)]
        pub messages_max: usize = 10_000,
        /// Bytes of messages that may wait for the application.
        #[least(1)]
        pub bytes_max: usize = 4 << 20,
        /// Reaction to more messages: `wait` stops reading until half of the messages are
        /// processed; `disconnect` logs out and disconnects.
        pub when_full: WhenFull = WhenFull::Wait,
    }
}

/// The reaction when the messages that wait for the application reach a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WhenFull {
    /// The session stops reading until the application has processed half of the messages: TCP
    /// slows the counterparty. The session still sends Heartbeat(0), and does not treat the
    /// counterparty's silence as a fault.
    Wait,
    /// The session sends Logout(5) and disconnects. Unprocessed messages are requested again after
    /// the next logon.
    Disconnect,
}
