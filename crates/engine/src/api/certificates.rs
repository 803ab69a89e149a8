//! The engine's own certificates, as a program can read them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::drive::certificates::{OwnCertificates, days_left};
use crate::drive::registry::Registry;
use crate::engine::Engine;

/// The certificates that an engine shows to its counterparties. A clone is the same.
#[derive(Clone)]
pub struct Certificates(Arc<OwnCertificates>);

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all()).finish()
    }
}

/// A certificate of our own, as it was read last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateStatus {
    /// Its file.
    pub file: PathBuf,
    /// The owners of it: addresses of acceptors, and sessions of initiators.
    pub shown_by: Vec<String>,
    /// Its owner, such as `C=DE, O=Bank, CN=fix.bank.example`.
    pub subject: String,
    /// SHA-256 of the whole certificate, in lower-case hexadecimal digits.
    pub sha256: String,
    /// The last second at which it is valid, in Unix time.
    pub not_after_s: i64,
    /// Whole days until then; negative once it has ended.
    pub days_left: i64,
    /// Why a file that has changed is of no use, so that what was read before is shown on.
    pub refused: Option<String>,
}

impl Certificates {
    pub(crate) fn of(registry: &Registry) -> Self {
        Self(Arc::clone(&registry.certificates))
    }

    /// All of them, those that end first at the beginning. Waits for no file and for no session.
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
                // An initiator with several destinations is named once.
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
    /// The certificates that it shows to its counterparties, for a program that watches over their
    /// ends; it may outlive the engine.
    ///
    /// The log tells of those that end within 30, 7 and 1 days, and of those that have ended. It
    /// does so at the start, before a connection, and by a look once an hour.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::of(self.registry())
    }
}
