//! This gateway as a member of its fleet: its sessions, and its answers to requests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::{Client, Message};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, spawn_blocking};
use transfix::{Action, Admin, FleetSettings, Role, SessionHandle, SessionId, State, StoreError};

use super::request::{Answer, GatewayStatus, Request, SessionInFleet};
use super::watch;
use crate::failed;
use crate::jetstream::JetStream;

/// Maximum time for a session to log out before another gateway takes it over.
pub(super) const LOGOUT: Duration = Duration::from_secs(12);
/// Time after which a gateway uses a released session again that no other gateway has taken over.
pub(super) const RELEASED: Duration = Duration::from_secs(30);
/// Interval at which the end of a logout is checked.
const LOOK: Duration = Duration::from_millis(2);
/// Text(58) of the Logout(5) before another gateway takes over.
const MOVED: &str = "another gateway continues this session";

/// One run of a gateway.
pub(crate) struct Gateway {
    pub(super) run: u64,
    pub(super) name: String,
    pub(crate) brokers: JetStream,
    pub(super) answer: Duration,
    sessions: Mutex<BTreeMap<String, FleetSession>>,
    admin: OnceLock<Admin>,
    pub(super) is_drained: AtomicBool,
    /// Wakes the task that takes initiators over.
    pub(super) released: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// A session of this gateway.
#[derive(Clone)]
pub(super) struct FleetSession {
    id: SessionId,
    /// The place of the record by which this gateway became the owner; 0 if another one is.
    owns_since: Arc<AtomicU64>,
    /// The time at which this gateway has released the session to another one.
    released: Option<Instant>,
}

impl FleetSession {
    pub(super) fn is_owned(&self) -> bool {
        self.owns_since.load(Ordering::Acquire) > 0
    }

    /// Notes that another gateway became the owner by the record at this place.
    fn note_taken(&self, place: u64) {
        let is_later = |since: u64| (since < place).then_some(0);
        // Fails if this gateway has become the owner again since.
        let _ = self.owns_since.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_later);
    }

