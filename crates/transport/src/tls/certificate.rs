//! The fields of a certificate, such as its owner.

use std::fmt;

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The fields read from a certificate (RFC 5280).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Certificate {
    /// The owner of the certificate, such as `C=DE, O=Bank, CN=fix.bank.example`.
    pub subject: String,
    /// The authority that signed the certificate.
    pub issuer: String,
    /// The names for which the certificate is valid: the DNS names, addresses, e-mail addresses and
    /// URIs of its extension SubjectAltName, and the owner's common name (CN).
    pub names: Vec<String>,
    /// SHA-256 of the whole certificate, as lower-case hexadecimal digits.
    pub sha256: String,
    /// The first second at which the certificate is valid, in Unix time.
    pub not_before_s: i64,
    /// The last second at which the certificate is valid, in Unix time.
    pub not_after_s: i64,
    /// True if this is the certificate of an authority: its basic constraints contain CA:TRUE.
    pub is_authority: bool,
}

impl Certificate {
    /// Parses a certificate in DER. Returns `None` if `der` is not a certificate.
    #[must_use]
    pub fn parse(der: &[u8]) -> Option<Self> {
        let (_, found) = X509Certificate::from_der(der).ok()?;
        let mut names = Vec::new();
        if let Ok(Some(extension)) = found.subject_alternative_name() {
            names.extend(extension.value.general_names.iter().filter_map(name));
        }
        for common in found.subject().iter_common_name() {
            names.extend(common.as_str().ok().map(str::to_owned));
        }
        names.dedup();
        Some(Self {
            subject: found.subject().to_string(),
            issuer: found.issuer().to_string(),
            names,
            sha256: sha256(der),
            not_before_s: found.validity().not_before.timestamp(),
            not_after_s: found.validity().not_after.timestamp(),
            is_authority: found.is_ca(),
        })
    }

    pub(super) fn of(der: &CertificateDer<'_>) -> Option<Self> {
        Self::parse(der)
    }

    /// Returns true if `wanted` denotes this certificate. It may be one of the certificate's names,
    /// ignoring case, or `sha256:` followed by the fingerprint, with or without colons.
    #[must_use]
    pub fn is(&self, wanted: &str) -> bool {
        match wanted.strip_prefix("sha256:") {
            Some(digits) => digits
                .bytes()
                .filter(|digit| *digit != b':')
                .map(|digit| digit.to_ascii_lowercase())
                .eq(self.sha256.bytes()),
            None => self.names.iter().any(|name| name.eq_ignore_ascii_case(wanted)),
        }
    }
}

impl fmt::Display for Certificate {
    /// Writes the owner and the fingerprint, which together identify the certificate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (sha256:{})", self.subject, self.sha256)
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some((*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let four: Option<[u8; 4]> = bytes.try_into().ok();
    let sixteen: Option<[u8; 16]> = bytes.try_into().ok();
    four.map(|four| std::net::Ipv4Addr::from(four).to_string())
        .or_else(|| sixteen.map(|sixteen| std::net::Ipv6Addr::from(sixteen).to_string()))
}

fn sha256(bytes: &[u8]) -> String {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let suite = provider.cipher_suites.iter().find_map(|suite| {
        let hash = suite.tls13()?.common.hash_provider;
        (hash.algorithm() == rustls::crypto::hash::HashAlgorithm::SHA256).then_some(hash)
    });
    let Some(hash) = suite else { return String::new() };
    hash.hash(bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
