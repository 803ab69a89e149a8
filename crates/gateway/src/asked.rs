//! A message passed to programs, until all of them have answered.
//!
//! Invariant: the session gets one answer, after the last program's answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{BusinessReject, MessageAnswer};

use super::routes::Target;

/// The delivery state of the message that a session received last.
#[derive(Default)]
pub(super) struct Passed {
    /// Names of the targets that have the message; they do not get it again.
    pub(super) had: Vec<String>,
    /// True if one of the other targets may have the message.
    pub(super) in_doubt: bool,
    /// Targets that may have the message. If one target suffices, only these are tried again.
    pub(super) doubtful: Vec<String>,
}

/// The delivery state, shared by all parts that update it.
pub(super) type SharedPassed = Arc<Mutex<Passed>>;

pub(super) fn lock(passed: &SharedPassed) -> MutexGuard<'_, Passed> {
    // A panic cannot leave the state inconsistent.
    passed.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Open {
    /// `None` once the answer is given.
    answer: Option<MessageAnswer>,
    left: usize,
    refusal: Option<BusinessReject>,
    /// Called instead of an answer "not available".
    hold: Option<Hold>,
}

/// Holds the message of an answer.
pub(super) type Hold = Box<dyn FnOnce(MessageAnswer) + Send>;

/// BusinessRejectReason(380): not available.
const NOT_AVAILABLE: u16 = 4;

/// A message passed to programs. Clones share it.
#[derive(Clone)]
pub(super) struct Asked {
    open: Arc<Mutex<Open>>,
    passed: SharedPassed,
}

impl Asked {
    /// Returns a message passed to `count` programs.
    pub(super) fn new(answer: MessageAnswer, count: usize, passed: SharedPassed) -> Self {
        let open = Open { answer: Some(answer), left: count, refusal: None, hold: None };
        Self { open: Arc::new(Mutex::new(open)), passed }
    }

    /// Holds the message instead of refusing it because a program is not available.
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
