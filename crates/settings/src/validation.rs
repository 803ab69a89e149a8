//! The keys about the checks of received and sent messages.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use transfix_codec::Switches;
use transfix_session::{GarbledPolicy, TooLongPolicy, settings_table};

use crate::dictionary_source::DictionarySource;

settings_table! {
    /// Checks of each message.
    #[derive(PartialEq, Eq)]
    pub struct ValidationSettings {
        /// If true, application messages and the Logon(A) are validated against the dictionary.
        /// Other messages of the session layer are always validated.
        pub validate: bool = true,
        /// Reaction to an outbound application message that the counterparty would reject by the
        /// same dictionary and `checks`. `off`: no check. `warn`: the message is sent, and the log
        /// reports the fault. `refuse`: the sender receives an error.
        pub validate_out: ValidateOut = ValidateOut::Off,
        /// Checks of the validation: a table of names with `true` or `false`, such as `checks = {
        /// codes = false }`. By default all but `conditions` and `empty_groups`.
        #[serde(deserialize_with = "checks")]
        pub checks: Switches = Switches::STANDARD,
        /// If true, CheckSum(10) is verified.
        pub validate_check_sum: bool = true,
        /// Treatment of a garbled message: wrong CheckSum(10), or MsgType(35) missing or misplaced.
        /// `skip` ignores the message; `reject` answers with Reject(3). The standard requires
        /// `skip`.
        pub garbled: GarbledPolicy = GarbledPolicy::Skip,
        /// If true, the session searches the bytes of a garbled message, given by its
        /// BodyLength(9), for other messages with a correct CheckSum(10), and accepts them. If
        /// false, they are lost with the garbled message and requested again. The search stops if
        /// its cost far exceeds that of the received bytes. The standard requires `false`.
        pub search_garbled: bool = false,
        /// Longest accepted message, in bytes.
        #[least(1_024)]
        pub message_bytes_max: usize = 1 << 20,
        /// Reaction to a message longer than `message_bytes_max`, which is never read. `reject`:
        /// Reject(3), reason 5, and the MsgSeqNum(34) counts. `logout`: Logout(5) with the reason,
        /// and the session ends. A message of more than 64 MiB always ends the session.
        pub too_long: TooLongPolicy = TooLongPolicy::Reject,
        /// Dictionary of the session; on FIXT sessions, dictionary of the application. By default
        /// the standard dictionary of the version.
        pub dictionary: Option<DictionarySource> = None,
        /// Dictionary of the session layer on a FIXT session, for header, Logon(A) and the other
        /// messages of the session layer, such as `{ base = "FIXT11", overlays =
        /// ["venue-session.xml"] }`. By default FIXT11.
        pub session_dictionary: Option<DictionarySource> = None,
        /// Dictionaries for messages on a FIXT session that name their own version. The key is
        /// ApplVerID(1128) or CstmApplVerID(1129): `{ 4 = "FIX42", VENUE2 = "venue2.xml" }`. It may
        /// include an ApplExtID(1156), an extension pack of a version: `{ "9+240" = "ep240.xml" }`.
        /// By default a standard version has its standard dictionary; the dictionary of FIX 5.0 SP2
        /// has all extension packs. A message with any other version is rejected with reason 18,
        /// unless `checks.codes` is off.
        pub appl_versions: BTreeMap<String, DictionarySource> = BTreeMap::new(),
    }
}

/// The reaction to an outbound message that the counterparty would reject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidateOut {
    /// The message is not checked.
    #[default]
    Off,
    /// The message is sent, and the log reports the error in it.
    Warn,
    /// The message is not sent: the sender receives `SendError::Invalid`.
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
