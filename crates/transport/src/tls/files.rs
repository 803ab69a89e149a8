//! Certificates, keys and lists, from files in PEM (RFC 7468).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::explain::TlsError;

static ONLY_TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The oldest version of TLS that is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246): the oldest that is not broken.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446) alone.
    Tls13,
}

impl MinVersion {
    pub(super) const fn allowed(self) -> &'static [&'static rustls::SupportedProtocolVersion] {
        match self {
            Self::Tls12 => rustls::ALL_VERSIONS,
            Self::Tls13 => ONLY_TLS13,
        }
    }
}

/// The files of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chains, the owner's first, each with the file of its private key.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// Certificates of those whose signature is trusted.
    pub ca: Vec<PathBuf>,
    /// Lists of revoked certificates.
    pub crl: Vec<PathBuf>,
}

/// Of a file that is there: when it was changed last, its length, which one it is, and when the
/// file system noted that.
pub(super) type Stamp = Option<(SystemTime, u64, u64, (i64, i64))>;

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let own = self.certificates.iter().flat_map(|(certificate, key)| [certificate, key]);
        own.chain(&self.ca).chain(&self.crl)
    }

    /// Equal as long as nobody has written one, or put another one in its place.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            // A copy may keep the time of its original, and not what the file system notes.
            let changed = (found.ctime(), found.ctime_nsec());
            Some((found.modified().ok()?, found.len(), found.ino(), changed))
        };
        self.all().map(stamp).collect()
    }

    pub(super) fn keys(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Vec<Arc<CertifiedKey>>, TlsError> {
        let key = |(certificate, key): &(PathBuf, PathBuf)| {
            let chain = certificates(certificate)?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
            CertifiedKey::from_der(chain, secret, provider).map(Arc::new).map_err(|error| {
                let (key, certificate) = (key.display(), certificate.display());
                let why = match error {
                    rustls::Error::InconsistentKeys(_) => "they do not belong together".to_owned(),
                    other => other.to_string(),
                };
                TlsError(format!("{certificate} and its key {key}: {why}"))
            })
        };
        self.certificates.iter().map(key).collect()
    }

    pub(super) fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for path in &self.ca {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
            }
        }
        Ok(roots)
    }

    pub(super) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        let mut lists = Vec::new();
        for path in &self.crl {
            let found = CertificateRevocationListDer::pem_file_iter(path);
            let before = lists.len();
            for list in found.map_err(|error| wrong(path, &error))? {
                lists.push(list.map_err(|error| wrong(path, &error))?);
            }
            if lists.len() == before {
                return Err(TlsError(format!("{}: no revocation list in it", path.display())));
            }
        }
        Ok(lists)
    }
}

/// Those whom the operating system trusts.
pub(super) fn roots_of_the_system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(TlsError(format!(
            "the system has no certificates of those it trusts{why}; name a file with tls.ca"
        )));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| wrong(path, &error))?;
    if found.is_empty() {
        return Err(TlsError(format!("{}: no certificate in it (PEM)", path.display())));
    }
    Ok(found)
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError(format!("{}: {error}", path.display()))
}
