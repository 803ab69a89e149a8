//! How an engine is put together where settings don't say it all: stores of the user's own,
//! counterparties that no settings name.

use transfix_session::SessionId;
use transfix_store::{Store, StoreError};

use crate::application::Application;
use crate::cpus;
use crate::engine::{Engine, EngineError};
use crate::settings::{SessionSettings, Settings};
use crate::template::Admit;

/// Opens the store of a session; `None` leaves that to the session's settings. The number is the
/// time, in UTC nanoseconds since 1970.
pub(crate) type OpenStore =
    Box<dyn Fn(&SessionSettings, u64) -> Result<Option<Box<dyn Store>>, StoreError> + Send + Sync>;

/// An engine in the making; see [`Engine::builder`].
#[must_use = "nothing runs before `start`"]
pub struct EngineBuilder<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) admit: Option<Admit>,
    pub(crate) open_store: Option<OpenStore>,
}

impl<'a> EngineBuilder<'a> {
    pub(crate) const fn new(settings: &'a Settings) -> Self {
        Self { settings, admit: None, open_store: None }
    }

    /// Templates (`target_comp_id = "*"`) need it: `admit` is called when a counterparty that no
    /// settings name logs on, and answers with its application, or `None` to close the connection.
    /// It runs in a thread of its own, several at once if several log on, and so does
    /// [`Application::judge_logon`] for a counterparty that has no session yet: nothing is made for
    /// one that is refused. A call that is slow, or panics, costs that connection alone.
    pub fn admit(
        mut self,
        admit: impl Fn(&SessionId) -> Option<Box<dyn Application>> + Send + Sync + 'static,
    ) -> Self {
        self.admit = Some(Box::new(admit));
        self
    }

    /// Stores of your own: `open` is called for each session with its settings and the time, in UTC
    /// nanoseconds since 1970. `None` leaves the session to the store that its settings ask for.
    /// Sessions made from templates have theirs opened in the thread that judges them.
    ///
    /// `transfix_testkit::laws` checks the laws that every store obeys; `own_store` among the
    /// examples shows one.
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

    /// Opens the stores, binds the listeners and starts the threads. `application` is called once
    /// for each session.
    ///
    /// # Errors
    /// [`EngineError`]; nothing is left running then.
    pub fn start(
        self,
        application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Engine, EngineError> {
        cpus::check(self.settings).map_err(EngineError::Settings)?;
        Engine::start_built(self, application)
    }
}
