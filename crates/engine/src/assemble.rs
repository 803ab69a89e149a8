//! Assembles sessions from settings: opens the store, the dictionaries, the schedule and the
//! protocol log, and builds the link.

use std::fmt;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex};
use std::thread;

use transfix_codec::{CheckSumPolicy, FieldIndex, Limits, Message, Rules, Tag};
use transfix_observe::clock::Ticks;
use transfix_observe::event;
use transfix_observe::protocol_log::Tap;
use transfix_session::core::judging::{self, Answer};
use transfix_session::core::{BatchLimits, Core, Keeps, LinkOptions};
use transfix_session::{Config, Offer, Outbox, ProtocolConfig, Role, Session, Verdict, nanos};
use transfix_settings::schedule::Hours;
use transfix_settings::schedule::Schedule;
use transfix_settings::{DictionaryChoice, Durability, LogSettings, Mode, SessionSettings};
use transfix_store::{Store, StoreError};

use crate::drive::application_task::ApplicationTask;
use crate::drive::deferred::Deferred;
use crate::drive::registry::Registry;
use crate::drive::run_queue::RunQueue;
use crate::drive::shared::{NO_WISH, Shared, ThreadedApplication};
use crate::drive::stores;
use crate::drive::template::Applicant;
use crate::drive::two_stores::TwoStores;
use crate::drive::waiting::WaitingBytes;
use crate::error::{EngineError, io_error};
use crate::io::Io;
use crate::link::app_executor::{self, AppExecutor};
use crate::link::callbacks::{Callbacks, Judgement};
use crate::link::failed_logons::is_failed_logon;
use crate::link::journal::Journal;
use crate::link::latency_probe::Source;
use crate::link::outbound_filter::OutboundFilter;
use crate::link::queue::SendQueue;
use crate::link::refusal::Refusal;
use crate::link::rule_book::{RuleBook, SessionRules};
use crate::link::sinks::Sinks;
use crate::link::{Link, REST_AFTER_NS};

/// The maximum number of threads that open stores at the start of an engine.
const OPENERS_MAX: usize = 8;
/// The number of stores per opening thread.
const STORES_PER_OPENER: usize = 64;
/// The opened store of a session, or the error of opening it; `None` if opening was not tried.
pub(crate) type FoundStore = Option<Opened>;
/// A store or the error of opening it, and a flag that is true while a separate store of the backup
/// destinations is in use.
type Opened = (Result<Box<dyn Store>, EngineError>, Arc<AtomicBool>);

/// The number of a schedule's windows that are logged at the start.
const WINDOWS_TOLD: usize = 3;

/// Assembles a session with a custom store, or the store of its settings.
pub(crate) fn open(
    settings: &SessionSettings,
    application: Box<dyn Callbacks>,
    registry: &Arc<Registry>,
) -> Result<Shared, EngineError> {
    let is_at_backup = Arc::default();
    let store = open_store(settings, registry, &is_at_backup)?;
    let log = open_log(settings, registry)?;
    open_with((store, is_at_backup), log, settings, (application, registry))
}

/// Assembles a session like [`open`], for settings with which the session ran before. A store or
/// log that cannot be opened now is opened later.
pub(crate) fn open_again(
    settings: &SessionSettings,
    application: Box<dyn Callbacks>,
    registry: &Arc<Registry>,
) -> Result<Shared, EngineError> {
    let log = settings.log.as_ref().map(|log| {
        let (tap, why) = registry
            .logs
            .open_or_defer(log, settings.folder().as_ref())
            .map_err(log_failed(settings, log))?;
        if let Some(error) = why {
            // A reload assembles the session once, so this line is logged once per reload.
            let (session, dir) = (settings.id(), log.dir.display());
            event!(error, LogNotOpened, %session, %dir, %error);
        }
        Ok(tap)
    });
    let found = opened(settings, registry);
    defer_store(settings, found, log.transpose()?, (application, registry))
        .map(|(shared, _)| shared)
}

