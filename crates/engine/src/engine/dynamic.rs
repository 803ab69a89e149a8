//! Adds and removes sessions while the engine runs.
//!
//! Invariant: adding a session either succeeds or leaves no listener, open store or thread behind.
//! A session that ran before, and cannot start with new settings, runs again with its old settings.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;

use transfix_observe::event;
use transfix_observe::supervised::{pin_to, supervise};
use transfix_session::core::ENDING_NS_MAX;
use transfix_session::{Role, SessionId, nanos};
use transfix_settings::review::Cpus;
use transfix_settings::{Mode, SessionSettings, Settings, TlsSettings};

use super::{Engine, connector};
use crate::assemble::{check_rules, open, open_again, tell_doubts};
use crate::drive::acceptor::{Change, Removed};
use crate::drive::destination::Destination;
use crate::drive::driven::DrivenSession;
use crate::drive::listening::{self, Listening};
use crate::drive::outcome::{Outcome, SessionOutcome};
use crate::drive::registry::Registry;
use crate::drive::session_waker::{Release, UNDER_WAY};
use crate::drive::shared::Shared;
use crate::drive::tls::TlsListener;
use crate::drive::worker::Worker;
use crate::error::{EngineError, io_error};
use crate::io::{Io, Job};
use crate::link::callbacks::Callbacks;

/// The interval at which the end of a removed session is checked.
const LOOK: Duration = Duration::from_millis(1);
/// The maximum time to wait for listeners to close.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// A function that assembles a session: `open` or `open_again`.
type OpenSession =
    fn(&SessionSettings, Box<dyn Callbacks>, &Arc<Registry>) -> Result<Shared, EngineError>;

impl Engine {
    /// Adds a session or a template that is new to the engine.
    pub(crate) fn add_with(
        &mut self,
        settings: &SessionSettings,
        owner: Box<dyn Callbacks>,
    ) -> Result<Option<Arc<Shared>>, EngineError> {
        self.check_new(settings)?;
        self.add_checked(settings, owner, open)
    }

    /// Adds a session that ran with these settings before, or a template. A store or log that
    /// cannot be opened now is opened later. TLS and proxies follow the other sessions at the
    /// address. If a TLS file can no longer be read, the session uses `new_tls` instead.
    pub(crate) fn add_again(
        &mut self,
        settings: &SessionSettings,
        new_tls: Option<&TlsSettings>,
        owner: Box<dyn Callbacks>,
    ) -> Result<SessionSettings, EngineError> {
        let mut settings = settings.clone();
        self.ways.adopt_listener(&mut settings);
        let own = self.registry.certificates.apart();
        let is_usable = match settings.role {
            Role::Acceptor => TlsListener::of(&settings, &own).is_ok(),
            Role::Initiator => connector(&settings, &own).is_ok(),
        };
        if !is_usable {
            settings.tls = new_tls.cloned();
        }
        self.add_checked(&settings, owner, open_again)?;
        Ok(settings)
    }

    fn add_checked(
        &mut self,
        settings: &SessionSettings,
        owner: Box<dyn Callbacks>,
        open: OpenSession,
    ) -> Result<Option<Arc<Shared>>, EngineError> {
        self.forget_ended_threads();
        let own = &self.registry.certificates;
        let group = match settings.role {
            Role::Acceptor => Some(self.ways.add(settings, &*self.registry.io, own)?),
            Role::Initiator => None,
        };
        let added = self.add_behind(settings, (owner, open), group);
        self.watch_certificates();
        if added.is_err() {
            // Also closes the listeners that were opened for this session.
            let _ = self.ways.remove(&settings.id());
            self.ways.listeners.clear();
        }
        added
    }

    /// Logs warnings about new certificates, and starts the watching thread if it is not running.
    fn watch_certificates(&mut self) {
        self.registry.certificates.tell_all();
        if self.watching.is_none() {
            match super::watching(self.all.thread_lost, &self.registry) {
                Ok(watching) => self.watching = watching,
                Err(error) => event!(error, CertificatesUnwatched, %error),
            }
        }
    }

    fn check_new(&self, settings: &SessionSettings) -> Result<(), EngineError> {
        let id = settings.id();
        if self.registry.find(&id).is_some() || self.ways.has(&id) {
            return Err(EngineError::Settings(format!(
                "{id}: a session with this identity exists \
                already"
            )));
        }
        self.check_fits(settings)
    }

