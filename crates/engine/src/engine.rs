//! Starts and stops everything: stores, links, workers, listeners.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use transfix_codec::{CheckSumPolicy, FieldIndex, Limits, Message, Switches, Tag, tag};
use transfix_session::{Checks, Config, Role, Session, SessionId};
use transfix_store::{Store, StoreError};
use transfix_transport::refuse_long_files_by_error;

use crate::application::Application;
use crate::builder::EngineBuilder;
use crate::clock;
use crate::deferred::Deferred;
use crate::descriptors;
use crate::desk::{Desk, LinkOptions};
use crate::handle::{Registry, SessionHandle, Shared};
use crate::link::Link;
use crate::listening::{Listening, resolve, socket_options};
use crate::lobby::{Destination, Entrance, Key, Lobby, LobbyDoor};
use crate::protocol_log::Tap;
use crate::queue::SendQueue;
use crate::retention;
use crate::schedule::{Hours, Schedule};
use crate::settings::{EngineSettings, Mode, SessionSettings, Settings};
use crate::settings_check;
use crate::slot::{Dial, SessionOutcome, Slot};
use crate::supervised::supervise;
use crate::template::{Admit, Creator, Maker, Pool, is_template};
use crate::waiting::{Waiting, WaitingTotal};
use crate::waiting_room::RoomLimits;
use crate::worker::{Command, Mailbox, Worker};

/// Why an engine did not start.
pub enum EngineError {
    /// The settings of a session contradict themselves.
    Settings(String),
    /// An address cannot be resolved, bound, or a thread not be started.
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The store of no session can be opened. If it is only that of some, the others start; see
    /// [`SessionHandle::store_failure`].
    Store {
        /// The session.
        id: SessionId,
        /// Why.
        source: StoreError,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(message) => f.write_str(message),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Store { id, source } => write!(f, "the store of {id}: {source}"),
        }
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for EngineError {}

/// Windows of a schedule that the log names at the start.
const WINDOWS_TOLD: usize = 3;

pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> EngineError {
    let what = what.into();
    move |source| EngineError::Io { what, source }
}

/// A running engine. Dropped without [`Engine::stop`], it logs out everywhere without waiting.
pub struct Engine {
    sessions: Vec<Arc<Shared>>,
    registry: Arc<Registry>,
    listening: Vec<SocketAddr>,
    threads: Vec<(Arc<Mailbox>, JoinHandle<Vec<SessionOutcome>>)>,
    polled: Option<Worker>,
    lobby: Option<(Arc<LobbyDoor>, JoinHandle<()>)>,
}

/// Threads in the making: which sessions each worker has.
#[derive(Default)]
struct Plan {
    pool: Vec<Vec<Slot>>,
    own: Vec<(Slot, Mode, Option<usize>)>,
    polled: Vec<Slot>,
    /// Threads of the pool are started even without sessions.
    keeps_empty: bool,
}

impl Plan {
    /// Gives the n-th session to its thread.
    fn add(&mut self, slot: Slot, session: &SessionSettings, n: usize) {
        match session.mode {
            Mode::Pool => {
                let workers = self.pool.len();
                self.pool[n % workers].push(slot);
            }
            Mode::Polled => self.polled.push(slot),
            mode => self.own.push((slot, mode, session.cpu)),
        }
    }
}

impl Engine {
    /// Opens the stores, binds the listeners and starts the threads. `application` is called once
    /// for each session.
    ///
    /// A session whose store cannot be opened does not keep the others from starting: the log says
    /// why, [`SessionHandle::store_failure`] too, and its store is tried again until it opens.
    ///
    /// # Errors
    /// [`EngineError`]; nothing is left running then.
    pub fn start(
        settings: &Settings,
        application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Self, EngineError> {
        Self::builder(settings).start(application)
    }

    /// An engine that needs more than settings: stores of your own, or templates.
    ///
    /// ```
    /// # use transfix::{
    /// #     Application, BeginString, BusinessReject, Engine, Message, Role, SessionId,
    /// #     SessionRef, SessionSettings, Settings, store::MemoryStore,
    /// # };
    /// # struct Deaf;
    /// # impl Application for Deaf {
    /// #     fn on_message(
    /// #         &mut self,
    /// #         _: &Message<'_>,
    /// #         _: &mut SessionRef<'_>,
    /// #     ) -> Result<(), BusinessReject> {
    /// #         Ok(())
    /// #     }
    /// # }
    /// # let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
    /// # let settings = Settings::of(SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0"));
    /// let engine = Engine::builder(&settings)
    ///     .stores(|_, now_ns| Ok(Some(Box::new(MemoryStore::new(1 << 20, now_ns)))))
    ///     .start(|_| Box::new(Deaf))?;
    /// # engine.stop(0);
    /// # Ok::<(), transfix::EngineError>(())
    /// ```
    pub const fn builder(settings: &Settings) -> EngineBuilder<'_> {
        EngineBuilder::new(settings)
    }

