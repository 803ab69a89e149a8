//! Starts and stops the parts of an engine: stores, links, workers and listeners.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use transfix_observe::audit::AuditFile;
use transfix_observe::called::Watch;
use transfix_observe::event;
use transfix_observe::latency::usual::UsualTimes;
use transfix_observe::mappings;
use transfix_observe::supervised::{helper_not_pinned, on_cpus, pin_to, supervise};
use transfix_session::{Role, SessionId, nanos};
use transfix_settings::{Durability, EngineSettings, Mode, SessionSettings, Settings, ThreadLost};
use transfix_store::Helpers;
use transfix_transport::refuse_long_files_by_error;

use crate::assemble::{check_rules, judge, open, open_or_defer, open_stores, tell_doubts};
use crate::drive::acceptor::{Acceptor, AcceptorHandle};
use crate::drive::balance::{Balance, PoolLimits, Shares};
use crate::drive::certificates::OwnCertificates;
use crate::drive::command_queue::{CommandQueue, Pool};
use crate::drive::connector::{Connector, Pauses};
use crate::drive::descriptors;
use crate::drive::destination::{Destination, Key, ListenSocket};
use crate::drive::driven::DrivenSession;
use crate::drive::listening::Listening;
use crate::drive::new_connections::RoomLimits;
use crate::drive::outcome::SessionOutcome;
use crate::drive::registry::{OpenStore, Registry};
use crate::drive::routes::Routes;
use crate::drive::run_queue::RunQueue;
use crate::drive::shared::Shared;
use crate::drive::template::{Admit, CreatedPlaces, Creator, Maker};
use crate::drive::waiting::WaitingTotal;
use crate::drive::watching::Watching;
use crate::drive::worker::Worker;
use crate::error::{EngineError, io_error};
use crate::io::{Io, Job};
use crate::link::callbacks::Callbacks;
use crate::link::failed_logons::{FailedLogons, Limits};

mod dynamic;

/// A function that makes the owner of a session's callbacks, given the registry of all sessions.
pub(crate) type MakeOwner<'m> = dyn FnMut(&SessionId, &Arc<Registry>) -> Box<dyn Callbacks> + 'm;
/// Admits a counterparty without a configured session; receives the registry of all sessions.
pub(crate) type AdmitTo =
    Box<dyn Fn(&SessionId, &Arc<Registry>) -> Option<Box<dyn Callbacks>> + Send + Sync>;

/// The parts of an engine that do not come from its settings.
pub(crate) struct Extras {
    pub(crate) admit: Option<AdmitTo>,
    pub(crate) open_store: Option<OpenStore>,
    /// True if the program waits for sessions of mode `polled` at a file descriptor.
    pub(crate) has_fd: bool,
    pub(crate) io: Arc<dyn Io>,
}

/// The maximum number of threads that create segment files for the stores.
const MAKERS_MAX: usize = 4;

/// The maximum time, in nanoseconds, in which application threads make their last calls at a stop.
const LAST_CALLS_NS_MAX: u64 = 1_000_000_000;

/// A running engine. Dropping the engine without [`Engine::stop`] logs out all sessions without
/// waiting for the answers.
pub struct Engine {
    sessions: Vec<Arc<Shared>>,
    registry: Arc<Registry>,
    listening: Vec<SocketAddr>,
    /// The listener group of each address in `listening`.
    groups: Vec<usize>,
    /// The addresses with their listeners.
    ways: Listening,
    /// The settings of `[engine]`, which all sessions share.
    all: EngineSettings,
    /// The command queues of the pool's workers.
    pool: Pool,
    /// True if the program admits unknown counterparties, so that templates may be added.
    admits: bool,
    /// The function that admits counterparties and the limit on waiting connections, kept for an
    /// acceptor that is added later as the first.
    later: (Option<AdmitTo>, usize),
    threads: Vec<(Arc<CommandQueue>, Job<Vec<SessionOutcome>>)>,
    polled: Option<Worker>,
    acceptor: Option<(Arc<AcceptorHandle>, Job<()>)>,
    watching: Option<Watching>,
    /// True if [`Engine::stop`] must report message latencies.
    reports_latency: bool,
}

