//! A message passed to programs, until all of them have answered.
//!
//! Invariant: the session gets one answer, after the last program has answered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{BusinessReject, MessageAnswer};

use super::routes::Target;

/// The delivery state of the message that a session has received last.
#[derive(Default)]
pub(super) struct Passed {
    /// The names of targets that have accepted the message, and do not get it again.
    pub(super) had: Vec<String>,
    /// True if another target may have received the message.
    pub(super) in_doubt: bool,
    /// The names of targets that may have received the message. If one target suffices, only these
    /// are tried again.
    pub(super) maybe_delivered: Vec<String>,
}

/// The delivery state of a message, shared by all parts that update it.
pub(super) type SharedPassed = Arc<Mutex<Passed>>;

pub(super) fn lock(passed: &SharedPassed) -> MutexGuard<'_, Passed> {
    // The state stays consistent even after a panic, so a poisoned lock is used.
    passed.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Open {
    /// `None` after the answer was given.
    answer: Option<MessageAnswer>,
    left: usize,
    refusal: Option<BusinessReject>,
    /// A function that holds the message, instead of answering that a program is not available.
    hold: Option<Hold>,
}

/// A function that holds the message to which this deferred answer belongs, to try it again later.
pub(super) type Hold = Box<dyn FnOnce(MessageAnswer) + Send>;

/// BusinessRejectReason(380) 4: application not available.
const NOT_AVAILABLE: u16 = 4;

/// A message that was passed to programs. Clones share its state.
#[derive(Clone)]
pub(super) struct Asked {
    open: Arc<Mutex<Open>>,
    passed: SharedPassed,
}

impl Asked {
    /// Returns the state of a message that was passed to `count` programs.
    pub(super) fn new(answer: MessageAnswer, count: usize, passed: SharedPassed) -> Self {
        let open = Open { answer: Some(answer), left: count, refusal: None, hold: None };
        Self { open: Arc::new(Mutex::new(open)), passed }
    }

    /// Makes the message be held, by calling `hold`, if a program is not available.
    pub(super) fn or_hold(self, hold: Hold) -> Self {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).hold = Some(hold);
        self
    }

    /// Records the answer of the program at `target`.
    pub(super) fn answered(&self, target: &Target, said: Result<(), BusinessReject>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(()) => lock(&self.passed).had.push(target.to_string()),
            Err(reject) => _ = open.refusal.get_or_insert(reject),
        }
        open.left = open.left.saturating_sub(1);
        if open.left == 0
            && let Some(answer) = open.answer.take()
        {
            let (said, hold) = (open.refusal.take().map_or(Ok(()), Err), open.hold.take());
            drop(open);
            match (said, hold) {
                (Err(reject), Some(hold)) if reject.reason == NOT_AVAILABLE => hold(answer),
                (said, _) => answer.give(said),
            }
        }
    }
}
