//! The two sides of TLS: the server, which accepts connections, and the client, which opens them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error,
    ServerConfig, ServerConnection, SignatureScheme,
};

use super::certificate::Certificate;
use super::clock::Clock;
use super::explain::{TlsError, explain, refused, spaced};
use super::files::{MinVersion, Stamp, TlsFiles, roots_of_the_system};
use super::inspect::Inspection;
use super::stream::TlsStream;
use crate::Stream;

/// The policy of a server for client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// The server requests no client certificate.
    #[default]
    Unknown,
    /// A client certificate is optional, but must be trusted if presented.
    MayShow,
    /// A trusted client certificate is required.
    MustShow,
}

/// The options of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// The files of the server. A client that requests an unknown name receives the first
    /// certificate.
    pub files: TlsFiles,
    /// The policy for client certificates.
    pub clients: Clients,
    /// The oldest TLS version that is accepted.
    pub min_version: MinVersion,
}

/// The options of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// The files of the client. Without `ca`, the client trusts the authorities of the operating
    /// system.
    pub files: TlsFiles,
    /// The host name or address that the server's certificate must contain. The client also sends
    /// it to the server (SNI).
    pub server_name: String,
    /// True if the certificate must contain `server_name`.
    pub checks_name: bool,
    /// The accepted server certificates, as names or fingerprints ([`Certificate::is`]). The server
    /// must present one of them. An empty list accepts any trusted certificate.
    pub peers: Vec<String>,
    /// The oldest TLS version that is accepted.
    pub min_version: MinVersion,
}

/// The certificates that a side presents, each with the path of its file.
type Own = Vec<(PathBuf, Certificate)>;

/// The configuration built from the files as last read.
struct Loaded<C> {
    stamps: Vec<Stamp>,
    config: Arc<C>,
    own: Own,
}

impl<C> Loaded<C> {
    /// Reads the files again if one of them has changed. If they are unusable, the old
    /// configuration remains in use, and the error is returned once for each change.
    fn renew(
        &mut self,
        files: &TlsFiles,
        read: impl FnOnce() -> Result<(C, Own), TlsError>,
    ) -> Option<Result<(), TlsError>> {
        let stamps = files.stamps();
        if stamps == self.stamps {
            return None;
        }
        self.stamps = stamps;
        Some(read().map(|(config, own)| (self.config, self.own) = (Arc::new(config), own)))
    }
}

fn lock<C>(loaded: &Mutex<Loaded<C>>) -> MutexGuard<'_, Loaded<C>> {
    loaded.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load<C>(
    files: &TlsFiles,
    read: impl FnOnce() -> Result<(C, Own), TlsError>,
) -> Result<Mutex<Loaded<C>>, TlsError> {
    let stamps = files.stamps();
    let (config, own) = read()?;
    Ok(Mutex::new(Loaded { stamps, config: Arc::new(config), own }))
}

/// Accepts connections over TLS.
///
/// A returning counterparty may resume its last TLS session (RFC 8446 section 2.2) without
/// presenting its certificate again. After any file has changed, every certificate is checked
/// again.
pub struct Server {
    options: ServerOptions,
    clock: Clock,
    loaded: Mutex<Loaded<ServerConfig>>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server; reads its files.
    ///
    /// # Errors
    /// [`TlsError`] that names the file and its fault.
    pub fn new(options: ServerOptions) -> Result<Self, TlsError> {
        Self::with_clock(options, Clock::default())
    }

    /// Creates a server like [`Server::new`], with another clock for the validity of certificates.
    ///
    /// # Errors
    /// As [`Server::new`].
    pub fn with_clock(options: ServerOptions, clock: Clock) -> Result<Self, TlsError> {
        let loaded = load(&options.files, || server_config(&options, &clock))?;
        Ok(Self { options, clock, loaded })
    }

    /// Wraps a new connection. Each read or write of the returned stream advances the handshake.
    ///
    /// # Errors
    /// If rustls refuses settings that do not fit.
    pub fn accept(&self, stream: Box<dyn Stream>) -> Result<TlsStream, TlsError> {
        let config = Arc::clone(&lock(&self.loaded).config);
        let tls = ServerConnection::new(config).map_err(|error| refused(&error))?;
        Ok(TlsStream::new(stream, Connection::Server(tls), self.clock.clone()))
    }

    /// Reads the files again if one of them has changed; returns `None` if none has. After an
    /// error, the old files remain in use.
    pub fn renew(&self) -> Option<Result<(), TlsError>> {
        let read = || server_config(&self.options, &self.clock);
        lock(&self.loaded).renew(&self.options.files, read)
    }

