//! The command queue of a worker, through which other threads send commands, hand over connections
//! and request turns. The queue also shows the worker's load to the other workers of the pool.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::drive::driven::DrivenSession;
use crate::drive::session_waker::{PendingConnection, Release, WorkerHandle};
use crate::io::Waker;
use crate::link::Arrival;

/// A command of another thread to a worker.
pub(crate) enum Command {
    /// Hands a connection to the session to which `pending` belongs.
    Attach { arrival: Arrival, pending: PendingConnection },
    /// Adds a session, either a new one or one given away by another worker.
    Add(Box<DrivenSession>),
    /// Logs this session out, and removes it from its worker permanently.
    Release(Release),
    /// Logs all sessions out and ends, at this monotonic time at the latest.
    Stop { until_ns: u64, text: String },
}

#[derive(Default)]
struct Orders {
    list: Vec<Command>,
    /// True if the last command stops the worker, so that no more sessions are accepted.
    stops: bool,
}

/// The commands for a worker and its called sessions; also shows the worker's load.
pub(crate) struct CommandQueue {
    orders: Mutex<Orders>,
    pending: AtomicBool,
    /// The slots of sessions for which other threads have requested a turn.
    called: Mutex<Vec<usize>>,
    /// True if the worker spins, and checks all its slots itself.
    spins: bool,
    waker: Waker,
    /// The number of sessions that the worker has, including those waiting in the queue.
    sessions: AtomicUsize,
    /// The total busy time of the worker until its last rest, in nanoseconds.
    busy_ns: AtomicU64,
    /// The monotonic time since which the worker is busy; 0 while it waits for work.
    since_ns: AtomicU64,
}

impl CommandQueue {
    pub(crate) fn new(spins: bool, sessions: usize, waker: Waker) -> Self {
        Self {
            orders: Mutex::default(),
            pending: AtomicBool::new(false),
            called: Mutex::default(),
            spins,
            waker,
            sessions: AtomicUsize::new(sessions),
            busy_ns: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
        }
    }

    /// Returns the handle through which other threads reach the worker.
    pub(crate) fn handle(self: &Arc<Self>) -> Arc<dyn WorkerHandle> {
        Arc::<Self>::clone(self)
    }

    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, orders: &mut Orders, command: Command) {
        orders.list.push(command);
        self.pending.store(true, Ordering::Release);
    }

    fn post(&self, command: Command) {
        self.note(&mut self.orders(), command);
        self.wake();
    }

    /// Queues a session for the worker without waking it. Returns the session if the worker is
    /// stopping.
    ///
    /// # Errors
    /// The session, if the worker is to stop.
    pub(crate) fn add(&self, session: Box<DrivenSession>) -> Result<(), Box<DrivenSession>> {
        let mut orders = self.orders();
        if orders.stops {
            return Err(session);
        }
        self.sessions.fetch_add(1, Ordering::Relaxed);
        self.note(&mut orders, Command::Add(session));
        Ok(())
    }

    /// Records that a session has left the worker.
    pub(crate) fn has_lost_one(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// Queues the command to stop.
    pub(crate) fn stop(&self, until_ns: u64, text: String) {
        let mut orders = self.orders();
        orders.stops = true;
        self.note(&mut orders, Command::Stop { until_ns, text });
        drop(orders);
        self.wake();
    }

    /// Returns the called slots in `empty`, and keeps the empty list to reuse its memory.
    pub(crate) fn exchange_called(&self, empty: &mut Vec<usize>) {
        std::mem::swap(&mut *self.called.lock().unwrap_or_else(PoisonError::into_inner), empty);
    }

    /// Requests a turn of these slots in the next round.
    pub(crate) fn call_all(&self, slots: impl Iterator<Item = usize>) {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).extend(slots);
    }

    /// Wakes a waiting worker. Has no effect on a spinning worker.
    pub(crate) fn wake(&self) {
        (self.waker)();
    }

    /// Returns true if commands wait for the next round.
    pub(crate) fn has_commands(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        // A spinning worker checks this in each turn, and a load is cheaper than a swap.
        if !self.has_commands() || !self.pending.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.orders().list)
    }

    /// Records that the worker is busy from now on.
    pub(crate) fn works(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Records that the worker has run out of work.
    pub(crate) fn rests(&self, now_ns: u64) {
        self.busy_ns.store(self.busy_ns(now_ns), Ordering::Relaxed);
        self.since_ns.store(0, Ordering::Relaxed);
    }

    /// Returns the total busy time of the worker until `now_ns`. The value is exact in the worker's
    /// own thread, and approximate in other threads.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> u64 {
        let since_ns = match self.since_ns.load(Ordering::Relaxed) {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        self.busy_ns.load(Ordering::Relaxed) + since_ns
    }
}

impl WorkerHandle for CommandQueue {
    fn call(&self, slot: usize) {
        if !self.spins {
            self.call_all(std::iter::once(slot));
        }
        self.wake();
    }

    fn attach(&self, arrival: Arrival, pending: PendingConnection) {
        self.post(Command::Attach { arrival, pending });
    }

    fn release(&self, release: Release) {
        self.post(Command::Release(release));
    }
}

/// The workers of a pool, set once all exist.
pub(crate) type Pool = Arc<OnceLock<Vec<Arc<CommandQueue>>>>;
