//! Sessions that are made when a counterparty logs on for the first time.
//!
//! An acceptor with `target_comp_id = "*"` is a template: it has no session of its own. Invariants:
//! the application is asked, and has judged the Logon(A), before anything is made that lasts; no
//! more than the configured number is made.

use std::sync::Arc;

use transfix_codec::Message;
use transfix_session::{Role, SessionId};

use crate::application::Application;
use crate::clock;
use crate::engine::open;
use crate::handle::{Registry, Shared};
use crate::lobby::{Destination, Key};
use crate::retention::RetentionSettings;
use crate::settings::{Durability, Mode, SessionSettings};
use crate::settings_check;
use crate::slot::Slot;
use crate::worker::{Command, Mailbox};

/// TargetCompID of a template: any counterparty.
const ANY: &str = "*";

/// Says which application a counterparty gets that no settings name; `None` to send it away.
pub(crate) type Admit = Box<dyn FnMut(&SessionId) -> Option<Box<dyn Application>> + Send>;

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

/// What becomes of a Logon(A) of somebody whom no settings name.
pub(crate) enum Creation {
    /// It has a session now.
    Made(Destination),
    /// This is sent before its connection is closed.
    Refused(Vec<u8>),
    /// Its connection is closed without a word.
    None,
}

/// Makes sessions from templates, in the thread that accepts connections.
pub(crate) struct Creator {
    /// Each with the place where its counterparties come in.
    pub(crate) templates: Vec<(usize, SessionSettings)>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) admit: Admit,
    /// The workers of the pool, and how many sessions each has.
    pub(crate) workers: Vec<(Arc<Mailbox>, usize)>,
    pub(crate) created: usize,
    pub(crate) created_max: usize,
}

impl Creator {
    /// Makes the session that this Logon(A) asks for, if a template fits and the application wants
    /// it.
    pub(crate) fn create(&mut self, key: &Key, logon: &Message<'_>) -> Creation {
        self.try_create(key, logon).unwrap_or_else(|refusal| refusal)
    }

    fn try_create(&mut self, key: &Key, logon: &Message<'_>) -> Result<Creation, Creation> {
        let (group, begin_string, ours, theirs) = key;
        let fits = |(at, settings): &&(usize, SessionSettings)| {
            at == group
                && settings.begin_string == *begin_string
                && settings.sender_comp_id == *ours
        };
        let template = self.templates.iter().find(fits).ok_or(Creation::None)?;
        let mut settings = template.1.clone();
        settings.target_comp_id.clone_from(theirs);
        let id = settings.id();
        if self.created >= self.created_max || is_template(&settings) {
            tracing::warn!(session = %id, max = self.created_max, "no further session is made");
            return Err(Creation::None);
        }
        settings_check::check(&settings).map_err(|_| Creation::None)?;
        let application = (self.admit)(&id).ok_or(Creation::None)?;
        let application = self.judge(&settings, application, logon)?;
        let shared = self.open(&settings, application)?;
        shared.with_desk(|desk| desk.judged = logon.bytes().to_vec());
        let shared = Arc::new(shared);
        let turn = self.created % self.workers.len();
        self.created += 1;
        let (mailbox, slots) = self.workers.get_mut(turn).ok_or(Creation::None)?;
        let slot = *slots;
        *slots += 1;
        let bell = Arc::clone(mailbox);
        let set = shared.wake.set(Box::new(move || bell.wake()));
        assert!(set.is_ok(), "a session has one worker");
        self.registry.add(&shared);
        tracing::info!(session = %id, "made from a template");
        let (sub_ids, check_sum) = (Arc::clone(&id.sub_ids), shared.check_sum());
        mailbox.post(Command::Add(Box::new(Slot::new(shared, None))));
        let mailbox = Arc::clone(mailbox);
        Ok(Creation::Made(Destination { mailbox, slot, sub_ids, check_sum }))
    }

    /// Lets a session without a store judge the Logon(A): a stranger leaves nothing behind.
    fn judge(
        &self,
        settings: &SessionSettings,
        application: Box<dyn Application>,
        logon: &Message<'_>,
    ) -> Result<Box<dyn Application>, Creation> {
        let trial = SessionSettings {
            durability: Durability::Memory,
            retention: RetentionSettings::default(),
            log: None,
            schedule: None,
            ..settings.clone()
        };
        let desk = self.open(&trial, application)?.into_desk();
        desk.try_logon(clock::now(), logon).map_err(Creation::Refused)
    }

    fn open(
        &self,
        settings: &SessionSettings,
        application: Box<dyn Application>,
    ) -> Result<Shared, Creation> {
        open(settings, application, &self.registry).map_err(|error| {
            tracing::error!(session = %settings.id(), %error, "a session could not be made");
            Creation::None
        })
    }
}
