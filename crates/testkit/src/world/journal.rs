//! What outlives a process: the committed batches of one session, and a fuse that ends the process
//! at a commit.
//!
//! Invariant: a batch is in the image whole or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transfix_store::{Kind, Numbers, Record, Store, StoreError, Stored};

type Frames = BTreeMap<u64, (Kind, u64, Arc<[u8]>)>;

/// One consistent state.
#[derive(Clone)]
struct Image {
    numbers: Numbers,
    outbound: Frames,
}

/// When the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fuse {
    /// Commits until then.
    pub(super) commits: u32,
    /// Whether the last of them is still kept.
    pub(super) keeps_last: bool,
}

struct State {
    image: Image,
    fuse: Option<Fuse>,
    blown: bool,
    resets: u64,
    /// What else ends with the process.
    on_end: Box<dyn Fn() + Send>,
}

/// The disk of one side.
#[derive(Clone)]
pub(super) struct Disk(Arc<Mutex<State>>);

impl Disk {
    /// An empty disk; `on_end` is called when the process ends.
    pub(super) fn new(on_end: Box<dyn Fn() + Send>) -> Self {
        let image = Image { numbers: Numbers::fresh(0), outbound: BTreeMap::new() };
        Self(Arc::new(Mutex::new(State { image, fuse: None, blown: false, resets: 0, on_end })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process then.
    pub(super) fn arm(&self, fuse: Fuse) {
        self.lock().fuse = Some(fuse);
    }

    /// Whether the process has ended.
    pub(super) fn is_blown(&self) -> bool {
        self.lock().blown
    }

    /// How often the numbers have started again.
    pub(super) fn resets(&self) -> u64 {
        self.lock().resets
    }

    pub(super) fn open(&self) -> Box<dyn Store> {
        let mut state = self.lock();
        state.blown = false;
        state.fuse = None;
        Box::new(JournalStore { live: state.image.clone(), staged: Vec::new(), disk: self.clone() })
    }
}

enum Change {
    Outbound(u64, Kind, u64, Arc<[u8]>),
    NextIn(u64),
    NextOut(u64),
    Reset(u64),
}

struct JournalStore {
    live: Image,
    staged: Vec<Change>,
    disk: Disk,
}

impl Image {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Outbound(seq, kind, time_ns, bytes) => {
                self.outbound.split_off(seq);
                self.outbound.insert(*seq, (*kind, *time_ns, Arc::clone(bytes)));
                self.numbers.next_out = seq + 1;
            }
            Change::NextIn(seq) => self.numbers.next_in = *seq,
            Change::NextOut(seq) => {
                self.outbound.split_off(seq);
                self.numbers.next_out = *seq;
            }
            Change::Reset(now_ns) => {
                self.outbound.clear();
                self.numbers = Numbers::fresh(*now_ns);
            }
        }
    }
}

impl Store for JournalStore {
    fn numbers(&self) -> Numbers {
        self.live.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        self.staged.push(match record {
            Record::Outbound { seq, kind, bytes } => {
                Change::Outbound(seq, kind, now_ns, bytes.into())
            }
            Record::Inbound { .. } => return Ok(()),
            Record::NextIn(seq) => Change::NextIn(seq),
            Record::NextOut(seq) => Change::NextOut(seq),
            Record::Reset => Change::Reset(now_ns),
        });
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        let mut state = self.disk.lock();
        let mut keeps = !state.blown;
        let state = &mut *state;
        if let Some(fuse) = &mut state.fuse {
            fuse.commits = fuse.commits.saturating_sub(1);
            if fuse.commits == 0 && keeps {
                keeps = fuse.keeps_last;
                state.blown = true;
                (state.on_end)();
            }
        }
        for change in self.staged.drain(..) {
            if keeps {
                state.image.apply(&change);
                state.resets += u64::from(matches!(change, Change::Reset(_)));
            }
            self.live.apply(&change);
        }
        Ok(())
    }

    fn outbound(&self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(self.live.outbound.get(&seq).map(|(kind, time_ns, bytes)| Stored {
            seq,
            kind: *kind,
            time_ns: *time_ns,
            bytes,
        }))
    }

    fn inbound(&self, _: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(None)
    }
}
