//! Administrators who are there: when each has asked last, and what each has subscribed to.
//!
//! Invariant: nothing is looked at while nobody is there; sessions are looked at only while
//! somebody has subscribed. An administrator has one subscription at most.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transfix::{Action, Admin, SessionHandle, SessionId, clock};

use crate::fix::answer::{Refused, Said, response};
use crate::fix::listed::{Listed, write_list};
use crate::fix::message;
use crate::fix::xml::Writer;

/// Time between two looks at sessions for those who have subscribed.
const LOOK: Duration = Duration::from_millis(250);
/// Time between two looks for those who are idle.
const IDLE_LOOK: Duration = Duration::from_secs(5);

/// How long the end waits for commands under way.
const ANSWERS_MAX: Duration = Duration::from_secs(5);

/// A wish to hear of what becomes of sessions.
pub(super) struct Subscription {
    pub(super) request_id: Option<i64>,
    pub(super) monitoring_id: Option<String>,
    /// The sessions and states that the administrator knows.
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
    /// Commands that are not answered yet.
    asking: usize,
    is_over: bool,
}

/// A command, until it is answered.
pub(super) struct Asking<'a>(&'a Attendance);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.lock().asking -= 1;
        self.0.changed.notify_all();
    }
}

/// Administrators who are there.
#[derive(Default)]
pub(crate) struct Attendance {
    state: Mutex<State>,
    changed: Condvar,
}

impl Attendance {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody has logged on.
    pub(super) fn enters(&self, handle: SessionHandle) {
        let (key, asked_ns) = (handle.id().to_string(), clock::monotonic_ns());
        self.lock().present.insert(key, Present { handle, asked_ns, subscription: None });
        self.changed.notify_all();
    }

    /// Somebody has gone, and the subscription with it.
    pub(super) fn leaves(&self, id: &SessionId) {
        self.lock().present.remove(&id.to_string());
    }

    /// Somebody asks for something, and is answered when what this returns is dropped.
    pub(super) fn asks(&self, id: &SessionId) -> Asking<'_> {
        let mut state = self.lock();
        if let Some(present) = state.present.get_mut(&id.to_string()) {
            present.asked_ns = clock::monotonic_ns();
        }
        state.asking += 1;
        Asking(self)
    }

    /// Takes a subscription; it replaces one that is there.
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

    /// Ends a subscription. Returns whether there was one.
    pub(super) fn unsubscribe(&self, id: &SessionId) -> bool {
        let mut state = self.lock();
        let present = state.present.get_mut(&id.to_string());
        present.is_some_and(|present| present.subscription.take().is_some())
    }

    /// Waits until all commands are answered, but not for ever: who asks for the stop gets its
    /// answer.
    pub(super) fn wait_for_answers(&self) {
        let is_asking = |state: &mut State| state.asking > 0;
        // A command without an answer by then never gets one.
        let _ = self.changed.wait_timeout_while(self.lock(), ANSWERS_MAX, is_asking);
    }

    /// Lets [`Attendance::watch`] return.
    pub(super) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Tells of sessions and logs out who is idle, until [`Attendance::close`].
    pub(super) fn watch(&self, admin: &Admin, idle: Option<Duration>) {
        let mut state = self.lock();
        while !state.is_over {
            let has_subscription = state.present.values().any(|one| one.subscription.is_some());
            let wait = match (has_subscription, state.present.is_empty() || idle.is_none()) {
                (true, _) => Some(LOOK),
                (false, false) => Some(IDLE_LOOK),
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
                tracing::info!(session = %handle.id(), "an idle administrator is logged out");
                // One that has gone meanwhile is out.
                let _ = handle.operate(&Action::LogOut {
                    text: "idle for too long; log on again".to_owned(),
                });
            }
            if has_subscription {
                self.tell(admin);
            }
            state = self.lock();
        }
    }

    /// Tells those who have subscribed what is other than they know.
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
            let xml = response(subscription.request_id, &Ok(Said::written(xml)));
            let id = subscription.monitoring_id.clone();
            news.push((key.clone(), present.handle.clone(), xml, id));
        }
        drop(state);
        for (key, handle, xml, id) in news {
            let fill = |body: &mut transfix::Body<'_>| message::write(body, &xml, id.as_deref());
            // Changes that cannot be sent now are sent at the next look.
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

/// Those who have asked nothing for so long, and have no subscription.
fn who_is_idle(state: &State, idle: Duration) -> Vec<SessionHandle> {
    let now_ns = clock::monotonic_ns();
    let quiet = |one: &&Present| one.subscription.is_none() && is_idle(one.asked_ns, now_ns, idle);
    state.present.values().filter(quiet).map(|one| one.handle.clone()).collect()
}

fn is_idle(asked_ns: u64, now_ns: u64, idle: Duration) -> bool {
    Duration::from_nanos(now_ns.saturating_sub(asked_ns)) >= idle
}

/// So that a thread and many sessions have it.
pub(crate) type SharedAttendance = Arc<Attendance>;

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
