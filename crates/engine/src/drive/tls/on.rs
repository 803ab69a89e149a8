//! The types of `tls` in a build with the feature.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transfix_observe::{clock, event};
use transfix_session::Role;
use transfix_settings::{ClientCertificate, SessionSettings, TlsSettings, TlsVersion};
use transfix_transport::tls::{
    Certificate, Client, ClientOptions, Clients, Clock, Inspection, MinVersion, Server,
    ServerOptions, TlsError, TlsFiles, TlsStream,
};
use transfix_transport::{SocketOptions, Stream, TcpStream};

use crate::drive::certificates::{OwnCertificates, Place, Shown, days_left, due_threshold};
use crate::drive::tls::Doubt;
use crate::error::EngineError;

pub(crate) use transfix_transport::tls::Certificate as PeerCertificate;

/// Returns the certificate that the counterparty has presented, if any.
pub(crate) fn certificate_of(stream: &dyn Stream) -> Option<Certificate> {
    stream.peer_certificate()
}

/// An acceptor or initiator with its own certificates.
trait Side: Send + Sync {
    fn renew(&self) -> Option<Result<(), TlsError>>;
    fn certificates(&self) -> Vec<(PathBuf, Certificate)>;
}

impl Side for Server {
    fn renew(&self) -> Option<Result<(), TlsError>> {
        Self::renew(self)
    }

    fn certificates(&self) -> Vec<(PathBuf, Certificate)> {
        Self::certificates(self)
    }
}

impl Side for Client {
    fn renew(&self) -> Option<Result<(), TlsError>> {
        Self::renew(self)
    }

    fn certificates(&self) -> Vec<(PathBuf, Certificate)> {
        Self::certificates(self)
    }
}

/// An address or destination at which certificates are presented, registered for expiry warnings.
struct Showing {
    whose: String,
    side: Arc<dyn Side>,
    /// The certificates as last read, and the reason why a changed file was refused.
    last: Mutex<(Arc<[Shown]>, Option<String>)>,
}

impl Showing {
    /// Registers a place at which certificates are presented.
    fn new(whose: String, side: Arc<dyn Side>, own: &OwnCertificates) -> Arc<Self> {
        let last = Mutex::new((shown(&*side), None));
        let showing = Arc::new(Self { whose, side, last });
        let place: Arc<dyn Place> = Arc::clone(&showing) as _;
        own.add(Arc::downgrade(&place));
        showing
    }

    /// Reloads changed files, and logs due warnings, before a connection.
    fn look(&self, own: &OwnCertificates) {
        self.renew();
        own.tell(self);
    }

    fn last(&self) -> MutexGuard<'_, (Arc<[Shown]>, Option<String>)> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place for Showing {
    fn renew(&self) {
        let Some(renewed) = self.side.renew() else { return };
        let whose = &*self.whose;
        match renewed {
            Ok(()) => {
                *self.last() = (shown(&*self.side), None);
                event!(info, CertificatesRenewed, whose);
            }
            Err(error) => {
                self.last().1 = Some(error.to_string());
                event!(error, CertificatesUnusable, whose, %error);
            }
        }
    }

    fn whose(&self) -> &str {
        &self.whose
    }

    fn shown(&self) -> (Arc<[Shown]>, Option<String>) {
        self.last().clone()
    }
}

fn shown(side: &dyn Side) -> Arc<[Shown]> {
    side.certificates().into_iter().map(|(file, one)| shown_of(file, one)).collect()
}

fn shown_of(file: PathBuf, one: Certificate) -> Shown {
    let Certificate { subject, sha256, not_after_s, .. } = one;
    Shown { file, subject, sha256, not_after_s }
}

/// Returns the engine's clock in the form that the TLS library needs.
fn clock_of(own: &Arc<OwnCertificates>) -> Clock {
    let io = Arc::clone(own.io());
    Clock::of(move || u64::try_from(io.now().utc.0 / 1_000_000_000).unwrap_or(0))
}

/// The TLS side of an acceptor.
pub(crate) struct TlsListener {
    server: Arc<Server>,
    showing: Arc<Showing>,
    own: Arc<OwnCertificates>,
}