/// The planned threads, with the sessions that each will drive.
#[derive(Default)]
struct Plan {
    pool: Vec<Vec<DrivenSession>>,
    own: Vec<(DrivenSession, Mode, Option<usize>)>,
    polled: Vec<DrivenSession>,
    /// True if the program waits at a file descriptor for sessions of mode `polled`.
    has_fd: bool,
    /// True if pool threads start even without sessions.
    keeps_empty: bool,
}

impl Plan {
    /// Assigns a session to its thread; a pool session goes to the worker with the fewest sessions.
    fn add(&mut self, slot: DrivenSession, session: &SessionSettings) {
        match session.threads.mode {
            Mode::Pool => {
                if let Some(fewest) = self.pool.iter_mut().min_by_key(|slots| slots.len()) {
                    fewest.push(slot);
                }
            }
            Mode::Polled => self.polled.push(slot),
            mode => self.own.push((slot, mode, session.threads.cpu)),
        }
    }
}

impl Engine {
    pub(crate) fn start_with(
        settings: &Settings,
        extras: Extras,
        owner: &mut MakeOwner<'_>,
    ) -> Result<Self, EngineError> {
        let Extras { admit, open_store, has_fd, io } = extras;
        let ranges = settings.engine.check_ranges();
        ranges.map_err(|wrong| EngineError::Settings(format!("[engine]: {wrong}")))?;
        if settings.fleet.is_some() && open_store.is_none() {
            return Err(EngineError::Settings(transfix_settings::review::NEEDS_FLEET.to_owned()));
        }
        // Reserves file descriptors before anything is opened, because the default limit of a
        // process is low.
        let pending_max = descriptors::reserve(settings, open_store.is_some())?;
        // Makes a write beyond the limit of file lengths fail with an error, like a full disk,
        // instead of killing the process by a signal.
        refuse_long_files_by_error();
        if admit.is_none() {
            check_no_template(settings)?;
        }
        let has_files = settings.sessions.iter().any(in_files);
        let registry = Arc::new(registry(&settings.engine, has_files, open_store, &io)?);
        let plan = Plan { has_fd, ..Plan::default() };
        let started = Self::start_over(settings, &registry, (admit, pending_max), (plan, owner));
        if started.is_err() {
            stop_run_queue(&registry);
        }
        started
    }

