//! The command queue of a worker: commands, connections and calls of other threads. The queue also
//! shows the load of the worker to the other workers of the pool.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::drive::driven::DrivenSession;
use crate::drive::session_waker::{PendingConnection, Release, WorkerHandle};
use crate::io::Waker;
use crate::link::Arrival;

/// The commands of other threads to a worker.
pub(crate) enum Command {
    /// A connection for the session whose waker the connection holds.
    Attach { arrival: Arrival, pending: PendingConnection },
    /// One more session: a new one, or one that another worker gives away.
    Add(Box<DrivenSession>),
    /// This session logs out and leaves its worker for good.
    Release(Release),
    /// Log out everywhere and end, at this moment of the monotonic clock at the latest.
    Stop { until_ns: u64, text: String },
}

#[derive(Default)]
struct Orders {
    list: Vec<Command>,
    /// The last one is to stop: no session comes behind it.
    stops: bool,
}

/// The commands for a worker, and the load of the worker.
pub(crate) struct CommandQueue {
    orders: Mutex<Orders>,
    pending: AtomicBool,
    /// Slots of which somebody wants something, besides commands.
    called: Mutex<Vec<usize>>,
    /// The worker spins, and looks at all its slots by itself.
    spins: bool,
    waker: Waker,
    /// Sessions that it has, or will have.
    sessions: AtomicUsize,
    /// How long it has worked, up to its last rest.
    busy_ns: AtomicU64,
    /// Since when it has worked; 0 while it rests.
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

    /// The worker, as other threads reach it.
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

    /// One more session, which the worker finds when it is woken.
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

    /// A session has left.
    pub(crate) fn has_lost_one(&self) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    /// The worker is to stop.
    pub(crate) fn stop(&self, until_ns: u64, text: String) {
        let mut orders = self.orders();
        orders.stops = true;
        self.note(&mut orders, Command::Stop { until_ns, text });
        drop(orders);
        self.wake();
    }

    /// Exchanges the slots that were called for an empty list, whose memory is used again.
    pub(crate) fn exchange_called(&self, empty: &mut Vec<usize>) {
        std::mem::swap(&mut *self.called.lock().unwrap_or_else(PoisonError::into_inner), empty);
    }

    /// These slots are looked at in the next round.
    pub(crate) fn call_all(&self, slots: impl Iterator<Item = usize>) {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).extend(slots);
    }

    /// Ends the worker's wait; without effect on one that spins, which looks by itself.
    pub(crate) fn wake(&self) {
        (self.waker)();
    }

    /// Returns true if commands wait for the next round.
    pub(crate) fn has_commands(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<Command> {
        // Looked at in each turn of a spinning worker: a load is cheaper than a swap.
        if !self.has_commands() || !self.pending.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut self.orders().list)
    }

    /// The worker works from now on.
    pub(crate) fn works(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// The worker has done what there was.
    pub(crate) fn rests(&self, now_ns: u64) {
        self.busy_ns.store(self.busy_ns(now_ns), Ordering::Relaxed);
        self.since_ns.store(0, Ordering::Relaxed);
    }

    /// How long the worker has worked, up to this moment: exact in its own thread, about right in
    /// others.
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

/// The workers of a pool, once all are there.
pub(crate) type Pool = Arc<OnceLock<Vec<Arc<CommandQueue>>>>;
