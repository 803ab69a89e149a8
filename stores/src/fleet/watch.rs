//! Takes over initiators whose gateway does not answer, and sessions that an operator moves.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use transfix::{Role, SessionHandle, StoreError};

use super::gateway::{Gateway, Heard, LOGOUT, RELEASED, ask, disable, enable, is_connected, now};
use super::request::{Answer, Request};
use crate::failed;

/// Interval at which an expected change of owner is checked.
const LOOK: Duration = Duration::from_millis(2);
/// Maximum time for this gateway to take a session over that an operator moves to it.
const TAKING: Duration = Duration::from_secs(20);

/// Looks at all sessions twice in the time that a gateway has for an answer.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let mut owners = BTreeMap::new();
    loop {
        if !gateway.is_drained() {
            take_back(&gateway, RELEASED).await;
            look(&gateway, &mut owners).await;
        }
        let pause = tokio::time::sleep(gateway.answer / 2);
        tokio::select! {
            () = pause => {}
            () = gateway.released.notified() => {}
        }
    }
}

/// Uses released sessions again that another gateway has taken over, or that none has taken over
/// within this time. A session that an operator has disabled stays disabled.
pub(super) async fn take_back(gateway: &Gateway, least: Duration) {
    for (session, handle) in gateway.sessions() {
        let Some(released) = session.released() else { continue };
        if session.is_owned() && released.elapsed() < least {
            continue;
        }
        gateway.note_released(handle.id(), None);
        // An initiator of another gateway stays disabled.
        if session.is_owned() || handle.settings().role == Role::Acceptor {
            enable(handle).await;
        }
    }
}

/// Enables the initiators that no gateway uses, and disables those that another gateway has.
/// `owners` are the owners that are known, by session.
async fn look(gateway: &Gateway, owners: &mut BTreeMap<String, u64>) {
    let standby = |(session, handle): &(_, SessionHandle)| {
        let session: &super::gateway::FleetSession = session;
        handle.settings().role == Role::Initiator && !session.is_owned()
    };
    let handles: BTreeMap<String, SessionHandle> = gateway
        .sessions()
        .into_iter()
        .filter(standby)
        .map(|(_, handle)| (handle.id().to_string(), handle))
        .collect();
    owners.retain(|session, _| handles.contains_key(session));
    let mut used = BTreeMap::new();
    for (session, handle) in &handles {
        for is_fresh in [false, true] {
            let owner = match owners.get(session) {
                Some(owner) if !is_fresh => *owner,
                // Nothing is known without the brokers, so the session stays as it is.
                _ => match owner_of(gateway, session).await {
                    Ok(owner) => owner,
                    Err(_) => return,
                },
            };
            owners.insert(session.clone(), owner);
            let of_owner = match used.entry(owner) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match used_by(gateway, owner).await {
                    Ok(sessions) => unknown.insert(sessions),
                    Err(_) => return,
                },
            };
            if of_owner.contains(session) {
                if handle.status().enabled {
                    disable(handle.clone()).await;
                }
                break;
            }
            // The owner may have changed since, so it is read again before the session connects.
            if is_fresh && !handle.status().enabled {
                enable(handle.clone()).await;
            }
        }
    }
}

/// Returns the owner of a session; 0 without an owner.
async fn owner_of(gateway: &Gateway, session: &str) -> Result<u64, StoreError> {
    let (brokers, session) = (gateway.brokers.clone(), session.to_owned());
    let owner = tokio::task::spawn_blocking(move || brokers.owner(&session));
    owner.await.map_err(failed)?
}

/// Returns the initiators that a gateway uses: none, if the gateway is gone or silent.
async fn used_by(gateway: &Gateway, owner: u64) -> Result<BTreeSet<String>, StoreError> {
    if owner == 0 || owner == gateway.run {
        return Ok(BTreeSet::new());
    }
    match ask(&gateway.brokers, owner, &Request::Initiators, gateway.answer).await? {
        Heard::Answer(Answer::Initiators { sessions }) => Ok(sessions.into_iter().collect()),
        _ => Ok(BTreeSet::new()),
    }
}

/// Takes a session over on the request of an operator.
pub(super) async fn take(gateway: &Arc<Gateway>, name: &str) -> Answer {
    let failed = |why: String| Answer::Failed { why };
    let Some((session, handle)) = gateway.find(name) else {
        return failed(format!("the gateway {} has no session {name}", gateway.name));
    };
    if gateway.is_drained() {
        return failed(format!("the gateway {} is drained", gateway.name));
    }
    if session.is_owned() {
        return Answer::Done;
    }
    let owner = match owner_of(gateway, name).await {
        Ok(owner) => owner,
        Err(error) => return failed(error.to_string()),
    };
    if owner != 0 && owner != gateway.run {
        let request = Request::Release { session: name.to_owned() };
        match ask(&gateway.brokers, owner, &request, 2 * LOGOUT).await {
            Ok(Heard::Answer(Answer::Failed { why })) => return failed(why),
            Ok(_) => {}
            Err(error) => return failed(error.to_string()),
        }
    }
    if handle.settings().role == Role::Acceptor {
        // The counterparty connects again, and this gateway accepts its Logon(A).
        return Answer::Done;
    }
    enable(handle.clone()).await;
    let until = now() + TAKING;
    while !session.is_owned() || !is_connected(&handle) {
        if now() >= until {
            return failed(format!("{name} has not connected within {TAKING:?}"));
        }
        tokio::time::sleep(LOOK).await;
    }
    Answer::Done
}