    fn start_over(
        settings: &Settings,
        registry: &Arc<Registry>,
        (admit, pending_max): (Option<AdmitTo>, usize),
        (mut plan, owner): (Plan, &mut MakeOwner<'_>),
    ) -> Result<Self, EngineError> {
        let (io, own) = (&registry.io, &registry.certificates);
        let mut sessions = Vec::new();
        let mut listening = Listening::default();
        let mut templates = Vec::new();
        let mut refused = Vec::new();
        plan.pool.resize_with(settings.engine.workers, Vec::new);
        settings
            .sessions
            .iter()
            .try_for_each(SessionSettings::check)
            .map_err(EngineError::Settings)?;
        let stores = open_stores(&settings.sessions, registry);
        for (session, store) in settings.sessions.iter().zip(stores) {
            if session.is_template() {
                check_rules(session, &registry.rule_book)?;
                tell_doubts(session, registry);
                templates.push((listening.add(session, &**io, own)?, session.clone()));
                continue;
            }
            let owner = owner(&session.id(), registry);
            let (shared, why) = open_or_defer(session, store, owner, registry)?;
            tell_doubts(session, registry);
            refused.extend(why);
            let shared = Arc::new(shared);
            let connector = match session.role {
                Role::Initiator => Some(connector(session, own)?),
                Role::Acceptor => {
                    listening.add(session, &**io, own)?;
                    None
                }
            };
            let slot = DrivenSession::new(Arc::clone(&shared), connector);
            plan.add(slot, session);
            sessions.push(shared);
        }
        if refused.len() == settings.sessions.len()
            && let Some(first) = refused.into_iter().next()
        {
            return Err(first);
        }
        mappings::check(settings.sessions.iter().filter(|s| in_files(s)).count());
        registry.fill(&sessions);
        let listeners = std::mem::take(&mut listening.listeners);
        let ways = (listening, &*listeners);
        let mut engine = Self::idle(settings, registry, sessions, ways, (admit, pending_max))?;
        // Sessions from templates are added later, so a worker must exist even without sessions.
        plan.keeps_empty = !templates.is_empty();
        let mut destinations = Vec::new();
        engine.pool = engine.start_workers(plan, settings, &mut destinations)?;
        if !listeners.is_empty() {
            let keys = engine.ways.keys(destinations);
            engine.start_acceptor(listeners, keys, templates)?;
        }
        registry.certificates.tell_all();
        Ok(engine)
    }

    /// Returns an engine whose threads are not started yet.
    fn idle(
        settings: &Settings,
        registry: &Arc<Registry>,
        sessions: Vec<Arc<Shared>>,
        (ways, listeners): (Listening, &[ListenSocket]),
        later: (Option<AdmitTo>, usize),
    ) -> Result<Self, EngineError> {
        let bound: io::Result<_> = listeners.iter().map(|at| at.listener.local_addr()).collect();
        let engine = Self {
            sessions,
            registry: Arc::clone(registry),
            listening: bound.map_err(io_error("listening address"))?,
            groups: listeners.iter().map(|listener| listener.group).collect(),
            ways,
            all: settings.engine.clone(),
            pool: Pool::default(),
            admits: later.0.is_some(),
            later,
            threads: Vec::new(),
            polled: None,
            acceptor: None,
            watching: watching(settings.engine.thread_lost, registry)?,
            reports_latency: settings.engine.latency_at_stop,
        };
        engine.publish_listening();
        Ok(engine)
    }

    /// Publishes the addresses at which the engine now listens.
    fn publish_listening(&self) {
        let mut seen = self.registry.listening.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone_from(&self.listening);
    }

    /// Starts the workers. Returns the command queues of the pool's workers.
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
        let (shared_pool, limits) = (Pool::default(), pool_limits(&settings.engine));
        let mut pool = Vec::new();
        for (slot, mode, cpu) in plan.own {
            let name = format!("tfx-{}", slot.shared.id.target_comp_id);
            jobs.push((name, vec![slot], mode == Mode::Spin, cpu));
        }
        for (n, (name, slots, spins, cpu)) in jobs.into_iter().enumerate() {
            let mut worker = self.worker(slots, spins, destinations)?;
            let lost = settings.engine.thread_lost;
            let command_queue = Arc::clone(worker.command_queue());
            if n < pool_size {
                pool.push(Arc::clone(&command_queue));
                if pool_size > 1 && limits.interval_ns > 0 {
                    worker.share(Balance::new(&shared_pool, n, limits));
                }
            } else {
                worker.ends_with_its_session();
            }
            let (what, io) = (format!("thread {name}"), Arc::clone(&self.registry.io));
            let job = Job::spawn(&*self.registry.io, name, move || {
                pin_to(cpu);
                supervise(lost, (&|| io.monotonic_ns(), &|time| io.sleep(time)), || worker.run())
            });
            self.threads.push((command_queue, job.map_err(io_error(what))?));
        }
        if !plan.polled.is_empty() {
            self.polled = Some(self.worker(plan.polled, !plan.has_fd, destinations)?);
        }
        let _ = shared_pool.set(pool);
        Ok(shared_pool)
    }

    fn worker(
        &self,
        slots: Vec<DrivenSession>,
        spins: bool,
        destinations: &mut Vec<(SessionId, Destination)>,
    ) -> Result<Worker, EngineError> {
        let shared: Vec<_> = slots.iter().map(|slot| Arc::clone(&slot.shared)).collect();
        let worker = Worker::new(slots, spins, &self.registry.io).map_err(io_error("epoll"))?;
        for (slot, shared) in shared.into_iter().enumerate() {
            shared.belongs_to(worker.command_queue().handle(), slot);
            destinations.push((shared.id.clone(), Destination::of(&shared)));
        }
        Ok(worker)
    }

