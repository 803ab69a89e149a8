//! The table `protocol`: heartbeats, resets, limits and timeouts.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};
use transfix_codec::{Precision, Tag};

use super::logon::fields;
use super::{ApplVerId, ResetPolicy, Throttle};
use crate::settings_table;

settings_table! {
    /// Keys of a session that have no table of their own.
    #[derive(PartialEq, Eq)]
    pub struct ProtocolConfig {
        /// HeartBtInt(108) that an initiator requests. The session sends a Heartbeat(0) up to 10 ms
        /// before the interval ends, so that several sessions share one wake-up. 0 = no heartbeats.
        #[secs("heart_bt_int_s")]
        pub heart_bt_int: Duration = 30,
        /// DefaultApplVerID(1137) of a FIXT.1.1 session: 2 to 10. Required for an initiator. An
        /// acceptor without this key accepts the value of the Logon(A).
        pub default_appl_ver_id: Option<ApplVerId> = None,
        /// Events that reset the numbers to 1: a list of `logon`, `logout`, `disconnect`, `error`.
        /// By default only a ResetSeqNumFlag(141) of the counterparty resets the numbers.
        pub reset_on: ResetPolicy = ResetPolicy::NEVER,
        /// Time of day, `HH:MM:SS`, at which a logged-on session resets the numbers by sending a
        /// Logon(A) with ResetSeqNumFlag(141)=Y, since FIX 4.1. The time is in UTC, or in the time
        /// zone `reset_at_zone`.
        #[serde(deserialize_with = "second_of_day")]
        pub reset_at: Option<u32> = None,
        /// Time zone of `reset_at`: an IANA name such as `America/New_York`, or an offset from UTC
        /// such as `+02:00`. By default UTC.
        pub reset_at_zone: String = String::new(),
        /// Time after each logon at which the session resets the numbers by sending a Logon(A) with
        /// ResetSeqNumFlag(141)=Y. 0 = never.
        #[most(8_784)]
        #[hours("reset_after_h")]
        pub reset_after: Duration = 0,
        /// Limits on the rate of inbound application messages, one limit per message type. The
        /// value is a list of tables such as
        /// `{ msg_type = "D", messages_max = 10, interval_ms = 1000, action = "reject" }`. The
        /// other action is `disconnect`.
        pub throttles: Vec<Throttle> = Vec::new(),
        /// Additional fields in the standard header of each outbound message, including messages of
        /// the session layer. The value is a list of texts `TAG=VALUE`, such as `["115=DESK"]` for
        /// OnBehalfOfCompID(115).
        #[serde(deserialize_with = "fields")]
        pub header_fields: Vec<(Tag, String)> = Vec::new(),
        /// Fields that the session adds to outbound application messages, if the dictionary permits
        /// the field in the message and the message lacks it. The value is a list of texts
        /// `TAG=VALUE`, such as `["1=ACCOUNT7"]` for Account(1). Added fields are first in the
        /// body.
        #[serde(deserialize_with = "fields")]
        pub body_fields: Vec<(Tag, String)> = Vec::new(),
        /// If true, the session disconnects without sending a Logout(5), both when the application
        /// ends the session and when the standard requires a Logout(5) with a reason.
        pub silent_disconnect: bool = false,
        /// If true, the CompIDs of every message are checked: a wrong CompID is rejected (reason 9)
        /// and ends the session. If false, only the Logon(A) is checked.
        pub check_comp_ids: bool = true,
        /// Maximum difference between a received SendingTime(52) and our clock that the session
        /// accepts. 0 = unlimited.
        #[secs("sending_time_tolerance_s")]
        pub sending_time_tolerance: Duration = 120,
        /// Precision of times in outbound messages: `seconds`, `millis`, `micros`, `nanos`. By
        /// default milliseconds, and seconds up to FIX 4.1.
        #[serde(deserialize_with = "precision")]
        pub precision: Option<Precision> = None,
        /// Maximum length of a field's value that the session accepts, in bytes. A message with a
        /// longer value is answered with Reject(3), reason 5. By default only the length of the
        /// message is limited.
        #[least(64)]
        pub field_bytes_max: usize = usize::MAX,
        /// Maximum time to wait for a Logon(A).
        #[least(1)]
        #[millis("logon_timeout_ms")]
        pub logon_timeout: Duration = 10_000,
        /// Maximum time to wait for the counterparty's answer to our Logout(5).
        #[least(1)]
        #[millis("logout_timeout_ms")]
        pub logout_timeout: Duration = 10_000,
        /// Maximum number of messages that the session holds while a gap before them is open, or
        /// while the application is not available. A message beyond the limit is requested again
        /// later.
        pub held_messages_max: usize = 10_000,
        /// Maximum number of bytes in messages that the session holds while a gap before them is
        /// open, or while the application is not available. A message beyond the limit is requested
        /// again later.
        pub held_bytes_max: usize = 16 << 20,
    }
}

fn second_of_day<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(d)?;
    let parts: Vec<u32> = text.split(':').map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [h @ 0..24, m @ 0..60, s @ 0..60] if text.len() == 8 => Ok(Some((h * 60 + m) * 60 + s)),
        _ => Err(Error::custom(format!("`{text}` is not a time of day such as 17:00:00"))),
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