    /// Checks that the engine can run a session with these settings.
    pub(crate) fn check_fits(&self, settings: &SessionSettings) -> Result<(), EngineError> {
        let id = settings.id();
        settings.check().map_err(EngineError::Settings)?;
        let alone = Settings { engine: self.all.clone(), ..Settings::of(settings.clone()) };
        Cpus::of_this_machine().check(&alone).map_err(EngineError::Settings)?;
        check_rules(settings, &self.registry.rule_book)?;
        if settings.threads.mode == Mode::Polled && self.polled.is_none() {
            let why = "mode = \"polled\": the engine started without a session of this mode";
            return Err(EngineError::Settings(format!("{id}: {why}")));
        }
        if settings.is_template() && !self.admits {
            let why = "is a template; a program admits its sessions by Engine::builder().admit()";
            return Err(EngineError::Settings(format!("{id} {why}")));
        }
        Ok(())
    }

    /// Checks that none of these sessions was added while the engine ran. Sessions made from
    /// templates do not count.
    pub(crate) fn check_not_added(&self, ids: &[SessionId]) -> Result<(), EngineError> {
        let has = |id: &SessionId| self.sessions.iter().any(|shared| shared.id == *id);
        let added: Vec<_> = ids.iter().filter(|id| has(id) || self.ways.has(id)).collect();
        if added.is_empty() {
            return Ok(());
        }
        let why = "was added while the engine ran: remove the session before the settings may \
                   contain it";
        let all = added.iter().map(|id| format!("{id} {why}"));
        Err(EngineError::Settings(all.collect::<Vec<_>>().join("\n")))
    }

    /// Checks that the engine can run all these sessions, except that their stores are not opened.
    /// Binds new addresses for a moment to check them.
    pub(crate) fn check_all(&self, settings: &Settings) -> Result<(), EngineError> {
        let mut fresh = Listening::default();
        let mut doors: HashMap<&str, &SessionSettings> = HashMap::new();
        let (mut ids, own) = (HashSet::new(), self.registry.certificates.apart());
        Cpus::of_this_machine().check(settings).map_err(EngineError::Settings)?;
        for session in &settings.sessions {
            self.check_fits(session)?;
            if !ids.insert(session.id()) {
                let why = format!("{}: a session with this identity exists already", session.id());
                return Err(EngineError::Settings(why));
            }
            if session.role == Role::Initiator {
                connector(session, &own)?;
            } else if self.ways.listens_at(&session.address) {
                let first = doors.entry(&session.address).or_insert(session);
                listening::check_same_listener(first, session)?;
                TlsListener::of(session, &own)?;
            } else {
                fresh.add(session, &*self.registry.io, &own)?;
            }
        }
        Ok(())
    }

    /// Adds a session whose listeners, if it is an acceptor, are open already.
    fn add_behind(
        &mut self,
        settings: &SessionSettings,
        (owner, open): (Box<dyn Callbacks>, OpenSession),
        group: Option<usize>,
    ) -> Result<Option<Arc<Shared>>, EngineError> {
        let mut changes = Vec::new();
        let mut shared = None;
        if let Some(group) = group.filter(|_| settings.is_template()) {
            changes.push(Change::AddTemplate(group, Box::new(settings.clone())));
        } else {
            let session = Arc::new(open(settings, owner, &self.registry)?);
            let connector = match settings.role {
                Role::Initiator => Some(connector(settings, &self.registry.certificates)?),
                Role::Acceptor => None,
            };
            self.place(DrivenSession::new(Arc::clone(&session), connector), settings)?;
            self.registry.add(&session, false);
            if let Some(key) = self.ways.key(&session.id) {
                changes.push(Change::Add(key, Destination::of(&session)));
            }
            event!(info, SessionAdded, session = %session.id);
            self.sessions.push(Arc::clone(&session));
            shared = Some(session);
        }
        tell_doubts(settings, &self.registry);
        let listeners = std::mem::take(&mut self.ways.listeners);
        for listener in &listeners {
            self.listening.push(listener.listener.local_addr().map_err(io_error("listening"))?);
            self.groups.push(listener.group);
        }
        self.publish_listening();
        if self.acceptor.is_none() && group.is_some() {
            self.start_acceptor(Vec::new(), [].into(), Vec::new())?;
        }
        if let Some((worker, _)) = &self.acceptor {
            worker.change(listeners.into_iter().map(Change::Open).chain(changes));
        }
        Ok(shared)
    }