    /// Returns the certificates of the server, each with the path of its file.
    #[must_use]
    pub fn certificates(&self) -> Vec<(PathBuf, Certificate)> {
        lock(&self.loaded).own.clone()
    }
}

/// Opens connections over TLS. Until a file changes, later connections to the same counterparty
/// resume the first TLS session, if the counterparty permits it.
pub struct Client {
    options: ClientOptions,
    clock: Clock,
    name: ServerName<'static>,
    loaded: Mutex<Loaded<ClientConfig>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client; reads its files.
    ///
    /// # Errors
    /// [`TlsError`] that names the file and its fault.
    pub fn new(options: ClientOptions) -> Result<Self, TlsError> {
        Self::with_clock(options, Clock::default())
    }

    /// Creates a client like [`Client::new`], with another clock for the validity of certificates.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn with_clock(options: ClientOptions, clock: Clock) -> Result<Self, TlsError> {
        let name = ServerName::try_from(options.server_name.clone());
        let name = name.map_err(|_| {
            TlsError(format!("`{}` is neither a host name nor an IP address", options.server_name))
        })?;
        let loaded = load(&options.files, || client_config(&options, &clock))?;
        Ok(Self { options, clock, name, loaded })
    }

    /// Wraps a new connection. Each read or write of the returned stream advances the handshake.
    ///
    /// # Errors
    /// If rustls refuses settings that do not fit.
    pub fn connect(&self, stream: Box<dyn Stream>) -> Result<TlsStream, TlsError> {
        let config = Arc::clone(&lock(&self.loaded).config);
        let tls =
            ClientConnection::new(config, self.name.clone()).map_err(|error| refused(&error))?;
        Ok(TlsStream::new(stream, Connection::Client(tls), self.clock.clone()))
    }

    /// Performs a handshake, and returns the server's certificates and their fault, if any. `wait`
    /// waits until the stream may be ready; it returns false when the time is up.
    ///
    /// # Errors
    /// The reason why TLS failed. The inspection has the certificates received before.
    pub fn inspect(
        &self,
        stream: Box<dyn Stream>,
        mut wait: impl FnMut() -> bool,
    ) -> Result<Inspection, (Inspection, TlsError)> {
        let seen = Arc::new(Mutex::new(Inspection::default()));
        let mut config = (*lock(&self.loaded).config).clone();
        let taken = || seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failed = |why: &dyn fmt::Display| Err((taken(), TlsError(why.to_string())));
        let verifier = match verifier(&self.options) {
            Ok(verifier) => Verifier { seen: Some(Arc::clone(&seen)), ..verifier },
            Err(error) => return failed(&error),
        };
        config.dangerous().set_certificate_verifier(Arc::new(verifier));
        let tls = match ClientConnection::new(Arc::new(config), self.name.clone()) {
            Ok(tls) => tls,
            Err(error) => return failed(&error),
        };
        let mut stream = TlsStream::new(stream, Connection::Client(tls), self.clock.clone());
        loop {
            match stream.shake_hands() {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !wait() {
                        return failed(
                            &"the counterparty did not complete the TLS handshake in time",
                        );
                    }
                }
                Err(error) => return failed(&error),
            }
        }
        // A TLS 1.3 server checks our certificate only now. Even if the server accepts it, it then
        // closes the connection.
        let _ = stream.shutdown();
        let refusal = loop {
            match stream.read(&mut [0; 1]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !wait() {
                        break None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    break Some(error.to_string());
                }
                _ => break None,
            }
        };
        let fault = taken().fault.or(refusal);
        Ok(Inspection { protocol: stream.protocol().unwrap_or_default(), fault, ..taken() })
    }

    /// Reads the files again if one of them has changed; returns `None` if none has. After an
    /// error, the old files remain in use.
    pub fn renew(&self) -> Option<Result<(), TlsError>> {
        let read = || client_config(&self.options, &self.clock);
        lock(&self.loaded).renew(&self.options.files, read)
    }

    /// Returns the certificates of the client, each with the path of its file.
    #[must_use]
    pub fn certificates(&self) -> Vec<(PathBuf, Certificate)> {
        lock(&self.loaded).own.clone()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn own(files: &TlsFiles, keys: &[Arc<CertifiedKey>]) -> Own {
    let files = files.certificates.iter().map(|(file, _)| file.clone());
    let read = files.zip(keys);
    read.filter_map(|(file, key)| Some((file, Certificate::of(key.cert.first()?)?))).collect()
}

fn server_config(options: &ServerOptions, clock: &Clock) -> Result<(ServerConfig, Own), TlsError> {
    let provider = provider();
    let keys = options.files.keys(&provider)?;
    if keys.is_empty() {
        return Err(TlsError("a TLS server needs a certificate and its key".to_owned()));
    }
    let config = ServerConfig::builder_with_details(Arc::clone(&provider), Arc::new(clock.clone()));
    let config = config
        .with_protocol_versions(options.min_version.allowed())
        .map_err(|error| refused(&error))?;
    let config = match options.clients {
        Clients::Unknown => config.with_no_client_auth(),
        wanted => {
            let roots = Arc::new(options.files.roots()?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .with_crls(options.files.revoked()?);
            let may_be_missing = wanted == Clients::MayShow;
            let verifier = if may_be_missing { verifier.allow_unauthenticated() } else { verifier };
            let verifier = verifier.build().map_err(|error| unfit(&error))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let own = own(&options.files, &keys);
    Ok((config.with_cert_resolver(Arc::new(ByName { keys })), own))
}

fn client_config(options: &ClientOptions, clock: &Clock) -> Result<(ClientConfig, Own), TlsError> {
    let (provider, files) = (provider(), &options.files);
    let time = Arc::new(clock.clone());
    let config = ClientConfig::builder_with_details(Arc::clone(&provider), time)
        .with_protocol_versions(options.min_version.allowed())
        .map_err(|error| refused(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier(options)?));
    let keys = files.keys(&provider)?;
    let own = own(&options.files, &keys);
    let config = match keys.into_iter().next() {
        Some(key) => {
            config.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
        }
        None => config.with_no_client_auth(),
    };
    Ok((config, own))
}

/// Returns the error for unusable revocation lists or authorities.
fn unfit(error: &VerifierBuilderError) -> TlsError {
    TlsError(match error {
        VerifierBuilderError::InvalidCrl(why) => {
            format!("tls.crl: a revocation list is not usable: {}", spaced(&format!("{why:?}")))
        }
        // The enum is non-exhaustive, so a last branch is needed.
        _ => "no authority is trusted to sign certificates; name a file in tls.ca".to_owned(),
    })
}

fn verifier(options: &ClientOptions) -> Result<Verifier, TlsError> {
    let files = &options.files;
    let roots = if files.ca.is_empty() { roots_of_the_system()? } else { files.roots()? };
    let web = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .with_crls(files.revoked()?)
        .build()
        .map_err(|error| unfit(&error))?;
    let (checks_name, peers) = (options.checks_name, options.peers.clone());
    Ok(Verifier { web, checks_name, peers, seen: None })
}

/// Selects the server certificate for the name that the client requests; if there is none, the
/// first certificate.
#[derive(Debug)]
struct ByName {
    keys: Vec<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let fits = |key: &&Arc<CertifiedKey>| {
            let name = hello.server_name().and_then(|name| ServerName::try_from(name).ok());
            let parsed = key.cert.first().and_then(|der| ParsedCertificate::try_from(der).ok());
            matches!((name, parsed), (Some(name), Some(parsed))
                if rustls::client::verify_server_name(&parsed, &name).is_ok())
        };
        self.keys.iter().find(fits).or_else(|| self.keys.first()).cloned()
    }
}

/// Verifies a server's certificate, which must be trusted and match one of `peers`.
#[derive(Debug)]
struct Verifier {
    web: Arc<WebPkiServerVerifier>,
    checks_name: bool,
    peers: Vec<String>,
    /// The findings for an inspecting client: the certificates and their faults. A fault does not
    /// end the connection then, because no application data follows.
    seen: Option<Arc<Mutex<Inspection>>>,
}

impl Verifier {
    /// Combines `web`, the result for certificate chain and name, with the additional checks of
    /// this client.
    fn judge(
        &self,
        end_entity: &CertificateDer<'_>,
        web: Result<ServerCertVerified, Error>,
    ) -> Result<ServerCertVerified, Error> {
        match web {
            // Webpki checks the name last, so everything else is correct.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => {}
            result => _ = result?,
        }
        let is_wanted = self.peers.is_empty()
            || Certificate::of(end_entity)
                .is_some_and(|shown| self.peers.iter().any(|wanted| shown.is(wanted)));
        if is_wanted {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let web = &self.web;
        let web =
            web.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let judged = self.judge(end_entity, web);
        let Some(seen) = &self.seen else { return judged };
        let chain = std::iter::once(end_entity).chain(intermediates);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.chain = chain.filter_map(Certificate::of).collect();
        seen.fault = judged.err().map(|error| explain(&error, None, true));
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.web.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.web.supported_verify_schemes()
    }
}
