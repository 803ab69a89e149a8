//! Syncs a store with power durability to the device in a separate thread, so that the session and
//! the other sessions of its thread can continue.
//!
//! **Invariants:**
//! - At most one batch is published without being known to be on the device. A power cut leaves at
//!   most one unfinished batch, which is the last.
//! - Commits during a sync are gathered into one batch, so one sync serves them all.
//! - After a failed sync nothing is synced any more.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::Wake;
use crate::batch::Batch;
use crate::disk::{Map, Syncer};
use crate::last_batch::Mark;
use crate::threads::Helpers;

/// A request to sync: the segment's syncer, and the start and end of the bytes to sync.
type Job<S> = (S, usize, usize);

/// The connection to the sync thread: the request to the thread and its result.
struct SyncChannel<S> {
    state: Mutex<State<S>>,
    changed: Condvar,
}

struct State<S> {
    job: Option<Job<S>>,
    done: Option<io::Result<()>>,
    ends: bool,
    wake: Option<Wake>,
}

impl<S: Syncer> SyncChannel<S> {
    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State<S>>) -> MutexGuard<'a, State<S>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs sync requests until the store is closed.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            if let Some((syncer, start, end)) = state.job.take() {
                drop(state);
                let done = syncer.sync(start, end);
                state = self.lock();
                state.done = Some(done);
                self.changed.notify_all();
                let wake = state.wake.clone();
                drop(state);
                if let Some(wake) = wake {
                    wake();
                }
                state = self.lock();
            } else if state.ends {
                return;
            } else {
                state = self.wait(state);
            }
        }
    }
}

/// The commits that are not yet known to be on the device.
pub(crate) struct Behind<M: Map> {
    line: Arc<SyncChannel<M::Syncer>>,
    thread: Option<JoinHandle<()>>,
    /// The ticket of the last committed batch.
    pub(crate) committed: u64,
    /// The ticket of the last batch that is on the device.
    pub(crate) safe: u64,
    /// The ticket of the batch that is being synced.
    under_way: Option<u64>,
    /// The last batch that is on the device, while a later batch is not.
    safe_mark: Option<Mark>,
    /// The batch that is being synced; set when a later batch is committed.
    under_way_mark: Option<Mark>,
    /// The records committed during a sync, as one batch. They are not published until the sync has
    /// ended.
    pub(crate) gathered: Option<Batch>,
}

impl<M: Map> std::fmt::Debug for Behind<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { committed, safe, .. } = self;
        f.debug_struct("Behind").field("committed", committed).field("safe", safe).finish()
    }
}

impl<M: Map> Behind<M> {
    pub(crate) fn new() -> Self {
        let state = State { job: None, done: None, ends: false, wake: None };
        Self {
            line: Arc::new(SyncChannel { state: Mutex::new(state), changed: Condvar::new() }),
            thread: None,
            committed: 0,
            safe: 0,
            under_way: None,
            safe_mark: None,
            under_way_mark: None,
            gathered: None,
        }
    }

    pub(crate) fn wake_by(&self, wake: Wake) {
        self.line.lock().wake = Some(wake);
    }

    pub(crate) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Returns the last batch known to be on the device; `None` if all committed batches are.
    pub(crate) const fn safe_mark(&self) -> Option<Mark> {
        self.safe_mark
    }

    /// Starts to sync a published batch, the last batch of `ticket`. If no thread can be started,
    /// syncs at once.
    pub(crate) fn begin(&mut self, ticket: u64, map: &M, batch: Batch, helpers: &Helpers) {
        self.under_way = Some(ticket);
        let job = (map.syncer(), batch.start, batch.tail);
        if self.has_thread(helpers) {
            self.line.lock().job = Some(job);
            self.line.changed.notify_all();
        } else {
            let (syncer, start, end) = job;
            let done = syncer.sync(start, end);
            self.line.lock().done = Some(done);
        }
    }

    fn has_thread(&mut self, helpers: &Helpers) -> bool {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            let line = Arc::clone(&self.line);
            self.thread = helpers.spawn("store-sync", move || line.run()).ok();
        }
        self.thread.is_some()
    }

    /// Records a commit. `last` marks the preceding batch, which is on the device or is being
    /// synced.
    pub(crate) fn note_commit(&mut self, last: Mark) {
        self.committed += 1;
        match self.under_way {
            None => self.safe_mark = Some(last),
            Some(_) => _ = self.under_way_mark.get_or_insert(last),
        }
    }

    /// Removes and returns the result of the current sync, if the sync has ended.
    pub(crate) fn take_done(&mut self) -> Option<io::Result<()>> {
        let done = self.line.lock().done.take()?;
        let ticket = self.under_way.take();
        Some(done.inspect(|()| {
            self.safe = ticket.unwrap_or(self.safe);
            self.safe_mark = self.under_way_mark.take();
        }))
    }

    /// Waits for the end of the current sync.
    pub(crate) fn wait(&self) {
        let mut state = self.line.lock();
        while self.is_under_way() && state.done.is_none() {
            state = self.line.wait(state);
        }
    }

    /// Records that the store was reopened: each batch that was not on the device is now known to
    /// be in the store or lost.
    pub(crate) fn begin_anew(&mut self) {
        self.safe = self.committed;
        (self.safe_mark, self.under_way_mark) = (None, None);
    }
}

impl<M: Map> Drop for Behind<M> {
    /// Joins the sync thread. If the thread outlived the store's lock, it could sync bytes that
    /// another process is writing.
    fn drop(&mut self) {
        self.line.lock().ends = true;
        self.line.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
