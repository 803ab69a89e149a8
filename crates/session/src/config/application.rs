//! The table `application`: limits for messages that wait for an application that runs in separate
//! threads.

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `application`: limits for messages that wait for an application that runs in separate
    /// threads. The key `application_threads` of `[engine]` sets the number of these threads.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct ApplicationSettings {
        /// If true, the threads of `application_threads` call the application. If false, the thread
        /// that drives the session calls the application.
        pub in_pool: bool = true,
        /// Maximum number of messages that may wait for the application, including administrative
        /// messages.
        #[least(1)]
        pub messages_max: usize = 10_000,
        /// Maximum number of bytes in messages that may wait for the application.
        #[least(1)]
        pub bytes_max: usize = 4 << 20,
        /// Reaction when one of these limits is reached. `wait`: the session stops reading until
        /// the application has processed half of the messages. `disconnect`: the session logs out
        /// and disconnects.
        pub when_full: WhenFull = WhenFull::Wait,
    }
}

/// The reaction when the messages that wait for the application reach a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WhenFull {
    /// The session stops reading until the application has processed half of the messages; TCP flow
    /// control then slows the counterparty. The session still sends Heartbeat(0), and does not
    /// treat the counterparty's silence as a fault.
    Wait,
    /// The session sends Logout(5) and disconnects. After the next logon, it requests the
    /// unprocessed messages again.
    Disconnect,
}
