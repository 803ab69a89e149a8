//! Keys about what is checked of each message.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use transfix_codec::Switches;
use transfix_session::{GarbledPolicy, TooLongPolicy, settings_table};

use crate::dictionary_source::DictionarySource;

settings_table! {
    /// The checks of each message.
    #[derive(PartialEq, Eq)]
    pub struct ValidationSettings {
        /// If true, messages of the application, and the Logon(A), are validated by the dictionary;
        /// the other ones of the session layer always are.
        pub validate: bool = true,
        /// The reaction to a message of the application that the counterparty would reject by the
        /// same dictionary and `checks`. It is `off` (no check), `warn` (the message is sent, and a
        /// line of the log tells the fault) or `refuse` (the sender gets an error).
        pub validate_out: ValidateOut = ValidateOut::Off,
        /// Which checks that makes: a table of names and `true` or `false`, such as
        /// `checks = { codes = false }`. By default all but `conditions` and `empty_groups`.
        #[serde(deserialize_with = "checks")]
        pub checks: Switches = Switches::STANDARD,
        /// If true, CheckSum(10) is verified.
        pub validate_check_sum: bool = true,
        /// The treatment of a framed message that is garbled: a wrong CheckSum(10), MsgType(35)
        /// missing or out of its place. `skip` or `reject`. The standard wants `skip`.
        pub garbled: GarbledPolicy = GarbledPolicy::Skip,
        /// If true, the bytes that a garbled message covers by its BodyLength(9) are searched for
        /// other messages with a right CheckSum(10), which are then taken. Else they are lost with
        /// it and asked for again. Nothing is found where the search would cost far more than what
        /// has been received. The standard wants it off.
        pub search_garbled: bool = false,
        /// Longest message accepted, in bytes.
        #[least(1_024)]
        pub message_bytes_max: usize = 1 << 20,
        /// The answer to a longer message, which is never read: `reject` (Reject(3), reason 5, and
        /// its MsgSeqNum(34) counts) or `logout` (Logout(5) with the reason, and the session ends).
        /// A message of more than 64 MiB always ends the session.
        pub too_long: TooLongPolicy = TooLongPolicy::Reject,
        /// The dictionary (of the application, on FIXT sessions). By default the version's own.
        pub dictionary: Option<DictionarySource> = None,
        /// The dictionary of the session layer on a FIXT session: what header, Logon(A) and the
        /// other messages of the session layer may have, such as
        /// `{ base = "FIXT11", overlays = ["venue-session.xml"] }`. By default FIXT11.
        pub session_dictionary: Option<DictionarySource> = None,
        /// Dictionaries of the messages on a FIXT session that name a version of their own. The key
        /// is ApplVerID(1128) or CstmApplVerID(1129): `{ 4 = "FIX42", VENUE2 = "venue2.xml" }`. It
        /// may have an ApplExtID(1156), an extension pack of a version: `{ "9+240" = "ep240.xml"
        /// }`. By default a message that names a standard version has the dictionary of that
        /// version; that of FIX 5.0 SP2 has all extension packs. A message that names any other
        /// version is rejected with reason 18, unless `checks.codes` is off.
        pub appl_versions: BTreeMap<String, DictionarySource> = BTreeMap::new(),
    }
}

/// The reaction to a message of ours that the counterparty would reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidateOut {
    /// It is not looked at.
    #[default]
    Off,
    /// It is sent, and a line of the log says what is wrong.
    Warn,
    /// It is not sent: the sender gets [`SendError::Invalid`](crate::SendError::Invalid).
    Refuse,
}

fn checks<'de, D: Deserializer<'de>>(d: D) -> Result<Switches, D::Error> {
    let mut checks = Switches::default();
    for (name, on) in BTreeMap::<String, bool>::deserialize(d)? {
        let switch = checks.named(&name);
        *switch.ok_or_else(|| Error::unknown_field(&name, Switches::NAMES))? = on;
    }
    Ok(checks)
}
