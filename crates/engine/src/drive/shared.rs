//! The state that the worker of a session shares with the threads that send into it.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LockResult, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use transfix_codec::CheckSumPolicy;
use transfix_observe::published::Published;
use transfix_session::core::Core;
use transfix_session::{Disconnect, Secret, SendError, SessionId};
use transfix_settings::{AfterPanic, Offline, QueueWhenFull, SendMode, SessionSettings, Subnet};

use crate::drive::drives::drives;
use crate::drive::registry::Registry;
use crate::drive::session_waker::{SessionWaker, WorkerHandle};
use crate::drive::waiting::WaitingBytes;
use crate::io::Io;
use crate::link::Link;
use crate::link::failed_logons::LogonRecord;
use crate::link::outbound_filter::OutboundFilter;
use crate::link::queue::SendQueue;

/// Time between two looks of a sender that waits for room.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// Bytes of the queue that a direct send takes over at most, since they go out before it.
const TAKEN_OVER_BYTES_MAX: usize = 64 << 10;

/// Looks at a lock before a thread sleeps until it is free: about as long as a turn takes.
const LOCK_LOOKS: u32 = 300;

/// How often a thread that wants a lock yields to the worker that waits for it: far longer than a
/// woken thread needs to take it.
const YIELDS_MAX: u32 = 1_000;

/// A thread waits for the lock of a session, until this is dropped.
struct Wish<'a> {
    wishes: &'a AtomicUsize,
    weight: usize,
}

/// How much the wish of a worker weighs in [`Shared::wishes`]; that of another thread weighs 1.
const WORKER: usize = 1 << 16;

impl<'a> Wish<'a> {
    fn of(wishes: &'a AtomicUsize) -> Self {
        let weight = if drives() { WORKER } else { 1 };
        wishes.fetch_add(weight, Ordering::Relaxed);
        Self { wishes, weight }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.wishes.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// An application that is called in threads of its own.
pub(crate) trait ThreadedApplication: Send + Sync {
    /// Its session is whole, and has a worker: the application is called from here on.
    fn belongs_to(&self, session: Weak<Shared>);

    /// How many messages and frames wait for it, and their bytes.
    fn waiting(&self) -> (usize, usize);
}

/// The state that handle and worker of one session share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    /// The settings that it was made with.
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) link: Mutex<Link>,
    /// How many threads wait for that lock: workers above [`WORKER`], others below.
    pub(crate) wishes: AtomicUsize,
    pub(crate) queue: SendQueue,
    /// Messages pass here before they are sent, if anything is done there.
    pub(crate) filter: Option<Arc<OutboundFilter>>,
    pub(crate) send_mode: SendMode,
    pub(crate) session_waker: Arc<SessionWaker>,
    pub(crate) offline: Offline,
    pub(crate) queue_when_full: QueueWhenFull,
    /// How long a send waits for room, if it does.
    pub(crate) queue_wait_ns: u64,
    /// For how long its worker looks at its sockets before it sleeps.
    pub(crate) spin_ns: u64,
    pub(crate) published: Arc<Published>,
    pub(crate) waiting: WaitingBytes,
    /// The application, if it is called in threads of its own.
    pub(crate) application: Option<Arc<dyn ThreadedApplication>>,
    /// The engine has been stopped, or the session is removed.
    pub(crate) closed: AtomicBool,
    /// It was removed, and is found no more, whoever still has a handle.
    pub(crate) removed: AtomicBool,
    /// True if the session may be connected; the operator's wish.
    pub(crate) enabled: AtomicBool,
    /// True if an operator holds back what the application sends.
    pub(crate) holds_sending: AtomicBool,
    /// An operator wants the session back, or connected, without a further wait.
    pub(crate) hurry: AtomicBool,
    /// Where an initiator connects to, each as `host:port`, the primary one first.
    pub(crate) destinations: Arc<[String]>,
    /// Which of them was tried last.
    pub(crate) destination: AtomicUsize,
    /// True if that is a backup: which of two stores counts from the next connection on.
    pub(crate) is_at_backup: Arc<AtomicBool>,
    /// Which of them an operator wants; [`NO_WISH`] for none.
    pub(crate) wanted_destination: AtomicUsize,
    pub(crate) after_panic: AfterPanic,
    /// Certificates of which the counterparty must show one; empty for any.
    pub(crate) tls_peers: Arc<[String]>,
    /// Where the counterparty may come from; empty for everywhere.
    pub(crate) allowed: Arc<[Subnet]>,
    /// The hash of the counterparty's password, if the settings have it.
    pub(crate) password_hash: Option<Secret>,
    /// Its failed logons.
    pub(crate) record: Arc<LogonRecord>,
    pub(crate) io: Arc<dyn Io>,
    /// All sessions of the engine, to find the one in which most waits.
    pub(crate) registry: Arc<Registry>,
}