    pub(crate) fn start_built(
        builder: EngineBuilder<'_>,
        mut application: impl FnMut(&SessionId) -> Box<dyn Application>,
    ) -> Result<Self, EngineError> {
        let EngineBuilder { settings, admit, open_store } = builder;
        // Before anything is opened: the limit that a process finds is low.
        let pending_max = descriptors::reserve(settings)?;
        // A limit on the length of files is then an error of a store or log, as a full disk is.
        refuse_long_files_by_error();
        if admit.is_none() {
            check_no_template(settings)?;
        }
        let mut registry = Registry::default();
        registry.waiting = Arc::new(WaitingTotal::new(settings.engine.waiting_bytes_max));
        registry.open_store = open_store;
        registry.logs.cpu = settings.engine.log_cpu;
        registry.logs.lost = settings.engine.thread_lost;
        let registry = Arc::new(registry);
        let mut sessions = Vec::new();
        let mut listening = Listening::default();
        let mut templates = Vec::new();
        let mut plan = Plan::default();
        let mut refused = Vec::new();
        plan.pool.resize_with(settings.engine.workers.max(1), Vec::new);
        for (n, session) in settings.sessions.iter().enumerate() {
            settings_check::check(session).map_err(EngineError::Settings)?;
            if is_template(session) {
                check_rules(session, &registry)?;
                tell_doubts(session, &registry);
                templates.push((listening.add(session)?, session.clone()));
                continue;
            }
            let (shared, why) = open_or_defer(session, application(&session.id()), &registry)?;
            tell_doubts(session, &registry);
            refused.extend(why);
            let shared = Arc::new(shared);
            let dial = match session.role {
                Role::Initiator => Some(dial(session)?),
                Role::Acceptor => {
                    listening.add(session)?;
                    None
                }
            };
            let slot = Slot::new(Arc::clone(&shared), dial);
            plan.add(slot, session, n);
            sessions.push(shared);
        }
        if refused.len() == settings.sessions.len()
            && let Some(first) = refused.into_iter().next()
        {
            return Err(first);
        }
        registry.fill(&sessions);
        let mut engine = Self {
            sessions,
            registry: Arc::clone(&registry),
            listening: listening.bound()?,
            threads: Vec::new(),
            polled: None,
            lobby: None,
        };
        // Sessions made from templates start later: keep a worker that has no session yet.
        plan.keeps_empty = !templates.is_empty();
        let mut destinations = Vec::new();
        let workers = engine.start_workers(plan, settings, &mut destinations)?;
        if !listening.entrances.is_empty() {
            let keys = listening.keys(destinations);
            let admit = admit.unwrap_or_else(|| Box::new(|_| None));
            let (ways_in, all) = ((listening.entrances, pending_max), &settings.engine);
            engine.start_lobby(all, ways_in, keys, (templates, admit, workers))?;
        }
        Ok(engine)
    }

