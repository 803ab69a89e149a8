//! Takes over initiators whose gateway does not answer, and sessions that an operator moves.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use transfix::{Action, Role, SessionHandle, StoreError};

use super::gateway::{Gateway, LOGOUT, POLL, Reply, ask, disable, now, operate};
use super::request::{Answer, Request};
use super::session::{Disabled, FleetSession, RELEASED, is_connected};
use super::wrong;
use crate::failed;

/// Maximum time for this gateway to take a session over that an operator moves to it.
const TAKING: Duration = Duration::from_secs(20);
/// Maximum number of requests that wait for their answers at the same time.
const AT_ONCE: usize = 64;

/// Checks all sessions twice in the time that a gateway has for an answer.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let mut owners = BTreeMap::new();
    let mut has_failed = false;
    loop {
        if !gateway.is_drained() {
            enable_again(&gateway, RELEASED);
            let failed = look(&gateway, &mut owners).await;
            if has_failed && !failed {
                revive(&gateway);
            }
            has_failed = failed;
        } else {
            disable_late(&gateway);
        }
        let pause = tokio::time::sleep(gateway.answer / 2);
        tokio::select! {
            () = pause => {}
            () = gateway.wake.notified() => {}
        }
    }
}

/// Enables sessions that the fleet has disabled, and that no other gateway is to have: those that
/// another gateway has got, or that none has taken within `least`. A session that an operator has
/// disabled stays disabled.
pub(super) fn enable_again(gateway: &Gateway, least: Duration) {
    for (session, handle) in gateway.sessions() {
        let is_owned = session.is_owned();
        match session.disabled {
            None => continue,
            Some(Disabled::Released(at, _)) if is_owned && at.elapsed() < least => continue,
            Some(Disabled::Standby) if !is_owned => continue,
            Some(_) => {}
        }
        if is_owned || handle.settings().role == Role::Acceptor {
            if gateway.change_disabled(&session, None) {
                operate(handle, Action::LogOn {});
            }
        } else {
            gateway.change_disabled(&session, Some(Disabled::Standby));
        }
    }
}

/// Disables the initiators that a look has enabled while an operator drained the gateway.
fn disable_late(gateway: &Gateway) {
    for (session, handle) in gateway.sessions() {
        if handle.settings().role == Role::Initiator
            && handle.status().enabled
            && session.disabled.is_none()
            && gateway.change_disabled(&session, Some(Disabled::Drained))
        {
            operate(handle, disable());
        }
    }
}

/// Restarts sessions whose store has failed, because the brokers answer again.
fn revive(gateway: &Gateway) {
    for (_, handle) in gateway.sessions() {
        if handle.status().store_has_failed {
            operate(handle, Action::Revive {});
        }
    }
}

/// Enables the initiators that no gateway keeps, and disables those that another gateway has.
/// `owners` are the owners that are known, by session. Returns true if the brokers have not
/// answered.
async fn look(gateway: &Gateway, owners: &mut BTreeMap<String, u64>) -> bool {
    let is_other = |(session, handle): &(FleetSession, SessionHandle)| {
        handle.settings().role == Role::Initiator && !session.is_owned()
    };
    let others: Vec<_> = gateway.sessions().into_iter().filter(is_other).collect();
    let mut has_failed = others.is_empty() && probe(gateway).await;
    let names: BTreeSet<_> = others.iter().map(|(session, _)| session.id.to_string()).collect();
    owners.retain(|name, _| names.contains(name));
    let is_kept = ask_owners(gateway, owners, names).await;
    let mut free = Vec::new();
    for (session, handle) in others {
        match is_kept.get(&session.id.to_string()) {
            Some(true) => {
                // An operator may have enabled it, or this gateway has just lost it.
                if handle.status().enabled
                    && !session.is_owned()
                    && gateway.change_disabled(&session, Some(Disabled::Standby))
                {
                    operate(handle, disable());
                }
            }
            Some(false) if session.disabled == Some(Disabled::Standby) => {
                free.push((session, handle));
            }
            Some(false) => {}
            // Nothing is known, so the session stays as it is.
            None => has_failed = true,
        }
    }
    if free.is_empty() {
        return has_failed;
    }
    // Other gateways have seen the same. The first one of them takes the sessions over.
    let wait = getrandom::u32().unwrap_or(0) % 4;
    tokio::time::sleep(gateway.answer * wait / 32).await;
    let names: BTreeSet<_> = free.iter().map(|(session, _)| session.id.to_string()).collect();
    owners.retain(|name, _| !names.contains(name));
    let is_kept = ask_owners(gateway, owners, names).await;
    for (session, handle) in free {
        match is_kept.get(&session.id.to_string()) {
            // An operator may have drained this gateway meanwhile.
            Some(false) if !gateway.is_drained() => {
                if gateway.change_disabled(&session, None) {
                    operate(handle, Action::LogOn {});
                }
            }
            Some(_) => {}
            None => has_failed = true,
        }
    }
    has_failed
}

