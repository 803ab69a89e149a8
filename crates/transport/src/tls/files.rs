//! Reads certificates, private keys and revocation lists from files in PEM (RFC 7468).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::explain::{TlsError, refused};

static ONLY_TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// The oldest TLS version that is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246), the oldest version that is still considered secure.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446) only.
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

/// The files with certificates and keys of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Files with the certificate chains of this side, its own certificate first, each with the
    /// file of the private key.
    pub certificates: Vec<(PathBuf, PathBuf)>,
    /// Files with the certificates of trusted authorities.
    pub ca: Vec<PathBuf>,
    /// Files with lists of revoked certificates.
    pub crl: Vec<PathBuf>,
}

/// The state of a file: modification time, length, inode and change time; `None` if the file cannot
/// be examined.
pub(super) type Stamp = Option<(SystemTime, u64, u64, (i64, i64))>;

impl TlsFiles {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        let own = self.certificates.iter().flat_map(|(certificate, key)| [certificate, key]);
        own.chain(&self.ca).chain(&self.crl)
    }

    /// Returns the state of each file, which changes when the file is written or replaced.
    pub(super) fn stamps(&self) -> Vec<Stamp> {
        let stamp = |path: &PathBuf| {
            let found = fs::metadata(path).ok()?;
            // A copied file may have the modification time of its original, but never the same
            // change time.
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
            let secret = PrivateKeyDer::from_pem_file(key);
            let secret = secret.map_err(|error| unread(key, &error, "private key"))?;
            CertifiedKey::from_der(chain, secret, provider).map(Arc::new).map_err(|error| {
                let (key, certificate) = (key.display(), certificate.display());
                let why = match error {
                    rustls::Error::InconsistentKeys(_) => "the certificate and the key do not \
                        belong together"
                        .to_owned(),
                    other => refused(&other).to_string(),
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
                roots.add(certificate).map_err(|error| wrong(path, &refused(&error)))?;
            }
        }
        Ok(roots)
    }

    pub(super) fn revoked(&self) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        let mut lists = Vec::new();
        for path in &self.crl {
            let found = CertificateRevocationListDer::pem_file_iter(path);
            let before = lists.len();
            let what = "revocation list";
            for list in found.map_err(|error| unread(path, &error, what))? {
                lists.push(list.map_err(|error| unread(path, &error, what))?);
            }
            if lists.len() == before {
                return Err(unread(path, &pem::Error::NoItemsFound, what));
            }
        }
        Ok(lists)
    }
}

/// Returns the authorities that the operating system trusts.
pub(super) fn roots_of_the_system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        return Err(TlsError(format!(
            "the system has no certificates of trusted authorities{why}; name a file in tls.ca"
        )));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = "certificate";
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unread(path, &error, what))?;
    let found: Result<Vec<_>, _> = found.collect();
    let found = found.map_err(|error| unread(path, &error, what))?;
    if found.is_empty() {
        return Err(unread(path, &pem::Error::NoItemsFound, what));
    }
    Ok(found)
}

/// Returns the error for a file from which the item `what` cannot be read.
fn unread(path: &Path, error: &pem::Error, what: &str) -> TlsError {
    let why = match error {
        pem::Error::Io(error) => return wrong(path, error),
        pem::Error::NoItemsFound => format!("the file contains no {what} in PEM format"),
        pem::Error::MissingSectionEnd { .. } => {
            format!(
                "the {what} (PEM) has no end line: the file is truncated, or still being \
                     written"
            )
        }
        pem::Error::IllegalSectionStart { .. } => {
            "a line that begins a PEM section is damaged".to_owned()
        }
        other => format!("no {what} (PEM) can be read from the file: {other}"),
    };
    let hint = conversion(path, what).map(|hint| format!("; {hint}")).unwrap_or_default();
    TlsError(format!("{}: {why}{hint}", path.display()))
}

/// Returns a text that names the format of an unreadable file, and the commands that convert the
/// file.
fn conversion(path: &Path, what: &str) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_store = ["p12", "pfx", "jks", "ks", "keystore", "truststore"];
    let shown = path.display();
    let is_key = what == "private key";
    if bytes.starts_with(&JKS) {
        let keytool = format!(
            "keytool -importkeystore -srckeystore {shown} -destkeystore store.p12 -deststoretype \
             PKCS12"
        );
        let then = pkcs12("store.p12", is_key);
        return Some(format!("the file is a Java key store: run `{keytool}`, then {then}"));
    }
    if bytes.first() == Some(&SEQUENCE) {
        // Since version 9, Java writes key stores in PKCS #12 by default, whatever the name of the
        // file.
        if is_store.iter().any(|one| end.eq_ignore_ascii_case(one)) {
            return Some(format!(
                "the file is a PKCS #12 key store: {}",
                pkcs12(&shown.to_string(), is_key)
            ));
        }
        let verb = match what {
            "private key" => "pkey",
            "certificate" => "x509",
            _ => "crl",
        };
        return Some(format!(
            "the file seems to be in DER format: `openssl {verb} -inform DER -in {shown} -out \
             FILE.pem` makes a readable file"
        ));
    }
    let is_locked = is_key && String::from_utf8_lossy(&bytes).contains("ENCRYPTED PRIVATE KEY");
    is_locked.then(|| {
        format!(
            "the key has a password: `openssl pkey -in {shown} -out FILE.key` asks for the \
             password and makes a key file without password"
        )
    })
}

/// The first bytes of a key store in Java's own format, JKS.
const JKS: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];

/// The first byte of data in DER (X.690), which may be a certificate, a key, a revocation list or a
/// PKCS #12 store.
const SEQUENCE: u8 = 0x30;

/// Returns the command that extracts the certificates, or the private key, from a PKCS #12 store.
fn pkcs12(from: &str, is_key: bool) -> String {
    let key = format!("`openssl pkcs12 -in {from} -nocerts -nodes -out FILE.key`");
    if is_key {
        return format!("{key} makes a readable file");
    }
    format!(
        "`openssl pkcs12 -in {from} -nokeys -out FILE.pem` makes a readable certificate file, and \
         {key} makes the key file"
    )
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError(format!("{}: {error}", path.display()))
}