    /// Answers with the mailboxes of the pool's workers, and how many sessions each has.
    fn start_workers(
        &mut self,
        plan: Plan,
        settings: &Settings,
        destinations: &mut Vec<(SessionId, Destination)>,
    ) -> Result<Pool, EngineError> {
        let keeps_empty = plan.keeps_empty;
        let mut jobs = Vec::new();
        let cpus = &settings.engine.cpus;
        for (n, slots) in plan.pool.into_iter().enumerate() {
            if slots.is_empty() && !keeps_empty {
                continue;
            }
            let cpu = (!cpus.is_empty()).then(|| cpus[n % cpus.len()]);
            jobs.push((format!("tfx-pool-{n}"), slots, false, cpu));
        }
        let pool_size = jobs.len();
        let mut pool = Vec::new();
        for (slot, mode, cpu) in plan.own {
            let name = format!("tfx-{}", slot.shared.id.target_comp_id);
            jobs.push((name, vec![slot], mode == Mode::Spin, cpu));
        }
        for (n, (name, slots, spins, cpu)) in jobs.into_iter().enumerate() {
            let sessions = slots.len();
            let mut worker = self.worker(slots, spins, destinations)?;
            let lost = settings.engine.thread_lost;
            let mailbox = Arc::clone(worker.mailbox());
            if n < pool_size {
                pool.push((Arc::clone(&mailbox), sessions));
            }
            let thread = std::thread::Builder::new()
                .name(name.clone())
                .spawn(move || {
                    if let Some(cpu) = cpu
                        && let Err(error) = pin_to_cpu(cpu)
                    {
                        tracing::error!(cpu, %error, "thread cannot be pinned");
                    }
                    supervise(lost, || worker.run())
                })
                .map_err(io_error(format!("thread {name}")))?;
            self.threads.push((mailbox, thread));
        }
        if !plan.polled.is_empty() {
            self.polled = Some(self.worker(plan.polled, true, destinations)?);
        }
        Ok(pool)
    }

    fn worker(
        &self,
        slots: Vec<Slot>,
        spins: bool,
        destinations: &mut Vec<(SessionId, Destination)>,
    ) -> Result<Worker, EngineError> {
        let shared: Vec<_> = slots.iter().map(|slot| Arc::clone(&slot.shared)).collect();
        let worker = Worker::new(slots, spins).map_err(io_error("epoll"))?;
        for (slot, shared) in shared.into_iter().enumerate() {
            let mailbox = Arc::clone(worker.mailbox());
            let sub_ids = Arc::clone(&shared.id.sub_ids);
            let check_sum = shared.check_sum();
            let to = Arc::clone(&mailbox);
            let waits = Arc::default();
            let destination = Destination { mailbox: to, slot, waits, sub_ids, check_sum };
            destinations.push((shared.id.clone(), destination));
            let set = shared.wake.set(Box::new(move || mailbox.wake()));
            assert!(set.is_ok(), "a session has one worker");
        }
        Ok(worker)
    }

    /// Opens the ways in, where so many connections may wait; `templates` with who may come by
    /// them, and the workers of the pool.
    fn start_lobby(
        &mut self,
        all: &EngineSettings,
        (entrances, max): (Vec<Entrance>, usize),
        keys: HashMap<Key, Vec<Destination>>,
        (templates, admit, workers): (Vec<(usize, SessionSettings)>, Admit, Pool),
    ) -> Result<(), EngineError> {
        let registry = Arc::clone(&self.registry);
        let maker = Maker { registry: Arc::clone(&registry), admit };
        let created_max = all.created_sessions_max;
        let creator = Creator { templates, registry, workers, created: 0, created_max };
        let limits = RoomLimits { max, per_address_max: all.pending_per_address_max };
        let lobby = Lobby::new(entrances, keys, (creator, maker), limits);
        let (mut lobby, lost) = (lobby.map_err(io_error("epoll"))?, all.thread_lost);
        let door = Arc::clone(lobby.door());
        let thread = std::thread::Builder::new()
            .name("tfx-accept".to_owned())
            .spawn(move || supervise(lost, || lobby.run()))
            .map_err(io_error("thread tfx-accept"))?;
        self.lobby = Some((door, thread));
        Ok(())
    }

    /// The handle of a session, to send from any thread.
    #[must_use]
    pub fn session(&self, id: &SessionId) -> Option<SessionHandle> {
        self.registry.find(id)
    }

