//! The fleet of which the engine is a gateway, as its gateways report it.
//!
//! Invariant: one thread at a time asks the gateways.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use transfix::clock;

/// Time for which an answer of the gateways is used again.
const FRESH: Duration = Duration::from_secs(2);

/// The source of the state of a fleet, which the administration shows.
#[derive(Clone)]
pub struct FleetStatus(Arc<Source>);

struct Source {
    ask: Box<dyn Fn() -> Result<Value, String> + Send + Sync>,
    /// The last answer, and its time on the monotonic clock.
    last: Arc<Mutex<Option<(u64, Answer)>>>,
}

/// The state of the fleet, or the reason why the state is unknown.
type Answer = Result<Arc<Fleet>, String>;

impl FleetStatus {
    /// Creates a source from a function that asks the gateways, and may take a second for that.
    /// The server calls the function at most every 2 s, and only while somebody looks.
    ///
    /// Each gateway must serialize as an object with the keys `gateway` (its name), `is_drained`
    /// and `sessions`. Each session has `session`, `is_owner`, `is_logged_on`, `next_num_in` and
    /// `next_num_out`. `FleetOperator::gateways` of the crate `transfix-stores` returns this form.
    pub fn new<G: Serialize, E: fmt::Display>(
        gateways: impl Fn() -> Result<Vec<G>, E> + Send + Sync + 'static,
    ) -> Self {
        let ask = move || {
            let gateways = gateways().map_err(|error| error.to_string())?;
            serde_json::to_value(gateways).map_err(|error| error.to_string())
        };
        Self(Arc::new(Source { ask: Box::new(ask), last: Arc::default() }))
    }

    /// Returns the state of the fleet, at most 2 s old.
    ///
    /// # Errors
    /// Returns the reason why the state is unknown.
    pub(crate) async fn now(&self) -> Answer {
        // The lock is released at the end of the question, even if the client has disconnected.
        let mut last = Arc::clone(&self.0.last).lock_owned().await;
        if let Some((at_ns, answer)) = last.as_ref()
            && u128::from(clock::monotonic_ns().saturating_sub(*at_ns)) < FRESH.as_nanos()
        {
            return answer.clone();
        }
        let source = Arc::clone(&self.0);
        let asked = spawn_blocking(move || {
            let answer = (source.ask)().and_then(|gateways| {
                let gateways = serde_json::from_value(gateways);
                let gateways = gateways.map_err(|error| error.to_string())?;
                Ok(Arc::new(Fleet { gateways }))
            });
            *last = Some((clock::monotonic_ns(), answer.clone()));
            answer
        });
        asked.await.map_err(|panic| panic.to_string())?
    }
}

impl fmt::Debug for FleetStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStatus").finish_non_exhaustive()
    }
}

/// The gateways that have answered.
#[derive(Debug)]
pub(crate) struct Fleet {
    gateways: Vec<Gateway>,
}

#[derive(Debug, Deserialize)]
struct Gateway {
    gateway: String,
    is_drained: bool,
    sessions: Vec<SessionThere>,
}

/// A session as one gateway sees it.
#[derive(Debug, Deserialize)]
struct SessionThere {
    session: String,
    is_owner: bool,
    is_logged_on: bool,
    next_num_in: u64,
    next_num_out: u64,
}

impl Fleet {
    /// Returns the numbers of gateways, and of drained gateways among them.
    pub(crate) fn counts(&self) -> [usize; 2] {
        let drained = self.gateways.iter().filter(|gateway| gateway.is_drained);
        [self.gateways.len(), drained.count()]
    }

    /// Formats the gateways, and each session once, as its owner sees the session.
    pub(crate) fn shown(&self) -> Value {
        let mut seen: BTreeMap<&str, (&Gateway, &SessionThere)> = BTreeMap::new();
        for gateway in &self.gateways {
            for session in &gateway.sessions {
                // A gateway that was cut off may not know yet that it has lost a session.
                let rank = |one: &SessionThere| (one.is_owner, one.is_logged_on);
                let known = seen.entry(&session.session).or_insert((gateway, session));
                if rank(session) > rank(known.1) {
                    *known = (gateway, session);
                }
            }
        }
        let sessions = seen.into_values().map(|(gateway, session)| {
            json!({
                "id": session.session,
                "owner": session.is_owner.then_some(&gateway.gateway),
                "logged_on": session.is_owner && session.is_logged_on,
                "next_num_in": session.next_num_in,
                "next_num_out": session.next_num_out,
            })
        });
        let sessions: Vec<_> = sessions.collect();
        let gateways = self.gateways.iter().map(|Gateway { gateway, is_drained, sessions }| {
            let owned = sessions.iter().filter(|session| session.is_owner);
            let logged_on = owned.clone().filter(|session| session.is_logged_on);
            json!({
                "name": gateway,
                "drained": is_drained,
                "sessions": sessions.len(),
                "owned": owned.count(),
                "logged_on": logged_on.count(),
            })
        });
        json!({ "gateways": gateways.collect::<Vec<_>>(), "sessions": sessions })
    }
}
