//! The disk of one side, and its store.
//!
//! Invariant: a disk suffers only crashes that the durability setting of its store promises to
//! survive.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use transfix_store::{
    Committed, Durability, FileStore, Numbers, Options, Record, Store, StoreError, Stored,
};

use super::app::Shared as App;
use super::side::START_UTC_NS;
use crate::delayed::{Delayed, Pace};
use crate::disk::{Crash, DiskFault, End, SimDisk};

/// The disk operation at which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fuse {
    /// The number of disk operations until the process ends.
    pub(super) events: u64,
    /// The part of the last operation that takes effect.
    pub(super) end: End,
}

/// The state that a new process finds if this commit is the last durable commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commit {
    /// The commit's ticket. The ticket is 0 if the store makes each commit durable at once.
    pub(super) ticket: u64,
    /// The next inbound and outbound sequence numbers after the commit.
    pub(super) kept: (u64, u64),
    /// The number of messages that the application had sent at the time of the commit.
    pub(super) sent: usize,
    /// The number of messages that the application had received at the time of the commit.
    pub(super) delivered: usize,
    /// True if the process ended during this commit, so that the commit may be missing.
    pub(super) is_last: bool,
}

impl Commit {
    /// Creates a commit with the application's current counts.
    pub(super) fn now(ticket: u64, kept: (u64, u64), app: &App) -> Self {
        let log = app.lock();
        let (sent, delivered) = (log.sent.len(), log.delivered.len());
        Self { ticket, kept, sent, delivered, is_last: false }
    }
}

/// The commits that the world has not examined yet.
type Commits = Arc<Mutex<Vec<Commit>>>;

/// The disk of one side, with the store on it.
pub(super) struct Disk {
    disk: SimDisk,
    options: Options,
    app: App,
    commits: Commits,
    resets: Arc<AtomicU64>,
    on_reset: OnReset,
    /// Controls when commits become durable; `None` if each commit is durable at once.
    pub(super) pace: Option<Arc<Pace>>,
}

/// A function that the store calls at each reset of the session's sequence numbers.
type OnReset = Arc<dyn Fn() + Send + Sync>;

impl Disk {
    pub(super) fn new(
        disk: SimDisk,
        options: Options,
        app: App,
        on_reset: OnReset,
        is_delayed: bool,
    ) -> Self {
        let pace = is_delayed.then(Arc::default);
        let (commits, resets) = (Arc::default(), Arc::default());
        Self { disk, options, app, commits, resets, on_reset, pace }
    }

    /// Returns the commits since the last call, oldest first.
    pub(super) fn take_commits(&self) -> Vec<Commit> {
        std::mem::take(&mut self.commits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the fuse that ends the process.
    pub(super) fn arm(&self, fuse: Fuse) {
        self.disk.arm(fuse.events, fuse.end);
    }

    pub(super) fn set_fault(&self, disk_fault: Option<DiskFault>) {
        self.disk.set_fault(disk_fault);
    }

    /// Returns true if the process has ended, or has had an error after which it must restart.
    pub(super) fn is_lost(&self) -> bool {
        self.disk.has_ended() || self.disk.has_failed()
    }

    /// Returns the number of resets of the sequence numbers.
    pub(super) fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }

    /// Returns the worst kind of crash that the store promises to survive.
    pub(super) fn worst(&self) -> Crash {
        match self.options.durability {
            Durability::Power => Crash::Power,
            _ => Crash::Process,
        }
    }

    /// Simulates a crash of this kind, and opens the store in a new process.
    pub(super) fn open(&self, crash: Crash) -> Box<dyn Store> {
        self.disk.restart(crash);
        let (path, begun_ns) = (Path::new("/store"), START_UTC_NS.unsigned_abs());
        let opened = FileStore::open_on(self.disk.clone(), path, self.options, begun_ns);
        let store = match opened {
            Ok((store, _)) => store,
            Err(error) => panic!("after a crash the store does not open: {error}"),
        };
        let watched = |store| Watched {
            store,
            disk: self.disk.clone(),
            app: self.app.clone(),
            commits: Arc::clone(&self.commits),
            pace: self.pace.clone(),
            resets: Arc::clone(&self.resets),
            on_reset: Arc::clone(&self.on_reset),
            asked: (0, 0),
        };
        match &self.pace {
            None => Box::new(watched(Box::new(store))),
            Some(pace) => {
                let delayed = Delayed::new(store, Arc::clone(pace));
                Box::new(watched(Box::new(delayed.expect("the store can be read"))))
            }
        }
    }
}

/// A store wrapper that records commits and counts resets.
struct Watched {
    store: Box<dyn Store>,
    disk: SimDisk,
    app: App,
    commits: Commits,
    pace: Option<Arc<Pace>>,
    resets: Arc<AtomicU64>,
    on_reset: OnReset,
    /// The sequence number of the last requested message, and the number of consecutive requests
    /// for the message.
    asked: (u64, u64),
}

impl Watched {
    /// Simulates a slow store: every third message must be fetched first, and is available at the
    /// third request.
    fn fetch(&mut self, seq: u64) -> Result<(), StoreError> {
        let times = if self.asked.0 == seq { self.asked.1 + 1 } else { 1 };
        self.asked = (seq, times);
        let is_there = self.pace.is_none() || !seq.is_multiple_of(3) || times > 2;
        if is_there { Ok(()) } else { Err(StoreError::NotYet) }
    }
}

impl Store for Watched {
    fn numbers(&self) -> Numbers {
        self.store.numbers()
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        if record == Record::Reset && !self.disk.has_ended() {
            self.resets.fetch_add(1, Ordering::Relaxed);
            (self.on_reset)();
        }
        self.store.put(now_ns, record)
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        let had_ended = self.disk.has_ended();
        let committed = self.store.commit()?;
        if !had_ended {
            let numbers = self.store.numbers();
            let ticket = self.pace.as_ref().map_or(0, |pace| pace.committed());
            let commit = Commit::now(ticket, (numbers.next_in, numbers.next_out), &self.app);
            let commit = Commit { is_last: self.disk.has_ended(), ..commit };
            self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(commit);
        }
        Ok(committed)
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.store.safe()
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.fetch(seq)?;
        self.store.outbound(seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.inbound(seq)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.store.reopen()
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.store.queued(ticket)
    }
}
