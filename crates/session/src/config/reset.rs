//! Events that reset the numbers to 1.

use serde::de::{Deserialize, Deserializer, Error};

use super::Key;

macro_rules! events {
    ($($(#[doc = $about:literal])* $event:ident,)*) => {
        /// The events that reset MsgSeqNum(34) to 1 in both directions, besides a
        /// ResetSeqNumFlag(141)=Y of the counterparty. By default none.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct ResetPolicy {
            $($(#[doc = $about])* pub $event: bool,)*
        }

        impl ResetPolicy {
            /// No event resets the numbers.
            pub const NEVER: Self = Self { $($event: false),* };

            /// The names of the events, as written in a list in the settings.
            pub const KEYS: &[Key] = &[$(Key {
                name: stringify!($event),
                about: concat!($($about),*),
                // By default the list does not contain the event.
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
    /// Each logon. The initiator sends ResetSeqNumFlag(141)=Y with each Logon(A), since FIX 4.1.
    /// The acceptor resets at each Logon(A), whose MsgSeqNum(34) must be 1.
    logon,
    /// Each exchange of Logout(5).
    logout,
    /// Each end of a connection, for any reason.
    disconnect,
    /// Each end of a logged-on connection by a fault of either side, such as a bad header, a number
    /// too low or silence (see [`crate::Disconnect::is_error`]). A rejected Logon(A) does not reset
    /// the numbers, because any client can send one.
    error,
}

impl ResetPolicy {
    /// The numbers are reset at each Logon(A).
    pub const LOGON: Self = Self { logon: true, ..Self::NEVER };
    /// The numbers are reset after each connection.
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
