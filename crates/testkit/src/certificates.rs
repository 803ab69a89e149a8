//! A certificate authority for tests, and the certificates that the authority signs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SerialNumber, date_time_ymd,
};

/// A certificate authority that writes its files into a directory.
pub struct Authority {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// The path of the authority's own certificate, which clients and servers trust.
    pub ca: PathBuf,
}

/// A certificate and its private key, as PEM files.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The path of the certificate's PEM file.
    pub certificate: PathBuf,
    /// The path of the private key's PEM file.
    pub key: PathBuf,
    serial: u64,
}

impl Signed {
    /// Returns a copy of `self` that refers to these files instead.
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
    /// The validity period begins in the future.
    Later,
    /// The certificate is valid from a past time until this second of Unix time.
    Until(u64),
}

impl Authority {
    /// Creates a new authority with this name, which writes its files to `dir`.
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

    /// Signs a certificate for these host names. The first name is also the subject's name.
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

    /// Returns the authority's own certificate and key. This certificate is not valid as a host
    /// certificate.
    ///
    /// # Panics
    /// If the file cannot be written.
    #[must_use]
    pub fn itself(&self) -> Signed {
        let key = self.ca.with_extension("key");
        fs::write(&key, self.issuer.key().serialize_pem()).expect("a file");
        Signed { certificate: self.ca.clone(), key, serial: 0 }
    }

    /// Writes a certificate revocation list that contains these certificates. Returns its path.
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
