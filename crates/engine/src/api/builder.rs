//! Construction of an engine, optionally with custom stores and with admission of unknown
//! counterparties.

use std::sync::Arc;
use std::time::Duration;

use transfix_session::{OperateError, SessionId};
use transfix_settings::review::Cpus;
use transfix_settings::{SessionSettings, Settings};
use transfix_store::{Store, StoreError};

use crate::api::adapter::ApplicationAdapter;
use crate::api::application::Application;
use crate::api::handle::SessionHandle;
use crate::drive::outcome::SessionOutcome;
use crate::drive::registry::{OpenStore, Registry};
use crate::engine::{AdmitTo, Engine, Extras};
use crate::error::EngineError;
use crate::io::{Io, System};

/// A function that returns the application for an unknown counterparty, or `None` to refuse the
/// counterparty.
type Admit = Box<dyn Fn(&SessionId) -> Option<Box<dyn Application>> + Send + Sync>;

impl Engine {
    /// Opens the stores, binds the listeners and starts the threads. Calls `application` once for
    /// each session.
    ///
    /// A session whose store cannot be opened does not stop the others from starting. The log and
    /// [`SessionHandle::store_failure`] give the reason, and the engine retries until the store
    /// opens.
    ///
    /// # Errors
    /// [`EngineError`]: no part of the engine is running.
    pub fn start(
        settings: &Settings,
        application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Self, EngineError> {
        Self::builder(settings).start(application)
    }

    /// Returns a builder for an engine that needs more than settings: stores of your own, or
    /// templates.
    ///
    /// ```
    /// # use transfix::{
    /// #     Application, BeginString, BusinessReject, Engine, Message, Role, SessionId,
    /// #     SessionRef, SessionSettings, Settings,
    /// # };
    /// # use transfix_store::MemoryStore;
    /// # struct Deaf;
    /// # impl Application for Deaf {
    /// #     fn on_message(
    /// #         &mut self,
    /// #         _: &Message<'_>,
    /// #         _: &mut SessionRef<'_>,
    /// #     ) -> Result<(), BusinessReject> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// # let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    /// # let settings = Settings::of(SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0"));
    /// let engine = Engine::builder(&settings)
    ///     .stores(|_, now_ns| Ok(Some(Box::new(MemoryStore::new(1 << 20, now_ns)))))
    ///     .start(|_| Box::new(Deaf))?;
    /// # engine.stop(std::time::Duration::ZERO);
    /// # Ok::<(), transfix::EngineError>(())
    /// ```
    pub const fn builder(settings: &Settings) -> EngineBuilder<'_> {
        EngineBuilder::new(settings)
    }

    /// Returns a handle to the session, which any thread may use to send.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry().find(id).map(SessionHandle::of)
    }

    /// Adds a session and its application to the running engine. The session connects, or accepts
    /// connections, at once. An acceptor at a new address gets its own listener. An acceptor whose
    /// `target_comp_id` is `*` is a template, which has no handle, and whose application is never
    /// called. A session of mode `pool` goes to the worker with the fewest sessions; if the engine
    /// has no pool yet, it starts a worker.
    ///
    /// # Errors
    /// [`EngineError`]: the engine is unchanged. Reasons include a session with the same identity,
    /// and a store that cannot be opened.
    pub fn add(
        &mut self,
        session: &SessionSettings,
        application: Box<dyn Application>,
    ) -> Result<Option<SessionHandle>, EngineError> {
        let owner = ApplicationAdapter::of(application, &session.id(), self.registry());
        Ok(self.add_with(session, owner)?.map(SessionHandle::of))
    }

    /// Removes a session from the running engine. The session logs out with this Text(58), and
    /// waits for the counterparty's answer as [`Engine::stop`] does. The store and its numbers stay
    /// on disk and can be opened again when this method returns. If no other acceptor uses the
    /// address, the engine stops listening there. Removing a template keeps the sessions made from
    /// it.
    ///
    /// Existing handles of the session stay valid, and report that the session is closed. Never
    /// call this method from a callback of the session, because the call would wait for its own
    /// callback.
    ///
    /// Returns how the session ended, or `None` for a template.
    ///
    /// # Errors
    /// [`OperateError::NoSession`] if no session has this identity.
    pub fn remove(
        &mut self,
        id: &SessionId,
        text: &str,
        deadline: Duration,
    ) -> Result<Option<SessionOutcome>, OperateError> {
        self.remove_with(id, text, deadline).ok_or(OperateError::NoSession)
    }

    /// Returns handles to all sessions: first the sessions of the settings in their order, then the
    /// sessions made from templates, sorted by identity.
    pub fn sessions(&self) -> impl Iterator<Item = SessionHandle> {
        self.all().map(SessionHandle::of)
    }
}