/// Opens the stores of these sessions. Many stores are opened in parallel, by at most one thread
/// per CPU, because waiting for the file system takes most of the time. Templates have no store.
pub(crate) fn open_stores(sessions: &[SessionSettings], registry: &Registry) -> Vec<FoundStore> {
    let threads = match registry.open_store {
        // A custom store may depend on the order of the settings.
        Some(_) => 1,
        None => {
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            cpus.min(OPENERS_MAX).min(sessions.len() / STORES_PER_OPENER)
        }
    };
    if threads <= 1 {
        return sessions.iter().map(|_| None).collect();
    }
    let chunk = sessions.len().div_ceil(threads);
    let open_chunk = |chunk: &[SessionSettings]| -> Vec<FoundStore> {
        let open = |s: &SessionSettings| (!s.is_template()).then(|| opened(s, registry));
        chunk.iter().map(open).collect()
    };
    thread::scope(|scope| {
        let openers: Vec<_> = sessions
            .chunks(chunk)
            .map(|chunk| (chunk, scope.spawn(|| open_chunk(chunk))))
            .collect();
        let found = |(chunk, opener): (&[SessionSettings], thread::ScopedJoinHandle<'_, _>)| {
            // The thread has panicked. Its stores are opened one by one later, where the panic
            // recurs.
            opener.join().unwrap_or_else(|_| chunk.iter().map(|_| None).collect::<Vec<_>>())
        };
        openers.into_iter().flat_map(found).collect()
    })
}

/// Assembles a session like [`open`]. If its store cannot be opened, the session gets a store that
/// is opened later, and the error is returned too. `store` is the result if opening was already
/// tried.
pub(crate) fn open_or_defer(
    settings: &SessionSettings,
    store: FoundStore,
    application: Box<dyn Callbacks>,
    registry: &Arc<Registry>,
) -> Result<(Shared, Option<EngineError>), EngineError> {
    let found = store.unwrap_or_else(|| opened(settings, registry));
    let log = open_log(settings, registry)?;
    defer_store(settings, found, log, (application, registry))
}

/// Assembles a session with this store. If `store` is an error, the session gets a store that is
/// opened later.
fn defer_store(
    settings: &SessionSettings,
    (store, is_at_backup): Opened,
    log: Option<Tap>,
    (application, registry): (Box<dyn Callbacks>, &Arc<Registry>),
) -> Result<(Shared, Option<EngineError>), EngineError> {
    let why = match store {
        Ok(store) => {
            let store = (store, is_at_backup);
            return Ok((open_with(store, log, settings, (application, registry))?, None));
        }
        Err(EngineError::Store { source, .. }) => source,
        Err(error) => return Err(error),
    };
    let (later, among) = (settings.clone(), Arc::clone(registry));
    let chosen = Arc::clone(&is_at_backup);
    let store = Box::new(Deferred::new(Box::new(move || {
        open_store(&later, &among, &chosen).map_err(|error| match error {
            EngineError::Store { source, .. } => source,
            error => StoreError::Own(io::Error::other(error.to_string())),
        })
    })));
    let shared = open_with((store, is_at_backup), log, settings, (application, registry))?;
    shared.lock().executor().journal.fail(&why);
    Ok((shared, Some(EngineError::Store { id: settings.id(), source: why })))
}

fn open_with(
    (store, is_at_backup): (Box<dyn Store>, Arc<AtomicBool>),
    log: Option<Tap>,
    settings: &SessionSettings,
    (application, registry): (Box<dyn Callbacks>, &Arc<Registry>),
) -> Result<Shared, EngineError> {
    let id = settings.id();
    let data_fields = check_rules(settings, &registry.rule_book)?;
    let schedule = settings.schedule.as_ref().map(Schedule::new).transpose();
    let schedule = schedule.map_err(|error| EngineError::Settings(format!("{id}: {error}")))?;
    let windows = schedule.iter().flat_map(|schedule| schedule.intervals(registry.io.now().utc));
    let windows: Vec<_> = windows.take(WINDOWS_TOLD).collect();
    let hours = schedule.map(Hours::new);
    let config = settings.config();
    let parts = Parts { config, data_fields, hours, store, is_at_backup, log, application };
    let shared = assemble(settings, parts, registry);
    let shared = shared.map_err(|source| EngineError::Store { id, source })?;
    // A window is logged only here, once per assembled session, because unknown peers can repeat
    // failing attempts.
    for window in windows {
        let (open, close) = (window.open, window.close);
        event!(info, Window, session = %shared.id, %open, %close);
    }
    Ok(shared)
}

