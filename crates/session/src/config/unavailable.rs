//! The table `unavailable`: messages for which the application is not available.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `unavailable`: treatment of a message that the application answers with
    /// `BusinessReject::not_available`.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct Unavailable {
        /// Number of further deliveries of the message to the application. Later messages wait
        /// meanwhile.
        pub retries: u32 = 0,
        /// Time before each further delivery.
        #[millis("delay_ms")]
        pub delay: Duration = 1_000,
        /// Reaction after the last delivery. `reject`: BusinessMessageReject(j) with reason 4.
        /// `silence`: no answer; the message counts as received. `disconnect`: logout; the message
        /// is requested again after the next logon.
        pub then: UnavailableAction = UnavailableAction::Reject,
    }
}

/// The final reaction to a message for which the application is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UnavailableAction {
    /// BusinessMessageReject(j) with reason 4, or Reject(3) up to FIX 4.1.
    Reject,
    /// No answer: the message counts as received.
    Silence,
    /// Logout(5) and disconnection. The message does not count, and is requested again after the
    /// next logon.
    Disconnect,
}
