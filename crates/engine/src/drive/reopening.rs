//! Restores a session whose store has failed, or which has panicked, in a separate thread. Reading
//! a large store takes time, and the other sessions of the worker must not wait.
//!
//! Invariant: while the thread runs, it holds the session's lock, and no other thread uses the
//! store.

use std::sync::Arc;
use std::time::Duration;

use transfix_session::Now;
use transfix_store::StoreError;

use crate::drive::shared::Shared;
use crate::io::{Io, Job};
use crate::link::event::Event;

/// The time before the first attempt, in nanoseconds. The time doubles for each further attempt.
const FIRST_NS: u64 = 1_000_000_000;
const LAST_NS: u64 = 64 * FIRST_NS;
/// The interval of checks whether an attempt has ended.
const LOOK_NS: u64 = 10_000_000;

/// The restoration of a failed session.
pub(crate) struct Reopening {
    step: Step,
    wait_ns: u64,
}

enum Step {
    Nothing,
    /// Begin an attempt at this monotonic time.
    At(u64),
    /// An attempt runs; check it at this time.
    Runs(Job<Result<(), StoreError>>, u64),
    /// The engine has ended before the attempt.
    Left,
}

impl Default for Reopening {
    fn default() -> Self {
        Self { step: Step::Nothing, wait_ns: FIRST_NS }
    }
}

impl Reopening {
    /// Plans an attempt, because the session has failed.
    pub(crate) fn plan(&mut self, now_ns: u64) {
        self.step = Step::At(now_ns + self.wait_ns);
        self.wait_ns = (2 * self.wait_ns).min(LAST_NS);
    }

    /// Begins the next attempt now, because an operator requests it.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        if !matches!(self.step, Step::Runs(..)) {
            self.step = Step::At(now_ns);
        }
    }

    /// Resets the pause, because the store has served a whole connection.
    pub(crate) const fn forget(&mut self) {
        self.wait_ns = FIRST_NS;
    }

    /// Returns the latest time for the next [`Reopening::advance`], on the monotonic clock.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        match self.step {
            Step::Nothing | Step::Left => None,
            Step::At(at) | Step::Runs(_, at) => Some(at),
        }
    }

    /// Waits for a running attempt at the end of the engine, until this monotonic time. A later
    /// attempt is abandoned.
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

    /// Returns true if an attempt is running, which holds the session's lock.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(&self.step, Step::Runs(thread, _) if !thread.is_finished())
    }

    /// Returns true if an attempt was abandoned, which still holds the session's lock.
    pub(crate) const fn is_left(&self) -> bool {
        matches!(self.step, Step::Left)
    }

    /// Does the work that is due. Returns true if the store is open again.
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
    // State that a panic may have left inconsistent has been created again.
    shared.link.clear_poison();
    Ok(())
}
