//! The TLS certificate of the administration, which can be reloaded while the server runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use transfix::AdminSettings;

/// A certificate and its key, read again but not in use yet.
pub struct FreshCertificate {
    chain: Vec<CertificateDer<'static>>,
    acceptor: TlsAcceptor,
}

impl fmt::Debug for FreshCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshCertificate").finish_non_exhaustive()
    }
}

impl FreshCertificate {
    fn read(certificate: &Path, key: &Path) -> Result<Self, String> {
        let wrong = |path: &Path, why: &dyn fmt::Display| format!("{}: {why}", path.display());
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| wrong(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(chain.clone(), secret)
            .map_err(|error| wrong(certificate, &error))?;
        Ok(Self { chain, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }
}

/// The certificate in use, and the paths of its files.
pub(crate) struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    now: RwLock<FreshCertificate>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.certificate.display())
    }
}

impl Certificate {
    /// Reads the certificate that the settings name. Returns `None` if the settings name no
    /// certificate.
    ///
    /// # Errors
    /// Returns the error of the files.
    pub(crate) fn of(settings: &AdminSettings) -> Result<Option<Self>, String> {
        let (certificate, key) = (settings.certificate.clone(), settings.key.clone());
        match (certificate.as_os_str().is_empty(), key.as_os_str().is_empty()) {
            (true, true) => return Ok(None),
            (false, false) => {}
            _ => {
                return Err(
                    "certificate and key must be set together; one of them is missing".to_owned()
                );
            }
        }
        let now = RwLock::new(FreshCertificate::read(&certificate, &key)?);
        Ok(Some(Self { certificate, key, now }))
    }

    /// Reads the files again. Returns `None` if the certificate in use is unchanged.
    ///
    /// # Errors
    /// Returns the error of the files.
    pub(crate) fn read_again(&self) -> Result<Option<FreshCertificate>, String> {
        let fresh = FreshCertificate::read(&self.certificate, &self.key)?;
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Some(fresh).filter(|fresh| fresh.chain != now.chain))
    }

    /// Uses this certificate for all later connections.
    pub(crate) fn show(&self, fresh: FreshCertificate) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.now.read().unwrap_or_else(PoisonError::into_inner).acceptor.clone()
    }
}
