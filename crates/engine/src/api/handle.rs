//! Sending from anywhere: handles to sessions, and the registry that finds them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError, Weak};

use transfix_codec::{Body, CheckSumPolicy};
use transfix_session::{BeginString, SendError, SessionId, State};
use transfix_store::StoreError;

use crate::builder::OpenStore;
use crate::clock;
use crate::desk::{Counters, Desk};
use crate::link::Link;
use crate::protocol_log::ProtocolLogs;
use crate::queue::{Pushed, SendQueue};
use crate::rule_book::RuleBook;
use crate::settings::{AfterPanic, Offline, SendMode};
use crate::waiting::{Waiting, WaitingTotal};
use crate::worker;

/// Wakes the worker of a link from its wait.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// What handle and worker of one session share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    pub(crate) link: Mutex<Link>,
    pub(crate) queue: SendQueue,
    pub(crate) send_mode: SendMode,
    pub(crate) wake: OnceLock<Wake>,
    pub(crate) offline: Offline,
    pub(crate) standing: Arc<Standing>,
    pub(crate) waiting: Waiting,
    /// The engine has been stopped.
    pub(crate) closed: AtomicBool,
    /// Whether the session may be connected; the operator's wish.
    pub(crate) enabled: AtomicBool,
    /// Something other than a message waits for the worker.
    pub(crate) attention: AtomicBool,
    /// An operator wants the session back, or connected, without a further wait.
    pub(crate) hurry: AtomicBool,
    pub(crate) after_panic: AfterPanic,
}

/// The state of a session, for those who do not hold its lock; written by the desk.
#[derive(Debug, Default)]
pub(crate) struct Standing(AtomicU8);

impl Standing {
    pub(crate) fn note(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }

    pub(crate) fn state(&self) -> State {
        State::ALL[usize::from(self.0.load(Ordering::Acquire))]
    }
}

/// What became of a message that [`SessionHandle::send`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Stored under this MsgSeqNum(34) in the caller's thread, and written as far as the socket
    /// took it; the rest follows by itself, or is sent again after the next logon.
    Direct(u64),
    /// Stored under this MsgSeqNum(34) while there is no connection (`offline = "store"`): the
    /// counterparty asks for it after the next logon.
    Stored(u64),
    /// Handed over to the session's worker, which gives it its number. Without a logon
    /// (`offline = "queue"`) it is in the store as well.
    Queued {
        /// Bytes that wait in the queue now.
        bytes: usize,
    },
}

/// How long a message that is queued without a logon waits for the session's lock.
const LOCK_WAIT_NS: u64 = 20_000_000;

impl Shared {
    /// Whether CheckSum(10) of what it receives is verified.
    pub(crate) fn check_sum(&self) -> CheckSumPolicy {
        self.with_desk(|desk| desk.options.check_sum)
    }

    pub(crate) fn with_desk<T>(&self, use_desk: impl FnOnce(&mut Desk) -> T) -> T {
        use_desk(&mut self.link.lock().unwrap_or_else(PoisonError::into_inner).desk)
    }

    /// Takes a session apart that nobody else has yet.
    pub(crate) fn into_desk(self) -> Desk {
        self.link.into_inner().unwrap_or_else(PoisonError::into_inner).desk
    }
}

/// Sends into one session, from any thread, and never blocks on a stuck counterparty.
///
/// [`SessionHandle::send`] may be called from a callback of any session. The other calls wait for
/// the end of the session's turn: never call them from a callback.
#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
}

impl SessionHandle {
    /// Identity of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Whether the session is logged on. It may change at any moment.
    #[must_use]
    pub fn is_logged_on(&self) -> bool {
        self.shared.standing.state() == State::Active
    }

