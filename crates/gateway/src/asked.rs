//! A message that programs are asked about, until all of them have answered.
//!
//! Invariant: the session hears one answer, when the last of them has come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix::{BusinessReject, MessageAnswer};

use super::routes::Target;

/// The state of the message that a session was called for last.
#[derive(Default)]
pub(super) struct Passed {
    /// Names of the targets that have had it: they don't get it again.
    pub(super) had: Vec<String>,
    /// One of the others may have had it.
    pub(super) in_doubt: bool,
    /// Those that may have it: where one target is to have it, no other gets it.
    pub(super) doubtful: Vec<String>,
}

/// The same, for all who come to know of it.
pub(super) type SharedPassed = Arc<Mutex<Passed>>;

pub(super) fn lock(passed: &SharedPassed) -> MutexGuard<'_, Passed> {
    // Nothing panics with it.
    passed.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Open {
    /// None once it is given.
    answer: Option<MessageAnswer>,
    left: usize,
    refusal: Option<BusinessReject>,
    /// The function to call instead of an answer "not available".
    hold: Option<Hold>,
}

/// Holds the message of an answer.
pub(super) type Hold = Box<dyn FnOnce(MessageAnswer) + Send>;

/// BusinessRejectReason(380): not available.
const NOT_AVAILABLE: u16 = 4;

/// A message that programs are asked about. A clone is the same.
#[derive(Clone)]
pub(super) struct Asked {
    open: Arc<Mutex<Open>>,
    passed: SharedPassed,
}

impl Asked {
    /// So many programs are asked.
    pub(super) fn new(answer: MessageAnswer, count: usize, passed: SharedPassed) -> Self {
        let open = Open { answer: Some(answer), left: count, refusal: None, hold: None };
        Self { open: Arc::new(Mutex::new(open)), passed }
    }

    /// Holds the message where it would be refused because a program is not available.
    pub(super) fn or_hold(self, hold: Hold) -> Self {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).hold = Some(hold);
        self
    }

    /// The program at this target has answered.
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
