//! All sessions of an engine, found by identity or counterparty.

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

/// Opens the store of a session. `None` leaves the store to the session's settings. The number is
/// the time, in UTC nanoseconds since 1970.
pub(crate) type OpenStore =
    Box<dyn Fn(&SessionSettings, u64) -> Result<Option<Box<dyn Store>>, StoreError> + Send + Sync>;

/// The BeginString(8) of a session, and the CompID of its counterparty.
type Counterparty = (BeginString, Arc<str>);

/// Sessions added after the start, by identity and by counterparty.
#[derive(Default)]
struct Created {
    /// The sessions, each with a flag that is true if the session was made from a template.
    sessions: HashMap<SessionId, (Weak<Shared>, bool)>,
    counterparties: HashMap<Counterparty, Weak<Shared>>,
}

/// All sessions of an engine. The references are weak, because links hold the registry.
pub(crate) struct Registry {
    pub(crate) io: Arc<dyn Io>,
    pub(crate) rule_book: Arc<RuleBook>,
    pub(crate) logs: ProtocolLogs,
    /// The threads that work in the background for stores.
    pub(crate) helpers: Arc<Helpers>,
    pub(crate) waiting: Arc<WaitingTotal>,
    /// The watch that detects callbacks which do not return.
    pub(crate) watch: Arc<Watch>,
    /// The usual latencies, to detect unusual ones.
    pub(crate) usual_times: UsualTimes,
    /// The queue of the threads that call applications, if the settings demand such threads.
    pub(crate) run_queue: Option<Arc<RunQueue>>,
    /// The resolver of the counterparties' host names.
    pub(crate) names: Arc<Resolver>,
    /// The thread that checks passwords against hashes.
    pub(crate) passwords: Arc<Passwords>,
    /// The counts of rejects and ended connections by reason, for all sessions together.
    pub(crate) reasons: Arc<LiveReasons>,
    /// True if the thread `tfx-accept` runs.
    pub(crate) accepts: AtomicBool,
    /// The addresses at which the engine listens now. The lock is held only while the list is
    /// copied.
    pub(crate) listening: Mutex<Vec<SocketAddr>>,
    /// The engine's own certificates.
    pub(crate) certificates: Arc<OwnCertificates>,
    /// The file that records the actions of operators, if configured.
    pub(crate) audit: Option<AuditFile>,
    /// The functions of the program that carry out requests of operators.
    pub(crate) requests: Requests,
    /// The function that opens custom stores, if the program has set one.
    pub(crate) open_store: Option<OpenStore>,
    sessions: OnceLock<HashMap<SessionId, Weak<Shared>>>,
    /// Sessions added since the start, or made from templates.
    created: RwLock<Created>,
    /// The first session of each version and counterparty, for messages to third parties.
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
    /// Returns true if `hash` is the Argon2 hash of `password`. Waits for earlier checks.
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

    /// Returns a registry without sessions. Other registries may share `rule_book`.
    pub(crate) fn new(rule_book: Arc<RuleBook>) -> Self {
        Self { rule_book, ..Self::default() }
    }

    pub(crate) fn fill(&self, sessions: &[Arc<Shared>]) {
        let map = sessions.iter().map(|s| (s.id.clone(), Arc::downgrade(s))).collect();
        assert!(self.sessions.set(map).is_ok(), "the registry is filled once, at the start");
        // If several sessions have the same counterparty, the first in the settings counts.
        let map = sessions.iter().rev().map(|s| (counterparty(s), Arc::downgrade(s))).collect();
        assert!(self.counterparties.set(map).is_ok(), "filled together");
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<Arc<Shared>> {
        // If the session of the start was removed, a session added later may have the same
        // identity.
        let of_start = self.sessions.get()?.get(id).and_then(found);
        of_start.or_else(|| self.created().sessions.get(id)?.0.upgrade())
    }

    fn created(&self) -> RwLockReadGuard<'_, Created> {
        self.created.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session that was created after the start; `is_made` is true if it was made from a
    /// template.
    pub(crate) fn add(&self, shared: &Arc<Shared>, is_made: bool) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        created.sessions.insert(shared.id.clone(), (Arc::downgrade(shared), is_made));
        // If several sessions have the same counterparty, the first one counts, as at the start.
        let first = created.counterparties.entry(counterparty(shared)).or_default();
        if found(first).is_none() {
            *first = Arc::downgrade(shared);
        }
    }

    /// Removes the ended session with this waker. A new session with the same identity may already
    /// exist and stays.
    pub(crate) fn remove(&self, id: &SessionId, session_waker: &Arc<SessionWaker>) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        let known = created.sessions.get(id).and_then(|(shared, _)| shared.upgrade());
        if known.is_none_or(|known| Arc::ptr_eq(&known.session_waker, session_waker)) {
            created.sessions.remove(id);
        }
        created.counterparties.retain(|_, shared| found(shared).is_some());
    }

    /// Returns the sessions made from templates.
    pub(crate) fn made(&self) -> Vec<Arc<Shared>> {
        let created = self.created();
        let made = created.sessions.values().filter(|(_, is_made)| *is_made);
        let mut all: Vec<_> = made.filter_map(|(shared, _)| shared.upgrade()).collect();
        all.sort_by_cached_key(|shared| shared.id.to_string());
        all
    }

    /// Returns all sessions, ordered by identity.
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

    /// Returns the connected session with the most waiting bytes.
    pub(crate) fn heaviest(&self) -> Option<Arc<Shared>> {
        let created = self.created();
        let later = created.sessions.values().map(|(shared, _)| shared);
        let all = self.sessions.get()?.values().chain(later);
        let all = all.filter_map(Weak::upgrade);
        let heaviest = all.max_by_key(|shared| shared.waiting.bytes())?;
        (heaviest.waiting.bytes() > 0).then_some(heaviest)
    }

    /// Returns the session with this version and this counterparty.
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

/// Returns the session if it still exists and was not removed.
fn found(shared: &Weak<Shared>) -> Option<Arc<Shared>> {
    shared.upgrade().filter(|shared| !shared.removed.load(Ordering::Acquire))
}

fn counterparty(shared: &Shared) -> Counterparty {
    (shared.id.begin_string, Arc::clone(&shared.id.target_comp_id))
}
