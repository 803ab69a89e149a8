//! Events that reset both numbers to 1.

use serde::de::{Deserialize, Deserializer, Error};

use super::Key;

macro_rules! events {
    ($($(#[doc = $about:literal])* $event:ident,)*) => {
        /// The events that reset MsgSeqNum(34) to 1 in both directions, besides a
        /// ResetSeqNumFlag(141)=Y of the counterparty. No event by default.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ResetPolicy {
            $($(#[doc = $about])* pub $event: bool,)*
        }

        impl ResetPolicy {
            /// No reset.
            pub const NEVER: Self = Self { $($event: false),* };

            /// The events, as list items of the settings.
            pub const KEYS: &[Key] = &[$(Key {
                name: stringify!($event),
                about: concat!($($about),*),
                // The default list does not include the event.
                default: Some(""),
                range: (None, None),
            }),*];

            const NAMES: &[&str] = &[$(stringify!($event)),*];

            fn named(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($event) => Some(&mut self.$event),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// The initiator sends ResetSeqNumFlag(141)=Y with each Logon(A) (from FIX 4.1 on); the
    /// acceptor resets at each Logon(A), whose own number is still checked against 1.
    logon,
    /// After an exchange of Logout(5).
    logout,
    /// After each connection, however it ended.
    disconnect,
    /// After a connection that was logged on and ended by a fault of either side: a bad header, a
    /// number too low, silence (see [`crate::Disconnect::is_error`]). Not after a refused Logon(A):
    /// whoever is refused may be a stranger.
    error,
}

impl ResetPolicy {
    /// Reset with each Logon(A).
    pub const LOGON: Self = Self { logon: true, ..Self::NEVER };
    /// Reset after each connection.
    pub const DISCONNECT: Self = Self { disconnect: true, ..Self::NEVER };
}

impl<'de> Deserialize<'de> for ResetPolicy {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut policy = Self::NEVER;
        for name in Vec::<String>::deserialize(d)? {
            let event = policy.named(&name);
            *event.ok_or_else(|| Error::unknown_variant(&name, Self::NAMES))? = true;
        }
        Ok(policy)
    }
}
