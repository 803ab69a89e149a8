//! The status of the certificates that the engine itself presents.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::drive::certificates::{OwnCertificates, days_left};
use crate::drive::registry::Registry;
use crate::engine::Engine;

/// The certificates that an engine presents to its counterparties. Clones share one state.
#[derive(Clone)]
pub struct Certificates(Arc<OwnCertificates>);

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// The status of one certificate of the engine, as of the last reading of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateStatus {
    /// The path of the certificate's file.
    pub file: PathBuf,
    /// The users of the certificate: addresses of acceptors, and sessions of initiators.
    pub shown_by: Vec<String>,
    /// The subject, such as `C=DE, O=Bank, CN=fix.bank.example`.
    pub subject: String,
    /// SHA-256 of the whole certificate, in lower-case hexadecimal digits.
    pub sha256: String,
    /// The last second at which the certificate is valid, in Unix time.
    pub not_after_s: i64,
    /// Whole days until `not_after_s`; negative after it.
    pub days_left: i64,
    /// The reason why a changed file was refused; the engine then continues to present the previous
    /// certificate.
    pub refused: Option<String>,
}

impl Certificates {
    pub(crate) fn of(registry: &Registry) -> Self {
        Self(Arc::clone(&registry.certificates))
    }

    /// Returns all certificates, sorted by their expiry, without waiting for a file or a session.
    #[must_use]
    pub fn all(&self) -> Vec<CertificateStatus> {
        let now_s = self.0.now_s();
        let mut found: BTreeMap<(i64, PathBuf, String), CertificateStatus> = BTreeMap::new();
        for place in self.0.all() {
            let (shown, refused) = place.shown();
            for one in &*shown {
                let key = (one.not_after_s, one.file.clone(), one.sha256.clone());
                let status = found.entry(key).or_insert_with(|| CertificateStatus {
                    file: one.file.clone(),
                    shown_by: Vec::new(),
                    subject: one.subject.clone(),
                    sha256: one.sha256.clone(),
                    not_after_s: one.not_after_s,
                    days_left: days_left(one.not_after_s, now_s),
                    refused: None,
                });
                // Names an initiator with several destinations only once.
                if status.shown_by.last().is_none_or(|whose| whose != place.whose()) {
                    status.shown_by.push(place.whose().to_owned());
                }
                status.refused = status.refused.take().or_else(|| refused.clone());
            }
        }
        found.into_values().collect()
    }
}

impl Engine {
    /// Returns the certificates that the engine presents to its counterparties, for a program that
    /// monitors their ends. The value may outlive the engine.
    ///
    /// The log warns 30, 7 and 1 days before a certificate expires, and after it has expired. The
    /// engine checks the certificates at the start, before a connection, and once an hour.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::of(self.registry())
    }
}
