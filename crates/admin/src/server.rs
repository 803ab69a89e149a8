//! The HTTP server: accepts connections, optionally with TLS, in one thread of its own.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use transfix::{Admin, AdminSettings};

use crate::app::{App, BLOCKING_MAX, Limits};
use crate::connection::{self, HEAD_TIME};
use crate::events::EventRing;
use crate::filter::EventFilter;
use crate::fix::own::OwnCommands;
use crate::fix::{Administrators, FixServer};
use crate::fleet::FleetStatus;
use crate::logins::Logins;
use crate::places::Places;
use crate::refusals::Refusals;
use crate::routes::router;
use crate::seldom::RateLimit;
use crate::throttle::Throttle;
use crate::tls::{Certificate, FreshCertificate};
use crate::users::UsersFile;

/// Time limit for the last answers when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Pause after a failed accept, before the listener tries again.
const REST: Duration = Duration::from_millis(100);

/// Data of the program that the administration needs and its settings do not contain.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Extras {
    /// Events of the program, which the administration shows.
    pub events: EventRing,
    /// Filter of the program's events, which the administration shows and changes; `None` if the
    /// levels are fixed.
    pub filter: Option<EventFilter>,
    /// Path of the settings file, which the administration shows; `None` if there is no file.
    pub settings_file: Option<PathBuf>,
    /// Path of the audit file, which the administration shows; `None` if there is no audit.
    pub audit_file: Option<PathBuf>,
    /// State of the fleet, which the administration shows; `None` if the engine is no gateway of a
    /// fleet.
    pub fleet: Option<FleetStatus>,
    /// Commands that the program adds for administrators over FIX.
    pub own_commands: OwnCommands,
}

impl Extras {
    /// Creates extras that contain only the program's events.
    #[must_use]
    pub fn new(events: EventRing) -> Self {
        Self { events, ..Self::default() }
    }
}

/// The reason why the administration cannot start, or cannot read its certificate.
pub struct AdminServerError(String);

impl fmt::Display for AdminServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "administration: {}", self.0)
    }
}

/// Formats the error like `Display`, because an error returned by `main` is printed with `Debug`.
impl fmt::Debug for AdminServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AdminServerError {}

/// The HTTP server of the administration, stopped on drop.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    certificate: Option<Arc<Certificate>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    fix: Option<FixServer>,
}

impl AdminServer {
    /// Listens at the configured address, and starts the thread `tfx-admin`.
    ///
    /// # Errors
    /// Returns [`AdminServerError`] if the address, the certificate or the users file is unusable.
    pub fn start(
        settings: &AdminSettings,
        admin: &Admin,
        extras: Extras,
    ) -> Result<Self, AdminServerError> {
        Self::started(settings, admin, extras).map_err(AdminServerError)
    }