impl TlsListener {
    /// Returns the listener's TLS, or `None` if the session's connections are not encrypted.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn of(
        settings: &SessionSettings,
        own: &Arc<OwnCertificates>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(tls) = enabled(settings) else { return Ok(None) };
        let server = Server::with_clock(server_options(tls), clock_of(own));
        let server = Arc::new(server.map_err(wrong(settings))?);
        let showing = Showing::new(settings.address.clone(), Arc::clone(&server) as _, own);
        Ok(Some(Self { server, showing, own: Arc::clone(own) }))
    }

    /// Wraps a new connection in TLS. Reading from the returned stream advances the handshake.
    pub(crate) fn accept(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        self.showing.look(&self.own);
        Ok(Box::new(self.server.accept(stream).map_err(io::Error::other)?))
    }
}

/// The TLS side of an initiator.
pub(crate) struct Way {
    client: Arc<Client>,
    showing: Arc<Showing>,
    own: Arc<OwnCertificates>,
}

impl Way {
    /// Returns the TLS for this destination, a `host:port`, or `None` if the session's connections
    /// are not encrypted.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn of(
        settings: &SessionSettings,
        address: &str,
        own: &Arc<OwnCertificates>,
    ) -> Result<Option<Self>, EngineError> {
        let Some(tls) = enabled(settings) else { return Ok(None) };
        let client = Client::with_clock(client_options(tls, address), clock_of(own));
        let client = Arc::new(client.map_err(wrong(settings))?);
        let showing = Showing::new(settings.id().to_string(), Arc::clone(&client) as _, own);
        Ok(Some(Self { client, showing, own: Arc::clone(own) }))
    }

    pub(crate) fn connect(&self, stream: Box<dyn Stream>) -> io::Result<Handshake> {
        self.showing.look(&self.own);
        self.client.connect(stream).map(Handshake).map_err(io::Error::other)
    }
}

fn server_options(tls: &TlsSettings) -> ServerOptions {
    ServerOptions {
        files: files(tls),
        clients: match tls.client_certificate {
            ClientCertificate::Ignored => Clients::Unknown,
            ClientCertificate::Optional => Clients::MayShow,
            ClientCertificate::Required => Clients::MustShow,
        },
        min_version: min_version(tls),
    }
}

fn client_options(tls: &TlsSettings, address: &str) -> ClientOptions {
    let server_name = match &*tls.server_name {
        "" => host(address).to_owned(),
        name => name.to_owned(),
    };
    ClientOptions {
        files: files(tls),
        server_name,
        checks_name: tls.check_name,
        peers: tls.peer.clone(),
        min_version: min_version(tls),
    }
}

/// See [`crate::tls::inspect`].
pub(crate) fn inspect(
    address: &str,
    tls: &TlsSettings,
    time: Duration,
) -> Result<Inspection, (Inspection, String)> {
    let failed = |why: &dyn fmt::Display| (Inspection::default(), why.to_string());
    let client = Client::new(client_options(tls, address)).map_err(|error| failed(&error))?;
    let (mut connected, mut why) = (None, format!("{address}: the name resolves to no address"));
    let found = address.to_socket_addrs();
    for found in found.map_err(|error| failed(&format!("{address}: {error}")))? {
        match std::net::TcpStream::connect_timeout(&found, time) {
            Ok(socket) => {
                connected = Some(socket);
                break;
            }
            Err(error) if found.to_string() == address => why = format!("{address}: {error}"),
            Err(error) => why = format!("{address} ({found}): {error}"),
        }
    }
    let socket = connected.ok_or_else(|| failed(&why))?;
    let waits = socket.try_clone().map_err(|error| failed(&error))?;
    let stream = TcpStream::from_std(socket, &SocketOptions::default());
    let stream = stream.map_err(|error| failed(&error))?;
    let until_ns = clock::monotonic_ns() + time.as_nanos() as u64;
    let wait = || {
        let left = Duration::from_nanos(until_ns.saturating_sub(clock::monotonic_ns()));
        let mut asked = [PollFd::new(&waits, PollFlags::IN)];
        let limit = Timespec::try_from(left).ok();
        matches!(poll(&mut asked, limit.as_ref()), Ok(1..))
    };
    client.inspect(Box::new(stream), wait).map_err(|(seen, error)| (seen, error.to_string()))
}