    /// Handles of all sessions: those of the settings in their order, then those made from
    /// templates in the order of their identities.
    pub fn sessions(&self) -> impl Iterator<Item = SessionHandle> {
        let own = self.sessions.iter().map(|shared| SessionHandle { shared: Arc::clone(shared) });
        own.chain(self.registry.created())
    }

    /// Addresses listened at, with the ports that the system chose for port 0.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Drives the sessions of mode `polled` by one round, in this thread, without waiting.
    /// Returns whether anything happened.
    pub fn poll(&mut self) -> bool {
        self.polled.as_mut().is_some_and(|worker| worker.run_once(false))
    }

    /// Stops accepting, sends Logout(5) to all counterparties at once, and ends when all have
    /// answered, at the latest after `deadline_ms` milliseconds. Everything sent is in the stores.
    pub fn stop(mut self, deadline_ms: u64) -> Vec<SessionOutcome> {
        self.stop_all(deadline_ms)
    }

    fn stop_all(&mut self, deadline_ms: u64) -> Vec<SessionOutcome> {
        let until_ns = clock::monotonic_ns().saturating_add(deadline_ms.saturating_mul(1_000_000));
        let stop = || Command::Stop { until_ns, text: String::new() };
        if let Some((door, thread)) = self.lobby.take() {
            door.close();
            // A thread that panicked has nothing to say at the end.
            let _ = thread.join();
        }
        for (mailbox, _) in &self.threads {
            mailbox.post(stop());
        }
        let mut outcomes = Vec::new();
        if let Some(mut worker) = self.polled.take() {
            worker.mailbox().post(stop());
            worker.run_once(false);
            while !worker.is_done() {
                worker.run_once(false);
            }
            outcomes.extend(worker.finish());
        }
        for (_, thread) in self.threads.drain(..) {
            outcomes.extend(thread.join().unwrap_or_default());
        }
        self.registry.logs.stop();
        outcomes
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_all(0);
    }
}

fn check_no_template(settings: &Settings) -> Result<(), EngineError> {
    let Some(template) = settings.sessions.iter().find(|s| is_template(s)) else { return Ok(()) };
    let why = format!("{} is a template; Engine::builder().admit() says whom", template.id());
    Err(EngineError::Settings(why))
}

/// Pins the calling thread to one CPU.
///
/// # Errors
/// If there is no such CPU, or it is not allowed.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    if cpu >= rustix::thread::CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Opens the store of a session.
pub(crate) type OpenStoreOf =
    fn(&SessionSettings, &Registry) -> Result<Box<dyn Store>, EngineError>;

pub(crate) fn open(
    settings: &SessionSettings,
    application: Box<dyn Application>,
    registry: &Arc<Registry>,
) -> Result<Shared, EngineError> {
    open_over(open_store, settings, application, registry)
}

/// The same for a session of the settings: if its store cannot be opened it has one that will be,
/// and the error is returned beside it.
fn open_or_defer(
    settings: &SessionSettings,
    application: Box<dyn Application>,
    registry: &Arc<Registry>,
) -> Result<(Shared, Option<EngineError>), EngineError> {
    let why = match open_store(settings, registry) {
        Ok(store) => {
            return Ok((open_with(store, settings, application, registry)?, None));
        }
        Err(EngineError::Store { source, .. }) => source,
        Err(error) => return Err(error),
    };
    let (later, among) = (settings.clone(), Arc::clone(registry));
    let store = Box::new(Deferred::new(Box::new(move || {
        open_store(&later, &among).map_err(|error| match error {
            EngineError::Store { source, .. } => source,
            error => StoreError::Own(io::Error::other(error.to_string())),
        })
    })));
    let shared = open_with(store, settings, application, registry)?;
    shared.with_desk(|desk| desk.fail(&why));
    Ok((shared, Some(EngineError::Store { id: settings.id(), source: why })))
}

/// Puts a session together over the store that `open_store` answers with.
pub(crate) fn open_over(
    open_store: OpenStoreOf,
    settings: &SessionSettings,
    application: Box<dyn Application>,
    registry: &Arc<Registry>,
) -> Result<Shared, EngineError> {
    open_with(open_store(settings, registry)?, settings, application, registry)
}

fn open_with(
    store: Box<dyn Store>,
    settings: &SessionSettings,
    application: Box<dyn Application>,
    registry: &Arc<Registry>,
) -> Result<Shared, EngineError> {
    let id = settings.id();
    let data_fields = check_rules(settings, registry)?;
    let schedule = settings.schedule.as_ref().map(Schedule::new).transpose();
    let schedule = schedule.map_err(|error| EngineError::Settings(format!("{id}: {error}")))?;
    let windows = schedule.iter().flat_map(|schedule| schedule.intervals(clock::now().utc));
    let windows: Vec<_> = windows.take(WINDOWS_TOLD).collect();
    let hours = schedule.map(Hours::new);
    let log = open_log(settings, registry)?;
    let parts = Parts { config: settings.config(), data_fields, hours, store, log, application };
    let shared = assemble(settings, parts, registry);
    let shared = shared.map_err(|source| EngineError::Store { id, source })?;
    // Once a session, and of one that is made: strangers can have sessions tried again and again.
    for window in windows {
        let (open, close) = (window.open, window.close);
        tracing::info!(session = %shared.id, %open, %close, "window");
    }
    Ok(shared)
}

/// The session's own store, or the one that its settings ask for.
fn open_store(
    settings: &SessionSettings,
    registry: &Registry,
) -> Result<Box<dyn Store>, EngineError> {
    let now_ns = clock::now().utc.0.unsigned_abs();
    let failed = |source| EngineError::Store { id: settings.id(), source };
    let own = registry.open_store.as_ref().map(|open| open(settings, now_ns));
    if let Some(store) = own.transpose().map_err(failed)?.flatten() {
        return Ok(store);
    }
    if settings.refresh_on_logon {
        let id = settings.id();
        let why = "refresh_on_logon needs a store of your own: nobody else writes the engine's";
        return Err(EngineError::Settings(format!("{id}: {why}")));
    }
    retention::open_store(settings, now_ns).map_err(failed)
}

/// What a session is put together from, besides its settings.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) data_fields: Vec<(Tag, Tag)>,
    pub(crate) hours: Option<Hours>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) log: Option<Tap>,
    pub(crate) application: Box<dyn Application>,
}

