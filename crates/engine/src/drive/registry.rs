//! All sessions of an engine, found by what they are.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, Weak};

use transfix_observe::audit::AuditFile;
use transfix_observe::called::Watch;
use transfix_observe::latency::usual::UsualTimes;
use transfix_observe::protocol_log::ProtocolLogs;
use transfix_observe::reasons::LiveReasons;
use transfix_session::{BeginString, Secret, SessionId};
use transfix_settings::SessionSettings;
use transfix_store::{Helpers, Store, StoreError};

use crate::admin::request::Requests;
use crate::drive::certificates::OwnCertificates;
use crate::drive::passwords::{Guess, Passwords};
use crate::drive::resolver::Resolver;
use crate::drive::run_queue::RunQueue;
use crate::drive::session_waker::SessionWaker;
use crate::drive::shared::Shared;
use crate::drive::waiting::WaitingTotal;
use crate::io::{Io, System};
use crate::link::failed_logons::Source;
use crate::link::rule_book::RuleBook;

/// Opens the store of a session; `None` leaves that to the session's settings. The number is the
/// time, in UTC nanoseconds since 1970.
pub(crate) type OpenStore =
    Box<dyn Fn(&SessionSettings, u64) -> Result<Option<Box<dyn Store>>, StoreError> + Send + Sync>;

/// Version and CompID of a counterparty.
type Counterparty = (BeginString, Arc<str>);

/// Sessions that came after the start, found in both ways.
#[derive(Default)]
struct Created {
    /// Each with whether it was made from a template.
    sessions: HashMap<SessionId, (Weak<Shared>, bool)>,
    counterparties: HashMap<Counterparty, Weak<Shared>>,
}

/// All sessions of an engine. It does not keep them alive: links hold the registry.
pub(crate) struct Registry {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) rule_book: Arc<RuleBook>,
    pub(crate) logs: ProtocolLogs,
    /// Threads that help the stores.
    pub(crate) helpers: Arc<Helpers>,
    pub(crate) waiting: Arc<WaitingTotal>,
    /// Looks for callbacks that do not return.
    pub(crate) watch: Arc<Watch>,
    /// Looks for times that are unusual.
    pub(crate) usual_times: UsualTimes,
    /// Threads in which applications are called, if there are any.
    pub(crate) run_queue: Option<Arc<RunQueue>>,
    /// Looks up the names of counterparties.
    pub(crate) names: Arc<Resolver>,
    /// Checks passwords by their hashes.
    pub(crate) passwords: Arc<Passwords>,
    /// The counters of all sessions together.
    pub(crate) reasons: Arc<LiveReasons>,
    /// True if the thread `tfx-accept` runs.
    pub(crate) accepts: AtomicBool,
    /// Where the engine listens now; held for a copy.
    pub(crate) listening: Mutex<Vec<SocketAddr>>,
    /// Certificates of our own.
    pub(crate) certificates: Arc<OwnCertificates>,
    /// Where the actions of operators are written, if they are.
    pub(crate) audit: Option<AuditFile>,
    /// The requests of operators to the program.
    pub(crate) requests: Requests,
    /// Opens stores of the user's own.
    pub(crate) open_store: Option<OpenStore>,
    sessions: OnceLock<HashMap<SessionId, Weak<Shared>>>,
    /// Those that came since: made from templates, or added.
    created: RwLock<Created>,
    /// The first ones by version and counterparty, for messages to third parties.
    counterparties: OnceLock<HashMap<Counterparty, Weak<Shared>>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            io: Arc::new(System),
            rule_book: Arc::default(),
            logs: ProtocolLogs::default(),
            helpers: Arc::default(),
            waiting: Arc::default(),
            watch: Arc::default(),
            usual_times: UsualTimes::default(),
            run_queue: None,
            names: Arc::default(),
            passwords: Arc::default(),
            reasons: Arc::default(),
            accepts: AtomicBool::new(false),
            listening: Mutex::default(),
            certificates: Arc::default(),
            audit: None,
            requests: Requests::default(),
            open_store: None,
            sessions: OnceLock::new(),
            created: RwLock::default(),
            counterparties: OnceLock::new(),
        }
    }
}