    pub(super) const fn released(&self) -> Option<Instant> {
        self.released
    }
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
pub(super) enum Heard {
    Answer(Answer),
    /// No gateway with this id is connected.
    Gone,
    /// The gateway has not answered in time.
    Silent,
}

/// Sends a request to one run of a gateway.
///
/// # Errors
/// The connection to the brokers does not work, so nothing is known about the gateway.
pub(super) async fn ask(
    brokers: &JetStream,
    run: u64,
    request: &Request,
    limit: Duration,
) -> Result<Heard, StoreError> {
    let text = serde_json::to_vec(request).map_err(failed)?;
    let request = async_nats::Request::new().payload(text.into()).timeout(Some(limit));
    let subject = subject_of(brokers.name(), run);
    match brokers.client().send_request(subject, request).await {
        Ok(message) => serde_json::from_slice(&message.payload).map(Heard::Answer).map_err(failed),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(Heard::Gone),
        Err(error) if error.kind() == RequestErrorKind::TimedOut => Ok(Heard::Silent),
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
            sessions: Mutex::default(),
            admin: OnceLock::new(),
            is_drained: AtomicBool::new(false),
            released: Notify::new(),
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

    /// Adds a session, whose store sets `owns_since`.
    pub(crate) fn add(&self, id: &SessionId, owns_since: &Arc<AtomicU64>) {
        let session =
            FleetSession { id: id.clone(), owns_since: Arc::clone(owns_since), released: None };
        self.lock().insert(id.to_string(), session);
    }

    /// Returns all sessions, with their handles.
    pub(super) fn sessions(&self) -> Vec<(FleetSession, SessionHandle)> {
        let sessions: Vec<_> = self.lock().values().cloned().collect();
        let Some(admin) = self.admin.get() else { return Vec::new() };
        let with_handle = |session: FleetSession| Some((admin.handle(&session.id)?, session));
        sessions.into_iter().filter_map(with_handle).map(|(handle, one)| (one, handle)).collect()
    }

    fn session(&self, name: &str) -> Option<(FleetSession, SessionHandle)> {
        let session = self.lock().get(name).cloned()?;
        let handle = self.admin.get()?.handle(&session.id)?;
        Some((session, handle))
    }

    pub(super) fn note_released(&self, id: &SessionId, released: Option<Instant>) {
        if let Some(session) = self.lock().get_mut(&id.to_string()) {
            session.released = released;
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Acquire)
    }

    /// Returns true if no other gateway may take the session over now.
    fn uses(&self, session: &FleetSession, handle: &SessionHandle) -> bool {
        if !session.is_owned() {
            return false;
        }
        match handle.settings().role {
            Role::Acceptor => is_connected(handle),
            // An initiator without a connection is about to connect, or was disabled on purpose.
            Role::Initiator => {
                is_connected(handle) || session.released.is_none() && !self.is_drained()
            }
        }
    }

    /// Checks whether this gateway may take a session over. `owner` is 0 for a new session.
    ///
    /// # Errors
    /// [`StoreError::InUse`] if the owner uses the session, or if this gateway is drained.
    pub(crate) fn may_take(&self, owner: u64, session: &str) -> Result<(), StoreError> {
        if self.is_drained() {
            let by = format!("{} (drained)", self.name);
            return Err(StoreError::InUse { session: session.into(), by: by.into() });
        }
        if owner == 0 || owner == self.run {
            return Ok(());
        }
        let request = Request::MayTake { session: session.to_owned() };
        let heard = ask(&self.brokers, owner, &request, self.answer);
        match self.brokers.block_on(heard)? {
            Heard::Answer(Answer::InUse { gateway }) => {
                Err(StoreError::InUse { session: session.into(), by: gateway.into() })
            }
            _ => Ok(()),
        }
    }

    /// Tells the previous owner of a session that this gateway has taken the session over. If the
    /// message is lost, the previous owner finds out at its next commit.
    pub(crate) fn tell_taken(&self, previous: u64, session: &str, place: u64) {
        if previous == self.run {
            return;
        }
        let request = Request::Taken { session: session.to_owned(), place };
        let text = serde_json::to_vec(&request).unwrap_or_default();
        let subject = subject_of(self.brokers.name(), previous);
        let told = self.brokers.client().publish(subject, text.into());
        let _ = self.brokers.block_on(told);
    }

    /// Begins to answer requests, and to take initiators over.
    pub(super) fn begin(self: &Arc<Self>, admin: Admin) {
        if self.admin.set(admin).is_err() {
            return;
        }
        let stream = self.brokers.name();
        let subjects = [subject_of(stream, self.run), subject_of_all(stream)];
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for subject in subjects {
            let gateway = Arc::clone(self);
            let client = self.brokers.client().clone();
            tasks.push(self.brokers.spawn(async move { listen(gateway, client, subject).await }));
        }
        tasks.push(self.brokers.spawn(watch::run(Arc::clone(self))));
    }

    /// Stops answering.
    pub(super) fn leave(&self) {
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
            Request::MayTake { session } => match self.session(&session) {
                Some((session, handle)) if self.uses(&session, &handle) => {
                    Answer::InUse { gateway: self.name.clone() }
                }
                _ => Answer::Free,
            },
            Request::Initiators => {
                let all = self.sessions().into_iter();
                let used = all.filter(|(session, handle)| self.uses(session, handle));
                Answer::Initiators { sessions: used.map(|(one, _)| one.id.to_string()).collect() }
            }
            Request::Status => Answer::Status(self.status()),
            Request::Drain => {
                self.is_drained.store(true, Ordering::Release);
                let all = self.sessions().into_iter();
                let handles: Vec<_> = all.map(|(_, handle)| handle).collect();
                handles.iter().for_each(|handle| self.note_released(handle.id(), Some(now())));
                let outcome = log_out(handles).await;
                self.tell_released().await;
                outcome
            }
            Request::Resume => {
                self.is_drained.store(false, Ordering::Release);
                watch::take_back(self, Duration::ZERO).await;
                self.released.notify_one();
                Answer::Done
            }
            Request::Release { session } => match self.session(&session) {
                Some((session, handle)) if session.is_owned() => {
                    self.note_released(&session.id, Some(now()));
                    log_out(vec![handle]).await
                }
                _ => Answer::Done,
            },
            Request::Taken { session, place } => {
                if let Some((session, _)) = self.session(&session) {
                    session.note_taken(place);
                }
                Answer::Done
            }
            Request::Move { session } => watch::take(self, &session).await,
            Request::Released => {
                self.released.notify_one();
                Answer::Done
            }
        }
    }

    /// Tells all gateways that sessions were released. If the message is lost, they find out at
    /// their next look.
    async fn tell_released(&self) {
        let subject = subject_of_all(self.brokers.name());
        let text = serde_json::to_vec(&Request::Released).unwrap_or_default();
        let _ = self.brokers.client().publish(subject, text.into()).await;
    }

    /// Returns the session with this name, if the gateway has it.
    pub(super) fn find(&self, name: &str) -> Option<(FleetSession, SessionHandle)> {
        self.session(name)
    }
}

/// Returns the time for measuring waits.
pub(super) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "only the patience depends on it")]
    Instant::now()
}

pub(super) fn is_connected(handle: &SessionHandle) -> bool {
    !matches!(handle.state(), State::Disconnected | State::LogonAwaited)
}

/// Logs the sessions out, disables them, and waits until they are disconnected.
async fn log_out(handles: Vec<SessionHandle>) -> Answer {
    let acting = handles.clone();
    let acted = spawn_blocking(move || {
        let action = Action::LogOut { text: MOVED.to_owned() };
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
        tokio::time::sleep(LOOK).await;
    }
    Answer::Done
}

/// Enables a session.
pub(super) async fn enable(handle: SessionHandle) {
    // A failed session is enabled when its store works again, at a later look.
    let _ = spawn_blocking(move || handle.operate(&Action::LogOn {})).await;
}

/// Disables a session whose owner is another gateway.
pub(super) async fn disable(handle: SessionHandle) {
    let action = Action::LogOut { text: MOVED.to_owned() };
    let _ = spawn_blocking(move || handle.operate(&action)).await;
}

/// Answers the requests at this subject.
async fn listen(gateway: Arc<Gateway>, client: Client, subject: String) {
    loop {
        let Ok(mut requests) = client.subscribe(subject.clone()).await else {
            tokio::time::sleep(gateway.answer).await;
            continue;
        };
        while let Some(message) = requests.next().await {
            let (gateway, client) = (Arc::clone(&gateway), client.clone());
            tokio::spawn(async move { answer(&gateway, &client, message).await });
        }
    }
}

async fn answer(gateway: &Arc<Gateway>, client: &Client, message: Message) {
    let answer = match serde_json::from_slice(&message.payload) {
        Ok(request) => gateway.answer(request).await,
        Err(error) => Answer::Failed { why: format!("an unknown request: {error}") },
    };
    let (Some(to), Ok(text)) = (message.reply, serde_json::to_vec(&answer)) else { return };
    // The asking gateway hears nothing if this fails, as if this gateway were gone.
    let _ = client.publish(to, text.into()).await;
}
