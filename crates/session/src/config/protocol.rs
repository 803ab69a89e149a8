//! The table `protocol`: heartbeats, resets, limits and timeouts.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use transfix_codec::{Precision, Tag};

use super::logon::fields;
use super::{ApplVerId, ResetPolicy, Throttle};
use crate::settings_table;

settings_table! {
    /// The keys of a session that belong to no table.
    #[derive(PartialEq, Eq)]
    pub struct ProtocolConfig {
        /// HeartBtInt(108) that an initiator asks for, whole seconds; 0 for none. A Heartbeat(0)
        /// leaves up to 10 ms before the interval ends, so that sessions share wake-ups.
        #[secs("heart_bt_int_s")]
        pub heart_bt_int: Duration = 30,
        /// DefaultApplVerID(1137) of a FIXT.1.1 session: 2 to 10. An initiator needs it; an
        /// acceptor without one takes what the Logon(A) names.
        pub default_appl_ver_id: Option<ApplVerId> = None,
        /// When numbers start again at 1: a list of `logon`, `logout`, `disconnect`, `error`. By
        /// default only if the counterparty asks with ResetSeqNumFlag(141).
        pub reset_on: ResetPolicy = ResetPolicy::NEVER,
        /// Time of day, `HH:MM:SS`, at which a session that is logged on resets the numbers by a
        /// Logon(A) with ResetSeqNumFlag(141)=Y; from FIX 4.1 on. In UTC, or in the zone of
        /// `reset_at_zone`.
        #[serde(deserialize_with = "second_of_day")]
        pub reset_at: Option<u32> = None,
        /// Time zone of `reset_at`: an IANA name such as `America/New_York`, or a distance from UTC
        /// such as `+02:00`. By default UTC.
        pub reset_at_zone: String = String::new(),
        /// How long after each logon it does so; 0 for never.
        #[most(8_784)]
        #[hours("reset_after_h")]
        pub reset_after: Duration = 0,
        /// Limits on application messages of a type in a time. The list has tables such as `{
        /// msg_type = "D", messages_max = 10, interval_ms = 1000, action = "reject" }`. The action
        /// may also be `disconnect`.
        pub throttles: Vec<Throttle> = Vec::new(),
        /// Further fields of the standard header in each message of ours, those of the session
        /// layer too: a list of texts `TAG=VALUE`, such as `["115=DESK"]` for
        /// OnBehalfOfCompID(115).
        #[serde(deserialize_with = "fields")]
        pub header_fields: Vec<(Tag, String)> = Vec::new(),
        /// Fields that messages of the application get, where the dictionary has a place for them
        /// and the message has not: a list of texts, such as `["1=ACCOUNT7"]` for Account(1). They
        /// come first in the body.
        #[serde(deserialize_with = "fields")]
        pub body_fields: Vec<(Tag, String)> = Vec::new(),
        /// If true, the session ends without a Logout(5) of ours: by the wish of the application,
        /// and where the standard wants a reason to be given.
        pub silent_disconnect: bool = false,
        /// If true, CompIDs of every message are checked: a wrong one is rejected (reason 9) and
        /// ends the session. If not, only the Logon(A) is looked at.
        pub check_comp_ids: bool = true,
        /// How far SendingTime(52) may be off; 0 for any.
        #[secs("sending_time_tolerance_s")]
        pub sending_time_tolerance: Duration = 120,
        /// Digits of the times we send: `seconds`, `millis`, `micros`, `nanos`. By default
        /// milliseconds, and seconds up to FIX 4.1.
        #[serde(deserialize_with = "precision")]
        pub precision: Option<Precision> = None,
        /// Longest value of a field accepted, in bytes; a message with a longer one is answered by
        /// Reject(3), reason 5. By default as long as the message may be.
        #[least(64)]
        pub field_bytes_max: usize = usize::MAX,
        /// How long a Logon(A) may take.
        #[least(1)]
        #[millis("logon_timeout_ms")]
        pub logon_timeout: Duration = 10_000,
        /// How long the answer to our Logout(5) may take.
        #[least(1)]
        #[millis("logout_timeout_ms")]
        pub logout_timeout: Duration = 10_000,
        /// Messages above a gap that are kept until it is closed, or that wait for an application
        /// which is not available: how many. A message that does not fit is asked for again.
        pub held_messages_max: usize = 10_000,
        /// The same in bytes.
        pub held_bytes_max: usize = 16 << 20,
    }
}

fn second_of_day<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(d)?;
    let parts: Vec<u32> = text.split(':').map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [h @ 0..24, m @ 0..60, s @ 0..60] if text.len() == 8 => Ok(Some((h * 60 + m) * 60 + s)),
        _ => Err(Error::custom(format!("`{text}` is no time of day, such as 17:00:00"))),
    }
}

fn precision<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Precision>, D::Error> {
    let text = String::deserialize(d)?;
    Ok(Some(match &*text {
        "seconds" => Precision::Seconds,
        "millis" => Precision::Millis,
        "micros" => Precision::Micros,
        "nanos" => Precision::Nanos,
        _ => {
            let words = &["seconds", "millis", "micros", "nanos"];
            return Err(Error::unknown_variant(&text, words));
        }
    }))
}
