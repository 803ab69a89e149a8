//! This gateway as a member of its fleet: its sessions, and its answers to requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_blocking};
use transfix::{Action, Admin, FleetSettings, Role, SessionHandle, SessionId, StoreError};
use transfix_observe::event;

use super::request::{Answer, GatewayStatus, Request, SessionInFleet};
use super::session::{Disabled, FleetSession, Why, is_connected};
use super::{watch, wrong};
use crate::failed;
use crate::jetstream::JetStream;

/// Time limit for the answer of a gateway to itself.
const OWN_ANSWER: Duration = Duration::from_secs(5);
/// Maximum time for a session to log out before another gateway takes it over.
pub(super) const LOGOUT: Duration = Duration::from_secs(12);
/// Maximum number of known names of gateways.
const NAMES_MAX: usize = 1_024;
/// Interval at which an expected change of a session is checked.
pub(super) const POLL: Duration = Duration::from_millis(2);
/// Text(58) of the Logout(5) before another gateway takes over.
const MOVED: &str = "the session moves to another gateway";

/// One run of a gateway.
pub(crate) struct Gateway {
    pub(super) run: u64,
    pub(super) name: String,
    pub(crate) brokers: JetStream,
    pub(super) answer: Duration,
    /// Age beyond which messages are deleted; 0 means never.
    pub(crate) delete_after: Duration,
    sessions: Mutex<BTreeMap<String, FleetSession>>,
    /// The names of the gateways that were in the fleet since this one joined, by run.
    names: Mutex<BTreeMap<u64, String>>,
    admin: OnceLock<Admin>,
    /// True while the gateway answers requests.
    is_member: AtomicBool,
    is_drained: AtomicBool,
    /// Wakes the task that takes initiators over.
    pub(super) wake: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Returns the subject of the requests to one run of a gateway.
pub(super) fn subject_of(stream: &str, run: u64) -> String {
    format!("FLEET-{stream}.{run:016x}")
}

/// Returns the subject of the requests to all gateways.
pub(super) fn subject_of_all(stream: &str) -> String {
    format!("FLEET-{stream}.all")
}

/// The outcome of a request to one gateway.
#[derive(Debug)]
pub(super) enum Reply {
    Answer(Answer),
    /// No gateway with this id is connected.
    Gone,
    /// The gateway has not answered in time.
    Silent,
}

/// Sends a request to one run of a gateway.
///
/// # Errors
/// The connection to the brokers does not work, so nothing is known about the gateway; or the
/// answer is unreadable.
pub(super) async fn ask(
    brokers: &JetStream,
    run: u64,
    request: &Request,
    limit: Duration,
) -> Result<Reply, StoreError> {
    let client = brokers.client();
    let text = serde_json::to_vec(request).map_err(failed)?;
    let request = async_nats::Request::new().payload(text.into()).timeout(Some(limit));
    // A subscription of its own ends with the request, also without an answer.
    let request = request.inbox(client.new_inbox());
    let is_connected = || client.connection_state() == async_nats::connection::State::Connected;
    match client.send_request(subject_of(brokers.name(), run), request).await {
        Ok(message) => serde_json::from_slice(&message.payload).map(Reply::Answer).map_err(failed),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(Reply::Gone),
        Err(error) if error.kind() == RequestErrorKind::TimedOut && is_connected() => {
            Ok(Reply::Silent)
        }
        Err(error) => Err(failed(error)),
    }
}

impl Gateway {
    pub(super) fn join(brokers: JetStream, settings: &FleetSettings) -> Result<Self, StoreError> {
        Ok(Self {
            run: getrandom::u64().map_err(failed)?,
            name: settings.gateway.clone(),
            brokers,
            answer: settings.answer,
            delete_after: settings.delete_after,
            sessions: Mutex::default(),
            names: Mutex::default(),
            admin: OnceLock::new(),
            is_member: AtomicBool::new(false),
            is_drained: AtomicBool::new(false),
            wake: Notify::new(),
            tasks: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The id by which the records of this run of the gateway are known.
    pub(crate) const fn run(&self) -> u64 {
        self.run
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, FleetSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a session, whose store sets `owns_since`. An initiator starts disabled.
    pub(crate) fn add(&self, id: &SessionId, role: Role, owns_since: &Arc<AtomicU64>) {
        self.lock().insert(id.to_string(), FleetSession::new(id, role, owns_since));
    }

    /// Returns the number of sessions.
    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Returns all sessions, with their handles. Forgets those that were removed from the engine.
    pub(super) fn sessions(&self) -> Vec<(FleetSession, SessionHandle)> {
        let sessions: Vec<_> = {
            let mut sessions = self.lock();
            sessions.retain(|_, session| session.has_store());
            sessions.values().cloned().collect()
        };
        let Some(admin) = self.admin.get() else { return Vec::new() };
        let with_handle = |session: FleetSession| Some((admin.handle(&session.id)?, session));
        sessions.into_iter().filter_map(with_handle).map(|(handle, one)| (one, handle)).collect()
    }

    /// Returns the session with this name, if the gateway has it.
    pub(super) fn find(&self, name: &str) -> Option<(FleetSession, SessionHandle)> {
        let session = self.lock().get(name).cloned()?;
        let handle = self.admin.get()?.handle(&session.id)?;
        Some((session, handle))
    }

    pub(super) fn note_disabled(&self, id: &SessionId, disabled: Option<Disabled>) {
        if let Some(session) = self.lock().get_mut(&id.to_string()) {
            session.disabled = disabled;
        }
    }

    /// As [`Gateway::note_disabled`], unless an operator's request has changed the session since
    /// this copy of it was made. Returns true if the note was changed.
    pub(super) fn change_disabled(&self, known: &FleetSession, to: Option<Disabled>) -> bool {
        let mut sessions = self.lock();
        let session = sessions.get_mut(&known.id.to_string());
        let session = session.filter(|session| session.disabled == known.disabled);
        session.map(|session| session.disabled = to).is_some()
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }

    /// Checks whether this gateway may take a session over. `owner` is 0 for a new session.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if the owner keeps the session, or if this gateway is drained or does
    /// not answer requests. [`StoreError::Own`] if nothing is known about the owner.
    pub(crate) fn may_take(&self, owner: u64, session: &str) -> Result<(), StoreError> {
        let in_use = |by: String| StoreError::InUse { session: session.into(), by: by.into() };
        if self.is_drained() {
            return Err(in_use(format!("{} (drained)", self.name)));
        }
        if !self.is_member.load(Ordering::Acquire) {
            return Err(in_use(format!("{} (not yet, or no longer, in the fleet)", self.name)));
        }
        if owner == 0 || owner == self.run {
            return Ok(());
        }
        let request = Request::MayTake { session: session.to_owned(), run: self.run };
        let reply = ask(&self.brokers, owner, &request, self.answer);
        let why = match self.brokers.block_on(reply)? {
            Reply::Answer(Answer::Free { why }) => why,
            Reply::Gone => "is gone".to_owned(),
            Reply::Silent => format!("has not answered within {:?}", self.answer),
            Reply::Answer(Answer::InUse { gateway }) => return Err(in_use(gateway)),
            Reply::Answer(other) => {
                return Err(wrong(format!("{session}: its gateway answers {other:?}")));
            }
        };
        let from = self.name_of(owner);
        let why = format!("gateway {from} {why}");
        if let Some(session) = self.lock().get_mut(session) {
            session.may_take = Some(Why { from, why });
        }
        Ok(())
    }

    /// Returns the name of the gateway with this run.
    fn name_of(&self, run: u64) -> String {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&run).cloned().unwrap_or_else(|| format!("of run {run:016x}"))
    }

    /// Tells the previous owner of a session that this gateway has taken the session over. If the
    /// message is lost, the previous owner finds out at its next commit.
    pub(crate) fn tell_taken(&self, previous: u64, session: &str, place: u64) {
        if previous == self.run {
            return;
        }
        let why = self.lock().get_mut(session).and_then(|session| session.may_take.take());
        let Some(Why { from, why }) = why else { return };
        tell_moved(session, &from, &self.name, &why);
        let gateway = self.name.clone();
        let request = Request::Taken { session: session.to_owned(), place, gateway, why };
        let subject = subject_of(self.brokers.name(), previous);
        self.brokers.block_on(self.tell(subject, &request));
    }

    /// Begins to answer requests, and to take initiators over.
    ///
    /// # Errors
    /// The gateway does not receive requests.
    pub(super) fn begin(self: &Arc<Self>, admin: Admin) -> Result<(), StoreError> {
        if self.is_member.load(Ordering::Acquire) {
            return Ok(());
        }
        // A second attempt has the same engine.
        let _ = self.admin.set(admin);
        let stream = self.brokers.name();
        for subject in [subject_of(stream, self.run), subject_of_all(stream)] {
            let client = self.brokers.client().clone();
            let requests = self.brokers.block_on(client.subscribe(subject)).map_err(failed)?;
            let gateway = Arc::clone(self);
            self.spawn(async move { listen(gateway, client, requests).await });
        }
        // A refused subscription is no error of the client, so the gateway asks itself.
        let request = Request::Initiators { run: self.run };
        let reply = ask(&self.brokers, self.run, &request, OWN_ANSWER);
        match self.brokers.block_on(reply)? {
            Reply::Answer(_) => {}
            Reply::Gone | Reply::Silent => {
                self.leave();
                return Err(wrong(format!(
                    "the gateway does not receive requests; allow its user to publish and \
                     subscribe to FLEET-{stream}.> and _INBOX.>"
                )));
            }
        }
        self.is_member.store(true, Ordering::Release);
        self.note_joined(self.run, self.name.clone());
        self.brokers.block_on(self.tell_joined(subject_of_all(stream)));
        self.spawn(watch::run(Arc::clone(self)));
        Ok(())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.push(self.brokers.spawn(task));
    }

    /// Stops answering, and takes no session over any more.
    pub(super) fn leave(&self) {
        self.is_member.store(false, Ordering::Release);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.drain(..).for_each(|task| task.abort());
    }

    fn status(&self) -> GatewayStatus {
        let one = |(session, handle): (FleetSession, SessionHandle)| {
            let (next_num_in, next_num_out) = handle.next_numbers();
            SessionInFleet {
                session: session.id.to_string(),
                is_owner: session.is_owned(),
                is_logged_on: handle.is_logged_on(),
                next_num_in,
                next_num_out,
            }
        };
        GatewayStatus {
            gateway: self.name.clone(),
            is_drained: self.is_drained(),
            sessions: self.sessions().into_iter().map(one).collect(),
            run: self.run,
        }
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Answer {
        match request {
            Request::MayTake { session, run } => match self.find(&session) {
                Some((session, handle)) => match session.may_be_taken_by(run, &handle) {
                    Some(why) => Answer::Free { why: why.to_owned() },
                    None => Answer::InUse { gateway: self.name.clone() },
                },
                None => Answer::Free { why: "does not have it in its settings".to_owned() },
            },
            Request::Initiators { run } => {
                let all = self.sessions().into_iter();
                let is_kept = |(session, handle): &(FleetSession, SessionHandle)| {
                    handle.settings().role == Role::Initiator
                        && session.may_be_taken_by(run, handle).is_none()
                };
                let kept = all.filter(is_kept).map(|(session, _)| session.id.to_string());
                Answer::Initiators { sessions: kept.collect() }
            }
            Request::Status => Answer::Status(self.status()),
            Request::Drain => self.drain().await,
            Request::Resume => {
                self.is_drained.store(false, Ordering::Release);
                watch::enable_again(self, Duration::ZERO);
                self.wake.notify_one();
                Answer::Done
            }
            Request::Release { session, to } => match self.find(&session) {
                Some((session, handle)) if session.is_owned() => {
                    self.note_disabled(&session.id, Some(Disabled::Released(now(), to)));
                    log_out(vec![handle]).await
                }
                _ => Answer::Done,
            },
            Request::Taken { session: name, place, gateway, why } => {
                if let Some((session, _)) = self.find(&name) {
                    if session.note_taken(place) {
                        tell_moved(&name, &self.name, shortened(&gateway), shortened(&why));
                    }
                    self.wake.notify_one();
                }
                Answer::Done
            }
            Request::Joined { gateway, run } => {
                if self.note_joined(run, shortened(&gateway).to_owned()) {
                    self.tell_joined(subject_of(self.brokers.name(), run)).await;
                }
                Answer::Done
            }
            Request::Move { session } => watch::move_here(self, &session).await,
            Request::Released => {
                self.wake.notify_one();
                Answer::Done
            }
        }
    }

    /// Logs out all sessions that no operator has disabled.
    async fn drain(&self) -> Answer {
        self.is_drained.store(true, Ordering::Release);
        let is_enabled = |(_, handle): &(_, SessionHandle)| handle.status().enabled;
        let enabled = self.sessions().into_iter().filter(is_enabled);
        let handles: Vec<_> = enabled.map(|(_, handle)| handle).collect();
        for handle in &handles {
            self.note_disabled(handle.id(), Some(Disabled::Drained));
        }
        let outcome = log_out(handles).await;
        self.tell_released().await;
        outcome
    }

    /// Tells all gateways that sessions were released. If the message is lost, they find out at
    /// their next look.
    async fn tell_released(&self) {
        self.tell(subject_of_all(self.brokers.name()), &Request::Released).await;
    }

    /// Notes the name of a gateway. Returns true if it was unknown.
    fn note_joined(&self, run: u64, gateway: String) -> bool {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() >= NAMES_MAX {
            // Each restart of a gateway adds a name. A forgotten gateway is shown by its run.
            names.clear();
        }
        names.insert(run, gateway).is_none()
    }

    /// Tells other gateways the name of this one. A gateway that did not know it answers with its
    /// own name.
    async fn tell_joined(&self, subject: String) {
        let (gateway, run) = (self.name.clone(), self.run);
        self.tell(subject, &Request::Joined { gateway, run }).await;
    }

    /// Sends a request without an answer. The request may be lost.
    async fn tell(&self, subject: String, request: &Request) {
        let text = serde_json::to_vec(request).unwrap_or_default();
        let _ = self.brokers.client().publish(subject, text.into()).await;
    }
}

/// Returns the beginning of a text from another process.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(256)]
}

/// Reports that a session has moved from one gateway to another one.
fn tell_moved(session: &str, from: &str, to: &str, why: &str) {
    event!(info, SessionMoved, session, from, to, why);
}

/// Returns the time for measuring waits.
pub(super) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "only the patience depends on it")]
    Instant::now()
}

/// Logs the sessions out, disables them, and waits until they are disconnected.
async fn log_out(handles: Vec<SessionHandle>) -> Answer {
    let acting = handles.clone();
    let acted = spawn_blocking(move || {
        let action = disable();
        let mut outcome = Ok(());
        for handle in acting {
            if let Err(error) = handle.operate(&action) {
                outcome = Err(format!("{}: {error}", handle.id()));
            }
        }
        outcome
    });
    match acted.await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return Answer::Failed { why },
        Err(error) => return Answer::Failed { why: error.to_string() },
    }
    let until = now() + LOGOUT;
    while let Some(handle) = handles.iter().find(|handle| is_connected(handle)) {
        if now() >= until {
            return Answer::Failed { why: format!("{} has not logged out", handle.id()) };
        }
        tokio::time::sleep(POLL).await;
    }
    Answer::Done
}

