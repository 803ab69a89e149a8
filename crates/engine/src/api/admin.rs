//! The administration of an engine: what its sessions are, and what operators do to them.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use transfix_observe::event;
use transfix_observe::reasons::ReasonCounts;
use transfix_session::{OperateError, SessionId};

use crate::admin::action::{Action, Actor, EngineAction};
use crate::admin::audit_line::Line;
use crate::admin::request::{Request, Unanswered};
use crate::api::certificates::Certificates;
use crate::api::handle::SessionHandle;
use crate::api::status::SessionStatus;
use crate::drive::registry::Registry;
use crate::engine::Engine;

/// How long the program may take to do what only it can do.
const PROGRAM_WAIT: Duration = Duration::from_secs(60);

/// How long the thread of the logs may take to roll their files.
const ROTATE_WAIT: Duration = Duration::from_secs(10);

/// The administration of an engine, for all faces that an operator may have: a program of your
/// own, a page in the browser, a command line. A clone is the same, and belongs to any thread.
///
/// To look waits for no session. To act waits for the end of the session's turn: never act from a
/// callback. Each action is told by the event `operated`, and where `audit_file` of `[engine]` is
/// set, it is written there before it is begun, and again with its end.
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
    /// The administration of this engine. It outlives a stop, and finds no session then.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin { registry: Arc::clone(self.registry()) }
    }
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// The session before.
    pub before: SessionStatus,
    /// The session afterwards. A logout, for instance, may still go on.
    pub after: SessionStatus,
}

/// Why an action was not done.
#[non_exhaustive]
pub enum AdminError {
    /// There is no session of this identity.
    NoSession(String),
    /// The session refuses it.
    Operate(OperateError),
    /// The audit file takes nothing, so nothing is done that it could not prove.
    Audit(io::Error),
    /// The program that has the engine takes no such requests.
    NotTaken,
    /// The program that has the engine has not answered within a minute. It may do it yet.
    Late,
    /// The program that has the engine says why it was not done.
    Program(String),
}

impl AdminError {
    /// The number of this error, for logs and for other languages. It never changes; the page
    /// "Codes" of the book lists all.
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
            Self::NoSession(id) => write!(f, "there is no session {id}"),
            Self::Operate(error) => write!(f, "{error}"),
            Self::Audit(error) => {
                write!(f, "not done, since the audit file cannot be written: {error}")
            }
            Self::NotTaken => f.write_str("this program takes no such requests"),
            Self::Late => {
                f.write_str("the program has not answered within a minute; it may do it yet")
            }
            Self::Program(why) => f.write_str(why),
        }
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AdminError {}

