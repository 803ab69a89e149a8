//! The state that all HTTP requests share, and the limits of their concurrent work.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use transfix::{Admin, EngineAction, SessionHandle};

use crate::answer::Refusal;
use crate::events::EventRing;
use crate::filter::EventFilter;
use crate::fleet::FleetStatus;
use crate::logins::Logins;
use crate::refusals::Refusals;
use crate::throttle::Throttle;
use crate::turns::{Turn, Turns};
use crate::users::UsersFile;

/// Maximum number of concurrent password checks; each check takes memory and time.
const CHECKS_AT_ONCE: usize = 2;
/// Maximum number of concurrent journal searches.
const SEARCHES_AT_ONCE: usize = 2;
/// Maximum number of concurrent actions; each action may wait until the session's current turn
/// ends.
const ACTIONS_AT_ONCE: usize = 4;
/// Maximum number of concurrent requests to the program, such as a reload, over HTTP and FIX
/// together; each may wait for a minute. A stop request has a separate limit.
const REQUESTS_AT_ONCE: usize = 2;
const STOPS_AT_ONCE: usize = 1;
/// Number of threads that ask the gateways of a fleet at a time.
const FLEET_AT_ONCE: usize = 1;
/// Number of threads reserved for requests that only read, so that other requests cannot delay
/// them.
const READ_THREADS: usize = 5;
/// Maximum number of threads for blocking work.
pub(crate) const BLOCKING_MAX: usize = CHECKS_AT_ONCE
    + SEARCHES_AT_ONCE
    + ACTIONS_AT_ONCE
    + REQUESTS_AT_ONCE
    + STOPS_AT_ONCE
    + FLEET_AT_ONCE
    + READ_THREADS;
/// Retry time in seconds for a request that exceeds a limit.
const RETRY_AFTER_S: u64 = 5;

/// Limits of concurrent blocking work, by kind. The limits keep threads free for requests that only
/// read.
///
/// Invariant: a permit (`Place`) is held until its work is done, even if the client has
/// disconnected.
pub(crate) struct Limits {
    checks: Arc<Semaphore>,
    searches: Arc<Semaphore>,
    /// Users and tokens with a running or waiting search; the searches of one user run one after
    /// another.
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
    /// Waits for the permit to check a password.
    pub(crate) async fn check(&self) -> Result<Place, Refusal> {
        Self::wait(&self.checks).await
    }

    /// Waits for the permit to search. Searches of one user first wait for each other, so many
    /// searches of one user delay only that user.
    pub(crate) async fn search(&self, name: &str) -> Result<(Turn, Place), Refusal> {
        let own = self.searching.wait(name.to_owned()).await;
        Ok((own, Self::wait(&self.searches).await?))
    }

    /// Waits for the permit to perform an action on a session.
    pub(crate) async fn action(&self) -> Result<Place, Refusal> {
        Self::wait(&self.actions).await
    }

    /// Returns the permit for a request to the program, without waiting.
    ///
    /// # Errors
    /// Returns [`Busy`] if all places are in use.
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

/// The error of a request to the program while too many other requests are under way.
#[derive(Debug)]
pub(crate) struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the program is still handling another request; try again when that request \
                     is done",
        )
    }
}

impl From<Busy> for Refusal {
    fn from(busy: Busy) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, busy.to_string()).again_after(RETRY_AFTER_S)
    }
}

/// A permit for blocking work, released on drop.
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// The state that all HTTP requests share.
pub(crate) struct App {
    pub(crate) admin: Admin,
    pub(crate) users: Arc<UsersFile>,
    pub(crate) logins: Logins,
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) events: EventRing,
    pub(crate) filter: Option<EventFilter>,
    pub(crate) fleet: Option<FleetStatus>,
    pub(crate) audit_file: Option<PathBuf>,
    pub(crate) settings_file: Option<PathBuf>,
    pub(crate) open_metrics: bool,
    pub(crate) is_tls: bool,
    pub(crate) limits: Arc<Limits>,
}

impl App {
    pub(crate) fn session(&self, id: &str) -> Result<SessionHandle, Refusal> {
        let found = self.admin.find(id);
        found.ok_or_else(|| Refusal::not_found(format!("no session is named {id}")))
    }
}

/// Runs blocking work in a blocking thread, and holds the permit `place` until the work ends.
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

/// Runs short blocking work in a blocking thread, without a permit.
pub(crate) async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(what).await;
    done.map_err(|_| {
        Refusal::failed(
            "the request failed because of a panic; the log has the \
                                      details",
        )
    })
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