/// Puts a session together over a store that is open.
pub(crate) fn assemble(
    settings: &SessionSettings,
    parts: Parts,
    registry: &Arc<Registry>,
) -> Result<Shared, StoreError> {
    let Parts { config, data_fields, hours, mut store, log, application } = parts;
    let (id, precision) = (config.id.clone(), config.precision);
    let numbers = store.numbers();
    let mut session = Session::new(config, numbers.next_in, numbers.next_out);
    if numbers.next_in == 1 && asked_to_reset(&mut *store) {
        session.reset_at_next_logon();
    }
    let options = LinkOptions {
        limits: Limits { message_bytes_max: settings.message_bytes_max },
        check_sum: if settings.validate_check_sum {
            CheckSumPolicy::Verify
        } else {
            CheckSumPolicy::Ignore
        },
        garbled: settings.garbled,
        search_garbled: settings.search_garbled,
        queued_bytes_max: settings.queued_bytes_max,
        turn_messages_max: settings.turn_messages_max,
        keep_outbound: settings.keep_outbound,
        keep_inbound: settings.keep_inbound,
        offline: settings.offline,
        refresh_on_logon: settings.refresh_on_logon,
        hours,
        queue_pause_ms: settings.queue_pause_ms,
        queue_expires_s: settings.queue_expires_s,
        unsent: settings.unsent,
        unavailable: settings.unavailable,
        routes: settings.route_third_party,
        checks: match settings.validate {
            true => Checks::all(settings.checks),
            false => Checks { session: Switches::default(), ..Checks::all(Switches::NONE) },
        },
        dictionary: settings.dictionary.clone(),
        appl_versions: settings.appl_versions.clone(),
        data_fields,
    };
    let mut desk = Desk::new(session, store, application, Arc::clone(registry), options);
    desk.log = log;
    desk.restore_queued(clock::now())?;
    let standing = Arc::clone(&desk.standing);
    let queue = SendQueue::new(settings.queued_bytes_max, precision);
    desk.note_taken(&queue);
    Ok(Shared {
        id,
        link: Mutex::new(Link::new(desk)),
        queue,
        send_mode: settings.send,
        wake: OnceLock::new(),
        offline: settings.offline,
        standing,
        waiting: Waiting::of(&registry.waiting),
        closed: AtomicBool::new(false),
        enabled: AtomicBool::new(true),
        attention: AtomicBool::new(false),
        hurry: AtomicBool::new(false),
        after_panic: settings.after_panic,
    })
}

