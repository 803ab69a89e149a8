//! The access of a gateway to the brokers: its login, and TLS.
//!
//! Every file is checked before the first connection, because the client names no file in its
//! errors. The client reads the files of TLS again for each connection.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io, iter};

use async_nats::rustls::{self, AlertDescription, CertificateError, InvalidMessage};
use nkeys::{KeyPair, KeyPairType};
use transfix::{FleetSettings, StoreError};
use transfix_transport::tls::{Client, ClientOptions, TlsFiles};

use super::wrong;
use crate::jetstream::{ConnectOptions, JetStream};

/// Connects to the brokers and the stream of these settings. Each broker has 5 s to answer.
pub(super) fn connect(settings: &FleetSettings) -> Result<JetStream, StoreError> {
    open(settings, JetStream::connect)
}

/// As [`connect`], and creates a missing stream.
pub(super) fn create(settings: &FleetSettings) -> Result<JetStream, StoreError> {
    open(settings, JetStream::create)
}

fn open(
    settings: &FleetSettings,
    open: fn(&str, &str, ConnectOptions, usize) -> Result<JetStream, StoreError>,
) -> Result<JetStream, StoreError> {
    let brokers = settings.brokers.join(",");
    let options = options(settings)?;
    let opened = open(&brokers, &settings.stream, options, settings.replicas as usize);
    opened.map_err(|error| {
        let why = of_tls(&error).map_or_else(|| error.to_string(), str::to_owned);
        wrong(format!("brokers {brokers}{}: {why}", shown(settings)))
    })
}

/// Returns the words for a common error of TLS.
fn of_tls(error: &StoreError) -> Option<&'static str> {
    let mut causes = iter::successors(error.source(), |cause| (**cause).source());
    let of_tls = causes.find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
        inner.downcast_ref::<rustls::Error>()
    })?;
    match of_tls {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            Some("no trusted authority has signed the certificate of the broker")
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            Some("the broker requires a certificate; set certificate and key")
        }
        rustls::Error::AlertReceived(AlertDescription::UnknownCA) => {
            Some("the broker does not trust the authority of the certificate")
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some("the broker does not use TLS")
        }
        _ => None,
    }
}

/// Returns the login and the files of these settings for an error; empty if there are none.
fn shown(settings: &FleetSettings) -> String {
    let FleetSettings { user, credentials, nkey, ca, certificate, .. } = settings;
    let mut shown = user.as_ref().map_or_else(String::new, |user| format!(", user {user}"));
    let files =
        [("credentials", credentials), ("nkey", nkey), ("ca", ca), ("certificate", certificate)];
    for (key, file) in files.into_iter().filter(|(_, file)| is_set(file)) {
        // Writing to a `String` cannot fail.
        let _ = write!(shown, ", {key} {}", file.display());
    }
    shown
}

fn options(settings: &FleetSettings) -> Result<ConnectOptions, StoreError> {
    let mut options = ConnectOptions::new();
    if let Some(user) = &settings.user {
        let password = settings.password.as_ref().map_or("", |password| password.reveal());
        options = options.user_and_password(user.clone(), password.to_owned());
    }
    if is_set(&settings.credentials) {
        // The client requires an end of the last line.
        let credentials = read(&settings.credentials)? + "\n";
        options = options.credentials(&credentials).map_err(|error| {
            unfit(&settings.credentials, &format!("not a file of credentials: {error}"))
        })?;
    }
    if is_set(&settings.nkey) {
        options = options.nkey(seed(&settings.nkey)?);
    }
    let (has_ca, has_certificate) = (is_set(&settings.ca), is_set(&settings.certificate));
    check_tls(settings)?;
    if has_ca {
        options = options.add_root_certificates(settings.ca.clone());
    }
    if has_certificate {
        let (certificate, key) = (settings.certificate.clone(), settings.key.clone());
        options = options.add_client_certificate(certificate, key);
    }
    Ok(options.require_tls(settings.tls || has_ca || has_certificate))
}

/// Reads the seed of a user.
fn seed(file: &Path) -> Result<String, StoreError> {
    let seed = read(file)?.trim().to_owned();
    match KeyPair::from_seed(&seed) {
        Ok(pair) if pair.key_pair_type() == KeyPairType::User => Ok(seed),
        Ok(_) => Err(unfit(file, "the seed is not one of a user; it must begin with SU")),
        Err(error) => Err(unfit(file, &format!("not the seed of an NKEY: {error}"))),
    }
}

/// Reads the files of TLS as the client does.
fn check_tls(settings: &FleetSettings) -> Result<(), StoreError> {
    let FleetSettings { ca, certificate, key, .. } = settings;
    let mut files = TlsFiles::default();
    if is_set(ca) {
        files.ca.push(ca.clone());
    }
    if is_set(certificate) {
        files.certificates.push((certificate.clone(), key.clone()));
    }
    if files == TlsFiles::default() {
        return Ok(());
    }
    // The files do not depend on the name of a broker.
    let options =
        ClientOptions { files, server_name: "localhost".to_owned(), ..ClientOptions::default() };
    Client::new(options).map(|_| ()).map_err(|error| wrong(format!("[fleet]: {error}")))
}

fn is_set(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

fn read(file: &Path) -> Result<String, StoreError> {
    fs::read_to_string(file).map_err(|error| unfit(file, &error.to_string()))
}

fn unfit(file: &Path, why: &str) -> StoreError {
    wrong(format!("[fleet]: {}: {why}", file.display()))
}