/// Returns true if the brokers do not answer about a session.
async fn probe(gateway: &Gateway) -> bool {
    match gateway.sessions().into_iter().next() {
        Some((session, _)) => owner_of(gateway, &session.id.to_string()).await.is_err(),
        None => false,
    }
}

/// Returns true for each session that another gateway keeps, and false for each other one. A
/// session is missing if the brokers do not answer, or if the answer of its gateway is unknown.
/// Reads the owners that are missing in `owners`.
async fn ask_owners(
    gateway: &Gateway,
    owners: &mut BTreeMap<String, u64>,
    names: BTreeSet<String>,
) -> BTreeMap<String, bool> {
    let unknown: Vec<_> =
        names.iter().filter(|name| !owners.contains_key(*name)).cloned().collect();
    let read = unknown.into_iter().map(|name| async {
        let owner = owner_of(gateway, &name).await;
        (name, owner)
    });
    let mut read = stream::iter(read).buffer_unordered(AT_ONCE);
    while let Some((name, owner)) = read.next().await {
        if let Ok(owner) = owner {
            owners.insert(name, owner);
        }
    }
    let runs: BTreeSet<u64> = names.iter().filter_map(|name| owners.get(name)).copied().collect();
    let asked = runs.into_iter().map(|run| async move { (run, kept_by(gateway, run).await) });
    let mut asked = stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut kept = BTreeMap::new();
    while let Some((run, sessions)) = asked.next().await {
        if let Ok(sessions) = sessions {
            kept.insert(run, sessions);
        }
    }
    let is_kept = |name: String| {
        let of_owner = kept.get(owners.get(&name)?)?;
        let is_kept = of_owner.contains(&name);
        Some((name, is_kept))
    };
    names.into_iter().filter_map(is_kept).collect()
}

/// Returns the owner of a session; 0 without an owner.
async fn owner_of(gateway: &Gateway, session: &str) -> Result<u64, StoreError> {
    let (brokers, session) = (gateway.brokers.clone(), session.to_owned());
    let owner = tokio::task::spawn_blocking(move || brokers.owner(&session));
    owner.await.map_err(failed)?
}

/// Returns the initiators that a gateway keeps: none, if the gateway is gone or silent.
async fn kept_by(gateway: &Gateway, owner: u64) -> Result<BTreeSet<String>, StoreError> {
    if owner == 0 || owner == gateway.run {
        return Ok(BTreeSet::new());
    }
    let request = Request::Initiators { run: gateway.run };
    match ask(&gateway.brokers, owner, &request, gateway.answer).await? {
        Reply::Answer(Answer::Initiators { sessions }) => Ok(sessions.into_iter().collect()),
        Reply::Gone | Reply::Silent => Ok(BTreeSet::new()),
        Reply::Answer(other) => Err(wrong(format!("a gateway answers {other:?}"))),
    }
}

/// Takes a session over on the request of an operator.
pub(super) async fn move_here(gateway: &Arc<Gateway>, name: &str) -> Answer {
    let failed = |why: String| Answer::Failed { why };
    let Some((session, handle)) = gateway.find(name) else {
        return failed(format!("the gateway {} has no session {name}", gateway.name));
    };
    if gateway.is_drained() {
        return failed(format!("the gateway {} is drained", gateway.name));
    }
    let owner = match owner_of(gateway, name).await {
        Ok(owner) => owner,
        Err(error) => return failed(error.to_string()),
    };
    if owner != 0 && owner != gateway.run {
        let request = Request::Release { session: name.to_owned(), to: gateway.run };
        match ask(&gateway.brokers, owner, &request, 2 * LOGOUT).await {
            Ok(Reply::Answer(Answer::Done) | Reply::Gone | Reply::Silent) => {}
            Ok(Reply::Answer(Answer::Failed { why })) => return failed(why),
            Ok(Reply::Answer(other)) => return failed(format!("its gateway answers {other:?}")),
            Err(error) => return failed(error.to_string()),
        }
    }
    gateway.note_disabled(&session.id, None);
    operate(handle.clone(), Action::LogOn {});
    if handle.settings().role == Role::Acceptor {
        // The counterparty connects again, and this gateway accepts its Logon(A).
        return Answer::Done;
    }
    let until = now() + TAKING;
    while !session.is_owned() || !is_connected(&handle) {
        if now() >= until {
            return failed(format!("{name} has not connected within {TAKING:?}"));
        }
        tokio::time::sleep(POLL).await;
    }
    Answer::Done
}
