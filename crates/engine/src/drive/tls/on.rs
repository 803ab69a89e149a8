//! With TLS.

use std::fmt;
use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use transfix_session::Role;
use transfix_transport::tls::{
    Certificate, Client, ClientOptions, Clients, Inspection, MinVersion, Server, ServerOptions,
    TlsError, TlsFiles, TlsStream,
};
use transfix_transport::{SocketOptions, Stream, TcpStream};

use crate::clock;
use crate::error::EngineError;
use crate::settings::SessionSettings;
use crate::settings::tls::{ClientCertificate, TlsSettings, TlsVersion};

pub(crate) use transfix_transport::tls::Certificate as PeerCertificate;

const DAY_S: i64 = 24 * 60 * 60;
/// Days before the end of a certificate at which the log says so.
const WARN_DAYS: [i64; 3] = [30, 7, 1];

/// The certificate of a counterparty.
pub(crate) fn certificate_of(stream: &dyn Stream) -> Option<Certificate> {
    stream.peer_certificate()
}

/// An acceptor's.
pub(crate) struct Door {
    server: Server,
    watch: Watch,
}

impl Door {
    /// `None` if the session's connections are not encrypted.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn of(settings: &SessionSettings) -> Result<Option<Self>, EngineError> {
        let Some(tls) = enabled(settings) else { return Ok(None) };
        let server = server(tls).map_err(wrong(settings))?;
        let watch = Watch::new(settings.address.clone(), &server.certificates());
        Ok(Some(Self { server, watch }))
    }

    /// A fresh connection, whose handshake goes on as it is read.
    pub(crate) fn accept(&self, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        self.watch.look(self.server.renew(), || self.server.certificates());
        Ok(Box::new(self.server.accept(stream).map_err(io::Error::other)?))
    }
}

/// An initiator's.
pub(crate) struct Way {
    client: Client,
    watch: Watch,
}

impl Way {
    /// To this destination, written as `host:port`; `None` if the session's connections are not
    /// encrypted.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn of(
        settings: &SessionSettings,
        address: &str,
    ) -> Result<Option<Self>, EngineError> {
        let Some(tls) = enabled(settings) else { return Ok(None) };
        let client = client(tls, address).map_err(wrong(settings))?;
        let watch = Watch::new(settings.id().to_string(), &client.certificates());
        Ok(Some(Self { client, watch }))
    }

    pub(crate) fn connect(&self, stream: Box<dyn Stream>) -> io::Result<Shaking> {
        self.watch.look(self.client.renew(), || self.client.certificates());
        self.client.connect(stream).map(Shaking).map_err(io::Error::other)
    }
}

fn server(tls: &TlsSettings) -> Result<Server, TlsError> {
    Server::new(ServerOptions {
        files: files(tls),
        clients: match tls.client_certificate {
            ClientCertificate::Ignored => Clients::Unknown,
            ClientCertificate::Optional => Clients::MayShow,
            ClientCertificate::Required => Clients::MustShow,
        },
        min_version: min_version(tls),
    })
}

fn client(tls: &TlsSettings, address: &str) -> Result<Client, TlsError> {
    let server_name = match &*tls.server_name {
        "" => host(address).to_owned(),
        name => name.to_owned(),
    };
    Client::new(ClientOptions {
        files: files(tls),
        server_name,
        checks_name: tls.check_name,
        peers: tls.peer.clone(),
        min_version: min_version(tls),
    })
}

