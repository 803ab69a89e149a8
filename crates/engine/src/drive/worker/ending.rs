//! Ends a worker's sessions: all of them at a stop, and removed sessions one by one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use transfix_session::Disconnect;
use transfix_session::core::ENDING_NS_MAX;

use super::{LOOK, Worker, down, guarded, spin_ns};
use crate::drive::driven::DrivenSession;
use crate::drive::outcome::{Outcome, SessionOutcome};
use crate::drive::session_waker::Release;
use crate::link::Down;

/// The maximum number of panics without progress while a session is being finished.
const PANICS_TOLERATED_MAX: u32 = 8;

/// The minimum time, in nanoseconds, for notifying applications how their stores ended.
const TOLD_NS_MIN: u64 = 1_000_000_000;

pub(super) struct Stop {
    pub(super) until_ns: u64,
    /// The slots of sessions that were connected when the stop began.
    pub(super) was_up: BTreeSet<usize>,
}

/// A session that leaves the worker after it has logged out and all records of its store are
/// durable.
pub(super) struct Leaving {
    pub(super) slot: usize,
    pub(super) was_up: bool,
    /// The deadline of the present step: the logout, or the store's last records.
    pub(super) until_ns: u64,
    /// The outcome; `None` while the session is still connected.
    pub(super) outcome: Option<Outcome>,
    pub(super) to: Sender<SessionOutcome>,
}

/// A session that has left the worker. Its application may still learn which messages a failed
/// store has lost, before another session with this identity continues with the numbers.
pub(super) struct Left {
    session: DrivenSession,
    outcome: Outcome,
    /// The deadline for notifying the application.
    until_ns: u64,
    to: Sender<SessionOutcome>,
}

impl Worker {
    /// Returns true if the worker may end: all sessions are disconnected, or the deadline of the
    /// stop has passed.
    pub(crate) fn is_done(&self) -> bool {
        if self.is_its_own && self.slots.is_empty() && self.left.is_empty() {
            return true;
        }
        self.stop.as_ref().is_some_and(|stop| {
            self.slots.iter().all(|(_, slot)| !slot.up) || self.io.monotonic_ns() >= stop.until_ns
        })
    }

    /// Closes the remaining connections, and returns how the sessions ended.
    pub(crate) fn finish(&mut self) -> Vec<SessionOutcome> {
        let stop = self.stop.take();
        let mut outcomes = Vec::new();
        for (i, slot) in &mut self.slots {
            let was_up = stop.as_ref().map_or(slot.up, |stop| stop.was_up.contains(&i));
            outcomes.push(slot.outcome(was_up));
            if slot.up {
                let why = Down::Session(Disconnect::Operator);
                down(slot, &why, self.io.now(), self.poll.registry());
            }
        }
        // All stores work in parallel, so they share one deadline. A store that has become durable
        // by then gets the same time again for its last records.
        let until_ns = self.io.monotonic_ns().saturating_add(ENDING_NS_MAX);
        // Checks every session without stopping at the first unsettled one, because a check lets
        // its store begin the next sync.
        let mut settled =
            || self.slots.iter_mut().fold(true, |all, (_, slot)| is_settled(slot) & all);
        while !settled() && self.io.monotonic_ns() < until_ns {
            self.io.sleep(LOOK);
        }
        let mut settled = Vec::new();
        for (_, slot) in &mut self.slots {
            let longer = self.io.monotonic_ns().saturating_add(ENDING_NS_MAX);
            settled.push(is_settled(slot));
            finish(slot, if settled.last() == Some(&true) { longer } else { until_ns });
        }
        self.wait_until_told(&settled, until_ns);
        self.complete_left(u64::MAX);
        let ended = self.slots.iter().zip(outcomes);
        ended.map(|((_, slot), outcome)| slot.with_numbers(outcome)).collect()
    }

    /// Waits until applications were notified of the messages that failed stores have lost, before
    /// other sessions continue with the numbers. Applications of sessions that were not `settled`
    /// have already had their time.
    fn wait_until_told(&mut self, settled: &[bool], until_ns: u64) {
        let until_ns = until_ns.max(self.io.monotonic_ns().saturating_add(TOLD_NS_MIN));
        let mut told = || {
            let slots = self.slots.iter_mut().zip(settled);
            let left =
                self.left.iter_mut().fold(true, |all, left| is_settled(&mut left.session) & all);
            slots.fold(left, |all, ((_, slot), was)| (!was || is_settled(slot)) & all)
        };
        while !told() && self.io.monotonic_ns() < until_ns {
            self.io.sleep(LOOK);
        }
    }

    /// Begins the logout of a session, which leaves the worker afterwards.
    pub(super) fn begin_release(&mut self, release: Release) {
        let i = release.session_waker.slot();
        let is_here =
            |slot: &DrivenSession| Arc::ptr_eq(&slot.shared.session_waker, &release.session_waker);
        if !self.slots.get(i).is_some_and(is_here) {
            // The session has moved to another worker or has not arrived here yet, so the request
            // is passed on.
            release.hand_over();
            return;
        }
        let Release { until_ns, text, to, .. } = release;
        let was_up = self.slots[i].up;
        self.slots[i].shared.enabled.store(false, Ordering::Release);
        self.leaving.push(Leaving { slot: i, was_up, until_ns, outcome: None, to });
        let now = self.io.now();
        if let Err(why) = guarded(&mut self.slots[i], |slot| slot.begin_stop(now, &text)) {
            self.down(i, &why);
        }
    }

