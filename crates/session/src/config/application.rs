//! The table `application`: limits of the queue of an application in its own threads.

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `application`: how messages are handed to an application that is called in threads of its
    /// own. There are some if `application_threads` of `[engine]` says so.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct ApplicationSettings {
        /// If true, the application is called in the threads of `application_threads`; if not, in
        /// the thread that drives the session.
        pub in_pool: bool = true,
        /// Messages that may wait for the application, administrative ones among them.
        #[least(1)]
        pub messages_max: usize = 10_000,
        /// Bytes of messages that may wait for the application.
        #[least(1)]
        pub bytes_max: usize = 4 << 20,
        /// The reaction when more come: `wait`, `disconnect`.
        pub when_full: WhenFull = WhenFull::Wait,
    }
}

/// The reaction to a full queue of the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WhenFull {
    /// Reading stops until the application has handled half of the queue: TCP then slows the
    /// counterparty down. Heartbeat(0) is still sent, and the silence of the counterparty is not a
    /// fault.
    Wait,
    /// Logout(5) and disconnection. Messages that the application has not handled are requested
    /// again after the next logon.
    Disconnect,
}