/// Builds an engine; see [`Engine::builder`].
#[must_use = "nothing runs before `start`"]
pub struct EngineBuilder<'a> {
    settings: &'a Settings,
    admit: Option<Admit>,
    open_store: Option<OpenStore>,
    has_fd: bool,
    io: Option<Arc<dyn Io>>,
}

impl<'a> EngineBuilder<'a> {
    pub(crate) const fn new(settings: &'a Settings) -> Self {
        Self { settings, admit: None, open_store: None, has_fd: false, io: None }
    }

    /// Sets the function that admits unknown counterparties; templates (`target_comp_id = "*"`)
    /// need it. The engine calls `admit` when a counterparty without a configured session logs on.
    /// `admit` returns the application of the new session, or `None` to close the connection. The
    /// function runs in a separate thread, and several calls may run at once.
    /// [`Application::judge_logon`] runs in the same thread; if it refuses the logon, no session is
    /// made. A slow or panicking call affects only its connection.
    pub fn admit(
        mut self,
        admit: impl Fn(&SessionId) -> Option<Box<dyn Application>> + Send + Sync + 'static,
    ) -> Self {
        self.admit = Some(Box::new(admit));
        self
    }

    /// Sets the function that opens stores of your own. The engine calls `open` for each session
    /// with its settings and the time, in UTC nanoseconds since 1970. `None` leaves the session to
    /// the store of its settings. For sessions made from templates, `open` runs in the thread that
    /// judges the Logon(A).
    ///
    /// `transfix_testkit::laws` tests whether a store behaves as the engine requires; the example
    /// `own_store` implements a store.
    pub fn stores(
        mut self,
        open: impl Fn(&SessionSettings, u64) -> Result<Option<Box<dyn Store>>, StoreError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.open_store = Some(Box::new(open));
        self
    }

    /// Lets a program with its own event loop wait for its `polled` sessions at
    /// [`Engine::poll_fd`]. Otherwise the program calls [`Engine::poll`] in a loop, which occupies
    /// a whole CPU but saves the thread's wake-up for each message.
    pub fn with_poll_fd(mut self) -> Self {
        self.has_fd = true;
        self
    }

    /// Replaces the system's time, threads and connections by those of `io`, for tests; see
    /// [`simulated::io`](crate::simulated::io).
    #[cfg(feature = "rig")]
    pub fn io(mut self, io: Arc<dyn Io>) -> Self {
        self.io = Some(io);
        self
    }

    /// Opens the stores, binds the listeners and starts the threads. `application` is called once
    /// for each session.
    ///
    /// # Errors
    /// [`EngineError`]; nothing is left running then.
    pub fn start(
        self,
        mut application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Engine, EngineError> {
        let Self { settings, admit, open_store, has_fd, io } = self;
        let io = io.unwrap_or_else(|| Arc::new(System));
        Cpus::of_this_machine().check(settings).map_err(EngineError::Settings)?;
        let admit = admit.map(|admit| -> AdmitTo {
            Box::new(move |id, sessions| {
                admit(id).map(|application| ApplicationAdapter::of(application, id, sessions))
            })
        });
        let owner = |id: &SessionId, sessions: &Arc<Registry>| {
            ApplicationAdapter::of(application(id), id, sessions)
        };
        Engine::start_with(settings, Extras { admit, open_store, has_fd, io }, &mut { owner })
    }
}