    /// Removes sessions from the worker that have logged out, or whose deadline has passed.
    pub(super) fn release(&mut self) {
        let now_ns = self.io.monotonic_ns();
        for n in (0..self.leaving.len()).rev() {
            let i = self.leaving[n].slot;
            let is_late = now_ns >= self.leaving[n].until_ns;
            if self.leaving[n].outcome.is_none() {
                if self.slots[i].up && !is_late {
                    continue;
                }
                let outcome = self.slots[i].outcome(self.leaving[n].was_up);
                if self.slots[i].up {
                    self.down(i, &Down::Session(Disconnect::Operator));
                }
                self.leaving[n].outcome = Some(outcome);
                self.leaving[n].until_ns = now_ns.saturating_add(ENDING_NS_MAX);
                continue;
            }
            let settled = is_settled(&mut self.slots[i]);
            if settled || is_late {
                let Leaving { outcome, to, .. } = self.leaving.swap_remove(n);
                finish(&mut self.slots[i], now_ns);
                let session = self.slots.remove(i);
                self.again.retain(|other| *other != i);
                self.spin_ns = spin_ns(self.slots.iter().map(|(_, slot)| slot));
                self.command_queue.has_lost_one();
                // A connection for the session is refused from here on.
                session.shared.session_waker.leave();
                // Computes the deadline anew, because opening a store may have taken long. An
                // application whose time is over gets no more.
                let wait_ns = if settled { ENDING_NS_MAX } else { 0 };
                let until_ns = self.io.monotonic_ns().saturating_add(wait_ns);
                let outcome = outcome.unwrap_or(Outcome::Failed);
                self.left.push(Left { session, outcome, until_ns, to });
            }
        }
        self.complete_left(self.io.monotonic_ns());
    }

    /// Returns true if no session is leaving.
    pub(super) fn has_no_leaving_sessions(&self) -> bool {
        self.leaving.is_empty() && self.left.is_empty()
    }

    /// Completes sessions that have left, after their applications were notified or their deadline
    /// has passed.
    fn complete_left(&mut self, now_ns: u64) {
        for n in (0..self.left.len()).rev() {
            let left = &mut self.left[n];
            if now_ns >= left.until_ns || is_settled(&mut left.session) {
                let Left { mut session, outcome, to, .. } = self.left.swap_remove(n);
                let outcome = session.with_numbers(outcome);
                // A custom store may panic when it is dropped.
                let _ = guarded(&mut session, |session| {
                    session.retire();
                    Ok(())
                });
                // The send fails only if the requester no longer waits.
                let _ = to.send(outcome);
            }
        }
    }

    /// Returns the time of the next check of leaving sessions.
    pub(super) fn leaving_at(&self) -> u64 {
        let look_ns = self.io.monotonic_ns().saturating_add(LOOK.as_nanos() as u64);
        let at = self.leaving.iter().map(|leaving| match leaving.outcome {
            None if self.slots[leaving.slot].up => leaving.until_ns,
            None => 0,
            Some(_) => leaving.until_ns.min(look_ns),
        });
        let left = self.left.iter().map(|left| left.until_ns.min(look_ns));
        at.chain(left).min().unwrap_or(u64::MAX)
    }

    pub(super) fn begin_stop(&mut self, until_ns: u64, text: &str) {
        let was_up = self.slots.iter().filter(|(_, slot)| slot.up).map(|(i, _)| i).collect();
        self.stop = Some(Stop { until_ns, was_up });
        let now = self.io.now();
        let slots: Vec<usize> = self.slots.iter().map(|(i, _)| i).collect();
        for i in slots {
            match guarded(&mut self.slots[i], |slot| slot.begin_stop(now, text)) {
                Ok(_) => self.note_deadline(i),
                Err(why) => self.down(i, &why),
            }
        }
    }
}

/// Returns true if the session may end. The check may notify the application, which may panic; the
/// session then counts as not settled.
fn is_settled(slot: &mut DrivenSession) -> bool {
    guarded(slot, |slot| Ok(slot.is_settled())).unwrap_or(false)
}

/// Finishes a session at the end of the engine. If the application or an event listener panics, the
/// next message is still reported.
fn finish(slot: &mut DrivenSession, until_ns: u64) {
    if !slot.settle(until_ns) {
        return;
    }
    let mut left = slot.unsettled();
    // After a panic at `SessionNotice::Unsent`, one message less is left to report. Other panics
    // make no progress, so only a few are tolerated, to end the loop.
    let mut tolerated = 0;
    let act = |slot: &mut DrivenSession| {
        slot.finish(until_ns);
        Ok(())
    };
    while guarded(slot, act).is_err() {
        let before = std::mem::replace(&mut left, slot.unsettled());
        tolerated += u32::from(left >= before);
        if tolerated > PANICS_TOLERATED_MAX {
            return;
        }
    }
}
