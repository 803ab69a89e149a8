//! The table `proxy`: an initiator connects through somebody else.

use serde::Deserialize;
use transfix_session::{Secret, settings_table};

/// How an initiator speaks to its proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyKind {
    /// HTTP CONNECT (RFC 9110, section 9.3.6), with Basic authentication (RFC 7617) if it has a
    /// username.
    #[default]
    Http,
    /// SOCKS 5 (RFC 1928), with a username and a password (RFC 1929) if it has them.
    Socks5,
}

settings_table! {
    /// `proxy`: an initiator asks there for a connection to its counterparty. The proxy looks the
    /// counterparty's name up; TLS goes through it, to the counterparty.
    #[derive(PartialEq, Eq)]
    pub struct ProxySettings {
        /// `http` (CONNECT) or `socks5`.
        pub kind: ProxyKind,
        /// Where the proxy is, as `host:port`.
        pub address: String,
        /// The user name, if the proxy wants one: 255 bytes at most, and no colon for `http`.
        pub username: Option<String> = None,
        /// The password that belongs to it, 255 bytes at most; as the passwords of `logon` also
        /// `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", "ARGUMENT"] }`.
        pub password: Option<Secret> = None,
    }
}

impl ProxySettings {
    /// A proxy that wants no name.
    #[must_use]
    pub fn new(kind: ProxyKind, address: &str) -> Self {
        Self { kind, address: address.to_owned(), ..Self::default() }
    }

    /// Checks across the keys.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (username, password) = (self.username.as_deref(), self.password.as_ref());
        let texts = [username.unwrap_or_default(), password.map_or("", Secret::reveal)];
        if password.is_some() && username.is_none() {
            return Err("proxy.password belongs to a proxy.username, which is missing".to_owned());
        }
        if texts.iter().any(|text| text.len() > 255) {
            return Err("proxy.username and proxy.password have 255 bytes at most".to_owned());
        }
        // An empty one has no form in RFC 1929.
        if self.kind == ProxyKind::Socks5 && username.is_some() && texts.contains(&"") {
            return Err("proxy: SOCKS 5 knows no empty username or password".to_owned());
        }
        if self.kind == ProxyKind::Http && texts[0].contains(':') {
            return Err("proxy.username must not contain a colon (RFC 7617)".to_owned());
        }
        Ok(())
    }
}