impl Admin {
    /// All sessions, in the order of their identities, as they are now. Waits for none.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionStatus> {
        self.handles().iter().map(SessionHandle::status).collect()
    }

    /// Handles to all sessions, in the order of their identities.
    #[must_use]
    pub fn handles(&self) -> Vec<SessionHandle> {
        self.registry.all().into_iter().map(SessionHandle::of).collect()
    }

    /// Returns true if it is the Argon2 hash of this password, as a PHC string. One thread of low
    /// priority does all such checks of an engine, and those of Password(554) at a Logon(A), one
    /// after the other and in the same memory. Guesses therefore cost the sessions little. Each
    /// address `from` which somebody asks has its turn. Waits for it.
    ///
    /// # Errors
    /// If the system has no further thread: nothing was checked.
    pub fn is_password_of(
        &self,
        hash: &str,
        password: &str,
        from: Option<IpAddr>,
    ) -> io::Result<bool> {
        self.registry.is_password_of(hash, password, from)
    }

    /// A handle to this session.
    #[must_use]
    pub fn handle(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry.find(id).map(SessionHandle::of)
    }

    /// A handle to the session whose identity is shown so, such as `FIX.4.4:VENUE->DESK`.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<SessionHandle> {
        let all = self.registry.all().into_iter();
        all.map(SessionHandle::of).find(|handle| handle.id().to_string() == id)
    }

    /// Returns true if the thread runs that accepts connections: `false` for an engine without a
    /// listener, one that was stopped, and one whose thread has ended by a fault.
    #[must_use]
    pub fn accepts(&self) -> bool {
        self.registry.accepts.load(Ordering::Acquire)
    }

    /// Addresses that the engine listens at now: those of sessions that have come since the start
    /// too, and none that has gone.
    #[must_use]
    pub fn listening(&self) -> Vec<SocketAddr> {
        self.registry.listening.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often messages were rejected and connections ended, by reason.
    #[must_use]
    pub fn reasons(&self) -> ReasonCounts {
        self.registry.reasons.now()
    }

    /// The certificates that the engine shows to its counterparties.
    #[must_use]
    pub fn certificates(&self) -> Certificates {
        Certificates::of(&self.registry)
    }

    /// Does this to a session, and writes it into the audit.
    ///
    /// # Errors
    /// [`AdminError`]: why it was not done.
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

    /// Asks the program that has the engine for what only it can do, waits up to a minute, and
    /// writes it into the audit. Returns what the program says of it.
    ///
    /// # Errors
    /// [`AdminError`]: why it was not done.
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

    /// Writes into the audit what the program does of its own, such as a reload that a signal asks
    /// for: `act` is done if the audit takes it.
    ///
    /// # Errors
    /// [`AdminError::Audit`], or what `act` says.
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

    /// Writes into the audit what somebody did that is no action on the engine, such as a log-in,
    /// or what was refused to somebody. `outcome` is what came of it, or why it was refused.
    ///
    /// # Errors
    /// [`AdminError::Audit`] if the audit does not take it.
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
        let line = Line { at: self.registry.io.now().utc, texts: &texts, of: None };
        audit.append(&line).map(drop).map_err(|error| {
            let file = audit.path().display();
            event!(error, NotInAudit, who, from, what, %error, %file);
            AdminError::Audit(error)
        })
    }

    /// Begins new files of all protocol logs now, and of what the program has named by
    /// [`Admin::rotate_also`]; files without a line stay. Returns what was done. Waits for the
    /// thread that writes the logs, for ten seconds at most.
    ///
    /// # Errors
    /// [`AdminError::Program`] with all that could not be rolled, or [`AdminError::Audit`].
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

    /// Files of the program that are rolled with the protocol logs. `rotate` is called in the
    /// thread of whoever asks, and returns what was rolled, or why it was not. The last one that is
    /// set counts.
    pub fn rotate_also(&self, rotate: impl Fn() -> Result<String, String> + Send + Sync + 'static) {
        self.registry.requests.rotate_by(Arc::new(rotate));
    }

    /// Hands requests of operators over to the program: see [`Admin::request`]. `take` is called in
    /// the thread of whoever asks, and only passes the request on. The last one that is set counts.
    pub fn take_requests(&self, take: impl FnMut(Request) + Send + 'static) {
        self.registry.requests.take_by(Box::new(take));
    }

    /// Writes that an action is asked for. Returns the number of the line.
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
        let line = Line { at: self.registry.io.now().utc, texts: &texts, of: None };
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

    /// Writes how it ended, and tells it.
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
            let line = Line { at: self.registry.io.now().utc, texts: &texts, of: Some(of) };
            match audit.append(&line) {
                Ok(written) => audit_hash = written.hash,
                // It is done, and the first line stands.
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

/// The state of a session that an action may change, for the audit.
fn state(status: &SessionStatus) -> String {
    let SessionStatus { state, next_num_in, next_num_out, enabled, queued_bytes, .. } = status;
    let mut text = format!("state={state:?} next_in={next_num_in} next_out={next_num_out}");
    text += &format!(" enabled={enabled} queued_bytes={queued_bytes}");
    if let Some(destination) = &status.destination {
        text += &format!(" destination={destination}");
    }
    text
}
