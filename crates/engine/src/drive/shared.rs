//! The state that a session's worker shares with the threads that send through the session.

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

/// The interval at which a sender checks whether the full queue has room again.
const ROOM_LOOK: Duration = Duration::from_millis(1);

/// The maximum size, in bytes, of queued messages that a direct send writes first, because they
/// must precede its message.
const TAKEN_OVER_BYTES_MAX: usize = 64 << 10;

/// The number of attempts to lock before a thread sleeps; the attempts take about as long as a
/// turn.
const LOCK_LOOKS: u32 = 300;

/// The maximum number of yields by which a thread lets a waiting worker lock first. The yields last
/// far longer than waking a thread.
const YIELDS_MAX: u32 = 1_000;

/// Counts a thread as waiting for a session's lock, until dropped.
struct Wish<'a> {
    wishes: &'a AtomicUsize,
    weight: usize,
}

/// The amount by which a waiting worker increases [`Shared::wishes`]; other threads add 1.
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

/// An application that is called in application threads.
pub(crate) trait ThreadedApplication: Send + Sync {
    /// Sets the session after it was assembled and has a worker. From then on the application is
    /// called.
    fn belongs_to(&self, session: Weak<Shared>);

    /// Returns the number of messages and frames that wait for the application, and their bytes.
    fn waiting(&self) -> (usize, usize);
}

/// The state that the handles and the worker of one session share.
pub(crate) struct Shared {
    pub(crate) id: SessionId,
    /// The settings of the session.
    pub(crate) settings: Arc<SessionSettings>,
    pub(crate) link: Mutex<Link>,
    /// The number of threads that wait for the link's lock: workers count [`WORKER`] each, other
    /// threads 1.
    pub(crate) wishes: AtomicUsize,
    pub(crate) queue: SendQueue,
    /// The filter that outbound messages pass; `None` if none is needed.
    pub(crate) filter: Option<Arc<OutboundFilter>>,
    pub(crate) send_mode: SendMode,
    pub(crate) session_waker: Arc<SessionWaker>,
    pub(crate) offline: Offline,
    pub(crate) queue_when_full: QueueWhenFull,
    /// The maximum time, in nanoseconds, that a send waits for room if `queue_when_full` lets it
    /// wait.
    pub(crate) queue_wait_ns: u64,
    /// The time, in nanoseconds, for which the session's worker checks its sockets before it
    /// sleeps.
    pub(crate) spin_ns: u64,
    pub(crate) published: Arc<Published>,
    pub(crate) waiting: WaitingBytes,
    /// The application, if it is called in application threads.
    pub(crate) application: Option<Arc<dyn ThreadedApplication>>,
    /// True after the engine was stopped or the session was removed.
    pub(crate) closed: AtomicBool,
    /// True after the session was removed from the engine, so that look-ups no longer find it even
    /// if a handle keeps it alive.
    pub(crate) removed: AtomicBool,
    /// True if operators allow the session to be connected.
    pub(crate) enabled: AtomicBool,
    /// True if an operator holds the application's messages back.
    pub(crate) holds_sending: AtomicBool,
    /// True if an operator wants the session to connect or to be restored at once.
    pub(crate) hurry: AtomicBool,
    /// The destinations of an initiator as `host:port`, the primary first.
    pub(crate) destinations: Arc<[String]>,
    /// The index of the destination tried last.
    pub(crate) destination: AtomicUsize,
    /// True if the last tried destination is a backup; selects the store for the next connection.
    pub(crate) is_at_backup: Arc<AtomicBool>,
    /// The index of the destination that an operator requests; [`NO_WISH`] if there is none.
    pub(crate) wanted_destination: AtomicUsize,
    pub(crate) after_panic: AfterPanic,
    /// The certificates that the counterparty may present; an empty list accepts any.
    pub(crate) tls_peers: Arc<[String]>,
    /// The addresses from which the counterparty may connect; an empty list allows all.
    pub(crate) allowed: Arc<[Subnet]>,
    /// The hash of the counterparty's password, if configured.
    pub(crate) password_hash: Option<Secret>,
    /// The session's failed logons.
    pub(crate) record: Arc<LogonRecord>,
    pub(crate) io: Arc<dyn Io>,
    /// The registry of all sessions, to find the session with the most waiting bytes.
    pub(crate) registry: Arc<Registry>,
}

/// The value of `wanted_destination` while no operator requests another destination.
pub(crate) const NO_WISH: usize = usize::MAX;

impl Shared {
    /// Locks the session, even if a thread has panicked while it held the lock. The worker detects
    /// a turn that was interrupted by a panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Link> {
        self.sound_link().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the session, or returns an error if a thread has panicked while it held the lock. A
    /// waiting worker goes first, because it would otherwise never get the lock from a thread that
    /// locks in a loop.
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

    /// Returns true if a thread waits for the session's lock. A thread that locks again and again
    /// must yield, or the waiting thread never finds the lock free.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wishes.load(Ordering::Relaxed) > 0
    }

    /// Locks the session for a send in the caller's thread. Returns `None` if the worker must send
    /// the message:
    /// - The lock is taken, or another thread waits for it.
    /// - The caller would have to send many queued messages first.
    /// - No commit is possible before the application's answer is complete, or the store is
    ///   refreshed.
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

    /// Records the session's worker and slot, so that other threads and the store can wake the
    /// worker.
    pub(crate) fn belongs_to(self: &Arc<Self>, worker: Arc<dyn WorkerHandle>, slot: usize) {
        self.session_waker.set(worker, slot);
        let session_waker = Arc::clone(&self.session_waker);
        self.lock().executor().journal.wake_by(Arc::new(move || session_waker.wake()));
        if let Some(application) = &self.application {
            application.belongs_to(Arc::downgrade(self));
        }
    }

    /// Calls the worker for work other than a message.
    pub(crate) fn call_worker(&self) {
        self.session_waker.wake();
    }

    /// Reacts to the full queue as `queue_when_full` demands. `again` tries to send once more.
    #[cold]
    pub(crate) fn when_full<T>(
        &self,
        mut full: SendError,
        mut again: impl FnMut() -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        match self.queue_when_full {
            // Only a thread that drives no sessions may wait; others may hold a session's lock, and
            // would delay their other sessions.
            QueueWhenFull::Wait if !drives() => {
                // The worker writes messages that a callback has sent in its own thread, which
                // makes room.
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

    /// Returns whether CheckSum(10) of inbound messages is verified.
    pub(crate) fn check_sum(&self) -> CheckSumPolicy {
        self.with_core(|core| core.options.check_sum)
    }

    /// Calls `call` with the session's core. `call` must not queue application calls or events,
    /// because nobody would process them here.
    pub(crate) fn with_core<T>(&self, call: impl FnOnce(&mut Core) -> T) -> T {
        call(self.lock().core_mut())
    }
}
