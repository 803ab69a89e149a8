//! A certificate authority for tests, and the certificates that the authority signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

/// Signs certificates and writes their files to its directory.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// Path of the authority's own certificate.
    pub ca: PathBuf,
}

/// A certificate and its private key, as files in PEM.
#[derive(Clone, Debug)]
pub struct Signed {
    /// Path of the certificate.
    pub certificate: PathBuf,
    /// Path of the private key.
    pub key: PathBuf,
    serial: u64,
}

impl Signed {
    /// Returns a copy of this authority that uses the given certificate and key files.
    #[must_use]
    pub fn with(&self, certificate: &Path, key: &Path) -> Self {
        Self { certificate: certificate.to_owned(), key: key.to_owned(), ..*self }
    }
}

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Valid {
    /// Valid now.
    Now,
    /// Expired.
    Before,
    /// Not yet valid.
    Later,
    /// Valid from a past date until this second of Unix time.
    Until(u64),
}

impl Authority {
    /// Creates an authority with the given `name` in `dir`.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[must_use]
    pub fn new(dir: &Path, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("an authority");
        let ca = dir.join(format!("{name}.pem"));
        fs::write(&ca, certificate.pem()).expect("a file");
        Self { dir: dir.to_owned(), issuer: Issuer::new(params, key), ca }
    }

    /// Signs a certificate for the host names `names`. The first name is the subject.
    ///
    /// # Panics
    /// If a file cannot be written.
    #[must_use]
    pub fn sign(&self, names: &[&str], serial: u64, valid: Valid) -> Signed {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let file = names.first().expect("a name").replace(['*', ':', '/'], "_");
        let mut params = CertificateParams::new(names.clone()).expect("names");
        params.distinguished_name.push(DnType::CommonName, names[0].clone());
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let year = |year| date_time_ymd(year, 1, 1);
        (params.not_before, params.not_after) = match valid {
            Valid::Now => (year(2020), year(4000)),
            Valid::Before => (year(2020), year(2021)),
            Valid::Later => (year(3999), year(4000)),
            Valid::Until(end_s) => (year(2020), year(1970) + Duration::from_secs(end_s)),
        };
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        let path = |end: &str| self.dir.join(format!("{file}-{serial}.{end}"));
        let (certificate, key_file) = (path("pem"), path("key"));
        fs::write(&certificate, signed.pem()).expect("a file");
        fs::write(&key_file, key.serialize_pem()).expect("a file");
        Signed { certificate, key: key_file, serial }
    }

    /// Returns the authority's own certificate and key, which is not a host certificate.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn itself(&self) -> Signed {
        let key = self.ca.with_extension("key");
        fs::write(&key, self.issuer.key().serialize_pem()).expect("a file");
        Signed { certificate: self.ca.clone(), key, serial: 0 }
    }

    /// Writes a list of revoked certificates and returns its path.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn revoke(&self, revoked: &[&Signed]) -> PathBuf {
        let one = |signed: &&Signed| RevokedCertParams {
            serial_number: SerialNumber::from(signed.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(one).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list");
        let path = self.dir.join("revoked.crl");
        fs::write(&path, list.pem().expect("PEM")).expect("a file");
        path
    }
}