/// Whether our last word before the end of the process was a Logon(A) with ResetSeqNumFlag(141)=Y:
/// as long as none is answered, the counterparty may still count on from the old numbers.
pub(crate) fn asked_to_reset(store: &mut dyn Store) -> bool {
    let Ok(Some(first)) = store.outbound(1) else { return false };
    let mut index = FieldIndex::default();
    Message::parse(first.bytes, &mut index, CheckSumPolicy::Ignore)
        .is_ok_and(|logon| logon.flag(tag::RESET_SEQ_NUM_FLAG) == Ok(true))
}

/// Compiles the rules here rather than at the first logon, so that a bad file is an error of the
/// start. Answers with the data fields that the dictionaries define.
fn check_rules(
    settings: &SessionSettings,
    registry: &Registry,
) -> Result<Vec<(Tag, Tag)>, EngineError> {
    let source = settings.dictionary.as_ref();
    let version = settings.default_appl_ver_id.map(transfix_session::ApplVerId);
    let book = &registry.rule_book;
    let wrong = |key| move |error| EngineError::Settings(says(settings, key, error));
    let rules = book.rules(settings.begin_string, version, source);
    let mut data_fields = rules.map_err(wrong("dictionary"))?.data_fields().to_vec();
    for source in settings.appl_versions.values() {
        let rules = book.rules(settings.begin_string, None, Some(source));
        data_fields.extend_from_slice(rules.map_err(wrong("appl_versions"))?.data_fields());
    }
    Ok(data_fields)
}

/// What is wrong with this key, and where it stands.
fn says(settings: &SessionSettings, key: &str, what: impl fmt::Display) -> String {
    let (place, id) = (settings.place(key), settings.id());
    format!("{place}{id}: {key}: {what}")
}

/// Tells of dictionaries that are of another version: at the start alone, as strangers can have
/// sessions made from templates again and again.
fn tell_doubts(settings: &SessionSettings, registry: &Registry) {
    let doubt = |key, version, source| {
        if let Some(doubt) = registry.rule_book.doubt(settings.begin_string, version, source) {
            let why = says(settings, key, doubt);
            tracing::warn!(session = %settings.id(), why, "the dictionary is of another version");
        }
    };
    let version = settings.default_appl_ver_id.map(transfix_session::ApplVerId);
    doubt("dictionary", version, settings.dictionary.as_ref());
    for (named, source) in &settings.appl_versions {
        let version = named.parse().ok().map(transfix_session::ApplVerId);
        doubt("appl_versions", version, Some(source));
    }
}

fn open_log(settings: &SessionSettings, registry: &Registry) -> Result<Option<Tap>, EngineError> {
    let Some(log) = &settings.log else { return Ok(None) };
    let (name, dir) = (settings.folder(), log.dir.display());
    let tap = registry.logs.open(log, name.as_ref());
    tap.map(Some).map_err(io_error(format!("the protocol log {name} in {dir}")))
}

fn dial(settings: &SessionSettings) -> Result<Dial, EngineError> {
    let addresses = resolve(settings)?;
    let intervals = (settings.reconnect_interval_ms, settings.reconnect_interval_max_ms);
    Ok(Dial::new(addresses, socket_options(settings), intervals))
}
