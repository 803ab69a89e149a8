//! A counterparty's logon attempt, and the application's answer to it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use transfix_session::core::judging::Answer;
use transfix_session::{LogonRefusal, SessionId};

use crate::api::handle::SessionHandle;
use crate::drive::registry::Registry;
use crate::drive::session_waker::SessionWaker;

/// A counterparty's logon attempt, as [`Application::judge_logon`] receives it.
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

    /// Returns the identity of the session that the counterparty requests. If a template fits, the
    /// session may not exist yet.
    #[must_use]
    pub const fn id(&self) -> &SessionId {
        self.id
    }

    /// Returns the address of the counterparty. Behind a proxy with the PROXY protocol, this is the
    /// address that the proxy reports. `None` if the address is unknown.
    #[must_use]
    pub const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Returns a handle to another session of the same engine.
    #[must_use]
    pub fn other(&self, id: &SessionId) -> Option<SessionHandle> {
        self.sessions.find(id).map(SessionHandle::of)
    }

    /// Defers the answer, for example until a directory has answered:
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
    /// After `answer_later` an `Ok` from `judge_logon` is no answer; an error is. No thread of the
    /// engine waits, and the engine processes no message of the counterparty before the answer.
    /// After the time `logon_answer` of the settings the engine refuses the logon as "not
    /// available".
    #[must_use = "an answer dropped without a result refuses the logon"]
    pub fn answer_later(&mut self) -> LogonAnswer {
        let (sender, answer) = channel();
        self.later = Some(answer);
        // A session that is being made from a template has no waker, because its own thread waits
        // for the answer.
        let session = self.sessions.find(self.id);
        LogonAnswer {
            sender: Some(sender),
            session_waker: session.map(|found| Arc::clone(&found.session_waker)),
        }
    }

    /// Returns the receiver of a deferred answer, or `None` if the answer was not deferred.
    pub(crate) fn into_later(self) -> Option<Receiver<Answer>> {
        self.later
    }
}

/// The answer to a Logon(A), which any thread may give: see [`LogonAttempt::answer_later`].
///
/// A dropped answer refuses the logon as "not available". An answer after the time limit, or after
/// the end of the connection, has no effect.
pub struct LogonAnswer {
    /// `None` after the answer was given.
    sender: Option<Sender<Answer>>,
    session_waker: Option<Arc<SessionWaker>>,
}

impl LogonAnswer {
    /// Accepts the logon.
    pub fn accept(self) {
        self.give(Ok(()));
    }

    /// Refuses the logon: the counterparty gets a Logout(5), and the connection is closed.
    pub fn refuse(self, refusal: LogonRefusal) {
        self.give(Err(refusal));
    }

    fn give(self, answer: Answer) {
        if let Some(sender) = &self.sender {
            // The send fails only if the connection has ended, so that no answer is needed.
            let _ = sender.send(answer);
        }
    }
}

impl Drop for LogonAnswer {
    fn drop(&mut self) {
        // Dropping the sender reports the missing answer, so it must happen before the session is
        // woken.
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
