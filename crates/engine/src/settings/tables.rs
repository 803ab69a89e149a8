//! The tables of a session in the settings file: `logon`, `numbers`, `resend`, `timing`.
//!
//! Their keys, meanings and defaults are those of the session layer's types; here stands how they
//! are read.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use transfix_codec::{Tag, raw};
use transfix_session::{
    LogonConfig, NumbersConfig, ResendConfig, Secret, Throttle, ThrottleAction, TimingConfig,
    TooLow, TooLowAtLogon,
};

/// Tables that a session takes over key by key from `[defaults]`.
pub(crate) const NAMES: [&str; 8] =
    ["checks", "log", "logon", "numbers", "resend", "retention", "timing", "unavailable"];

/// A table whose keys are the fields of a type of the session layer.
pub(crate) trait Table: Default {
    const KEYS: &'static [&'static str];

    /// Sets the field of that name, if there is one.
    fn set<'de, M: MapAccess<'de>>(&mut self, key: &str, map: &mut M) -> Result<bool, M::Error>;
}

/// Says which fields of a type are keys, some of them read as another type that turns into theirs.
macro_rules! table {
    ($type:ty: $($key:ident $(as $word:ty)?),* $(,)?) => {
        impl Table for $type {
            const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            fn set<'de, M: MapAccess<'de>>(
                &mut self,
                key: &str,
                map: &mut M,
            ) -> Result<bool, M::Error> {
                match key {
                    $(stringify!($key) => self.$key = table!(@read map $($word)?),)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }
    };
    (@read $map:ident) => { $map.next_value()? };
    (@read $map:ident $word:ty) => { $map.next_value::<$word>()?.into() };
}

table!(ResendConfig: request_max, closed_ranges, redundant_requests, repeat_after_s, repeats_max,
    answered_max, same_requests_max, answer_poss_dup, resend_rejects, orig_sending_time_required);
table!(TimingConfig: margin_percent, margin_ms, test_requests_max, test_request_wait_ms,
    watch_silence, logout_when_silent, impose_heart_bt_int, heart_bt_int_s_min, heart_bt_int_s_max,
    same_heart_bt_int);
table!(NumbersConfig: request_missing, too_low as TooLowWord, too_low_at_logon as TooLowAtLogonWord,
    gap_at_logon_max, sequence_reset_max, send_last_processed, next_expected);
table!(LogonConfig: expected_username as Given, expected_password as Hidden,
    username as Given, password as Hidden, new_password as Hidden, fields as Fields,
    default_cstm_appl_ver_id as Given, test_message_indicator as IsTest,
    max_message_size, check_encrypt_method, count_refusals, quiet);

/// Reads a table; what it leaves out has its default.
pub(crate) fn table<'de, D: Deserializer<'de>, T: Table>(d: D) -> Result<T, D::Error> {
    struct Keys<T>(PhantomData<T>);

    impl<'de, T: Table> Visitor<'de> for Keys<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a table of {}", T::KEYS.join(", "))
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<T, M::Error> {
            let mut table = T::default();
            while let Some(key) = map.next_key::<String>()? {
                if !table.set(&key, &mut map)? {
                    return Err(de::Error::unknown_field(&key, T::KEYS));
                }
            }
            Ok(table)
        }
    }

    d.deserialize_map(Keys(PhantomData))
}

/// Declares a word of the settings for each value of an enum of the session layer.
macro_rules! words {
    ($words:ident for $type:ident: $($value:ident),*) => {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum $words {
            $($value),*
        }

        impl From<$words> for $type {
            fn from(word: $words) -> Self {
                match word {
                    $($words::$value => Self::$value),*
                }
            }
        }
    };
}

words!(TooLowWord for TooLow: Logout, Reject, Ignore);
words!(TooLowAtLogonWord for TooLowAtLogon: Logout, Accept);

words!(ThrottleWord for ThrottleAction: Reject, Disconnect);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThrottleTable {
    msg_type: String,
    messages_max: u32,
    interval_ms: u32,
    action: ThrottleWord,
}

/// Reads a list of tables, each of which says all.
pub(crate) fn throttles<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Throttle>, D::Error> {
    let read = |table: ThrottleTable| Throttle {
        msg_type: table.msg_type,
        messages_max: table.messages_max,
        interval_ms: table.interval_ms,
        action: table.action.into(),
    };
    Ok(Vec::<ThrottleTable>::deserialize(d)?.into_iter().map(read).collect())
}

/// A text that may be left out, but not be empty.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Given(String);

impl TryFrom<String> for Given {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() || text.chars().any(char::is_control) {
            return Err("a text of a Logon(A) is not empty and has no control characters");
        }
        Ok(Self(text))
    }
}

impl From<Given> for Option<String> {
    fn from(given: Given) -> Self {
        Some(given.0)
    }
}

#[derive(Deserialize)]
struct IsTest(bool);

impl From<IsTest> for Option<bool> {
    fn from(is_test: IsTest) -> Self {
        Some(is_test.0)
    }
}

/// Where a password comes from: the text itself, an environment variable, or the first line of a
/// file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write the text, { env = \"NAME\" } or { file = \"PATH\" }")]
enum SecretSource {
    Text(String),
    Env(FromEnv),
    File(FromFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromEnv {
    env: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromFile {
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(try_from = "SecretSource")]
struct Hidden(Secret);

impl TryFrom<SecretSource> for Hidden {
    type Error = String;

    fn try_from(source: SecretSource) -> Result<Self, String> {
        let text = match source {
            SecretSource::Text(text) => text,
            SecretSource::Env(FromEnv { env }) => std::env::var(&env).map_err(|error| {
                let is_missing = error == std::env::VarError::NotPresent;
                let why = if is_missing { "is not set" } else { "is no text" };
                format!("the environment variable {env} {why}")
            })?,
            SecretSource::File(FromFile { file }) => {
                let read = std::fs::read_to_string(&file);
                let text = read.map_err(|error| format!("the file {}: {error}", file.display()))?;
                text.lines().next().unwrap_or_default().to_owned()
            }
        };
        // The error must not show it.
        let Given(text) = Given::try_from(text)?;
        Ok(Self(Secret::new(text)))
    }
}

impl From<Hidden> for Option<Secret> {
    fn from(hidden: Hidden) -> Self {
        Some(hidden.0)
    }
}

/// Fields written as `tag=value`.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Fields(Vec<(Tag, String)>);

impl TryFrom<Vec<String>> for Fields {
    type Error = String;

    fn try_from(texts: Vec<String>) -> Result<Self, String> {
        let read = |text: &String| {
            let (_, value) = text.split_once('=')?;
            let tag = raw::fields(format!("{text}\x01").as_bytes()).next()?.tag;
            let sound = tag != Tag(0) && Given::try_from(value.to_owned()).is_ok();
            sound.then(|| (tag, value.to_owned()))
        };
        let wrong = |text: &String| format!("`{text}` is no field; write it as tag=value");
        texts
            .iter()
            .map(|text| read(text).ok_or_else(|| wrong(text)))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl From<Fields> for Vec<(Tag, String)> {
    fn from(fields: Fields) -> Self {
        fields.0
    }
}