fn opened(settings: &SessionSettings, registry: &Registry) -> Opened {
    let is_at_backup = Arc::default();
    (open_store(settings, registry, &is_at_backup), is_at_backup)
}

/// Opens the session's stores: one for all connections, or one for `address` and one for the backup
/// destinations.
fn open_store(
    settings: &SessionSettings,
    registry: &Registry,
    is_at_backup: &Arc<AtomicBool>,
) -> Result<Box<dyn Store>, EngineError> {
    let primary = open_one(settings, registry)?;
    if !settings.failover.own_store {
        return Ok(primary);
    }
    let mut of_backups = settings.clone();
    of_backups.store.store_dir.push("backup");
    let backups = open_one(&of_backups, registry)?;
    Ok(Box::new(TwoStores::new(primary, backups, Arc::clone(is_at_backup))))
}

/// Opens a custom store, or the store of the settings.
fn open_one(
    settings: &SessionSettings,
    registry: &Registry,
) -> Result<Box<dyn Store>, EngineError> {
    let now_ns = registry.io.now().utc.0.unsigned_abs();
    let failed = |source| EngineError::Store { id: settings.id(), source };
    let own = registry.open_store.as_ref().map(|open| open(settings, now_ns));
    if let Some(store) = own.transpose().map_err(failed)?.flatten() {
        return Ok(store);
    }
    if settings.store.refresh_on_logon {
        let id = settings.id();
        let why = "refresh_on_logon requires a store of your own, because only this engine writes \
                   its own stores";
        return Err(EngineError::Settings(format!("{id}: {why}")));
    }
    stores::open(settings, &registry.helpers, now_ns).map_err(failed)
}

/// The parts from which a session is assembled, besides its settings.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) data_fields: Vec<(Tag, Tag)>,
    pub(crate) hours: Option<Hours>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) is_at_backup: Arc<AtomicBool>,
    pub(crate) log: Option<Tap>,
    pub(crate) application: Box<dyn Callbacks>,
}