    /// Sends an application message; `fill` writes its fields.
    ///
    /// With `send = "direct"` it is encoded, stored and written in the caller's thread if the
    /// session is free at that moment; otherwise, and with `send = "queued"`, it is handed over to
    /// the session's worker. Messages of one thread keep their order either way.
    ///
    /// # Errors
    /// [`SendError`]: the message was not taken.
    pub fn send(
        &self,
        msg_type: &str,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        if shared.closed.load(Ordering::Acquire) {
            return Err(SendError::Closed);
        }
        if shared.offline == Offline::Queue && !self.is_logged_on() {
            return self.queue_offline(msg_type, fill);
        }
        // Without a logon there is no worker's turn to wait for: refused, or stored, at once,
        // unless somebody else has the lock at this moment.
        let mut queues = false;
        if shared.send_mode == SendMode::Direct || !self.is_logged_on() {
            match shared.link.try_lock() {
                Ok(link) if link.desk.must_queue() => queues = true,
                Ok(mut link) => {
                    let sent = link.send(clock::now(), &shared.queue, msg_type.as_bytes(), fill);
                    let is_over =
                        link.is_up() && shared.waiting.note(link.desk.waiting_bytes(&shared.queue));
                    if is_over || link.desk.has_failed() {
                        self.call_worker();
                    }
                    return sent;
                }
                Err(TryLockError::Poisoned(_)) => return Err(SendError::Failed),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        if !queues && shared.offline == Offline::Refuse {
            shared.standing.state().ready()?;
        }
        let Pushed { bytes, first, .. } = shared.queue.push(msg_type.as_bytes(), fill)?;
        if shared.waiting.may_be_over(bytes) {
            self.call_worker();
        } else if first {
            self.wake();
        }
        Ok(Sent::Queued { bytes })
    }

    /// Queues a message without a logon: it is in the store when this returns.
    ///
    /// Who has the lock gives it back soon. A thread that drives sessions does not wait for it: it
    /// may have it itself, in a callback, and others must not wait with it. Then the message goes
    /// into the store with the session's next turn, at once.
    fn queue_offline(
        &self,
        msg_type: &str,
        fill: impl FnOnce(&mut Body<'_>),
    ) -> Result<Sent, SendError> {
        let shared = &*self.shared;
        let until_ns = clock::monotonic_ns() + LOCK_WAIT_NS;
        let mut link = loop {
            match shared.link.try_lock() {
                Ok(link) => break link,
                Err(TryLockError::Poisoned(_)) => return Err(SendError::Failed),
                Err(TryLockError::WouldBlock)
                    if !worker::drives() && clock::monotonic_ns() < until_ns =>
                {
                    std::thread::yield_now();
                }
                Err(TryLockError::WouldBlock) => {
                    let bytes = shared.queue.push(msg_type.as_bytes(), fill)?.bytes;
                    self.call_worker();
                    return Ok(Sent::Queued { bytes });
                }
            }
        };
        let sent = link.send_or_queue(clock::now(), &shared.queue, msg_type.as_bytes(), fill);
        if link.desk.is_first_to_expire() || link.desk.has_failed() {
            self.call_worker();
        }
        sent
    }

    /// Something other than a message waits for the worker.
    pub(crate) fn call_worker(&self) {
        self.shared.attention.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        if let Some(wake) = self.shared.wake.get() {
            wake();
        }
    }

    /// What the session has counted since the engine was started. Waits for the end of a turn.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.with_link(|link| link.desk.counters)
    }

    /// A message that was sent under this MsgSeqNum(34), as the store has it. Waits for the end of
    /// a turn.
    ///
    /// # Errors
    /// If the store has failed.
    pub fn sent_message(&self, seq: u64) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_link(|link| link.desk.sent_message(seq))
    }

    /// The next numbers in and out. Waits for the end of a turn.
    #[must_use]
    pub fn next_numbers(&self) -> (u64, u64) {
        self.with_link(|link| (link.desk.session.next_num_in(), link.desk.session.next_num_out()))
    }

    /// Where the session stands. Waits for the end of a turn.
    #[must_use]
    pub fn state(&self) -> State {
        self.with_link(|link| link.desk.session.state())
    }

    pub(crate) fn with_link<T>(&self, use_link: impl FnOnce(&mut Link) -> T) -> T {
        let mut link = self.shared.link.lock().unwrap_or_else(PoisonError::into_inner);
        let used = use_link(&mut link);
        if link.desk.has_failed() {
            self.call_worker();
        }
        used
    }
}

impl fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionHandle({})", self.shared.id)
    }
}

