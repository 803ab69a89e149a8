//! The administration of an engine: the state of its sessions, and the actions of operators.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use transfix_observe::audit::AuditLine;
use transfix_observe::event;
use transfix_observe::reasons::ReasonCounts;
use transfix_session::{OperateError, SessionId};

use crate::admin::action::{Action, Actor, EngineAction};
use crate::admin::request::{Request, Unanswered};
use crate::api::certificates::Certificates;
use crate::api::handle::SessionHandle;
use crate::api::status::SessionStatus;
use crate::drive::registry::Registry;
use crate::engine::Engine;

/// The time limit for the program to answer a request.
const PROGRAM_WAIT: Duration = Duration::from_secs(60);

/// The time limit for the log thread to rotate its files.
const ROTATE_WAIT: Duration = Duration::from_secs(10);

/// The administration of an engine, for every interface of an operator: a program, a page in the
/// browser, a command line. Clones share one state and may be used from any thread.
///
/// Reading a status never waits for a session. An action waits until the session has finished its
/// current turn, so never act from a callback. The event `operated` reports each action. With
/// `audit_file` of `[engine]`, the engine writes each action into that file before the action
/// begins, and again with its outcome.
#[derive(Clone)]
pub struct Admin {
    registry: Arc<Registry>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.registry.all().iter().map(|shared| &shared.id)).finish()
    }
}

impl Engine {
    /// Returns the administration of this engine. The value may outlive the engine, and then has no
    /// sessions.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin { registry: Arc::clone(self.registry()) }
    }
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// The status of the session before the action.
    pub before: SessionStatus,
    /// The status of the session after the action. A logout, for instance, may still be in
    /// progress.
    pub after: SessionStatus,
}

/// The reason why an action was not applied.
#[non_exhaustive]
pub enum AdminError {
    /// No session has this identity.
    NoSession(String),
    /// The session refuses the action.
    Operate(OperateError),
    /// The audit file cannot be written. The engine then applies no action, because it could not
    /// prove the action later.
    Audit(io::Error),
    /// The program that owns the engine accepts no requests of operators.
    NotTaken,
    /// The program that owns the engine has not answered within a minute. The program may still
    /// carry out the request.
    Late,
    /// The program that owns the engine has refused the request, or failed to carry it out; the
    /// text is its reason.
    Program(String),
}

impl AdminError {
    /// Returns the number of this error, for logs and for other languages. A number never changes;
    /// the page "Codes" of the book lists all numbers.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self {
            Self::NoSession(_) => 1401,
            Self::Operate(error) => error.as_u16(),
            Self::Audit(_) => 1402,
            Self::NotTaken => 1403,
            Self::Late => 1404,
            Self::Program(_) => 1405,
        }
    }
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSession(id) => write!(f, "no session is named {id}"),
            Self::Operate(error) => write!(f, "{error}"),
            Self::Audit(error) => {
                write!(f, "not applied, because the audit file cannot be written: {error}")
            }
            Self::NotTaken => f.write_str("this program does not accept such requests"),
            Self::Late => f.write_str(
                "the program has not answered within a minute; it may still apply the \
                             request",
            ),
            Self::Program(why) => f.write_str(why),
        }
    }
}

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
impl fmt::Debug for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AdminError {}

