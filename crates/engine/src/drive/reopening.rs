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
/// The interval, in nanoseconds, at which a running attempt is checked.
const LOOK_NS: u64 = 10_000_000;

/// The attempts to restore a failed session.
pub(crate) struct Reopening {
    step: Step,
    wait_ns: u64,
}

enum Step {
    Nothing,
    /// Wait until this monotonic time, then begin an attempt.
    At(u64),
    /// An attempt is running; check at this monotonic time whether it has ended.
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
    /// Plans the next attempt, with a doubled pause, after the session has failed.
    pub(crate) fn plan(&mut self, now_ns: u64) {
        self.step = Step::At(now_ns + self.wait_ns);
        self.wait_ns = (2 * self.wait_ns).min(LAST_NS);
    }

    /// Begins the next attempt at once, because an operator requests it.
    pub(crate) fn hurry(&mut self, now_ns: u64) {
        if !matches!(self.step, Step::Runs(..)) {
            self.step = Step::At(now_ns);
        }
    }

    /// Resets the pause to its first value, because the store has worked during a whole connection.
    pub(crate) const fn forget(&mut self) {
        self.wait_ns = FIRST_NS;
    }

    /// Returns the monotonic time at which [`Reopening::advance`] must be called again.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        match self.step {
            Step::Nothing | Step::Left => None,
            Step::At(at) | Step::Runs(_, at) => Some(at),
        }
    }

    /// Waits, at the end of the engine, for a running attempt until this monotonic time, and then
    /// abandons it.
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

    /// Returns true while an attempt is running; it holds the session's lock.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(&self.step, Step::Runs(thread, _) if !thread.is_finished())
    }

    /// Returns true if a running attempt was abandoned; it still holds the session's lock.
    pub(crate) const fn is_left(&self) -> bool {
        matches!(self.step, Step::Left)
    }

    /// Begins or checks an attempt if it is due. Returns true if the store is open again.
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
    // The reopening has recreated all state that a panic may have left inconsistent.
    shared.link.clear_poison();
    Ok(())
}
