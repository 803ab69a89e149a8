//! Requests of operators that only the program with the engine can serve.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::admin::action::{Actor, EngineAction};

/// The program's function for the requests of operators.
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
        // The operator may no longer wait.
        let _ = self.to.try_send(done);
    }
}

/// The reason why a request has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The program accepts no requests.
    NotTaken,
    /// The program has dropped the request, or exceeds the waiting time.
    Late,
}

/// The program's function that rotates its own logs.
type Rotate = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// The receivers of requests.
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

    /// Rotates the files of the program, if it has any.
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