    /// Starts the thread that accepts connections.
    fn start_acceptor(
        &mut self,
        listeners: Vec<ListenSocket>,
        keys: HashMap<Key, Vec<Destination>>,
        templates: Vec<(usize, SessionSettings)>,
    ) -> Result<(), EngineError> {
        let (admit, max) = (self.later.0.take(), self.later.1);
        let (admit, workers) = (self.admit(admit), Arc::clone(&self.pool));
        let all = &self.all;
        let registry = Arc::clone(&self.registry);
        let io = Arc::clone(&registry.io);
        let (of_judge, of_open) = (Arc::clone(&registry), Arc::clone(&registry));
        let maker = Maker {
            admit,
            judge: Box::new(move |settings, owner, logon| judge(settings, owner, logon, &of_judge)),
            open: Box::new(move |settings, owner| open(settings, owner, &of_open)),
            places: CreatedPlaces::new(all.created_sessions_max),
        };
        let shares = Shares::new(pool_limits(all));
        let creator = Creator {
            templates,
            registry,
            workers,
            shares,
            places: Arc::clone(&maker.places),
            idle_ns: nanos(all.created_sessions_idle),
            made: Vec::new(),
            look_ns: 0,
        };
        let limits = RoomLimits { max, per_address_max: all.pending_per_address_max };
        let failed = FailedLogons::new(Limits {
            free: all.failed_logons_max,
            delay_max_ns: nanos(all.failed_logon_delay_max),
        });
        let limits = (limits, failed, Arc::clone(&self.registry.passwords));
        let acceptor = Acceptor::new(listeners, keys, (creator, maker), limits, &io);
        let (mut acceptor, lost) = (acceptor.map_err(io_error("epoll"))?, all.thread_lost);
        let worker = Arc::clone(acceptor.handle());
        let (name, of_thread) = ("tfx-accept".to_owned(), Arc::clone(&io));
        self.registry.accepts.store(true, Ordering::Release);
        let registry = Arc::clone(&self.registry);
        let job = Job::spawn(&*io, name, move || {
            supervise(lost, (&|| of_thread.monotonic_ns(), &|time| of_thread.sleep(time)), || {
                registry.accepts.store(true, Ordering::Release);
                // Marks the engine as not accepting when the thread ends, even after a panic.
                let _ended = Ended(&registry);
                acceptor.run()
            });
        });
        self.acceptor = Some((worker, job.map_err(io_error("thread tfx-accept"))?));
        Ok(())
    }

