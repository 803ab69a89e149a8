//! Fields of our Logon(A), and requirements for the Logon(A) of the counterparty.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error};
use transfix_codec::{Tag, raw};

use crate::settings_table;

/// A secret text, such as a password, that logs, errors and debug output do not show.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns true if `given` equals the secret. The duration of the comparison does not reveal
    /// how many bytes are correct.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let mut difference = u8::from(ours.len() != given.len());
        // The number of steps depends only on the length of `given`, so the duration does not
        // reveal the length of the secret.
        for (n, byte) in given.iter().enumerate() {
            let own = ours.get(n % ours.len().max(1)).copied().unwrap_or_default();
            difference |= own ^ byte;
        }
        std::hint::black_box(difference) == 0
    }

    /// Returns the secret text, for sending or comparing.
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
    /// Fields of our Logon(A), and requirements for the Logon(A) of the counterparty. A value is
    /// not sent if the version does not have its field.
    #[derive(PartialEq, Eq)]
    pub struct LogonConfig {
        /// Username(553) that an acceptor requires in the counterparty's Logon(A), since FIX 4.3.
        /// By default any value is accepted.
        #[serde(deserialize_with = "given")]
        pub expected_username: Option<String> = None,
        /// Password(554) that an acceptor requires in the counterparty's Logon(A), since FIX 4.3.
        /// The value is written as for `password`. By default any value is accepted.
        pub expected_password: Option<Secret> = None,
        /// Argon2 hash of the required Password(554), used instead of `expected_password`.
        /// `transfix password` creates the hash. The value is written as for `password`.
        pub expected_password_hash: Option<Secret> = None,
        /// Username(553) of an initiator's Logon(A), since FIX 4.3.
        #[serde(deserialize_with = "given")]
        pub username: Option<String> = None,
        /// Password(554) of an initiator's Logon(A), since FIX 4.3. The value is the text itself,
        /// `{ env = "NAME" }` for an environment variable, or `{ file = "PATH" }` for the first
        /// line of a file. `{ command = ["PROGRAM", "ARGUMENT"] }` stands for the first line that
        /// the program writes within ten seconds; the process that reads the settings runs the
        /// program.
        pub password: Option<Secret> = None,
        /// NewPassword(925) of an initiator's Logon(A), on FIXT 1.1. The value is written as for
        /// `password`.
        pub new_password: Option<Secret> = None,
        /// Additional fields at the end of our Logon(A), in this order: a list of texts
        /// `TAG=VALUE`, such as `["9001=desk", "9002=a=b"]`. The value is the whole text after the
        /// first `=`.
        #[debug(tags)]
        #[serde(deserialize_with = "fields")]
        pub fields: Vec<(Tag, String)> = Vec::new(),
        /// DefaultCstmApplVerID(1408) of our Logon(A), on FIXT 1.1.
        #[serde(deserialize_with = "given")]
        pub default_cstm_appl_ver_id: Option<String> = None,
        /// TestMessageIndicator(464), since FIX 4.3. Our Logon(A) has this value. A Logon(A) of the
        /// counterparty with another value is rejected (an absent field counts as N). By default
        /// the field is neither sent nor checked.
        pub test_message_indicator: Option<bool> = None,
        /// MaxMessageSize(383) of our Logon(A), since FIX 4.2: the maximum length of a message that
        /// this side accepts, in bytes. 0 = not sent.
        pub max_message_size: u32 = 0,
        /// If true, EncryptMethod(98) of the counterparty must be 0.
        pub check_encrypt_method: bool = true,
        /// If true, the Logout(5) with which an acceptor rejects a Logon(A) uses an outbound
        /// sequence number, even if the counterparty is not authenticated. Counterparties such as
        /// QuickFIX count this Logout(5). Danger: any client that can connect can then advance the
        /// session's numbers.
        pub count_refusals: bool = false,
        /// If true, an invalid Logon(A) is answered only by disconnecting, without a Logout(5).
        pub quiet: bool = false,
    }
}

impl LogonConfig {
    /// Returns true if the counterparty's Logon(A) must have a configured Password(554).
    #[must_use]
    pub const fn expects_password(&self) -> bool {
        self.expected_password.is_some() || self.expected_password_hash.is_some()
    }
}

/// Returns the fields with hidden values, for `Debug` output: any value may be a password, even
/// with a custom tag.
fn tags(fields: &[(Tag, String)]) -> Vec<(Tag, Secret)> {
    fields.iter().map(|(tag, value)| (*tag, Secret::new(value.clone()))).collect()
}

/// Deserializes an optional text; an empty text is an error.
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
        // The text is secret, so no error message contains it.
        let text = given(d)?;
        Ok(Self(text.unwrap_or_default()))
    }
}

/// Deserializes fields written as `TAG=VALUE`.
pub(super) fn fields<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<(Tag, String)>, D::Error> {
    let read = |text: &String| {
        let (_, value) = text.split_once('=')?;
        let tag = raw::fields(format!("{text}\x01").as_bytes()).next()?.tag;
        (tag != Tag(0) && is_value(value)).then(|| (tag, value.to_owned()))
    };
    // The value may be a password, so the error message hides it.
    let wrong = |text: &str| {
        let (tag, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
        let rest = if rest.is_empty() { "" } else { "…" };
        Error::custom(format!("`{tag}{rest}` is no field; write it as tag=value"))
    };
    let texts = Vec::<String>::deserialize(d)?;
    texts.iter().map(|text| read(text).ok_or_else(|| wrong(text))).collect()
}