impl Admin {
    /// Returns the status of all sessions, sorted by identity, without waiting.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionStatus> {
        self.handles().iter().map(SessionHandle::status).collect()
    }

    /// Returns handles to all sessions, sorted by identity.
    #[must_use]
    pub fn handles(&self) -> Vec<SessionHandle> {
        self.registry.all().into_iter().map(SessionHandle::of).collect()
    }

    /// Returns true if `hash`, a PHC string, is the Argon2 hash of this password. The call waits
    /// for the result. A single low-priority thread checks all passwords of an engine, including
    /// Password(554) of a Logon(A), one after the other and in the same memory. Guesses therefore
    /// cost the sessions little. Checks for different addresses `from` take turns.
    ///
    /// # Errors
    /// The system has no further thread: nothing was checked.
    pub fn is_password_of(
        &self,
        hash: &str,
        password: &str,
        from: Option<IpAddr>,
    ) -> io::Result<bool> {
        self.registry.is_password_of(hash, password, from)
    }

    /// Returns a handle to the session with this identity.
    #[must_use]
    pub fn handle(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry.find(id).map(SessionHandle::of)
    }

    /// Returns a handle to the session whose identity is displayed as `id`, such as
    /// `FIX.4.4:VENUE->DESK`.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<SessionHandle> {
        let all = self.registry.all().into_iter();
        all.map(SessionHandle::of).find(|handle| handle.id().to_string() == id)
    }

    /// Returns true if the thread that accepts connections is running. Returns false for an engine
    /// without a listener, for a stopped engine, and after a failure of the thread.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.registry.accepts.load(Ordering::Acquire)
    }

    /// Returns the addresses at which the engine listens now, including those of sessions added
    /// since the start.
    #[must_use]
    pub fn listening(&self) -> Vec<SocketAddr> {
        self.registry.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the counts of rejected messages and ended connections, by reason.
    #[must_use]
    pub fn reasons(&self) -> ReasonCounts {
        self.registry.reasons.now()
    }

    /// Returns the certificates that the engine presents to its counterparties.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::of(&self.registry)
    }

    /// Applies an action to a session, and writes the action into the audit file.
    ///
    /// # Errors
    /// [`AdminError`]: the action was not done.
    pub fn act(&self, actor: &Actor, id: &SessionId, action: &Action) -> Result<Done, AdminError> {
        let handle = self.handle(id).ok_or_else(|| AdminError::NoSession(id.to_string()))?;
        let what = action.shown(&handle.settings().mask());
        let before = handle.status();
        let session = id.to_string();
        let ends = self.begin(actor, &session, &what, &state(&before))?;
        let done = handle.operate(action).map_err(AdminError::Operate);
        let after = handle.status();
        self.end(actor, &session, &what, ends, done.as_ref().map(|()| state(&after)));
        done.map(|()| Done { before, after })
    }

    /// Requests an action that only the program can carry out, and writes the action into the audit
    /// file. Waits at most a minute. Returns the program's answer.
    ///
    /// # Errors
    /// [`AdminError`]: the action was not done.
    pub fn request(&self, actor: &Actor, action: EngineAction) -> Result<String, AdminError> {
        if let EngineAction::RotateLogs = action {
            return self.rotate_logs(actor);
        }
        let what = action.to_string();
        let ends = self.begin(actor, "", &what, "")?;
        let answer = self.registry.requests.ask(actor.clone(), action, PROGRAM_WAIT);
        let done = match answer {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(why)) => Err(AdminError::Program(why)),
            Err(Unanswered::NotTaken) => Err(AdminError::NotTaken),
            Err(Unanswered::Late) => Err(AdminError::Late),
        };
        self.end(actor, "", &what, ends, done.as_ref().cloned());
        done
    }

    /// Writes an action of the program itself into the audit file, such as a reload on a signal.
    /// `act` runs only if the audit file accepts the record.
    ///
    /// # Errors
    /// [`AdminError::Audit`], or the error of `act`.
    pub fn audited(
        &self,
        actor: &Actor,
        action: &EngineAction,
        act: impl FnOnce() -> Result<String, String>,
    ) -> Result<String, AdminError> {
        let what = action.to_string();
        let ends = self.begin(actor, "", &what, "")?;
        let done = act().map_err(AdminError::Program);
        self.end(actor, "", &what, ends, done.as_ref().cloned());
        done
    }

    /// Writes an act of a person that is no action on the engine into the audit file, such as a
    /// login, or a refused request. `outcome` is the result, or the reason of the refusal.
    ///
    /// # Errors
    /// [`AdminError::Audit`] if the audit file does not accept the record.
    pub fn note(
        &self,
        actor: &Actor,
        what: &str,
        outcome: Result<&str, &str>,
    ) -> Result<(), AdminError> {
        let Some(audit) = &self.registry.audit else { return Ok(()) };
        let (step, said) = match outcome {
            Ok(said) => ("done", ("after", said)),
            Err(why) => ("refused", ("why", why)),
        };
        let (who, from) = (&*actor.who, &*actor.from);
        let texts = [("who", who), ("from", from), ("what", what), ("step", step), said];
        let line = AuditLine { at: self.registry.io.now().utc, texts: &texts, of: None };
        audit.append(&line).map(drop).map_err(|error| {
            let file = audit.path().display();
            event!(error, NotInAudit, who, from, what, %error, %file);
            AdminError::Audit(error)
        })
    }

    /// Starts new files of all protocol logs, and of the files that the program added by
    /// [`Admin::rotate_also`]; empty files stay. Returns a report. Waits at most ten seconds for
    /// the thread that writes the logs.
    ///
    /// # Errors
    /// [`AdminError::Program`] with all files that could not be rotated, or [`AdminError::Audit`].
    pub fn rotate_logs(&self, actor: &Actor) -> Result<String, AdminError> {
        self.audited(actor, &EngineAction::RotateLogs, || {
            let logs = match self.registry.logs.roll(ROTATE_WAIT) {
                Ok(1) => Ok("1 file of the protocol logs".to_owned()),
                Ok(count) => Ok(format!("{count} files of the protocol logs")),
                Err(why) => Err(why),
            };
            let all: Vec<_> = [Some(logs), self.registry.requests.rotate()].into();
            let all: Vec<_> = all.into_iter().flatten().collect();
            let said = |one: &Result<String, String>| match one {
                Ok(said) => format!("rolled: {said}"),
                Err(why) => format!("not rolled: {why}"),
            };
            let text = all.iter().map(said).collect::<Vec<_>>().join("\n");
            if all.iter().all(Result::is_ok) { Ok(text) } else { Err(text) }
        })
    }

    /// Adds files of the program that rotate together with the protocol logs. The engine calls
    /// `rotate` in the requesting thread. `rotate` returns a report, or the reason of a failure. A
    /// later call replaces `rotate`.
    pub fn rotate_also(&self, rotate: impl Fn() -> Result<String, String> + Send + Sync + 'static) {
        self.registry.requests.rotate_by(Arc::new(rotate));
    }

    /// Registers the function that receives the requests of operators: see [`Admin::request`]. The
    /// engine calls `take` in the requesting thread, so `take` should only forward the request. A
    /// later call replaces the registered function.
    pub fn take_requests(&self, take: impl FnMut(Request) + Send + 'static) {
        self.registry.requests.take_by(Box::new(take));
    }

    /// Writes the request for an action into the audit file. Returns the number of the record.
    fn begin(
        &self,
        actor: &Actor,
        session: &str,
        what: &str,
        before: &str,
    ) -> Result<Option<u64>, AdminError> {
        let Some(audit) = &self.registry.audit else { return Ok(None) };
        let texts = [
            ("who", &*actor.who),
            ("from", &*actor.from),
            ("session", session),
            ("what", what),
            ("step", "asked"),
            ("before", before),
        ];
        let line = AuditLine { at: self.registry.io.now().utc, texts: &texts, of: None };
        match audit.append(&line) {
            Ok(written) => Ok(Some(written.n)),
            Err(error) => {
                event!(
                    error, AuditTakesNothing, session, who = actor.who, from = actor.from, what,
                    %error, file = %audit.path().display()
                );
                Err(AdminError::Audit(error))
            }
        }
    }

    /// Writes the outcome of an action into the audit file, and reports it as an event.
    fn end(
        &self,
        actor: &Actor,
        session: &str,
        what: &str,
        asked: Option<u64>,
        done: Result<String, &AdminError>,
    ) {
        let (step, code, said) = match &done {
            Ok(after) => ("done", 0, after.clone()),
            Err(why) => ("refused", why.as_u16(), why.to_string()),
        };
        let (who, from) = (&*actor.who, &*actor.from);
        let mut audit_hash = String::new();
        if let (Some(audit), Some(of)) = (&self.registry.audit, asked) {
            let texts = [
                ("who", who),
                ("session", session),
                ("what", what),
                ("step", step),
                (if done.is_ok() { "after" } else { "why" }, &*said),
            ];
            let line = AuditLine { at: self.registry.io.now().utc, texts: &texts, of: Some(of) };
            match audit.append(&line) {
                Ok(written) => audit_hash = written.hash,
                // The action has been applied, and the audit file contains its request, so a
                // missing outcome is only reported.
                Err(error) => {
                    event!(
                        error, AuditEndMissing, session, who, what, %error,
                        file = %audit.path().display()
                    )
                }
            }
        }
        if done.is_ok() {
            event!(info, Operated, session, who, from, what, result = said, audit_hash);
        } else {
            event!(warn, NotOperated, session, who, from, what, code, why = said, audit_hash);
        }
    }
}

/// Returns the values of a session that an action may change, as text for the audit file.
fn state(status: &SessionStatus) -> String {
    let SessionStatus { state, next_num_in, next_num_out, enabled, queued_bytes, .. } = status;
    let mut text = format!("state={state:?} next_in={next_num_in} next_out={next_num_out}");
    text += &format!(" enabled={enabled} queued_bytes={queued_bytes}");
    if let Some(destination) = &status.destination {
        text += &format!(" destination={destination}");
    }
    text
}