/// Assembles a session with an open store.
pub(crate) fn assemble(
    settings: &SessionSettings,
    parts: Parts,
    registry: &Arc<Registry>,
) -> Result<Shared, StoreError> {
    let Parts { config, data_fields, hours, store, is_at_backup, log, mut application } = parts;
    let (id, precision) = (config.id.clone(), config.precision());
    let filter =
        OutboundFilter::of(settings, application.before_send(), &data_fields, &registry.io);
    if let Some(filter) = &filter {
        application.set_filter(Arc::clone(filter));
    }
    let options = link_options(settings, data_fields, registry);
    let rules = session_rules(settings, registry);
    let run_queue = registry.run_queue.as_ref().filter(|_| settings.application.in_pool);
    let (executor, application) = executor_of(application, run_queue, &options);
    let probe = points_of(settings, registry);
    let journal = Journal::new(store, id.clone(), options.keeps);
    let limits = run_queue.map(|_| settings.application);
    let core = Core::new(config, journal.put_numbers(), limits, options);
    let sinks = Sinks::of(id.clone(), Arc::clone(&registry.reasons), log);
    let published = Arc::clone(&sinks.published);
    let queue = SendQueue::new(settings.queue.queued_bytes_max, precision, probe);
    let mut link = Link::new(core, (hours, rules), (journal, sinks, probe), executor);
    if let Some(filter) = &filter {
        link.executor().set_filter(registry.io.now(), Arc::clone(filter));
    }
    link.executor().begin_from_store(&*registry.io)?;
    queue.note_taken(link.core().outgoing.bytes());
    Ok(Shared {
        id,
        settings: Arc::new(settings.clone()),
        link: Mutex::new(link),
        wishes: AtomicUsize::new(0),
        queue,
        filter,
        send_mode: settings.threads.send,
        queue_when_full: settings.queue.queue_when_full,
        queue_wait_ns: nanos(settings.queue.queue_wait),
        session_waker: Arc::default(),
        io: Arc::clone(&registry.io),
        offline: settings.queue.offline,
        spin_ns: nanos(settings.threads.spin),
        published,
        waiting: WaitingBytes::of(&registry.waiting),
        application,
        closed: AtomicBool::new(false),
        removed: AtomicBool::new(false),
        enabled: AtomicBool::new(!settings.socket.start_disabled),
        holds_sending: AtomicBool::new(false),
        hurry: AtomicBool::new(false),
        destinations: destinations(settings),
        destination: AtomicUsize::new(0),
        is_at_backup,
        wanted_destination: AtomicUsize::new(NO_WISH),
        after_panic: settings.threads.after_panic,
        tls_peers: settings.tls_peers().into(),
        allowed: settings.allowed().into(),
        record: Arc::default(),
        password_hash: settings.logon.expected_password_hash.clone(),
        registry: Arc::clone(registry),
    })
}

/// Returns the executor of the application, which runs in the session's thread or in application
/// threads.
fn executor_of(
    application: Box<dyn Callbacks>,
    run_queue: Option<&Arc<RunQueue>>,
    options: &LinkOptions,
) -> (AppExecutor, Option<Arc<dyn ThreadedApplication>>) {
    let Some(run_queue) = run_queue else { return (AppExecutor::Inline(application), None) };
    let task =
        ApplicationTask::of((application, options.index()), options.turn_messages_max, run_queue);
    let (caller, deliveries) = (Arc::clone(task.caller()), Arc::clone(task.deliveries()));
    (AppExecutor::Threads { caller, deliveries }, Some(task))
}

/// Returns the addresses that an initiator connects to; empty for an acceptor.
fn destinations(settings: &SessionSettings) -> Arc<[String]> {
    let all = iter::once(&settings.address).chain(&settings.failover.addresses);
    all.filter(|_| settings.role == Role::Initiator).cloned().collect()
}

/// Returns the limits and switches of the session's link.
fn link_options(
    settings: &SessionSettings,
    data_fields: Vec<(Tag, Tag)>,
    registry: &Registry,
) -> LinkOptions {
    LinkOptions {
        limits: Limits { message_bytes_max: settings.validation.message_bytes_max },
        check_sum: if settings.validation.validate_check_sum {
            CheckSumPolicy::Verify
        } else {
            CheckSumPolicy::Ignore
        },
        garbled: settings.validation.garbled,
        search_garbled: settings.validation.search_garbled,
        too_long: settings.validation.too_long,
        turn_messages_max: settings.threads.turn_messages_max,
        batch: batch_limits(settings),
        // Early writes are off for stores that may be slow for each write: synced to the device, or
        // custom.
        writes_early: registry.open_store.is_none()
            && settings.store.durability != Durability::Power,
        keeps: Keeps {
            outbound: settings.store.keep_outbound,
            inbound: settings.store.keep_inbound,
        },
        queue: settings.queue,
        refresh_on_logon: settings.store.refresh_on_logon || settings.failover.own_store,
        unavailable: settings.unavailable,
        routes: settings.route_third_party,
        logon_answer: settings.logon_answer,
        data_fields,
        rest_after_ns: rest_after_ns(settings.threads.mode),
    }
}