    /// Assigns a session to a thread: a pool session to the worker with the fewest sessions, other
    /// sessions to their own thread.
    fn place(
        &mut self,
        slot: DrivenSession,
        settings: &SessionSettings,
    ) -> Result<(), EngineError> {
        let ended = |_| EngineError::Settings("the engine is stopping".to_owned());
        let pool = self.pool.get().map_or(&[][..], Vec::as_slice);
        let found = match settings.threads.mode {
            Mode::Pool => pool.iter().min_by_key(|worker| worker.sessions()),
            Mode::Polled => self.polled.as_ref().map(Worker::command_queue),
            _ => None,
        };
        if let Some(command_queue) = found {
            slot.shared.belongs_to(command_queue.handle(), UNDER_WAY);
            command_queue.add(Box::new(slot)).map_err(ended)?;
            command_queue.wake();
            return Ok(());
        }
        self.start_thread_of(slot, settings)
    }

    /// Starts a thread for one session. A pool session also gets one if the pool has no worker.
    fn start_thread_of(
        &mut self,
        slot: DrivenSession,
        settings: &SessionSettings,
    ) -> Result<(), EngineError> {
        let (io, lost) = (Arc::clone(&self.registry.io), self.all.thread_lost);
        let shared = Arc::clone(&slot.shared);
        let spins = settings.threads.mode == Mode::Spin;
        let mut worker = Worker::new(vec![slot], spins, &io).map_err(io_error("epoll"))?;
        worker.ends_with_its_session();
        let (command_queue, cpu) = (Arc::clone(worker.command_queue()), settings.threads.cpu);
        shared.belongs_to(command_queue.handle(), 0);
        let name = format!("tfx-{}", shared.id.target_comp_id);
        let (what, of_thread) = (format!("thread {name}"), Arc::clone(&io));
        let job = Job::spawn(&*io, name, move || {
            pin_to(cpu);
            supervise(lost, (&|| of_thread.monotonic_ns(), &|time| of_thread.sleep(time)), || {
                worker.run()
            })
        });
        self.threads.push((command_queue, job.map_err(io_error(what))?));
        Ok(())
    }

    /// Forgets threads that have ended because their sessions were removed.
    fn forget_ended_threads(&mut self) {
        self.threads.retain(|(_, job)| !job.is_finished());
    }

    /// Removes a session or a template. Returns `None` if none has this identity, and `Some(None)`
    /// for a template.
    pub(crate) fn remove_with(
        &mut self,
        id: &SessionId,
        text: &str,
        deadline: Duration,
    ) -> Option<Option<SessionOutcome>> {
        let leaving = self.begin_to_remove(id, text, deadline, false)?;
        Some(self.finish_removing(leaving))
    }

    /// Begins to remove a session or template: stops connections to it, and lets the session log
    /// out. If `begins_anew` is true, its place stays reserved, so that no template makes a session
    /// there. Returns `None` if none has this identity.
    pub(crate) fn begin_to_remove(
        &mut self,
        id: &SessionId,
        text: &str,
        deadline: Duration,
        begins_anew: bool,
    ) -> Option<Leaving> {
        let key = self.ways.key(id);
        let closed = self.ways.remove(id);
        let found = self.registry.find(id);
        let mut changes = Vec::new();
        match (&found, key) {
            (Some(shared), key) => {
                // The place cannot be reserved if its listener closes, because a new listener has
                // another key.
                let begins_anew = begins_anew && closed.is_none();
                let session_waker = Arc::clone(&shared.session_waker);
                changes.push(Change::Remove(Removed { key, session_waker, begins_anew }));
            }
            (None, Some(_)) => changes.push(Change::RemoveTemplate(id.clone())),
            (None, None) => return None,
        }
        let mut closing = None;
        if let Some(group) = closed {
            let (to, is_closed) = channel();
            changes.push(Change::Close(group, to));
            closing = Some(is_closed);
            let groups = std::mem::take(&mut self.groups);
            let all = std::mem::take(&mut self.listening).into_iter().zip(groups);
            (self.listening, self.groups) = all.filter(|(_, at)| *at != group).unzip();
            self.publish_listening();
        }
        if let Some((worker, _)) = &self.acceptor {
            worker.change(changes);
        }
        let session = found.map(|shared| self.release(shared, text, deadline));
        Some(Leaving { id: id.clone(), session, closing })
    }