/// See [`crate::tls::inspect`].
pub(crate) fn inspect(
    address: &str,
    tls: &TlsSettings,
    time: Duration,
) -> Result<Inspection, (Inspection, String)> {
    let failed = |why: &dyn fmt::Display| (Inspection::default(), why.to_string());
    let client = client(tls, address).map_err(|error| failed(&error))?;
    let (mut connected, mut why) = (None, "the name stands for no address".to_owned());
    let found = address.to_socket_addrs().map_err(|error| failed(&error))?;
    for address in found {
        match std::net::TcpStream::connect_timeout(&address, time) {
            Ok(socket) => {
                connected = Some(socket);
                break;
            }
            Err(error) => why = format!("{address}: {error}"),
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

/// Reads the files that a session names; returns what is to be said of a certificate of ours whose
/// end is near.
///
/// # Errors
/// If a file cannot be used.
pub(crate) fn review(settings: &SessionSettings) -> Result<Option<String>, EngineError> {
    let Some(tls) = enabled(settings) else { return Ok(None) };
    let certificates = match settings.role {
        Role::Acceptor => server(tls).map(|server| server.certificates()),
        Role::Initiator => client(tls, &settings.address).map(|client| client.certificates()),
    };
    let certificates = certificates.map_err(wrong(settings))?;
    let Some((certificate, days)) = nearest_end(&certificates) else { return Ok(None) };
    let when = match days {
        -1 => "has expired".to_owned(),
        1 => "ends within a day".to_owned(),
        days => format!("ends within {days} days"),
    };
    let (place, id) = (settings.place("tls"), settings.id());
    Ok(Some(format!("{place}{id}: tls: our certificate {when}: {certificate}")))
}

/// A handshake under way.
pub(crate) struct Shaking(TlsStream);

impl Shaking {
    /// Goes on with it. Returns whether it is done.
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

/// Says once for each of [`WARN_DAYS`] that a certificate of ours is about to expire.
struct Watch {
    whose: String,
    /// The days left that the log has told of last.
    told_days: AtomicI64,
}

impl Watch {
    fn new(whose: String, certificates: &[Certificate]) -> Self {
        let watch = Self { whose, told_days: AtomicI64::new(i64::MAX) };
        watch.look_at(certificates);
        watch
    }

    /// Before a connection.
    fn look(
        &self,
        renewed: Option<Result<(), TlsError>>,
        certificates: impl Fn() -> Vec<Certificate>,
    ) {
        let whose = &*self.whose;
        match renewed {
            Some(Ok(())) => {
                self.told_days.store(i64::MAX, Ordering::Relaxed);
                tracing::info!(whose, "certificates were read again: a file has changed");
            }
            Some(Err(error)) => {
                tracing::error!(whose, %error, "changed certificates are of no use: the old stay");
            }
            None => {}
        }
        self.look_at(&certificates());
    }

    fn look_at(&self, certificates: &[Certificate]) {
        let Some((first, days)) = nearest_end(certificates) else { return };
        if self.told_days.fetch_min(days, Ordering::Relaxed) <= days {
            return;
        }
        let (whose, certificate) = (&*self.whose, first.to_string());
        if days < 0 {
            tracing::error!(whose, certificate, "our certificate has expired");
        } else {
            tracing::warn!(whose, certificate, days, "our certificate expires within so many days");
        }
    }
}

/// The certificate that ends first, if that is to be told, with the days of [`to_tell`].
fn nearest_end(certificates: &[Certificate]) -> Option<(&Certificate, i64)> {
    let now_s = clock::now().utc.0 / 1_000_000_000;
    let first = certificates.iter().min_by_key(|one| one.not_after_s)?;
    Some((first, to_tell(first.not_after_s - now_s)?))
}

/// The least of [`WARN_DAYS`] that holds for so much time; -1 if there is none left.
fn to_tell(left_s: i64) -> Option<i64> {
    if left_s < 0 {
        return Some(-1);
    }
    WARN_DAYS.into_iter().filter(|days| left_s <= days * DAY_S).min()
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

/// The host of `host:port`, without the brackets of an IPv6 address.
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
    fn the_end_is_told_of_three_times_and_once_more() {
        let days = |days: i64| to_tell(days * DAY_S);
        assert_eq!(
            [days(31), days(30), days(8), days(7), days(2), days(1), days(0)],
            [None, Some(30), Some(30), Some(7), Some(7), Some(1), Some(1)]
        );
        assert_eq!(to_tell(-1), Some(-1));
    }

    #[test]
    fn the_host_of_an_address() {
        assert_eq!(
            [host("a.example:1"), host("[::1]:1"), host("10.0.0.1:1")],
            ["a.example", "::1", "10.0.0.1"]
        );
    }
}