fn batch_limits(settings: &SessionSettings) -> Option<BatchLimits> {
    let (messages, bytes) = (settings.threads.batch_messages_max, settings.threads.batch_bytes_max);
    (messages > 0 || bytes > 0).then(|| BatchLimits {
        messages_max: if messages > 0 { messages.into() } else { u64::MAX },
        bytes_max: if bytes > 0 { bytes } else { usize::MAX },
    })
}

/// Returns the idle time, in nanoseconds, after which a session frees memory. A session outside of
/// the pool never frees it.
const fn rest_after_ns(mode: Mode) -> u64 {
    match mode {
        Mode::Pool => REST_AFTER_NS,
        _ => u64::MAX,
    }
}

/// Returns the time source for measuring the session's latencies.
fn points_of(settings: &SessionSettings, registry: &Registry) -> Source {
    match settings.latency_points {
        false => Source::Off,
        true if registry.io.has_counter() => Source::Machine(Ticks::of_machine()),
        true => Source::Given,
    }
}

/// Returns the rules for validating the session's messages.
fn session_rules(settings: &SessionSettings, registry: &Registry) -> SessionRules {
    SessionRules { book: Arc::clone(&registry.rule_book), validation: settings.validation.clone() }
}

/// Compiles the rules at the start instead of the first logon, so that an invalid file fails the
/// start. Returns the data fields that the dictionaries define.
pub(crate) fn check_rules(
    settings: &SessionSettings,
    book: &RuleBook,
) -> Result<Vec<(Tag, Tag)>, EngineError> {
    let (version, validation) = (settings.protocol.default_appl_ver_id, &settings.validation);
    let wrong = |key| move |error| EngineError::Settings(says(settings, key, error));
    if let Some(source) = &validation.session_dictionary {
        source.load().map_err(wrong("session_dictionary"))?;
    }
    let wanted = DictionaryChoice::of_session(settings.begin_string, version, validation);
    let rules = book.rules(&wanted).map_err(wrong("dictionary"))?;
    let added = added_fields(&settings.protocol, &rules, validation.validate);
    added.map_err(|(key, what)| wrong(key)(what))?;
    let mut data_fields = rules.data_fields().to_vec();
    for source in validation.appl_versions.values() {
        let rules = book.rules(&wanted.listed(source)).map_err(wrong("appl_versions"))?;
        data_fields.extend_from_slice(rules.data_fields());
    }
    Ok(data_fields)
}

/// Checks that the dictionary has the fields which the settings add to outbound messages.
/// `header_fields` must be in the header, and `body_fields` in the body of some message.
fn added_fields(
    protocol: &ProtocolConfig,
    rules: &Rules,
    validates: bool,
) -> Result<(), (&'static str, String)> {
    let tags = |fields: &[(Tag, String)]| -> Vec<Tag> { fields.iter().map(|f| f.0).collect() };
    for tag in tags(&protocol.header_fields).into_iter().filter(|_| validates) {
        if !rules.is_header_field(tag) {
            let what = format!(
                "tag {tag} is not in the standard header of the dictionary, so the counterparty \
                 would reject each message; write fields of the body in body_fields"
            );
            return Err(("header_fields", what));
        }
    }
    for tag in tags(&protocol.body_fields) {
        if !rules.has_body_field(tag) {
            let what = format!("tag {tag} is not in the body of any message of the dictionary");
            return Err(("body_fields", what));
        }
    }
    Ok(())
}

/// Returns an error text for a key of the settings, with the location of the key in the file.
fn says(settings: &SessionSettings, key: &str, what: impl fmt::Display) -> String {
    let (place, id) = (settings.place(key), settings.id());
    format!("{place}{id}: {key}: {what}")
}

