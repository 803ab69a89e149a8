//! The table `unavailable`: the treatment of messages while the application is not available.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `unavailable`: treatment of a message that the application answers with
    /// `BusinessReject::not_available`.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct Unavailable {
        /// Number of times that the session delivers the message again to the application. Later
        /// messages wait meanwhile.
        pub retries: u32 = 0,
        /// Time before each repeated delivery.
        #[millis("delay_ms")]
        pub delay: Duration = 1_000,
        /// Reaction after the last delivery. `reject`: the session sends BusinessMessageReject(j)
        /// with reason 4. `silence`: the session sends no answer, and the message counts as
        /// received. `disconnect`: the session logs out, and requests the message again after the
        /// next logon.
        pub then: UnavailableAction = UnavailableAction::Reject,
    }
}

/// The reaction to a message if the application is still unavailable at the last delivery attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UnavailableAction {
    /// The session sends BusinessMessageReject(j) with reason 4, or Reject(3) up to FIX 4.1.
    Reject,
    /// The session sends no answer, and the message counts as received.
    Silence,
    /// The session sends a Logout(5) and disconnects. The message does not count as received, and
    /// is requested again after the next logon.
    Disconnect,
}
