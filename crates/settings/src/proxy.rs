//! The table `proxy`: an initiator connects through a proxy.

use serde::Deserialize;
use transfix_session::{Secret, settings_table};

/// The protocol by which an initiator asks its proxy for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyKind {
    /// HTTP CONNECT (RFC 9110, section 9.3.6), with Basic authentication (RFC 7617) if a username
    /// is set.
    #[default]
    Http,
    /// SOCKS 5 (RFC 1928), with username and password (RFC 1929) if they are set.
    Socks5,
}

settings_table! {
    /// `proxy`: an initiator connects to its counterparty through this proxy. The proxy resolves
    /// the counterparty's host name. TLS runs from end to end, through the proxy.
    #[derive(PartialEq, Eq)]
    pub struct ProxySettings {
        /// Protocol of the proxy: `http` (CONNECT) or `socks5`.
        pub kind: ProxyKind,
        /// Address of the proxy, as `host:port`.
        pub address: String,
        /// User name, if the proxy requires one: at most 255 bytes, and no colon for `http`.
        pub username: Option<String> = None,
        /// Password of `username`, at most 255 bytes. As for passwords of `logon`, also `{ env =
        /// "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", "ARGUMENT"] }`.
        pub password: Option<Secret> = None,
    }
}

impl ProxySettings {
    /// Returns settings for a proxy without authentication.
    #[must_use]
    pub fn new(kind: ProxyKind, address: &str) -> Self {
        Self { kind, address: address.to_owned(), ..Self::default() }
    }

    /// Checks keys that depend on each other.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (username, password) = (self.username.as_deref(), self.password.as_ref());
        let texts = [username.unwrap_or_default(), password.map_or("", Secret::reveal)];
        if password.is_some() && username.is_none() {
            return Err("proxy.password requires proxy.username, which is missing".to_owned());
        }
        if texts.iter().any(|text| text.len() > 255) {
            return Err(
                "proxy.username and proxy.password may have at most 255 bytes each".to_owned()
            );
        }
        // RFC 1929 does not allow an empty user name or password.
        if self.kind == ProxyKind::Socks5 && username.is_some() && texts.contains(&"") {
            return Err("proxy: SOCKS 5 allows no empty username or password".to_owned());
        }
        if self.kind == ProxyKind::Http && texts[0].contains(':') {
            return Err("proxy.username must not contain a colon (RFC 7617)".to_owned());
        }
        Ok(())
    }
}
