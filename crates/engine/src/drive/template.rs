//! Sessions that are made when a counterparty logs on for the first time.
//!
//! An acceptor with `target_comp_id = "*"` is a template: it has no session of its own. The thread
//! that accepts connections finds the template and counts; [`Maker`] asks the application and opens
//! the store, in a thread of its own. Invariants: the application is asked, and has judged the
//! Logon(A), before anything is made that lasts; no more than the configured number is made.

use std::sync::Arc;

use transfix_codec::{CheckSumPolicy, Message};
use transfix_session::{Role, SessionId};
use transfix_store::{MemoryStore, Store};

use crate::application::Application;
use crate::clock;
use crate::engine::{EngineError, open, open_over};
use crate::handle::{Registry, Shared};
use crate::lobby::{Destination, Key};
use crate::settings::{Mode, SessionSettings};
use crate::settings_check;
use crate::slot::Slot;
use crate::worker::{Command, Mailbox};

/// TargetCompID of a template: any counterparty.
const ANY: &str = "*";

/// What a Logon(A) that is judged finds in its store: nothing, and room for the answer.
const TRIAL_BYTES: usize = 64 << 10;

/// Says which application a counterparty gets that no settings name; `None` to send it away.
pub(crate) type Admit = Box<dyn Fn(&SessionId) -> Option<Box<dyn Application>> + Send + Sync>;

/// The workers of the pool, and how many sessions each has.
pub(crate) type Pool = Vec<(Arc<Mailbox>, usize)>;

/// Whether these settings are for any counterparty.
pub(crate) fn is_template(settings: &SessionSettings) -> bool {
    settings.role == Role::Acceptor && settings.target_comp_id == ANY
}

/// What templates must be besides what all settings must.
pub(crate) fn check(settings: &SessionSettings) -> Result<(), String> {
    if is_template(settings) && settings.mode != Mode::Pool {
        return Err("a template (target_comp_id = \"*\") has mode = \"pool\"".to_owned());
    }
    Ok(())
}

/// Why a counterparty that no settings name gets no session.
pub(crate) struct Refusal {
    /// What is sent before its connection is closed; it may be nothing.
    pub(crate) answer: Vec<u8>,
    /// For the log.
    pub(crate) why: String,
}

impl Refusal {
    pub(crate) fn silent(why: &str) -> Self {
        Self { answer: Vec::new(), why: why.to_owned() }
    }
}

/// Somebody whom a template fits.
pub(crate) struct Candidate {
    settings: SessionSettings,
    /// The whole Logon(A).
    logon: Vec<u8>,
}

/// What sessions are made from, but for their counterparties.
pub(crate) struct Maker {
    pub(crate) registry: Arc<Registry>,
    pub(crate) admit: Admit,
}

impl Maker {
    /// Makes the session, if the application wants it and `is_over` does not forbid it.
    pub(crate) fn make(
        &self,
        candidate: Candidate,
        is_over: impl Fn() -> bool,
    ) -> Result<Shared, Refusal> {
        let Candidate { settings, logon } = candidate;
        let application = (self.admit)(&settings.id());
        let application = application.ok_or_else(|| Refusal::silent("not admitted"))?;
        let application = self.judge(&settings, application, &logon)?;
        if is_over() {
            return Err(Refusal::silent("the engine ends"));
        }
        let shared = open(&settings, application, &self.registry);
        let shared = shared.map_err(|error| not_made(&error))?;
        shared.with_desk(|desk| desk.judged = logon);
        Ok(shared)
    }

    /// Lets a session without a store judge the Logon(A): a stranger leaves nothing behind.
    fn judge(
        &self,
        settings: &SessionSettings,
        application: Box<dyn Application>,
        logon: &[u8],
    ) -> Result<Box<dyn Application>, Refusal> {
        let trial = SessionSettings { log: None, schedule: None, ..settings.clone() };
        let open_store = |_: &_, _: &_| -> Result<Box<dyn Store>, EngineError> {
            Ok(Box::new(MemoryStore::new(TRIAL_BYTES, 0)))
        };
        let opened = open_over(open_store, &trial, application, &self.registry);
        let desk = opened.map_err(|error| not_made(&error))?.into_desk();
        let mut index = desk.index();
        let logon = Message::parse(logon, &mut index, CheckSumPolicy::Ignore);
        let logon = logon.map_err(|_| Refusal::silent("garbled"))?;
        desk.try_logon(clock::now(), &logon)
    }
}

fn not_made(error: &EngineError) -> Refusal {
    Refusal::silent(&format!("its session could not be made: {error}"))
}

/// Finds templates, and gives the sessions that were made to their workers.
pub(crate) struct Creator {
    /// Each with the place where its counterparties come in.
    pub(crate) templates: Vec<(usize, SessionSettings)>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) workers: Pool,
    /// Sessions made, and those that are being made.
    pub(crate) created: usize,
    pub(crate) created_max: usize,
}

impl Creator {
    /// The one whose Logon(A) this is, if a template fits and there is room; it counts from now on.
    ///
    /// # Errors
    /// `true` if a template fits and there is no room.
    pub(crate) fn candidate(&mut self, key: &Key, logon: &[u8]) -> Result<Candidate, bool> {
        let (group, begin_string, ours, theirs) = key;
        let fits = |(at, settings): &&(usize, SessionSettings)| {
            at == group
                && settings.begin_string == *begin_string
                && settings.sender_comp_id == *ours
        };
        let template = self.templates.iter().find(fits).ok_or(false)?;
        let mut settings = template.1.clone();
        settings.target_comp_id.clone_from(theirs);
        settings_check::check(&settings).map_err(|_| false)?;
        if is_template(&settings) {
            return Err(false);
        }
        if self.created >= self.created_max {
            return Err(true);
        }
        self.created += 1;
        Ok(Candidate { settings, logon: logon.to_vec() })
    }

    /// Nothing was made for a candidate.
    pub(crate) const fn forget(&mut self) {
        self.created -= 1;
    }

    /// Gives a session that was made to a worker.
    pub(crate) fn place(&mut self, shared: Shared, turn: u64) -> Option<Destination> {
        let shared = Arc::new(shared);
        let turn = (turn % self.workers.len() as u64) as usize;
        let (mailbox, slots) = self.workers.get_mut(turn)?;
        let slot = *slots;
        *slots += 1;
        let bell = Arc::clone(mailbox);
        let set = shared.wake.set(Box::new(move || bell.wake()));
        assert!(set.is_ok(), "a session has one worker");
        self.registry.add(&shared);
        // At most `created_sessions_max` times.
        tracing::info!(session = %shared.id, "made from a template");
        let (sub_ids, check_sum) = (Arc::clone(&shared.id.sub_ids), shared.check_sum());
        mailbox.post(Command::Add(Box::new(Slot::new(shared, None))));
        let mailbox = Arc::clone(mailbox);
        Some(Destination { mailbox, slot, waits: Arc::default(), sub_ids, check_sum })
    }
}
