//! What our Logon(A) says besides the terms, and what we ask of theirs.

use std::fmt;

use transfix_codec::Tag;

/// A text that no log, error or debug print shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// Whether `given` is the same text: in a time that does not tell how much of it is right.
    #[must_use]
    pub fn is(&self, given: &[u8]) -> bool {
        let ours = self.0.as_bytes();
        let mut difference = u8::from(ours.len() != given.len());
        // As many steps as the counterparty has sent bytes, whatever ours is.
        for (n, byte) in given.iter().enumerate() {
            let own = ours.get(n % ours.len().max(1)).copied().unwrap_or_default();
            difference |= own ^ byte;
        }
        std::hint::black_box(difference) == 0
    }

    /// The text itself, to be sent or compared.
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

/// Fields of the Logon(A). What the version has no field for is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogonConfig {
    /// Username(553) that the Logon(A) of the counterparty must have, for an acceptor from FIX 4.3
    /// on. Default any.
    pub expected_username: Option<String>,
    /// Password(554) that the Logon(A) of the counterparty must have, for an acceptor from FIX 4.3
    /// on. Default any.
    pub expected_password: Option<Secret>,
    /// Username(553) of our Logon(A), for an initiator from FIX 4.3 on. Default none.
    pub username: Option<String>,
    /// Password(554) of our Logon(A), for an initiator from FIX 4.3 on: the text itself,
    /// `{ env = "NAME" }` for an environment variable, or `{ file = "PATH" }` for the first line of
    /// a file. Default none.
    pub password: Option<Secret>,
    /// NewPassword(925) of our Logon(A), for an initiator on FIXT 1.1, in the same forms. Default
    /// none.
    pub new_password: Option<Secret>,
    /// Further fields of our Logon(A), in this order behind the others: a list of texts
    /// `TAG=VALUE`, such as `["9001=desk", "9002=a=b"]`; the value goes to the end of the text.
    /// Default none.
    pub fields: Vec<(Tag, String)>,
    /// DefaultCstmApplVerID(1408) of our Logon(A), on FIXT 1.1. Default none.
    pub default_cstm_appl_ver_id: Option<String>,
    /// TestMessageIndicator(464), from FIX 4.3 on: our Logon(A) has it, and one that differs (N
    /// where it is absent) is refused. Default neither.
    pub test_message_indicator: Option<bool>,
    /// MaxMessageSize(383) of our Logon(A), from FIX 4.2 on: the longest message that we take, in
    /// bytes; 0 to say nothing. Default 0.
    pub max_message_size: u32,
    /// Whether EncryptMethod(98) of the counterparty must be 0. Default true.
    pub check_encrypt_method: bool,
    /// Whether the Logout(5) by which an acceptor refuses a Logon(A) takes one of our numbers, even
    /// if the counterparty has not proven who it is: for counterparties that count it, such as
    /// QuickFIX. Default false: a stranger could move our numbers.
    pub count_refusals: bool,
    /// Whether a bad Logon(A) is answered by nothing but the disconnection. Default false.
    pub quiet: bool,
}

impl Default for LogonConfig {
    fn default() -> Self {
        Self {
            expected_username: None,
            expected_password: None,
            username: None,
            password: None,
            new_password: None,
            fields: Vec::new(),
            default_cstm_appl_ver_id: None,
            test_message_indicator: None,
            max_message_size: 0,
            check_encrypt_method: true,
            count_refusals: false,
            quiet: false,
        }
    }
}