impl Registry {
    /// Returns true if it is the Argon2 hash of this password; waits for those who have asked
    /// before.
    ///
    /// # Errors
    /// If the system has no further thread.
    pub(crate) fn is_password_of(
        &self,
        hash: &str,
        password: &str,
        source: Source,
    ) -> io::Result<bool> {
        let (hash, password) = (Secret::new(hash.to_owned()), password.into());
        self.passwords.wait(Guess { hash, password, source, is_known: false }, &self.io)
    }

    /// Without sessions, over rules that others may share.
    pub(crate) fn new(rule_book: Arc<RuleBook>) -> Self {
        Self { rule_book, ..Self::default() }
    }

    pub(crate) fn fill(&self, sessions: &[Arc<Shared>]) {
        let map = sessions.iter().map(|s| (s.id.clone(), Arc::downgrade(s))).collect();
        assert!(self.sessions.set(map).is_ok(), "the registry is filled once, at the start");
        // The first session of the settings counts, if several have the same counterparty.
        let map = sessions.iter().rev().map(|s| (counterparty(s), Arc::downgrade(s))).collect();
        assert!(self.counterparties.set(map).is_ok(), "filled together");
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<Arc<Shared>> {
        // One that was removed may have come back.
        let of_start = self.sessions.get()?.get(id).and_then(found);
        of_start.or_else(|| self.created().sessions.get(id)?.0.upgrade())
    }

    fn created(&self) -> RwLockReadGuard<'_, Created> {
        self.created.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more session.
    pub(crate) fn add(&self, shared: &Arc<Shared>, is_made: bool) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        created.sessions.insert(shared.id.clone(), (Arc::downgrade(shared), is_made));
        // As with those of the settings: the first one counts.
        let first = created.counterparties.entry(counterparty(shared)).or_default();
        if found(first).is_none() {
            *first = Arc::downgrade(shared);
        }
    }

    /// The session with this session waker has ended. Another one of this identity may be there
    /// already.
    pub(crate) fn remove(&self, id: &SessionId, session_waker: &Arc<SessionWaker>) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        let known = created.sessions.get(id).and_then(|(shared, _)| shared.upgrade());
        if known.is_none_or(|known| Arc::ptr_eq(&known.session_waker, session_waker)) {
            created.sessions.remove(id);
        }
        created.counterparties.retain(|_, shared| found(shared).is_some());
    }

    /// Sessions made from templates.
    pub(crate) fn made(&self) -> Vec<Arc<Shared>> {
        let created = self.created();
        let made = created.sessions.values().filter(|(_, is_made)| *is_made);
        let mut all: Vec<_> = made.filter_map(|(shared, _)| shared.upgrade()).collect();
        all.sort_by_cached_key(|shared| shared.id.to_string());
        all
    }

    /// All sessions, in the order of their identities.
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        let mut all: Vec<_> = {
            let created = self.created();
            let later = created.sessions.values().filter_map(|(shared, _)| found(shared));
            let of_start = self.sessions.get().into_iter().flat_map(HashMap::values);
            of_start.filter_map(found).chain(later).collect()
        };
        all.sort_by_cached_key(|shared| shared.id.to_string());
        all
    }

    /// The connected session in which most bytes wait.
    pub(crate) fn heaviest(&self) -> Option<Arc<Shared>> {
        let created = self.created();
        let later = created.sessions.values().map(|(shared, _)| shared);
        let all = self.sessions.get()?.values().chain(later);
        let all = all.filter_map(Weak::upgrade);
        let heaviest = all.max_by_key(|shared| shared.waiting.bytes())?;
        (heaviest.waiting.bytes() > 0).then_some(heaviest)
    }

    /// The session of this version with that counterparty.
    pub(crate) fn with(
        &self,
        begin_string: BeginString,
        target_comp_id: &str,
    ) -> Option<Arc<Shared>> {
        let key = (begin_string, Arc::from(target_comp_id));
        let of_start = self.counterparties.get()?.get(&key).and_then(found);
        of_start.or_else(|| found(self.created().counterparties.get(&key)?))
    }
}

/// The session, if it is there and was not removed.
fn found(shared: &Weak<Shared>) -> Option<Arc<Shared>> {
    shared.upgrade().filter(|shared| !shared.removed.load(Ordering::Acquire))
}

fn counterparty(shared: &Shared) -> Counterparty {
    (shared.id.begin_string, Arc::clone(&shared.id.target_comp_id))
}
