//! The logged-on administrators, the time of their last requests, and their subscriptions.
//!
//! Invariant: nothing is polled while no administrator is logged on, and sessions are polled only
//! while a subscription exists. An administrator has at most one subscription.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::{Action, Admin, SessionHandle, SessionId, clock};

use crate::fix::answer::{CommandResult, Refused, response};
use crate::fix::listed::{Listed, write_list};
use crate::fix::message;
use crate::fix::xml::Writer;

/// Interval at which sessions are polled for subscriptions.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which administrators are checked for idleness.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time for which a shutdown waits for running commands.
const ANSWERS_MAX: Duration = Duration::from_secs(5);

/// An administrator's subscription to the states of sessions.
pub(super) struct Subscription {
    pub(super) request_id: Option<i64>,
    pub(super) monitoring_id: Option<String>,
    /// The sessions and states that the administrator has received last.
    pub(super) listed: Listed,
}

struct Present {
    handle: SessionHandle,
    asked_ns: u64,
    subscription: Option<Subscription>,
}

#[derive(Default)]
struct State {
    present: BTreeMap<String, Present>,
    /// Number of running commands, which have no answer yet.
    asking: usize,
    is_over: bool,
}

/// A running command; dropping this value marks the command as answered.
pub(super) struct RunningCommand<'a>(&'a LoggedOnUsers);

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        self.0.lock().asking -= 1;
        self.0.changed.notify_all();
    }
}

/// The logged-on administrators.
#[derive(Default)]
pub(crate) struct LoggedOnUsers {
    state: Mutex<State>,
    changed: Condvar,
}

impl LoggedOnUsers {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an administrator who has logged on.
    pub(super) fn enters(&self, handle: SessionHandle) {
        let (key, asked_ns) = (handle.id().to_string(), clock::monotonic_ns());
        self.lock().present.insert(key, Present { handle, asked_ns, subscription: None });
        self.changed.notify_all();
    }

    /// Removes an administrator who has logged out, together with the subscription.
    pub(super) fn leaves(&self, id: &SessionId) {
        self.lock().present.remove(&id.to_string());
    }

    /// Records a running command of an administrator. The caller drops the returned value when the
    /// command is answered.
    pub(super) fn asks(&self, id: &SessionId) -> RunningCommand<'_> {
        let mut state = self.lock();
        if let Some(present) = state.present.get_mut(&id.to_string()) {
            present.asked_ns = clock::monotonic_ns();
        }
        state.asking += 1;
        RunningCommand(self)
    }

    /// Sets the subscription of an administrator, in place of an existing subscription.
    pub(super) fn subscribe(
        &self,
        id: &SessionId,
        subscription: Subscription,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        let present = state.present.get_mut(&id.to_string());
        let gone = || Refused::rejected("you are not logged on");
        present.ok_or_else(gone)?.subscription = Some(subscription);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Ends the subscription of an administrator. Returns true if a subscription existed.
    pub(super) fn unsubscribe(&self, id: &SessionId) -> bool {
        let mut state = self.lock();
        let present = state.present.get_mut(&id.to_string());
        present.is_some_and(|present| present.subscription.take().is_some())
    }

    /// Waits until all commands are answered, at most [`ANSWERS_MAX`], so that an administrator who
    /// stops the program receives the answer.
    pub(super) fn wait_for_answers(&self) {
        let is_asking = |state: &mut State| state.asking > 0;
        // After the time limit, the shutdown continues; commands still running then receive no
        // answer.
        let _ = self.changed.wait_timeout_while(self.lock(), ANSWERS_MAX, is_asking);
    }

    /// Makes [`LoggedOnUsers::watch`] return.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Sends changes of sessions to subscribers and logs out idle administrators, until
    /// [`LoggedOnUsers::close`].
    pub(super) fn watch(&self, admin: &Admin, idle: Option<Duration>) {
        let mut state = self.lock();
        while !state.is_over {
            let has_subscription = state.present.values().any(|one| one.subscription.is_some());
            let wait = match (has_subscription, state.present.is_empty() || idle.is_none()) {
                (true, _) => Some(POLL_INTERVAL),
                (false, false) => Some(IDLE_CHECK_INTERVAL),
                (false, true) => None,
            };
            state = match wait {
                Some(wait) => {
                    let woken = self.changed.wait_timeout(state, wait);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            if state.is_over {
                return;
            }
            let idle = idle.map_or_else(Vec::new, |idle| who_is_idle(&state, idle));
            drop(state);
            for handle in idle {
                tracing::info!(session = %handle.id(), "the administration logs an idle \
                    administrator out");
                // The action fails if the administrator has disconnected in the meantime.
                let _ = handle.operate(&Action::LogOut {
                    text: "no command arrived for too long; log on again".to_owned(),
                });
            }
            if has_subscription {
                self.tell(admin);
            }
            state = self.lock();
        }
    }

    /// Sends each subscriber the changes since the last list sent to that subscriber.
    fn tell(&self, admin: &Admin) {
        let now = Listed::of(admin);
        let mut state = self.lock();
        let mut news = Vec::new();
        for (key, present) in &mut state.present {
            let Some(subscription) = &mut present.subscription else { continue };
            let changes = now.changes(&subscription.listed);
            if changes.is_empty() {
                continue;
            }
            let mut xml = Writer::default();
            write_list(changes.into_iter(), &mut xml);
            let xml = response(subscription.request_id, &Ok(CommandResult::written(xml)));
            let id = subscription.monitoring_id.clone();
            news.push((key.clone(), present.handle.clone(), xml, id));
        }
        drop(state);
        for (key, handle, xml, id) in news {
            let fill = |body: &mut transfix::Body<'_>| message::write(body, &xml, id.as_deref());
            // If the changes cannot be sent now, the next poll sends them.
            if handle.send(message::TYPE, fill).is_ok() {
                let mut state = self.lock();
                let present = state.present.get_mut(&key);
                if let Some(known) = present.and_then(|present| present.subscription.as_mut()) {
                    known.listed = now.clone();
                }
            }
        }
    }
}

/// Returns the administrators without a subscription whose last request is at least `idle` ago.
fn who_is_idle(state: &State, idle: Duration) -> Vec<SessionHandle> {
    let now_ns = clock::monotonic_ns();
    let quiet = |one: &&Present| one.subscription.is_none() && is_idle(one.asked_ns, now_ns, idle);
    state.present.values().filter(quiet).map(|one| one.handle.clone()).collect()
}

fn is_idle(asked_ns: u64, now_ns: u64, idle: Duration) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(asked_ns)) >= idle
}

/// The logged-on administrators, shared by the sessions and the thread that watches them.
pub(crate) type SharedLoggedOnUsers = Arc<LoggedOnUsers>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_idle_is_out() {
        let minute = Duration::from_secs(60);
        for (asked_s, now_s, expected) in [(0, 59, false), (0, 60, true), (9, 3, false)] {
            let second = 1_000_000_000;
            assert_eq!(is_idle(asked_s * second, now_s * second, minute), expected);
        }
    }
}
