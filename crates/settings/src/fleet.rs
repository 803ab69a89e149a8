//! The section `[fleet]`: several gateways have the same sessions, in a stream of NATS JetStream.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use transfix_session::{Secret, settings_table};

settings_table! {
    /// `[fleet]`: this process is one of several gateways with the same sessions. The sessions are
    /// in a stream of NATS JetStream, and outlive any of the gateways. The crate `transfix-stores`
    /// provides fleets; the library alone does not.
    #[derive(Serialize, PartialEq, Eq)]
    pub struct FleetSettings {
        /// Name of this gateway, different from the names of all other gateways.
        pub gateway: String,
        /// Addresses of the NATS servers, each as `host:port`.
        pub brokers: Vec<String>,
        /// Name of the stream with the sessions of the fleet. The first gateway creates a missing
        /// stream. A session has one subject of the stream.
        pub stream: String = "FIX".into(),
        /// Number of NATS servers that have a copy of the stream. With 3, the loss of one server
        /// loses nothing. 1 is only for tests.
        #[least(1)]
        #[most(5)]
        pub replicas: u32 = 3,
        /// Time in which a gateway must answer another gateway that wants a session of it. A
        /// gateway that does not answer loses the session.
        #[least(1)]
        #[millis("answer_ms")]
        pub answer: Duration = 1_000,
        /// User name, if the servers require one.
        pub user: Option<String> = None,
        /// Password of `user`. As for passwords of `logon`, also `{ env = "NAME" }`, `{ file =
        /// "PATH" }` or `{ command = ["PROGRAM", "ARGUMENT"] }`.
        #[serde(skip_serializing)]
        pub password: Option<Secret> = None,
        /// File with a JWT and a seed (`.creds`), if the servers require them.
        pub credentials: PathBuf = PathBuf::new(),
        /// File with the seed of an NKEY, which begins with `SU`, if the servers require one.
        pub nkey: PathBuf = PathBuf::new(),
        /// If true, connections to the servers use TLS. `ca` and `certificate` imply this.
        pub tls: bool = false,
        /// File of trusted authorities in PEM. Empty = the authorities of the system.
        pub ca: PathBuf = PathBuf::new(),
        /// File of the certificate that this gateway presents to the servers, in PEM. Needs `key`.
        pub certificate: PathBuf = PathBuf::new(),
        /// File of the private key of `certificate`, in PEM.
        pub key: PathBuf = PathBuf::new(),
    }
}

impl FleetSettings {
    /// Returns an error with the invalid key, if there is one.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_ranges().map_err(|wrong| (wrong.key, format!("[fleet]: {wrong}")))?;
        let wrong = |key, why: &str| Err((key, format!("[fleet]: {why}")));
        if !is_name(&self.gateway) {
            return wrong("gateway", "gateway must have letters, digits, `-` and `_` only");
        }
        if !is_name(&self.stream) {
            return wrong("stream", "stream must have letters, digits, `-` and `_` only");
        }
        if self.brokers.is_empty() {
            return wrong("brokers", "brokers must name at least one server, as host:port");
        }
        if self.replicas.is_multiple_of(2) {
            return wrong("replicas", "replicas must be 1, 3 or 5, because a majority decides");
        }
        let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
        if is_set(&self.certificate) != is_set(&self.key) {
            return wrong("certificate", "certificate and key need each other");
        }
        if self.password.is_some() && self.user.is_none() {
            return wrong("password", "password needs user");
        }
        let logins = [self.user.is_some(), is_set(&self.credentials), is_set(&self.nkey)];
        if logins.iter().filter(|login| **login).count() > 1 {
            return wrong("user", "user, credentials and nkey exclude each other");
        }
        Ok(())
    }
}

/// Returns true if the text can be a part of a subject of NATS.
fn is_name(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !text.is_empty() && text.bytes().all(is_allowed)
}
