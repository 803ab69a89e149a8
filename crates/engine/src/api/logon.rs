//! A counterparty that wants to log on, and the answer to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use transfix_session::core::judging::Answer;
use transfix_session::{LogonRefusal, SessionId};

use crate::api::handle::SessionHandle;
use crate::drive::registry::Registry;
use crate::drive::session_waker::SessionWaker;

/// A counterparty that wants to log on, while [`Application::judge_logon`] is asked.
///
/// [`Application::judge_logon`]: crate::Application::judge_logon
pub struct LogonAttempt<'a> {
    id: &'a SessionId,
    peer: Option<SocketAddr>,
    sessions: &'a Registry,
    later: Option<Receiver<Answer>>,
}

impl<'a> LogonAttempt<'a> {
    pub(crate) const fn new(
        (id, peer): (&'a SessionId, Option<SocketAddr>),
        sessions: &'a Registry,
    ) -> Self {
        Self { id, peer, sessions, later: None }
    }

    /// The session that it wants; one of a template may not be made yet.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        self.id
    }

    /// Where it connects from; behind a proxy that says so by the PROXY protocol, what that says.
    /// `None` where nobody knows.
    #[must_use]
    pub const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Another session of the same engine.
    #[must_use]
    pub fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions.find(id).map(SessionHandle::of)
    }

    /// Lets the counterparty wait, for the answer of a directory for instance:
    ///
    /// ```
    /// use transfix::{LogonAttempt, LogonRefusal, Message, tag};
    ///
    /// # fn knows(user: &str, password: &str) -> bool { !user.is_empty() && !password.is_empty() }
    /// fn judge_logon(
    ///     logon: &Message<'_>,
    ///     attempt: &mut LogonAttempt<'_>,
    /// ) -> Result<(), LogonRefusal> {
    ///     let unreadable = |_| LogonRefusal::new("who are you?");
    ///     let user = logon.text(tag::USERNAME).map_err(unreadable)?.to_owned();
    ///     let password = logon.text(tag::PASSWORD).map_err(unreadable)?.to_owned();
    ///     let answer = attempt.answer_later();
    ///     std::thread::spawn(move || match knows(&user, &password) {
    ///         true => answer.accept(),
    ///         false => answer.refuse(LogonRefusal::new("who are you?")),
    ///     });
    ///     Ok(())
    /// }
    /// ```
    ///
    /// The value that `judge_logon` returns then is no answer yet, unless it is an error. No thread
    /// of the engine is held up, no message of the counterparty is taken before the answer, and
    /// after `logon_answer` of the settings it is refused as "not available".
    #[must_use = "dropped without an answer, it refuses"]
    pub fn answer_later(&mut self) -> LogonAnswer {
        let (sender, answer) = channel();
        self.later = Some(answer);
        // One that is being made from a template has a thread that waits.
        let session = self.sessions.find(self.id);
        LogonAnswer {
            sender: Some(sender),
            session_waker: session.map(|found| Arc::clone(&found.session_waker)),
        }
    }

    /// Where the answer comes from, if it comes later.
    pub(crate) fn into_later(self) -> Option<Receiver<Answer>> {
        self.later
    }
}

/// The answer to a Logon(A), to be given from any thread: see [`LogonAttempt::answer_later`].
///
/// Dropped without an answer, it refuses as "not available". After the time limit, or when the
/// connection has gone meanwhile, an answer has no effect.
pub struct LogonAnswer {
    /// None once the answer is given.
    sender: Option<Sender<Answer>>,
    session_waker: Option<Arc<SessionWaker>>,
}

impl LogonAnswer {
    /// The counterparty may log on.
    pub fn accept(self) {
        self.give(Ok(()));
    }

    /// The counterparty is sent a Logout(5), and its connection is closed.
    pub fn refuse(self, refusal: LogonRefusal) {
        self.give(Err(refusal));
    }

    fn give(self, answer: Answer) {
        if let Some(sender) = &self.sender {
            // Nobody waits any more if the connection has gone.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for LogonAnswer {
    fn drop(&mut self) {
        // Without an answer the session hears of it by this, so it comes before the call.
        self.sender = None;
        if let Some(session_waker) = &self.session_waker {
            session_waker.wake();
        }
    }
}

impl fmt::Debug for LogonAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogonAnswer").finish_non_exhaustive()
    }
}