    fn started(settings: &AdminSettings, admin: &Admin, extras: Extras) -> Result<Self, String> {
        let wrong = |error: io::Error| format!("{}: {error}", settings.address);
        let address = settings.address.to_socket_addrs().map_err(wrong)?.next();
        let address = address.ok_or_else(|| format!("{}: no such address", settings.address))?;
        let certificate = Certificate::of(settings)?.map(Arc::new);
        if certificate.is_none() && !address.ip().is_loopback() {
            return Err(format!(
                "other machines can reach address = \"{}\": set certificate and key, or listen at \
                 127.0.0.1",
                settings.address
            ));
        }
        let listener = std::net::TcpListener::bind(address).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let users = Arc::new(UsersFile::open(&settings.users_file, admin)?);
        let throttle = Arc::new(Throttle::default());
        let limits = Arc::<Limits>::default();
        let refusals = Arc::new(Refusals::new(admin));
        let administrators = Administrators {
            admin: admin.clone(),
            refusals: Arc::clone(&refusals),
            users: Arc::clone(&users),
            throttle: Arc::clone(&throttle),
            own: extras.own_commands,
            attendance: Arc::default(),
            limits: Arc::clone(&limits),
        };
        let fix = settings.fix.as_ref().map(|fix| FixServer::start(settings, fix, administrators));
        let fix = fix.transpose()?;
        let app = App {
            admin: admin.clone(),
            users,
            logins: Logins::new(settings.login_idle),
            throttle,
            refusals: Arc::clone(&refusals),
            events: extras.events,
            filter: extras.filter,
            fleet: extras.fleet,
            audit_file: extras.audit_file,
            settings_file: extras.settings_file,
            open_metrics: settings.open_metrics,
            is_tls: certificate.is_some(),
            limits,
        };
        let ((stop, stopped), shown) = (oneshot::channel(), certificate.clone());
        let mut runtime = runtime::Builder::new_current_thread();
        let runtime =
            runtime.enable_all().max_blocking_threads(BLOCKING_MAX).build().map_err(wrong)?;
        let router = router(Arc::new(app));
        let thread = thread::Builder::new().name("tfx-admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                match TcpListener::from_std(listener) {
                    Ok(listener) => {
                        let open = GracefulShutdown::new();
                        tokio::select! {
                            () = serve(&listener, shown.as_deref(), &router, &open) => {}
                            () = Arc::clone(&refusals).write_counts() => {}
                            _ = stopped => {}
                        }
                        // Open requests still receive their answers within this time limit.
                        let _ = timeout(LAST_ANSWERS, open.shutdown()).await;
                    }
                    Err(error) => tracing::error!(%error, "the administration cannot listen"),
                }
            });
            runtime.shutdown_timeout(LAST_ANSWERS);
            refusals.write_rest();
        });
        let thread = Some(thread.map_err(wrong)?);
        Ok(Self { address, certificate, stop: Some(stop), thread, fix })
    }

    /// Returns the listening address, with the actual port if the settings have port 0.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the listening address for administrators over FIX, or `None` if FIX is not enabled.
    #[must_use]
    pub fn fix_address(&self) -> Option<SocketAddr> {
        self.fix.as_ref().map(FixServer::address)
    }

    /// Reads the HTTPS certificate and key again. Returns `None` if both are unchanged or not
    /// configured. The new certificate takes effect with [`AdminServer::show`]. Over FIX,
    /// certificates are read again before each connection.
    ///
    /// # Errors
    /// Returns [`AdminServerError`] if the files are unusable; the old certificate stays in use.
    pub fn read_certificate(&self) -> Result<Option<FreshCertificate>, AdminServerError> {
        let fresh = self.certificate.as_ref().map(|certificate| certificate.read_again());
        let fresh = fresh.unwrap_or(Ok(None));
        fresh.map_err(|why| {
            AdminServerError(format!(
                "the administration keeps its old \
            certificate: {why}"
            ))
        })
    }

    /// Uses this certificate for all later connections.
    pub fn show(&self, fresh: FreshCertificate) {
        if let Some(certificate) = &self.certificate {
            certificate.show(fresh);
            tracing::info!("the administration uses a new certificate");
        }
    }

    /// Returns the URL of the console for a browser.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}", if self.certificate.is_some() { "https" } else { "http" }, self.address)
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.fix.take());
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The join fails only after a panic of the thread, which has been reported already.
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: &TcpListener,
    certificate: Option<&Certificate>,
    router: &Router,
    open: &GracefulShutdown,
) {
    let (places, strangers) = (Arc::<Places>::default(), Arc::<Strangers>::default());
    loop {
        let (socket, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // The usual cause is that the process has too many open file descriptors.
                tracing::warn!(%error, "the administration could not accept a connection");
                sleep(REST).await;
                continue;
            }
        };
        let (seat, is_cut, gone) = places.enter(from, socket.local_addr().ok());
        if let Some(gone) = gone {
            strangers.tell(
                gone,
                &"closed: there were too many connections, and this connection \
                                   was old",
            );
        }
        let (tls, router, open) =
            (certificate.map(Certificate::acceptor), router.clone(), open.watcher());
        let (strangers, seat) = (Arc::clone(&strangers), Arc::new(seat));
        let served = async move {
            let Some(tls) = tls else {
                return connection::serve(socket, (from, seat), router, open).await;
            };
            match timeout(HEAD_TIME, tls.accept(socket)).await {
                Ok(Ok(stream)) => connection::serve(stream, (from, seat), router, open).await,
                Ok(Err(error)) => {
                    strangers
                        .tell(from.ip(), &format!("closed: the TLS handshake failed: {error}"));
                }
                Err(_) => strangers.tell(
                    from.ip(),
                    &"closed: the TLS handshake was not finished \
                    in time",
                ),
            }
        };
        tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                _ = is_cut => {}
            }
        });
    }
}

/// Logs connections that the administration closed, in a bounded number of lines.
#[derive(Default)]
struct Strangers(RateLimit);

impl Strangers {
    fn tell(&self, from: IpAddr, why: &dyn fmt::Display) {
        if let Some(left_out) = self.0.tell() {
            tracing::warn!(%from, %why, left_out, "the administration closed a connection");
        }
    }
}
