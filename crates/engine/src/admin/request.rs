//! Requests of operators that only the program with the engine can serve.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::admin::action::{Actor, EngineAction};

/// A function of the program that receives the requests of operators.
type Take = Box<dyn FnMut(Request) + Send>;

/// An operator's request to the program with the engine. The operator waits for
/// [`Request::answer`].
#[derive(Debug)]
pub struct Request {
    /// The operator who sends the request.
    pub actor: Actor,
    /// The requested action.
    pub action: EngineAction,
    to: SyncSender<Result<String, String>>,
}

impl Request {
    /// Answers the operator: `Ok` with the result, or `Err` with the reason of the failure.
    pub fn answer(self, done: Result<String, String>) {
        // The send fails only if the operator no longer waits.
        let _ = self.to.try_send(done);
    }
}

/// The reason why a request has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The program has no function that receives requests.
    NotTaken,
    /// The program has dropped the request, or exceeds the waiting time.
    Late,
}

/// A function of the program that rotates the program's own logs. Returns a report, or the reason
/// for a failure.
type Rotate = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The functions that the program provides for requests of operators.
#[derive(Default)]
pub(crate) struct Requests {
    take: Mutex<Option<Take>>,
    rotate: Mutex<Option<Rotate>>,
}

impl Requests {
    pub(crate) fn take_by(&self, take: Take) {
        *self.take.lock().unwrap_or_else(PoisonError::into_inner) = Some(take);
    }

    pub(crate) fn rotate_by(&self, rotate: Rotate) {
        *self.rotate.lock().unwrap_or_else(PoisonError::into_inner) = Some(rotate);
    }

    /// Rotates the program's own log files. Returns `None` if the program has provided no function.
    pub(crate) fn rotate(&self) -> Option<Result<String, String>> {
        let rotate = self.rotate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        rotate.map(|rotate| rotate())
    }

    /// Sends a request, and waits at most `wait` for the answer.
    pub(crate) fn ask(
        &self,
        actor: Actor,
        action: EngineAction,
        wait: Duration,
    ) -> Result<Result<String, String>, Unanswered> {
        let (to, answer) = sync_channel(1);
        {
            let mut take = self.take.lock().unwrap_or_else(PoisonError::into_inner);
            let take = take.as_mut().ok_or(Unanswered::NotTaken)?;
            take(Request { actor, action, to });
        }
        answer.recv_timeout(wait).map_err(|why| match why {
            RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected => Unanswered::Late,
        })
    }
}
