//! Fields of our Logon(A), and required fields of the counterparty's Logon(A).

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use transfix_codec::{Tag, raw};

use crate::settings_table;

/// A text that never appears in logs, errors or debug output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns true if `given` is the same text. The comparison time does not reveal how much of
    /// `given` is correct.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let mut difference = u8::from(ours.len() != given.len());
        // The number of steps depends only on the length of `given`, so that the time does not
        // reveal the length of the secret.
        for (n, byte) in given.iter().enumerate() {
            let own = ours.get(n % ours.len().max(1)).copied().unwrap_or_default();
            difference |= own ^ byte;
        }
        std::hint::black_box(difference) == 0
    }

    /// Returns the text itself, to be sent or compared.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

settings_table! {
    /// Fields of the Logon(A). A value without a field in this version is not sent.
    #[derive(PartialEq, Eq)]
    pub struct LogonConfig {
        /// Username(553) that the Logon(A) of the counterparty must have, for an acceptor from FIX
        /// 4.3 on. By default any.
        #[serde(deserialize_with = "given")]
        pub expected_username: Option<String> = None,
        /// Password(554) that the Logon(A) of the counterparty must have, for an acceptor from FIX
        /// 4.3 on. By default any.
        pub expected_password: Option<Secret> = None,
        /// In its place: the hash of that Password(554) by Argon2, as `transfix password` writes
        /// it, in the same forms.
        pub expected_password_hash: Option<Secret> = None,
        /// Username(553) of our Logon(A), for an initiator from FIX 4.3 on.
        #[serde(deserialize_with = "given")]
        pub username: Option<String> = None,
        /// Password(554) of our Logon(A), for an initiator from FIX 4.3 on: the text itself, `{ env
        /// = "NAME" }` for an environment variable, `{ file = "PATH" }` for the first line of a
        /// file, or `{ command = ["PROGRAM", "ARGUMENT"] }`. The last is the first line that a
        /// program writes within ten seconds. The reader of the settings runs it.
        pub password: Option<Secret> = None,
        /// NewPassword(925) of our Logon(A), for an initiator on FIXT 1.1, in the same forms.
        pub new_password: Option<Secret> = None,
        /// Further fields of our Logon(A), in this order behind the others: a list of texts
        /// `TAG=VALUE`, such as `["9001=desk", "9002=a=b"]`; the value goes to the end of the text.
        #[debug(tags)]
        #[serde(deserialize_with = "fields")]
        pub fields: Vec<(Tag, String)> = Vec::new(),
        /// DefaultCstmApplVerID(1408) of our Logon(A), on FIXT 1.1.
        #[serde(deserialize_with = "given")]
        pub default_cstm_appl_ver_id: Option<String> = None,
        /// TestMessageIndicator(464), from FIX 4.3 on: our Logon(A) has it, and one that differs (N
        /// where it is absent) is refused. By default neither.
        pub test_message_indicator: Option<bool> = None,
        /// MaxMessageSize(383) of our Logon(A), from FIX 4.2 on: the longest message that we take,
        /// in bytes; 0 to say nothing.
        pub max_message_size: u32 = 0,
        /// If true, EncryptMethod(98) of the counterparty must be 0.
        pub check_encrypt_method: bool = true,
        /// If true, the Logout(5) by which an acceptor refuses a Logon(A) takes one of our numbers,
        /// even if the counterparty has not proven its identity. Counterparties such as QuickFIX
        /// count it. With it a stranger can move our numbers.
        pub count_refusals: bool = false,
        /// If true, a bad Logon(A) is answered by nothing but the disconnection.
        pub quiet: bool = false,
    }
}

impl LogonConfig {
    /// Returns true if the settings require a Password(554) in the counterparty's Logon(A).
    #[must_use]
    pub const fn expects_password(&self) -> bool {
        self.expected_password.is_some() || self.expected_password_hash.is_some()
    }
}

/// Hides the values of fields for `Debug`. Any value may be a password, even one with a
/// user-defined tag.
fn tags(fields: &[(Tag, String)]) -> Vec<(Tag, Secret)> {
    fields.iter().map(|(tag, value)| (*tag, Secret::new(value.clone()))).collect()
}

/// Reads an optional text, which must not be empty.
fn given<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(d)?;
    match is_value(&text) {
        true => Ok(Some(text)),
        false => Err(Error::custom(NO_VALUE)),
    }
}

const NO_VALUE: &str = "a text of a Logon(A) is not empty and has no control characters";

fn is_value(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // The error for a refused text must not contain the text.
        let text = given(d)?;
        Ok(Self(text.unwrap_or_default()))
    }
}

/// Reads fields in the form `tag=value`.
pub(super) fn fields<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(Tag, String)>, D::Error> {
    let read = |text: &String| {
        let (_, value) = text.split_once('=')?;
        let tag = raw::fields(format!("{text}\x01").as_bytes()).next()?.tag;
        (tag != Tag(0) && is_value(value)).then(|| (tag, value.to_owned()))
    };
    // The value may be a password.
    let wrong = |text: &str| {
        let (tag, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let rest = if rest.is_empty() { "" } else { "…" };
        Error::custom(format!("`{tag}{rest}` is no field; write it as tag=value"))
    };
    let texts = Vec::<String>::deserialize(d)?;
    texts.iter().map(|text| read(text).ok_or_else(|| wrong(text))).collect()
}
