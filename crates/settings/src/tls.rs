//! The table `tls`: encryption of connections, and authentication of the counterparty.

use std::path::PathBuf;

use serde::Deserialize;
use transfix_session::{Role, settings_table};

use crate::entries::all_of;

/// The demand of an acceptor for a certificate of its counterparties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// The acceptor requests no certificate.
    Ignored,
    /// The acceptor requests a certificate, but the counterparty need not present one. A presented
    /// certificate must be trusted.
    Optional,
    /// The counterparty must present a trusted certificate.
    Required,
}

/// The oldest version of TLS that a session accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "1.3")]
    Tls13,
}

/// A certificate chain and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// The chain in PEM, the owner's certificate first.
    pub certificate: PathBuf,
    /// The private key in PEM (PKCS#8, PKCS#1 or SEC1), without a password.
    pub key: PathBuf,
}

settings_table! {
    /// `tls`: TLS encryption of the session's connections. All files are in PEM. A changed file is
    /// read again before the next connection.
    #[derive(PartialEq, Eq)]
    pub struct TlsSettings {
        /// If true, connections use TLS. `false` in a session disables the `tls` table of
        /// `[defaults]`.
        pub enabled: bool = true,
        /// File of the own certificate and its intermediate certificates. Required for an acceptor.
        /// An initiator presents the certificate if the counterparty requests one.
        pub certificate: Option<PathBuf> = None,
        /// File of the private key of `certificate`, without a password.
        pub key: Option<PathBuf> = None,
        /// Further certificates of an acceptor with several host names, such as `[{ certificate =
        /// "b.pem", key = "b.key" }]`. The acceptor presents the certificate for the requested name
        /// (SNI), or else `certificate`.
        pub more_certificates: Vec<CertificateFiles> = Vec::new(),
        /// Files of trusted certificates of authorities. An initiator without them trusts the
        /// authorities of its system. An acceptor needs at least one to verify certificates of
        /// counterparties.
        pub ca: Vec<PathBuf> = Vec::new(),
        /// Files of certificate revocation lists. If one list is set, each authority in the
        /// counterparty's chain needs a current list.
        pub crl: Vec<PathBuf> = Vec::new(),
        /// An acceptor's demand for a certificate of its counterparties: `ignored` (none
        /// requested), `optional` (a presented certificate must be trusted) or `required`.
        pub client_certificate: ClientCertificate = ClientCertificate::Ignored,
        /// Certificates that the counterparty of this session may present, by name or fingerprint.
        /// Examples are `"fix.bank.example"` and `"sha256:6e…"` (of the whole certificate, as
        /// printed by `openssl x509 -fingerprint -sha256`). Empty = any trusted certificate.
        /// Danger: an acceptor then accepts the certificate of any of its counterparties for any
        /// session.
        pub peer: Vec<String> = Vec::new(),
        /// Host name that an initiator requests (SNI) and that the acceptor's certificate must
        /// match. Empty = the host of `address`.
        pub server_name: String = String::new(),
        /// If true, the acceptor's certificate must match `server_name`. Danger: with `false`,
        /// every holder of a certificate of a trusted authority can impersonate the counterparty.
        pub check_name: bool = true,
        /// Oldest TLS version that is accepted: `"1.2"` or `"1.3"`.
        pub min_version: TlsVersion = TlsVersion::Tls12,
    }
}

impl TlsSettings {
    /// Returns true if both settings can be served by one listener, because sessions at one address
    /// share a listener.
    #[must_use]
    pub fn is_same_listener(&self, other: &Self) -> bool {
        Self { peer: Vec::new(), ..self.clone() } == Self { peer: Vec::new(), ..other.clone() }
    }

    /// Checks keys that depend on each other.
    pub(crate) fn check(&self, role: Role) -> Result<(), String> {
        if !self.enabled {
            return Ok(());
        }
        if !cfg!(feature = "tls") {
            return Err(
                "tls requires the cargo feature `tls` of the package transfix; build with this \
                 feature, or remove the table"
                    .to_owned(),
            );
        }
        if self.certificate.is_some() != self.key.is_some() {
            let why = "tls requires both tls.certificate and tls.key; one of them is missing";
            return Err(why.to_owned());
        }
        let wrong = match role {
            Role::Acceptor => self.wrong_of_acceptor(),
            Role::Initiator => self.wrong_of_initiator(),
        };
        if let Some(why) = wrong {
            return Err(format!("tls.{why}"));
        }
        all_of(self.peer.iter().filter(|peer| !may_be_certificate(peer)).map(|peer| {
            format!(
                "tls.peer: `{peer}` is neither a name nor `sha256:` followed by 64 \
                     hexadecimal digits"
            )
        }))
    }

    fn wrong_of_acceptor(&self) -> Option<&'static str> {
        if self.certificate.is_none() {
            return Some("certificate and tls.key are missing, but an acceptor requires both");
        }
        if !self.server_name.is_empty() || !self.check_name {
            return Some(
                "server_name and tls.check_name are for initiators only, because both concern the \
                 certificate of an acceptor",
            );
        }
        match self.client_certificate {
            ClientCertificate::Ignored
                if [self.peer.len(), self.crl.len(), self.ca.len()] != [0; 3] =>
            {
                Some(
                    "ca, tls.crl and tls.peer have no effect, because counterparties are not \
                     asked for a certificate; set tls.client_certificate to \"required\"",
                )
            }
            ClientCertificate::Ignored => None,
            _ if self.ca.is_empty() => Some(
                "ca is missing; list the authorities that may sign the certificates of \
                 counterparties",
            ),
            ClientCertificate::Optional if !self.peer.is_empty() => Some(
                "peer requires a certificate from each counterparty; set tls.client_certificate \
                 to \"required\"",
            ),
            _ => None,
        }
    }

    fn wrong_of_initiator(&self) -> Option<&'static str> {
        if self.client_certificate != ClientCertificate::Ignored {
            return Some(
                "client_certificate is for acceptors only; an initiator presents its \
                 tls.certificate",
            );
        }
        let has_more = !self.more_certificates.is_empty();
        has_more.then_some("more_certificates is for acceptors only")
    }
}

/// Returns true if the text can be a name in a certificate or a fingerprint.
fn may_be_certificate(peer: &str) -> bool {
    match peer.strip_prefix("sha256:") {
        Some(digits) => {
            let digits = digits.replace(':', "");
            digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        None => !peer.is_empty(),
    }
}
