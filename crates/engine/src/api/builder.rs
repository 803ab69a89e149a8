//! Construction of an engine, with stores of the user's own and unknown counterparties.

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

/// Says which application a counterparty gets.
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

    /// Returns the handle of a session, to send from any thread.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry().find(id).map(SessionHandle::of)
    }

    /// Adds a session to the running engine, with its application. The session connects, or accepts
    /// connections, at once. An acceptor at a new address gets its listener. An acceptor whose
    /// `target_comp_id` is `*` is a template: it has no handle, and its application is not called.
    /// A session of mode `pool` goes to the worker with the fewest sessions; an engine started
    /// without such sessions starts a thread for it.
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

    /// Removes a session from the running engine. The session logs out with this Text(58), and the
    /// counterparty has as long to answer as at [`Engine::stop`]. The store keeps its place and its
    /// numbers, and may be opened again when this method returns. The engine stops listening at the
    /// address of its last acceptor. Sessions made from a template stay when the template is
    /// removed.
    ///
    /// Handles of the session stay valid and report a closed session. Never call this method from a
    /// callback of the session: the call would wait for itself.
    ///
    /// Returns the end of the session; `None` for a template.
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

    /// Returns the handles of all sessions: first those of the settings in their order, then those
    /// made from templates, sorted by identity.
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
    /// need it. The engine calls `admit` when a counterparty logs on that no settings name. `admit`
    /// returns its application, or `None` to close the connection. The function runs in a thread of
    /// its own, several at once if several counterparties log on. [`Application::judge_logon`] runs
    /// there too for a counterparty without a session: a refused counterparty gets none. A slow or
    /// panicking call affects that connection alone.
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
    /// `transfix_testkit::laws` checks the laws of every store; the example `own_store` shows a
    /// store.
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
    /// [`Engine::poll_fd`]. Without it the program calls [`Engine::poll`] in a loop, which uses a
    /// whole CPU but saves the wake-up of the thread for each message.
    pub fn with_poll_fd(mut self) -> Self {
        self.has_fd = true;
        self
    }

    /// Runs the engine in another world than that of the machine: time, threads and connections
    /// come from there. For tests; see
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