    /// Returns the configured sessions in the order of the settings, then the sessions made from
    /// templates in the order of their identities.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Shared>> {
        self.sessions.iter().map(Arc::clone).chain(self.registry.made())
    }

    pub(crate) const fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the program's function that admits counterparties without a configured session. The
    /// default function admits none.
    fn admit(&self, admit: Option<AdmitTo>) -> Admit {
        let sessions = Arc::clone(&self.registry);
        match admit {
            Some(admit) => Box::new(move |id| admit(id, &sessions)),
            None => Box::new(|_| None),
        }
    }

    /// Returns the addresses at which the engine listened when it last changed, with the actual
    /// ports in place of port 0.
    #[must_use]
    pub fn listening(&self) -> &[SocketAddr] {
        &self.listening
    }

    /// Returns true if `address`, one of [`Engine::listening`], accepts TLS connections.
    #[must_use]
    pub fn listens_with_tls(&self, address: SocketAddr) -> bool {
        let mut all = self.listening.iter().zip(&self.groups);
        all.any(|(at, group)| *at == address && self.ways.has_tls(*group))
    }

    /// Runs one round of the sessions of mode `polled` in this thread, without waiting. The round
    /// checks the sockets of all these sessions, or with [`EngineBuilder::with_poll_fd`] only the
    /// ready sockets. Returns true if there was any work. A single round per wake-up suffices if
    /// the program also respects [`Engine::poll_timeout`].
    ///
    /// [`EngineBuilder::with_poll_fd`]: crate::EngineBuilder::with_poll_fd
    pub fn poll(&mut self) -> bool {
        self.polled.as_mut().is_some_and(|worker| worker.run_once(false))
    }

    /// Returns the file descriptor for your own event loop. The descriptor is readable when a
    /// socket is ready, a new connection has arrived, or a handle has left work for a session.
    /// Timers do not make the descriptor readable: [`Engine::poll_timeout`] reports the next timer.
    /// The descriptor stays the same for the lifetime of the engine. Returns `None` without
    /// [`EngineBuilder::with_poll_fd`] or without sessions of mode `polled`.
    ///
    /// The descriptor stays readable until the program calls [`Engine::poll`]. With edge-triggered
    /// events, call [`Engine::poll`] until it returns `false`.
    ///
    /// [`EngineBuilder::with_poll_fd`]: crate::EngineBuilder::with_poll_fd
    #[must_use]
    pub fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        self.polled.as_ref()?.fd()
    }

    /// Returns the maximum time for which the program may wait at [`Engine::poll_fd`] before it
    /// calls [`Engine::poll`] again. The time ends, for instance, when a Heartbeat(0) is due.
    /// Returns zero if the last round has left work, or without [`EngineBuilder::with_poll_fd`].
    /// Returns `None` without a limit, or without sessions of mode `polled`.
    ///
    /// Call this method after each [`Engine::poll`], and round up to the unit of your wait.
    ///
    /// [`EngineBuilder::with_poll_fd`]: crate::EngineBuilder::with_poll_fd
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let worker = self.polled.as_ref()?;
        let due_ns = if worker.fd().is_some() { worker.due_ns() } else { 0 };
        let left_ns = due_ns.saturating_sub(self.registry.io.monotonic_ns());
        (due_ns < u64::MAX).then(|| Duration::from_nanos(left_ns))
    }

    /// Stops the engine: accepts no further connections and sends Logout(5) to all counterparties
    /// at once. Returns when all have answered, or after `deadline`. All sent messages are then in
    /// the stores.
    ///
    /// This thread drives sessions of mode `polled` during the stop. A counterparty that another
    /// engine drives in this thread therefore cannot answer.
    ///
    /// Messages that wait only in memory are returned through
    /// [`SessionNotice::Unsent`](crate::SessionNotice::Unsent). The engine reopens a failed store
    /// to learn which of the last messages the store contains. Reopening may exceed the deadline.
    ///
    /// The engine waits at most 10 s beyond the deadline for a sync. If the device still does not
    /// answer, a separate thread (`store-close`) closes the store and holds its lock. The session
    /// then ends as [`Outcome::Failed`](crate::Outcome::Failed).
    pub fn stop(mut self, deadline: Duration) -> Vec<SessionOutcome> {
        self.stop_all(deadline)
    }

    fn stop_all(&mut self, deadline: Duration) -> Vec<SessionOutcome> {
        let until_ns = self.registry.io.monotonic_ns().saturating_add(nanos(deadline));
        if let Some((worker, job)) = self.acceptor.take() {
            worker.close();
            // A thread that has panicked has no result, so the error is ignored.
            let _ = job.join();
        }
        for (command_queue, _) in &self.threads {
            command_queue.stop(until_ns, String::new());
        }
        let mut outcomes = Vec::new();
        if let Some(mut worker) = self.polled.take() {
            worker.command_queue().stop(until_ns, String::new());
            worker.run_once(false);
            while !worker.is_done() {
                worker.wait_once();
            }
            outcomes.extend(worker.finish());
        }
        for (_, job) in self.threads.drain(..) {
            outcomes.extend(job.join().unwrap_or_default());
        }
        // Lets application threads make their last calls. The workers have already waited for busy
        // applications.
        stop_run_queue(&self.registry);
        if let Some(watching) = self.watching.take() {
            watching.stop();
        }
        if std::mem::take(&mut self.reports_latency) {
            self.all().for_each(|session| tell_latency(&session));
        }
        self.registry.logs.stop();
        outcomes
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_all(Duration::ZERO);
    }
}

