//! Administration over FIX. Administrators log on as counterparties of a separate engine and send
//! commands as XML in XMLnonFIX(n).
//!
//! Invariants: the separate engine shares only the `Admin` with the trading engine, and the `Admin`
//! performs each action. A session without a logged-on user can do nothing.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use transfix::{
    AdminSettings, Application, Durability, Engine, FixAdminSettings, Role, SessionId,
    SessionSettings, Settings, SlowConsumer, TlsSettings,
};

use crate::fix::application::Administrator;

pub(crate) mod administrators;
pub(crate) mod answer;
mod application;
mod command_text;
mod commands;
mod creating;
mod listed;
pub(crate) mod logged_on_users;
mod message;
mod monitoring;
mod operating;
pub(crate) mod own;
mod request;
mod session_data;
mod xml;

pub(crate) use administrators::Administrators;

/// Runs a command for fuzz tests, and returns the answer as XML.
#[cfg(feature = "rig")]
pub(crate) fn answer_to(
    administrators: &Administrators,
    session: &SessionId,
    xml: &[u8],
    asks: Result<(transfix::Actor, crate::users::Role), answer::Refused>,
) -> String {
    let (request_id, outcome) = application::carry_out(administrators, session, (xml, None), asks);
    answer::response(request_id, &outcome)
}

/// Maximum length of an administrator's message, in bytes. The limit exceeds the XML limit, so that
/// the server can answer XML that is too long instead of disconnecting.
const MESSAGE_MAX: usize = 2 << 20;
/// Maximum number of messages that may wait for one administrator.
const WAITING_MAX: usize = 64;
/// Number of bytes that may wait for an administrator who does not read. If more bytes wait for
/// [`UNREAD_TIME`], the connection is closed.
const UNREAD_MAX: usize = 4 << 20;
const UNREAD_TIME: Duration = Duration::from_secs(5);
/// Maximum number of bytes that can wait for one administrator; every answer is shorter.
const QUEUED_MAX: usize = 32 << 20;
/// Maximum number of bytes that may wait for all administrators together.
const ALL_WAITING_MAX: usize = 128 << 20;
/// Number of threads that run commands.
const THREADS: usize = 4;
/// Time limit for administrators to answer the server's Logout(5).
const LOGOUT_TIME: Duration = Duration::from_secs(1);

/// The server of the administration over FIX, stopped on drop.
pub(crate) struct FixServer {
    address: SocketAddr,
    administrators: Arc<Administrators>,
    engine: Option<Engine>,
    watch: Option<JoinHandle<()>>,
}

impl fmt::Debug for FixServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FixServer({})", self.address)
    }
}

impl FixServer {
    /// Listens at the configured address and starts the threads.
    ///
    /// # Errors
    /// Returns an error if the address or the certificate is unusable.
    pub(crate) fn start(
        settings: &AdminSettings,
        fix: &FixAdminSettings,
        administrators: Administrators,
    ) -> Result<Self, String> {
        let administrators = Arc::new(administrators);
        let of_sessions = Arc::clone(&administrators);
        let settings = engine(settings, fix);
        let nobody = |_: &SessionId| -> Box<dyn Application> { unreachable!("a template alone") };
        let admit = move |_: &SessionId| -> Option<Box<dyn Application>> {
            Some(Box::new(Administrator::new(Arc::clone(&of_sessions))))
        };
        let wrong = |error: &dyn fmt::Display| format!("[admin.fix]: {error}");
        let engine = Engine::builder(&settings).admit(admit).start(nobody);
        let engine = engine.map_err(|error| wrong(&error))?;
        let Some(address) = engine.listening().first().copied() else {
            return Err(wrong(&"no address"));
        };
        if !address.ip().is_loopback() && settings.sessions.iter().all(|one| one.tls.is_none()) {
            return Err(wrong(&format!(
                "other machines can reach {address}: set certificate and key of [admin], or \
                 listen at 127.0.0.1"
            )));
        }
        let of_watch = Arc::clone(&administrators);
        let idle = Some(fix.idle).filter(|idle| !idle.is_zero());
        let watch = thread::Builder::new().name("tfx-admin-fix".to_owned());
        let watch = watch.spawn(move || of_watch.attendance.watch(&of_watch.admin, idle));
        let watch = Some(watch.map_err(|error| wrong(&error))?);
        Ok(Self { address, administrators, engine: Some(engine), watch })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for FixServer {
    fn drop(&mut self) {
        self.administrators.attendance.close();
        self.administrators.attendance.wait_for_answers();
        if let Some(watch) = self.watch.take() {
            // The join fails only after a panic of the thread, which has been reported already.
            let _ = watch.join();
        }
        if let Some(engine) = self.engine.take() {
            engine.stop(LOGOUT_TIME);
        }
    }
}

/// Returns the settings of the administrators' engine: one session template with a memory store.
fn engine(settings: &AdminSettings, fix: &FixAdminSettings) -> Settings {
    let id = SessionId::new(fix.begin_string, &fix.sender_comp_id, "*");
    let mut session = SessionSettings::new(Role::Acceptor, &id, &fix.address);
    session.allow_from.clone_from(&fix.allow_from);
    if !settings.certificate.as_os_str().is_empty() {
        session.tls = Some(TlsSettings {
            certificate: Some(settings.certificate.clone()),
            key: Some(settings.key.clone()),
            ..TlsSettings::default()
        });
    }
    // An administrator repeats requests after a reconnect, so messages need no store on disk.
    session.store.durability = Durability::Memory;
    session.store.keep_outbound = false;
    let resets = &mut session.protocol.reset_on;
    (resets.logon, resets.logout, resets.disconnect) = (true, true, true);
    session.protocol.held_bytes_max = 1 << 20;
    // Commands use fields that no dictionary contains.
    session.validation.validate = false;
    session.validation.message_bytes_max = MESSAGE_MAX;
    session.application.messages_max = WAITING_MAX;
    session.queue.queued_bytes_max = QUEUED_MAX;
    session.queue.slow_consumer_bytes = UNREAD_MAX;
    session.queue.slow_consumer_after = UNREAD_TIME;
    session.queue.slow_consumer = SlowConsumer::Disconnect;
    session.latency_points = false;
    let mut settings = Settings::of(session);
    let engine = &mut settings.engine;
    engine.workers = 1;
    engine.application_threads = THREADS;
    engine.created_sessions_max = fix.sessions_max as usize;
    // Sessions are removed soon after the logout, so that each Logon(A) creates a session and its
    // password is checked in another thread.
    engine.created_sessions_idle = Duration::from_secs(1);
    engine.pending_connections_max = 64;
    engine.pending_per_address_max = 32;
    engine.waiting_bytes_max = ALL_WAITING_MAX;
    // A slow callback is no fault here, because the program may take a minute for a request.
    engine.slow_callback = Duration::ZERO;
    settings
}