    /// Removes the reserved places of sessions that were removed to restart but did not.
    pub(crate) fn settle(&self) {
        if let Some((worker, _)) = &self.acceptor {
            worker.change([Change::Settle]);
        }
    }

    /// Waits until the session has ended, and until its listeners are closed if no other session
    /// uses them.
    pub(crate) fn finish_removing(&mut self, leaving: Leaving) -> Option<SessionOutcome> {
        let Leaving { id, session, closing } = leaving;
        let session_waker =
            session.as_ref().map(|session| Arc::clone(&session.shared.session_waker));
        let outcome = session.map(|session| self.end(session));
        if let Some(closed) = closing {
            // Waits for the accepting thread, because a later session may need the address; that
            // thread answers soon.
            let _ = told(&closed, CLOSE_MAX, &*self.registry.io);
        }
        if let Some(session_waker) = session_waker {
            self.registry.remove(&id, &session_waker);
        }
        self.forget_ended_threads();
        outcome
    }

    /// Asks the session's worker to log the session out and then to release it.
    fn release(&mut self, shared: Arc<Shared>, text: &str, deadline: Duration) -> Released {
        let until_ns = self.registry.io.monotonic_ns().saturating_add(nanos(deadline));
        let (to, ended) = channel();
        let (session_waker, text) = (Arc::clone(&shared.session_waker), text.to_owned());
        Release { session_waker, until_ns, text, to }.hand_over();
        self.sessions.retain(|other| !Arc::ptr_eq(other, &shared));
        // The application, the store, and the notification of the store's losses each have their
        // own time limit.
        let late_ns = until_ns.saturating_add(3 * ENDING_NS_MAX);
        Released { shared, ended, late_ns }
    }

    /// Waits until the session has left its worker.
    fn end(&mut self, released: Released) -> SessionOutcome {
        let io = Arc::clone(&self.registry.io);
        let Released { shared, ended, late_ns } = released;
        let outcome = loop {
            if let Some(worker) = &mut self.polled {
                worker.run_once(false);
            }
            match told(&ended, LOOK, &*io) {
                Ok(outcome) => break Some(outcome),
                Err(TryRecvError::Empty) if io.monotonic_ns() < late_ns => {}
                Err(_) => break None,
            }
        };
        let outcome = outcome.unwrap_or_else(|| {
            let (next_num_in, next_num_out) = shared.published.next_numbers();
            let (id, outcome) = (shared.id.clone(), Outcome::Failed);
            SessionOutcome { id, outcome, next_num_in, next_num_out }
        });
        shared.removed.store(true, Ordering::Release);
        event!(info, SessionRemoved, session = %shared.id, outcome = %outcome.outcome);
        outcome
    }
}

/// A session or template that is being removed.
pub(crate) struct Leaving {
    id: SessionId,
    /// The session that is being released; `None` for a template.
    session: Option<Released>,
    /// Receives a message when the listeners are closed; `None` if other sessions use them.
    closing: Option<Receiver<()>>,
}

/// A session that its worker is about to release.
struct Released {
    shared: Arc<Shared>,
    ended: Receiver<SessionOutcome>,
    /// The monotonic time at which waiting for the session ends.
    late_ns: u64,
}

/// Waits at most `time` for a value, and returns it.
fn told<T>(ended: &Receiver<T>, time: Duration, io: &dyn Io) -> Result<T, TryRecvError> {
    let mut told = Err(TryRecvError::Empty);
    io.wait_in(time, &mut |time| match ended.recv_timeout(time) {
        Ok(said) => {
            told = Ok(said);
            true
        }
        Err(RecvTimeoutError::Disconnected) => {
            told = Err(TryRecvError::Disconnected);
            true
        }
        Err(RecvTimeoutError::Timeout) => false,
    });
    told
}