/// Applies an action in a thread of its own, because it may wait for a session that opens its
/// store.
pub(super) fn operate(handle: SessionHandle, action: Action) {
    drop(spawn_blocking(move || handle.operate(&action)));
}

/// Returns the action that disables a session.
pub(super) fn disable() -> Action {
    Action::LogOut { text: MOVED.to_owned() }
}

/// Answers the requests of a subscription.
async fn listen(gateway: Arc<Gateway>, client: Client, mut requests: Subscriber) {
    while let Some(message) = requests.next().await {
        let (gateway, client) = (Arc::clone(&gateway), client.clone());
        tokio::spawn(async move { answer(&gateway, &client, message).await });
    }
}

async fn answer(gateway: &Arc<Gateway>, client: &Client, message: Message) {
    let answer = match serde_json::from_slice(&message.payload) {
        Ok(request) => gateway.answer(request).await,
        Err(error) => Answer::Failed { why: format!("an unknown request: {error}") },
    };
    // Another subject could be that of a session.
    let Some(to) = message.reply.filter(|to| to.starts_with("_INBOX.")) else { return };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    if text.len() > client.server_info().max_payload {
        let why = "the answer is longer than max_payload of the brokers".to_owned();
        text = serde_json::to_vec(&Answer::Failed { why }).unwrap_or_default();
    }
    // The asking gateway hears nothing if this fails, as if this gateway were silent.
    let _ = client.publish(to, text.into()).await;
}
