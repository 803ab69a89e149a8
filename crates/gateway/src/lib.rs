//! A gateway between FIX sessions, programs and files. The routes of a file determine to which
//! sessions, programs (in any language, by a Unix socket) and files a message goes. Programs and
//! files can also send messages.
//!
//! [`Routes`] are the rules. A [`Gateway`] starts an engine whose sessions have no application of
//! their own, and passes their messages on:
//!
//! ```no_run
//! use std::path::Path;
//! use std::time::Duration;
//!
//! use transfix::Settings;
//! use transfix_gateway::{Gateway, Routes};
//!
//! let mut settings = Settings::load("sessions.toml")?;
//! transfix_gateway::prepare(&mut settings);
//! let routes = Routes::read(Path::new("routes.toml"), &settings).map_err(|all| all.join("\n"))?;
//! let gateway = Gateway::open(routes, &settings, |line| println!("{line}"))?;
//! let engine = gateway.start(&settings)?;
//! let sources = gateway.begin(&engine.admin())?;
//! // …
//! engine.stop(Duration::from_secs(10));
//! drop(sources);
//! gateway.end();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The page "Gateway" of the book lists the keys of the rules, and the socket protocol of programs.
#![forbid(unsafe_code)]

mod asked;
mod bridge;
mod choices;
mod copy;
mod files;
mod held;
mod line;
mod mark;
mod origins;
mod port;
mod program;
mod routes;
mod sending;
mod stored;
mod told;
mod written;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use transfix::{Admin, Application, Engine, EngineError, Reloaded, SessionSettings, Settings, Tag};

use bridge::Bridge;
use choices::Choices;
pub use files::InputFiles;
use files::OutputFiles;
use held::Held;
use origins::Origins;
use port::Ports;
pub use routes::Routes;
use told::Told;

/// The minimum number of application threads, which forward messages.
const APPLICATION_THREADS: usize = 2;
/// The reason why a gateway is no part of a fleet. A gateway of another machine would not know the
/// targets that already have a message, and would send the message again.
const FLEET: &str = "[fleet]: routes work on one machine only, because their files of choices are \
                     there; remove [fleet], or use an application of your own";

/// Raises the number of application threads to what a gateway needs. These threads do not drive
/// sessions, so one may wait until another session has stored a message.
pub fn prepare(settings: &mut Settings) {
    let threads = &mut settings.engine.application_threads;
    *threads = (*threads).max(APPLICATION_THREADS);
}

/// A gateway: the state that all its sessions share. Clones share one state.
#[derive(Clone)]
pub struct Gateway {
    /// The rules in force.
    routes: Arc<RwLock<Arc<Routes>>>,
    ports: Ports,
    drains: OutputFiles,
    origins: Origins,
    /// The files that record the chosen targets of messages.
    choices: Choices,
    /// The fields that sessions add to outbound messages, by their settings.
    added: Arc<BTreeSet<Tag>>,
    /// Messages that can neither be delivered now nor refused.
    held: Held,
    told: Told,
    /// The administration of the engine, set when the engine runs.
    admin: Arc<OnceLock<Admin>>,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("routes", &self.routes()).finish_non_exhaustive()
    }
}

/// The result of a reload.
#[derive(Debug)]
#[non_exhaustive]
pub struct Renewed {
    /// The result of the engine's reload, with the sessions that have changed.
    pub engine: Reloaded,
    /// True if the new routes differ from the old ones.
    pub routes_changed: bool,
}

impl Gateway {
    /// Opens the sockets and files of the rules, and reads the stores of the sessions. `say` gets a
    /// line for people when a session or a program connects or disconnects.
    ///
    /// # Errors
    /// Names the socket or file that cannot be opened. Settings with `[fleet]` are refused.
    pub fn open(
        routes: Routes,
        settings: &Settings,
        say: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, String> {
        if settings.fleet.is_some() {
            return Err(FLEET.to_owned());
        }
        // Reads the stores before the engine opens them, so that only messages of earlier processes
        // are found.
        let (choices, held) = (Choices::read(settings)?, Held::begin()?);
        let added = Arc::new(stored::added_tags(settings));
        let (origins, told) = (Origins::default(), Told::begin(say)?);
        let drains = OutputFiles::open(&routes.files)?;
        let ports = Ports::open(&routes.sockets, &origins, &told)?;
        let routes = Arc::new(RwLock::new(Arc::new(routes)));
        let admin = Arc::default();
        Ok(Self { routes, ports, drains, origins, choices, added, held, told, admin })
    }

    /// Starts an engine whose sessions forward their messages along the routes.
    ///
    /// # Errors
    /// Those of [`Engine::start`].
    pub fn start(&self, settings: &Settings) -> Result<Engine, EngineError> {
        let admitted = self.clone();
        Engine::builder(settings)
            .admit(move |_| Some(admitted.application()))
            .start(|_| self.application())
    }

    /// Lets programs and files send messages through the sessions of this engine. Call this method
    /// once.
    ///
    /// # Errors
    /// Names the file that cannot be read, or the thread that cannot be started.
    pub fn begin(&self, admin: &Admin) -> Result<InputFiles, String> {
        let _ = self.admin.set(admin.clone());
        self.ports.begin(admin)?;
        InputFiles::begin(&self.routes().files, &self.origins, admin)
    }

    /// Ends the gateway. Call this after the engine has stopped: held messages come again after the
    /// next start.
    pub fn end(&self) {
        self.held.end();
    }

    /// Returns the rules in force.
    #[must_use]
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn put_in_force(&self, routes: Arc<Routes>) {
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = routes;
    }

    /// Returns the application for a session, which forwards the session's messages.
    #[must_use]
    pub fn application(&self) -> Box<dyn Application> {
        Box::new(Bridge::new(self))
    }

    /// Returns the application for a session that is added while the gateway runs.
    ///
    /// # Errors
    /// Names the rule that does not allow the session.
    pub fn application_of_added(
        &self,
        session: &SessionSettings,
    ) -> Result<Box<dyn Application>, String> {
        self.routes().check_added(session)?;
        Ok(self.application())
    }

    /// Applies new settings and new routes. Changed sessions have the time `logout_time` to log
    /// out.
    ///
    /// # Errors
    /// Describes the fault; nothing has changed then.
    pub fn reload(
        &self,
        engine: &mut Engine,
        (from, to): (&Settings, &Settings),
        routes: Routes,
        logout_time: Duration,
    ) -> Result<Renewed, String> {
        let before = self.routes();
        if routes == Routes::default() && *before != routes {
            return Err(
                "the file of routes is missing or has no route: the previous routes stay in force"
                    .into(),
            );
        }
        if !before.same_places(&routes) {
            return Err(
                "sockets and files are opened only at the start: restart the gateway".into()
            );
        }
        let routes_changed = *before != routes;
        // The routes must be in force before new sessions receive messages.
        self.put_in_force(Arc::new(routes));
        let done = engine.reload(from, to, logout_time, |_| self.application());
        let engine = done.map_err(|error| {
            self.put_in_force(before);
            error.to_string()
        })?;
        Ok(Renewed { engine, routes_changed })
    }
}