/// Version and CompID of a counterparty.
type Counterparty = (BeginString, Arc<str>);

/// Sessions made from templates, found in both ways.
#[derive(Default)]
struct Created {
    sessions: HashMap<SessionId, Weak<Shared>>,
    counterparties: HashMap<Counterparty, Weak<Shared>>,
}

/// All sessions of an engine. It does not keep them alive: links hold the registry.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) rule_book: Arc<RuleBook>,
    pub(crate) logs: ProtocolLogs,
    pub(crate) waiting: Arc<WaitingTotal>,
    /// Opens stores of the user's own.
    pub(crate) open_store: Option<OpenStore>,
    sessions: OnceLock<HashMap<SessionId, Weak<Shared>>>,
    /// Those made from templates since.
    created: RwLock<Created>,
    /// The first ones by version and counterparty, for messages to third parties.
    counterparties: OnceLock<HashMap<Counterparty, Weak<Shared>>>,
}

impl Registry {
    /// Without sessions, over rules that others may share.
    pub(crate) fn new(rule_book: Arc<RuleBook>) -> Self {
        Self { rule_book, ..Self::default() }
    }

    pub(crate) fn fill(&self, sessions: &[Arc<Shared>]) {
        let map = sessions.iter().map(|s| (s.id.clone(), Arc::downgrade(s))).collect();
        assert!(self.sessions.set(map).is_ok(), "the registry is filled once, at the start");
        // Of sessions with the same counterparty the first of the settings counts.
        let map = sessions.iter().rev().map(|s| (counterparty(s), Arc::downgrade(s))).collect();
        assert!(self.counterparties.set(map).is_ok(), "filled together");
    }

    pub(crate) fn find(&self, id: &SessionId) -> Option<SessionHandle> {
        let shared = match self.sessions.get()?.get(id) {
            Some(shared) => shared.upgrade()?,
            None => {
                let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
                created.sessions.get(id)?.upgrade()?
            }
        };
        Some(SessionHandle { shared })
    }

    /// One more session, made from a template.
    pub(crate) fn add(&self, shared: &Arc<Shared>) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        created.sessions.insert(shared.id.clone(), Arc::downgrade(shared));
        // As with those of the settings: the first one counts.
        let first = created.counterparties.entry(counterparty(shared));
        first.or_insert_with(|| Arc::downgrade(shared));
    }

    /// Sessions made from templates.
    pub(crate) fn created(&self) -> Vec<SessionHandle> {
        let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
        let all = created.sessions.values().filter_map(Weak::upgrade);
        let mut all: Vec<_> = all.map(|shared| SessionHandle { shared }).collect();
        all.sort_by_cached_key(|handle| handle.id().to_string());
        all
    }

    /// The connected session in which most bytes wait.
    pub(crate) fn heaviest(&self) -> Option<SessionHandle> {
        let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
        let all = self.sessions.get()?.values().chain(created.sessions.values());
        let all = all.filter_map(Weak::upgrade);
        let heaviest = all.max_by_key(|shared| shared.waiting.bytes())?;
        (heaviest.waiting.bytes() > 0).then_some(SessionHandle { shared: heaviest })
    }

    /// The session of this version with that counterparty.
    pub(crate) fn with(
        &self,
        begin_string: BeginString,
        target_comp_id: &str,
    ) -> Option<SessionHandle> {
        let key = (begin_string, Arc::from(target_comp_id));
        let shared = match self.counterparties.get()?.get(&key) {
            Some(shared) => shared.upgrade()?,
            None => {
                let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
                created.counterparties.get(&key)?.upgrade()?
            }
        };
        Some(SessionHandle { shared })
    }
}

fn counterparty(shared: &Shared) -> Counterparty {
    (shared.id.begin_string, Arc::clone(&shared.id.target_comp_id))
}