/// Reads the files that a session names. Returns warnings about the engine's certificates.
///
/// # Errors
/// If a file cannot be used.
pub(crate) fn review(settings: &SessionSettings) -> Result<Vec<Doubt>, EngineError> {
    let Some(tls) = enabled(settings) else { return Ok(Vec::new()) };
    let certificates = match settings.role {
        Role::Acceptor => Server::new(server_options(tls)).map(|server| server.certificates()),
        Role::Initiator => {
            let options = client_options(tls, &settings.address);
            Client::new(options).map(|client| client.certificates())
        }
    };
    let now_s = clock::now().utc.0.div_euclid(1_000_000_000);
    let (place, id) = (settings.place("tls"), settings.id());
    let mut doubts = Vec::new();
    for (file, certificate) in certificates.map_err(wrong(settings))? {
        let which = format!("{certificate} in {}", file.display());
        let told = |what: &str| format!("{place}{id}: tls: our certificate {what}");
        doubts.extend(time_of(&certificate, now_s).map(|doubt| match doubt {
            Doubt::Error(what) => Doubt::Error(told(&format!("{what}: {which}; {NEW_ONE}"))),
            Doubt::Warning(what) => Doubt::Warning(told(&format!("{what}: {which}"))),
        }));
        if certificate.is_authority {
            doubts.push(Doubt::Warning(told(&format!("{AUTHORITY}: {which}"))));
        }
    }
    Ok(doubts)
}

/// The text about an expired certificate: its consequence and the remedy.
const NEW_ONE: &str = "counterparties refuse the connection; have a new certificate signed and \
                       replace the file: a running engine loads the new certificate by itself";

/// The text about using the certificate of an authority: the consequence and the remedy.
const AUTHORITY: &str = "is that of an authority (CA:TRUE), such as `openssl req -x509` makes: \
                         counterparties that use rustls, Transfix among them, refuse it, others \
                         may take it; let it sign one with CA:FALSE for this host";

/// Returns a warning if the certificate has expired, is not valid yet, or expires soon.
fn time_of(certificate: &Certificate, now_s: i64) -> Option<Doubt> {
    if certificate.not_before_s > now_s {
        let what = "is not valid yet, or the clock of this machine is wrong";
        return Some(Doubt::Error(what.to_owned()));
    }
    Some(match due_threshold(certificate.not_after_s - now_s)? {
        -1 => Doubt::Error("has expired".to_owned()),
        1 => Doubt::Warning("ends within a day".to_owned()),
        _ => {
            let days = days_left(certificate.not_after_s, now_s);
            Doubt::Warning(format!("ends in {days} days"))
        }
    })
}

/// A TLS handshake in progress.
pub(crate) struct Handshake(TlsStream);

impl Handshake {
    /// Advances the handshake. Returns true when it is complete.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        match self.0.shake_hands() {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn finish(self) -> Box<dyn Stream> {
        Box::new(self.0)
    }
}

fn enabled(settings: &SessionSettings) -> Option<&TlsSettings> {
    settings.tls.as_ref().filter(|tls| tls.enabled)
}

fn files(tls: &TlsSettings) -> TlsFiles {
    let own = tls.certificate.clone().zip(tls.key.clone());
    let more = tls.more_certificates.iter().map(|one| (one.certificate.clone(), one.key.clone()));
    TlsFiles {
        certificates: own.into_iter().chain(more).collect(),
        ca: tls.ca.clone(),
        crl: tls.crl.clone(),
    }
}

const fn min_version(tls: &TlsSettings) -> MinVersion {
    match tls.min_version {
        TlsVersion::Tls12 => MinVersion::Tls12,
        TlsVersion::Tls13 => MinVersion::Tls13,
    }
}

/// Returns the host of `host:port`, without the brackets of an IPv6 address.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn wrong(settings: &SessionSettings) -> impl FnOnce(TlsError) -> EngineError {
    let (place, id) = (settings.place("tls"), settings.id());
    move |error| EngineError::Settings(format!("{place}{id}: tls: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_an_address() {
        assert_eq!(
            [host("a.example:1"), host("[::1]:1"), host("10.0.0.1:1")],
            ["a.example", "::1", "10.0.0.1"]
        );
    }
}
