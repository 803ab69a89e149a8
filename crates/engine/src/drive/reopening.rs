//! Brings back a session whose store has failed, or which has panicked, in a thread of its own.
//! Reading a large store takes time, and the other sessions of the worker must not wait for it.
//!
//! Invariant: as long as the thread runs, it has the lock of the session, and nobody else has the
//! store.

use std::sync::Arc;
use std::time::Duration;

use transfix_session::Now;
use transfix_store::StoreError;

use crate::drive::shared::Shared;
use crate::io::{Io, Job};
use crate::link::event::Event;

/// Time before the first attempt; each further one waits twice as long as the one before.
const FIRST_NS: u64 = 1_000_000_000;
const LAST_NS: u64 = 64 * FIRST_NS;
/// Time between two looks at an attempt.
const LOOK_NS: u64 = 10_000_000;

/// How a session that has failed comes back.
pub(crate) struct Reopening {
    step: Step,
    wait_ns: u64,
}

enum Step {
    Nothing,
    /// Try at this moment of the monotonic clock.
    At(u64),
    /// Look at this moment whether it is done.
    Runs(Job<Result<(), StoreError>>, u64),
    /// The engine has ended, and the attempt has not.
    Left,
}

impl Default for Reopening {
    fn default() -> Self {
        Self { step: Step::Nothing, wait_ns: FIRST_NS }
    }
}

impl Reopening {
    /// The session has failed.
    pub(crate) fn plan(&mut self, now_ns: u64) {
        self.step = Step::At(now_ns + self.wait_ns);
        self.wait_ns = (2 * self.wait_ns).min(LAST_NS);
    }

    /// An operator wants it back now.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        if !matches!(self.step, Step::Runs(..)) {
            self.step = Step::At(now_ns);
        }
    }

    /// The store has served a connection to its end.
    pub(crate) const fn forget(&mut self) {
        self.wait_ns = FIRST_NS;
    }

    /// When [`Reopening::advance`] must be called at the latest, on the monotonic clock.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        match self.step {
            Step::Nothing | Step::Left => None,
            Step::At(at) | Step::Runs(_, at) => Some(at),
        }
    }

    /// The engine ends: waits until this moment of the monotonic clock for an attempt that is under
    /// way. One that is not over then is left to itself.
    pub(crate) fn settle(&mut self, io: &dyn Io, until_ns: u64) {
        let Step::Runs(thread, _) = std::mem::replace(&mut self.step, Step::Nothing) else {
            return;
        };
        while !thread.is_finished() {
            let left = until_ns.saturating_sub(io.monotonic_ns());
            if left == 0 {
                self.step = Step::Left;
                return;
            }
            io.sleep(Duration::from_nanos(left.min(LOOK_NS)));
        }
    }

    /// Returns true if an attempt is under way, which has the lock of the session.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(&self.step, Step::Runs(thread, _) if !thread.is_finished())
    }

    /// Returns true if an attempt was left to itself, which has the lock of the session.
    pub(crate) const fn is_left(&self) -> bool {
        matches!(self.step, Step::Left)
    }

    /// Does what is due. Returns whether the store is open again.
    pub(crate) fn advance(&mut self, now: Now, shared: &Arc<Shared>) -> bool {
        let now_ns = now.monotonic_ns;
        if self.deadline().is_none_or(|at| now_ns < at) {
            return false;
        }
        match std::mem::replace(&mut self.step, Step::Nothing) {
            Step::Nothing | Step::Left => {}
            Step::At(_) => {
                let of_thread = Arc::clone(shared);
                let name = "store-reopen".to_owned();
                match Job::spawn(&*shared.io, name, move || reopen(&of_thread)) {
                    Ok(thread) => self.step = Step::Runs(thread, now_ns + LOOK_NS),
                    Err(_) => self.plan(now_ns),
                }
            }
            Step::Runs(thread, _) if !thread.is_finished() => {
                self.step = Step::Runs(thread, now_ns + LOOK_NS);
            }
            Step::Runs(thread, _) => match thread.join() {
                Some(Ok(())) => return true,
                Some(Err(error)) => {
                    shared.lock().executor().tell(now, &Event::StoreNotOpened(&error));
                    self.plan(now_ns);
                }
                None => {
                    shared.lock().executor().tell(now, &Event::ReopeningPanicked);
                    self.plan(now_ns);
                }
            },
        }
        false
    }
}

fn reopen(shared: &Shared) -> Result<(), StoreError> {
    shared.registry.helpers.begin();
    let mut link = shared.lock();
    link.reopen(&*shared.io, &shared.queue)?;
    // State that a panic may have left half done is made anew.
    shared.link.clear_poison();
    Ok(())
}