/// Logs a warning for each dictionary that belongs to another FIX version. Called only at the
/// start, because unknown peers can cause sessions of templates repeatedly.
pub(crate) fn tell_doubts(settings: &SessionSettings, registry: &Registry) {
    let doubt = |key, wanted: &DictionaryChoice, version| {
        if let Some(doubt) = registry.rule_book.doubt(wanted, version) {
            let why = says(settings, key, doubt);
            event!(warn, DictionaryOfAnotherVersion, session = %settings.id(), why);
        }
    };
    let version = settings.protocol.default_appl_ver_id;
    let wanted = DictionaryChoice::of_session(settings.begin_string, version, &settings.validation);
    doubt("dictionary", &wanted, version);
    for (named, source) in &settings.validation.appl_versions {
        let version = named.parse().ok().map(transfix_session::ApplVerId);
        doubt("appl_versions", &wanted.listed(source), version);
    }
}

fn open_log(settings: &SessionSettings, registry: &Registry) -> Result<Option<Tap>, EngineError> {
    let Some(log) = &settings.log else { return Ok(None) };
    let tap = registry.logs.open(log, settings.folder().as_ref());
    tap.map(Some).map_err(log_failed(settings, log))
}

fn log_failed(
    settings: &SessionSettings,
    log: &LogSettings,
) -> impl FnOnce(io::Error) -> EngineError {
    io_error(format!("the protocol log {} in {}", settings.folder(), log.dir.display()))
}

/// Lets a session layer and the application judge a Logon(A) before anything permanent is made.
/// Waits for answers that the application gives later.
pub(crate) fn judge(
    settings: &SessionSettings,
    application: &mut dyn Callbacks,
    Applicant { logon, password_proof, peer }: Applicant<'_>,
    registry: &Arc<Registry>,
) -> Result<Offer, Refusal> {
    let data_fields = check_rules(settings, &registry.rule_book);
    let data_fields = data_fields.map_err(|error| Refusal::not_made(&error))?;
    if logon.len() > settings.validation.message_bytes_max {
        return Err(Refusal::silent("longer than message_bytes_max"));
    }
    let mut index = FieldIndex::default();
    index.set_data_fields(data_fields);
    let logon = Message::parse(logon, &mut index, CheckSumPolicy::Ignore);
    let logon = logon.map_err(|_| Refusal::silent("garbled"))?;
    let (now, mut out) = (registry.io.now(), Outbox::default());
    let mut session = Session::new(settings.config(), 1, 1);
    session.connected(now, &mut out);
    session.set_password_proof(password_proof);
    let version = session.proposed_appl_ver_id(&logon).or(session.appl_ver_id());
    let applied = session_rules(settings, registry).apply(&mut session, version);
    applied.map_err(|error| Refusal::not_made(&error))?;
    let mut verdict = session.receive(now, &logon, &mut out);
    if verdict == Verdict::LogonOffered {
        verdict = match answer(settings, application, (&logon, peer), &*registry.io) {
            Ok(()) => return session.take_offer().ok_or_else(|| Refusal::silent("not offered")),
            Err(refusal) => session.deny_logon(registry.io.now(), &refusal.text, &mut out),
        };
    }
    let mut refusal = Refusal::silent("");
    if let Verdict::Disconnect(reason) = verdict {
        registry.reasons.ended(reason);
        refusal.is_failed_logon = is_failed_logon(&reason);
        refusal.why = reason.to_string();
    }
    refusal.answer = out.bytes().to_vec();
    Err(refusal)
}

/// Asks the application to judge a Logon(A), and waits for its answer.
fn answer(
    settings: &SessionSettings,
    application: &mut dyn Callbacks,
    (logon, peer): (&Message<'_>, Option<SocketAddr>),
    io: &dyn Io,
) -> Answer {
    match app_executor::judge(application, logon, (&settings.id(), peer)) {
        Some(Judgement::Now(answer)) => Some(answer),
        Some(Judgement::Later(answer)) => {
            let mut given = None;
            io.wait_in(settings.logon_answer, &mut |time| match answer.recv_timeout(time) {
                Ok(answer) => {
                    given = Some(answer);
                    true
                }
                // `Disconnected` means that the application has dropped the deferred answer.
                Err(error) => error == RecvTimeoutError::Disconnected,
            });
            given
        }
        None => None,
    }
    .unwrap_or_else(|| Err(judging::not_available()))
}
