//! What all requests share.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use transfix::{Admin, SessionHandle};

use crate::answer::Refusal;
use crate::events::EventRing;
use crate::filter::EventFilter;
use crate::logins::Logins;
use crate::throttle::Throttle;
use crate::users::UsersFile;

/// Passwords that are checked at once: each takes memory and time.
const CHECKS_AT_ONCE: usize = 2;
/// Journals that are searched at once.
const SEARCHES_AT_ONCE: usize = 2;

/// What all requests share.
pub(crate) struct App {
    pub(crate) admin: Admin,
    pub(crate) users: Arc<UsersFile>,
    pub(crate) logins: Logins,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) events: EventRing,
    pub(crate) filter: Option<EventFilter>,
    pub(crate) audit_file: Option<PathBuf>,
    pub(crate) settings_file: Option<PathBuf>,
    pub(crate) open_metrics: bool,
    pub(crate) is_tls: bool,
    pub(crate) checks: Semaphore,
    pub(crate) searches: Semaphore,
}

impl App {
    pub(crate) fn semaphores() -> (Semaphore, Semaphore) {
        (Semaphore::new(CHECKS_AT_ONCE), Semaphore::new(SEARCHES_AT_ONCE))
    }

    pub(crate) fn session(&self, id: &str) -> Result<SessionHandle, Refusal> {
        let found = self.admin.find(id);
        found.ok_or_else(|| Refusal::not_found(format!("there is no session {id}")))
    }
}

/// Runs what may wait, beside the requests of others.
pub(crate) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| Refusal::failed("it has panicked; the log says more"))
}
