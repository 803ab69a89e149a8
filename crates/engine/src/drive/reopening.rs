//! Bringing back a session whose store has failed, or which has panicked, in a thread of its own:
//! reading a large store takes time, and the other sessions of the worker must not wait for it.
//!
//! Invariant: the thread has ended when this is dropped, so that nobody else holds the store.

use std::sync::Arc;

use transfix_session::Now;
use transfix_store::StoreError;

use crate::drive::shared::Shared;
use crate::io::Job;

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
            Step::Nothing => None,
            Step::At(at) | Step::Runs(_, at) => Some(at),
        }
    }

    /// Does what is due. Returns whether the store is open again.
    pub(crate) fn advance(&mut self, now: Now, shared: &Arc<Shared>) -> bool {
        let now_ns = now.monotonic_ns;
        if self.deadline().is_none_or(|at| now_ns < at) {
            return false;
        }
        match std::mem::replace(&mut self.step, Step::Nothing) {
            Step::Nothing => {}
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
                    shared.with_core(|core| core.events.store_not_opened(now, &error));
                    self.plan(now_ns);
                }
                None => {
                    shared.with_core(|core| core.events.reopening_panicked(now));
                    self.plan(now_ns);
                }
            },
        }
        false
    }
}

impl Drop for Reopening {
    fn drop(&mut self) {
        if let Step::Runs(thread, _) = std::mem::replace(&mut self.step, Step::Nothing) {
            drop(thread.join());
        }
    }
}

fn reopen(shared: &Shared) -> Result<(), StoreError> {
    shared.registry.helpers.begin();
    let mut link = shared.lock();
    link.reopen(shared.io.now(), &shared.queue)?;
    // What a panic may have left half done is made anew.
    shared.link.clear_poison();
    Ok(())
}