/// Logs the latencies of a session's messages, for each stage that has any.
fn tell_latency(session: &Shared) {
    let latency = session.published.latency();
    for (stage, times) in latency.stages().filter(|(_, times)| times.count() > 0) {
        let (count, max_ns) = (times.count(), times.max_ns());
        let [p50_ns, p99_ns, p999_ns] = [50.0, 99.0, 99.9].map(|p| times.percentile_ns(p));
        event!(
            info, Latency, session = %session.id, %stage, count, p50_ns, p99_ns, p999_ns, max_ns
        );
    }
}

/// A guard that records, when dropped, that no thread accepts connections.
struct Ended<'r>(&'r Registry);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.accepts.store(false, Ordering::Release);
    }
}

/// Ends the threads of the applications.
fn stop_run_queue(registry: &Registry) {
    if let Some(run_queue) = &registry.run_queue {
        let io = &*registry.io;
        run_queue.stop(io, io.monotonic_ns().saturating_add(LAST_CALLS_NS_MAX));
    }
}

/// Returns true if the store of the session is in files.
fn in_files(session: &SessionSettings) -> bool {
    session.store.durability != Durability::Memory
}

fn watching(lost: ThreadLost, registry: &Arc<Registry>) -> Result<Option<Watching>, EngineError> {
    Watching::start(registry, lost).map_err(io_error("thread tfx-watch"))
}

/// Creates the registry of sessions. `has_files` is true if at least one store is in files.
fn registry(
    settings: &EngineSettings,
    has_files: bool,
    open_store: Option<OpenStore>,
    io: &Arc<dyn Io>,
) -> Result<Registry, EngineError> {
    let mut registry = Registry::default();
    registry.run_queue = RunQueue::start(settings, io).map_err(io_error("thread tfx-app"))?;
    registry.io = Arc::clone(io);
    registry.certificates = Arc::new(OwnCertificates::new(Arc::clone(io)));
    registry.watch = Arc::new(Watch::new(settings.slow_callback));
    let (window, percent) = (settings.latency_window, settings.latency_unusual_percent);
    registry.usual_times = UsualTimes::new(window, percent, io.monotonic_ns());
    registry.waiting = Arc::new(WaitingTotal::new(settings.waiting_bytes_max));
    if !settings.audit_file.as_os_str().is_empty() {
        let path = &settings.audit_file;
        let what = format!("the audit file {}", path.display());
        registry.audit = Some(AuditFile::open(path, io.now().utc).map_err(io_error(what))?);
    }
    registry.open_store = open_store;
    let makers = thread::available_parallelism().map_or(1, usize::from).min(MAKERS_MAX);
    let begin = on_cpus(&settings.helper_cpus, helper_not_pinned);
    registry.helpers = Arc::new(Helpers::new(makers, begin));
    if registry.open_store.is_none() && has_files {
        registry.helpers.start();
    }
    registry.logs.helpers = Arc::clone(&registry.helpers);
    registry.logs.cpu = settings.log_cpu;
    registry.logs.lost = settings.thread_lost;
    Ok(registry)
}

const fn pool_limits(settings: &EngineSettings) -> PoolLimits {
    let interval_ns = nanos(settings.rebalance);
    PoolLimits { interval_ns, hot_percent: settings.hot_worker_percent }
}

fn check_no_template(settings: &Settings) -> Result<(), EngineError> {
    let Some(template) = settings.sessions.iter().find(|s| s.is_template()) else { return Ok(()) };
    let why = format!(
        "{} is a template; a program admits its sessions by \
                       Engine::builder().admit()",
        template.id()
    );
    Err(EngineError::Settings(why))
}

fn connector(
    settings: &SessionSettings,
    own: &Arc<OwnCertificates>,
) -> Result<Connector, EngineError> {
    Ok(Connector::new(Routes::of(settings, own)?, Pauses::of(&settings.socket)))
}
