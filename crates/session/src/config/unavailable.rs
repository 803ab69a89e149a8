//! The table `unavailable`: messages for which the application is not available.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::settings_table;

settings_table! {
    /// `unavailable`: what becomes of a message whose application answers
    /// `BusinessReject::not_available`.
    #[derive(Copy, Serialize, PartialEq, Eq)]
    pub struct Unavailable {
        /// How often it is offered again; the messages behind it wait.
        pub retries: u32 = 0,
        /// Time before each further offer.
        #[millis("delay_ms")]
        pub delay: Duration = 1_000,
        /// The reaction after the last one: `reject`, `silence`, `disconnect`.
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
