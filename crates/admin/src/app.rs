//! The state that all requests share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use transfix::{Admin, EngineAction, SessionHandle};

use crate::answer::Refusal;
use crate::events::EventRing;
use crate::filter::EventFilter;
use crate::logins::Logins;
use crate::refusals::Refusals;
use crate::throttle::Throttle;
use crate::turns::{Turn, Turns};
use crate::users::UsersFile;

/// Passwords that are checked at once: each takes memory and time.
const CHECKS_AT_ONCE: usize = 2;
/// Journals that are searched at once.
const SEARCHES_AT_ONCE: usize = 2;
/// Actions at once: each may wait for the end of a session's turn.
const ACTIONS_AT_ONCE: usize = 4;
/// Requests to the program at once, over HTTP and FIX together: each may wait a minute. A stop has
/// a place of its own.
const REQUESTS_AT_ONCE: usize = 2;
const STOPS_AT_ONCE: usize = 1;
/// Places for those who only look, whatever the others wait for.
const LOOKS_AT_ONCE: usize = 5;
/// Threads that may wait.
pub(crate) const BLOCKING_MAX: usize = CHECKS_AT_ONCE
    + SEARCHES_AT_ONCE
    + ACTIONS_AT_ONCE
    + REQUESTS_AT_ONCE
    + STOPS_AT_ONCE
    + LOOKS_AT_ONCE;
/// When who was refused for want of a place should ask again, in seconds.
const AGAIN_S: u64 = 5;

/// Limits of requests that wait at once, by kind, so that waiting requests do not block those that
/// only look.
///
/// Invariant: a place is held until the work is done, also if the client has gone before.
pub(crate) struct Limits {
    checks: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// Users and tokens that search, or wait for a search: each has one search at a time.
    searching: Turns<String>,
    actions: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    stops: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        let of = |places| Arc::new(Semaphore::new(places));
        Self {
            checks: of(CHECKS_AT_ONCE),
            searches: of(SEARCHES_AT_ONCE),
            searching: Turns::default(),
            actions: of(ACTIONS_AT_ONCE),
            requests: of(REQUESTS_AT_ONCE),
            stops: of(STOPS_AT_ONCE),
        }
    }
}

impl Limits {
    /// A place for a password that is checked; waits for one.
    pub(crate) async fn check(&self) -> Result<Place, Refusal> {
        Self::wait(&self.checks).await
    }

    /// A place for a search; waits for one, and before for the other searches of the same name:
    /// many searches of one hold up that one alone.
    pub(crate) async fn search(&self, name: &str) -> Result<(Turn, Place), Refusal> {
        let own = self.searching.wait(name.to_owned()).await;
        Ok((own, Self::wait(&self.searches).await?))
    }

    /// A place for an action; waits for one.
    pub(crate) async fn action(&self) -> Result<Place, Refusal> {
        Self::wait(&self.actions).await
    }

    /// A place for a request to the program.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn request(&self, action: &EngineAction) -> Result<Place, Busy> {
        let places = match action {
            EngineAction::Stop => &self.stops,
            _ => &self.requests,
        };
        Arc::clone(places).try_acquire_owned().map(Place).map_err(|_| Busy)
    }

    async fn wait(places: &Arc<Semaphore>) -> Result<Place, Refusal> {
        let place = Arc::clone(places).acquire_owned().await;
        place.map(Place).map_err(|_| Refusal::failed("the server ends"))
    }
}

/// Others wait for the program.
#[derive(Debug)]
pub(crate) struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another request to the program is under way; try again when it is done")
    }
}

impl From<Busy> for Refusal {
    fn from(busy: Busy) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, busy.to_string()).again_after(AGAIN_S)
    }
}

/// A place among those who may wait, until it is dropped.
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// The state that all requests share.
pub(crate) struct App {
    pub(crate) admin: Admin,
    pub(crate) users: Arc<UsersFile>,
    pub(crate) logins: Logins,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) events: EventRing,
    pub(crate) filter: Option<EventFilter>,
    pub(crate) audit_file: Option<PathBuf>,
    pub(crate) settings_file: Option<PathBuf>,
    pub(crate) open_metrics: bool,
    pub(crate) is_tls: bool,
    pub(crate) limits: Arc<Limits>,
}

impl App {
    pub(crate) fn session(&self, id: &str) -> Result<SessionHandle, Refusal> {
        let found = self.admin.find(id);
        found.ok_or_else(|| Refusal::not_found(format!("there is no session {id}")))
    }
}

/// Runs what may wait in its place, beside the requests of others.
pub(crate) async fn in_place<T: Send + 'static>(
    place: impl Send + 'static,
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    blocking(move || {
        let _place = place;
        what()
    })
    .await
}

/// Runs what is done soon, beside the requests of others.
pub(crate) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| Refusal::failed("it has panicked; the log says more"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_searches_of_one_hold_up_that_one_alone() {
        let limits = Arc::<Limits>::default();
        let first = limits.search("anna").await.unwrap();
        let others: Vec<_> = (0..40)
            .map(|_| {
                let limits = Arc::clone(&limits);
                tokio::spawn(async move { limits.search("anna").await.map(drop) })
            })
            .collect();
        let moment = Duration::from_secs(1);
        assert!(timeout(moment, limits.search("anna")).await.is_err(), "one at a time");
        let other = timeout(moment, limits.search("bert")).await.expect("it has its own turn");
        drop((first, other));
        for one in others {
            one.await.unwrap().unwrap();
        }
        let last = limits.search("bert").await.unwrap();
        assert_eq!(limits.searching.count(), 1, "who has ended is forgotten");
        drop(last);
    }
}
