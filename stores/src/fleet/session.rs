//! A session of a gateway, as the fleet sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use transfix::schedule::Schedule;
use transfix::{Disconnect, Role, SessionHandle, SessionId, State, clock};

/// Time after which a gateway uses a released session again that no other gateway has taken over.
pub(super) const RELEASED: Duration = Duration::from_secs(30);

/// Time without a connection after which other gateways may try to connect an initiator too.
const CONNECTING: Duration = Duration::from_secs(10);

/// A session of this gateway.
#[derive(Clone)]
pub(super) struct FleetSession {
    pub(super) id: SessionId,
    /// The place of the record by which this gateway became the owner; 0 if another one is. The
    /// value ends with the store of the session.
    owns_since: Weak<AtomicU64>,
    /// The reason why the fleet has disabled the session; `None` if it has not. An operator may
    /// have disabled the session all the same.
    pub(super) disabled: Option<Disabled>,
    /// The reason why this gateway may take the session over.
    pub(super) may_take: Option<Why>,
}

/// The reason why a session changes its gateway.
#[derive(Clone, Debug)]
pub(super) struct Why {
    /// The former gateway.
    pub(super) from: String,
    pub(super) why: String,
}

/// The reason why the fleet has disabled a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disabled {
    /// An initiator of another gateway.
    Standby,
    /// The session was released, at this time, to this run of a gateway.
    Released(Instant, u64),
    /// The gateway was drained.
    Drained,
}

impl FleetSession {
    /// Returns a session whose store sets `owns_since`. An initiator starts disabled.
    pub(super) fn new(id: &SessionId, role: Role, owns_since: &Arc<AtomicU64>) -> Self {
        let disabled = (role == Role::Initiator).then_some(Disabled::Standby);
        let owns_since = Arc::downgrade(owns_since);
        Self { id: id.clone(), owns_since, disabled, may_take: None }
    }

    /// Returns false if the session was removed from the engine.
    pub(super) fn has_store(&self) -> bool {
        self.owns_since.strong_count() > 0
    }

    pub(super) fn is_owned(&self) -> bool {
        self.owns_since.upgrade().is_some_and(|since| since.load(Ordering::Acquire) > 0)
    }

    /// Notes that another gateway became the owner by the record at this place. Returns false if
    /// this gateway was not the owner before, or has become the owner again since.
    pub(super) fn note_taken(&self, place: u64) -> bool {
        let is_later = |since: u64| (0 < since && since < place).then_some(0);
        self.owns_since.upgrade().is_some_and(|since| {
            since.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_later).is_ok()
        })
    }

    /// Returns the reason why this run of another gateway may take the session over now; `None` if
    /// it may not.
    pub(super) fn may_be_taken_by(&self, run: u64, handle: &SessionHandle) -> Option<&'static str> {
        if !self.is_owned() {
            return Some("is no longer its owner");
        }
        match self.disabled {
            _ if is_connected(handle) => None,
            Some(Disabled::Drained) => Some("is drained"),
            Some(Disabled::Released(_, to)) if to == run => Some("was asked to release it"),
            Some(Disabled::Released(at, _)) => {
                (at.elapsed() >= RELEASED).then_some("has released it")
            }
            // An operator has logged the session out.
            Some(Disabled::Standby) | None if !handle.status().enabled => None,
            Some(Disabled::Standby) | None if handle.settings().role == Role::Initiator => {
                cannot_connect(handle).then_some("cannot connect to the counterparty")
            }
            Some(Disabled::Standby) | None => Some("is not connected with the counterparty"),
        }
    }
}

/// Returns true if an initiator was logged on, and has established no connection since, for
/// [`CONNECTING`] and its reconnect interval. A Logon(A) that the counterparty has refused does not
/// count: each gateway would send one.
fn cannot_connect(handle: &SessionHandle) -> bool {
    let (now, status) = (clock::now().utc, handle.status());
    let was_logged_on = status.last_end.is_some_and(|end| {
        use Disconnect::{HeartbeatTimeout, LinkLost, LoggedOut, LogoutTimeout};
        matches!(end.reason, HeartbeatTimeout | LinkLost | LoggedOut | LogoutTimeout)
    });
    let limit = CONNECTING + handle.settings().socket.reconnect_interval;
    let is_long_ago = |at| u128::try_from(now.since(at)).is_ok_and(|ns| ns > limit.as_nanos());
    let is_open = match handle.settings().schedule.as_ref().map(Schedule::new) {
        None => true,
        Some(Ok(hours)) => hours.at(now).is_some_and(|hours| is_long_ago(hours.open)),
        // The engine refuses such settings.
        Some(Err(_)) => false,
    };
    was_logged_on && is_open && status.since.is_some_and(is_long_ago)
}

pub(super) fn is_connected(handle: &SessionHandle) -> bool {
    !matches!(handle.state(), State::Disconnected | State::LogonAwaited)
}
