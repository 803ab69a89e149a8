//! The table `tls`: whether and how a connection is encrypted, and who may be at its other end.

use std::path::PathBuf;

use serde::Deserialize;
use transfix_session::{Role, settings_table};

use crate::entries::all_of;

/// An acceptor's demand for a certificate of its counterparties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificate {
    /// It does not.
    Ignored,
    /// A certificate that is shown must be trusted.
    Optional,
    /// Without one that is trusted there is no connection.
    Required,
}

/// The oldest version of TLS that is spoken.
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
    /// `tls`: the session's connections are encrypted by TLS. All files are in PEM, and are read
    /// again before a connection once they have changed.
    #[derive(PartialEq, Eq)]
    pub struct TlsSettings {
        /// If true, the table counts. `false` in a session undoes what `[defaults]` say.
        pub enabled: bool = true,
        /// Our certificate, and those between it and the authority. An acceptor needs one; an
        /// initiator shows it if the counterparty asks who it is.
        pub certificate: Option<PathBuf> = None,
        /// The private key of `certificate`, without a password.
        pub key: Option<PathBuf> = None,
        /// Further certificates of an acceptor that has several host names, such as `[{ certificate
        /// = "b.pem", key = "b.key" }]`. The counterparty gets the one for the name it asks for
        /// (SNI), and `certificate` if none is.
        pub more_certificates: Vec<CertificateFiles> = Vec::new(),
        /// Certificates of the authorities that are trusted. An initiator without any trusts those
        /// of its system; an acceptor needs one to ask for certificates.
        pub ca: Vec<PathBuf> = Vec::new(),
        /// Lists of revoked certificates. With one of them there must be a current list of each
        /// authority in the counterparty's chain.
        pub crl: Vec<PathBuf> = Vec::new(),
        /// An acceptor's demand for a certificate of its counterparties: `ignored` (none),
        /// `optional` (a certificate that is shown must be trusted) or `required`.
        pub client_certificate: ClientCertificate = ClientCertificate::Ignored,
        /// Which certificates the counterparty of this session may show: names, such as
        /// `"fix.bank.example"`, or fingerprints, such as `"sha256:6e…"` (of the whole certificate,
        /// as `openssl x509 -fingerprint -sha256` prints it). Empty for any that is trusted: an
        /// acceptor takes the certificate of any of its counterparties for any session then.
        pub peer: Vec<String> = Vec::new(),
        /// The name that an initiator asks for and that the acceptor's certificate must be for.
        /// Empty for the host of `address`.
        pub server_name: String = String::new(),
        /// If true, the acceptor's certificate must be for that name. `false` lets anybody who has
        /// any certificate of a trusted authority pose as the counterparty.
        pub check_name: bool = true,
        /// The oldest version of TLS that is spoken: `"1.2"` or `"1.3"`.
        pub min_version: TlsVersion = TlsVersion::Tls12,
    }
}

impl TlsSettings {
    /// Returns true if an acceptor's listener is the same with these settings: sessions at one
    /// address share it.
    #[must_use]
    pub fn is_same_door(&self, other: &Self) -> bool {
        Self { peer: Vec::new(), ..self.clone() } == Self { peer: Vec::new(), ..other.clone() }
    }

    /// Checks across the keys.
    pub(crate) fn check(&self, role: Role) -> Result<(), String> {
        if !self.enabled {
            return Ok(());
        }
        if !cfg!(feature = "tls") {
            return Err(
                "tls needs the cargo feature `tls` of the package transfix; build with it, \
                 or leave the table out"
                    .to_owned(),
            );
        }
        if self.certificate.is_some() != self.key.is_some() {
            let why = "tls.certificate and tls.key belong together: one of them is missing";
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
            format!("tls.peer: `{peer}` is neither a name nor `sha256:` with 64 hexadecimal digits")
        }))
    }

    fn wrong_of_acceptor(&self) -> Option<&'static str> {
        if self.certificate.is_none() {
            return Some("certificate and tls.key are missing: an acceptor needs them");
        }
        if !self.server_name.is_empty() || !self.check_name {
            return Some(
                "server_name and tls.check_name are about the certificate of an acceptor: an \
                 initiator has them",
            );
        }
        match self.client_certificate {
            ClientCertificate::Ignored
                if [self.peer.len(), self.crl.len(), self.ca.len()] != [0; 3] =>
            {
                Some(
                    "ca, tls.crl and tls.peer are about the certificates of counterparties, which \
                     are not asked for: set tls.client_certificate to \"required\"",
                )
            }
            ClientCertificate::Ignored => None,
            _ if self.ca.is_empty() => Some(
                "ca is missing: it says whose signature on the certificate of a counterparty is \
                 trusted",
            ),
            ClientCertificate::Optional if !self.peer.is_empty() => Some(
                "peer says who the counterparty must be: set tls.client_certificate to \
                 \"required\"",
            ),
            _ => None,
        }
    }

    fn wrong_of_initiator(&self) -> Option<&'static str> {
        if self.client_certificate != ClientCertificate::Ignored {
            return Some(
                "client_certificate is what an acceptor asks for; an initiator shows its \
                 tls.certificate",
            );
        }
        let has_more = !self.more_certificates.is_empty();
        has_more.then_some("more_certificates are those of an acceptor")
    }
}

/// Returns true if it is a name, or the digits of a fingerprint.
fn may_be_certificate(peer: &str) -> bool {
    match peer.strip_prefix("sha256:") {
        Some(digits) => {
            let digits = digits.replace(':', "");
            digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        }
        None => !peer.is_empty(),
    }
}