/// No operator wants another destination.
pub(crate) const NO_WISH: usize = usize::MAX;

impl Shared {
    /// The lock of the session. A thread that panicked with it may have left half a turn behind:
    /// the worker finds that out for itself.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Link> {
        self.sound_link().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock of the session, unless a thread has panicked with it. A worker that waits for it is
    /// next: a thread that takes it in a loop would otherwise keep the worker from it.
    pub(crate) fn sound_link(&self) -> LockResult<MutexGuard<'_, Link>> {
        let mut yields = 0;
        while yields < YIELDS_MAX && self.wishes.load(Ordering::Relaxed) >= WORKER && !drives() {
            yields += 1;
            if !self.io.gives_way() {
                std::thread::yield_now();
            }
        }
        let mut wish = None;
        let mut looks = 0;
        loop {
            match self.link.try_lock() {
                Ok(link) => return Ok(link),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => {}
            }
            wish.get_or_insert_with(|| Wish::of(&self.wishes));
            if !self.io.gives_way() {
                looks += 1;
                if looks == LOCK_LOOKS {
                    return self.link.lock();
                }
                hint::spin_loop();
            }
        }
    }

    /// Returns true if a thread waits for the lock of the session. A thread that takes the lock
    /// again and again leaves it to the waiting one, which would else never find it free.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wishes.load(Ordering::Relaxed) > 0
    }

    /// The lock for a send in the thread of the caller. `None` if the message is to be handed over
    /// to the worker. The lock is taken or wanted, or the caller would work for the many messages
    /// that wait before it. Or nothing can be committed before the answer of the application is
    /// whole, or before the store is refreshed.
    pub(crate) fn link_to_send(&self) -> Result<Option<MutexGuard<'_, Link>>, SendError> {
        if self.is_wanted() || self.queue.len() > TAKEN_OVER_BYTES_MAX {
            return Ok(None);
        }
        match self.link.try_lock() {
            Ok(link) if link.is_held() => Ok(None),
            Ok(link) => Ok(Some(link)),
            Err(TryLockError::Poisoned(_)) => Err(SendError::Failed),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    /// The session has a worker, in which it is in this slot: another thread or the store may call.
    pub(crate) fn belongs_to(self: &Arc<Self>, worker: Arc<dyn WorkerHandle>, slot: usize) {
        self.session_waker.set(worker, slot);
        let session_waker = Arc::clone(&self.session_waker);
        self.lock().executor().journal.wake_by(Arc::new(move || session_waker.wake()));
        if let Some(application) = &self.application {
            application.belongs_to(Arc::downgrade(self));
        }
    }

    /// Calls the worker for something other than a message.
    pub(crate) fn call_worker(&self) {
        self.session_waker.wake();
    }

    /// Does what the settings say when as much waits to be sent as may. `again` sends once more.
    #[cold]
    pub(crate) fn when_full<T>(
        &self,
        mut full: SendError,
        mut again: impl FnMut() -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        match self.queue_when_full {
            // A thread that drives sessions may have the lock of one, and others wait for it in any
            // case.
            QueueWhenFull::Wait if !drives() => {
                // Messages that a callback in a thread of its own has sent may not be written yet.
                self.call_worker();
                let until_ns = self.io.monotonic_ns().saturating_add(self.queue_wait_ns);
                while self.io.monotonic_ns() < until_ns {
                    self.io.sleep(ROOM_LOOK);
                    match again() {
                        Err(still @ SendError::WouldBlock { .. }) => full = still,
                        sent => return sent,
                    }
                }
            }
            QueueWhenFull::Disconnect => {
                let link = match drives() {
                    true => self.link.try_lock().ok(),
                    false => self.sound_link().ok(),
                };
                if let Some(mut link) = link.filter(|link| link.is_up()) {
                    link.core_mut().cut = Some(Disconnect::Stalled);
                    drop(link);
                    self.call_worker();
                }
            }
            _ => {}
        }
        Err(full)
    }

    /// The treatment of CheckSum(10) in messages that it receives.
    pub(crate) fn check_sum(&self) -> CheckSumPolicy {
        self.with_core(|core| core.options.check_sum)
    }

    /// Uses the core for something that queues no call of the application and no event.
    pub(crate) fn with_core<T>(&self, call: impl FnOnce(&mut Core) -> T) -> T {
        call(self.lock().core_mut())
    }
}
