//! A store whose commits become durable only when the test allows it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transfix_store::{Committed, Kind, Numbers, Record, Store, StoreError, Stored};

/// The counts of committed, allowed and durable batches of a [`Delayed`] store. Tests use it to
/// choose when batches become durable.
#[derive(Debug, Default)]
pub struct Pace {
    committed: AtomicU64,
    allowed: AtomicU64,
    safe: AtomicU64,
}

impl Pace {
    /// Returns true if committed batches wait for [`Pace::allow`].
    #[must_use]
    pub fn waits(&self) -> bool {
        self.allowed.load(Ordering::SeqCst) < self.committed()
    }

    /// Returns the number of committed batches.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::SeqCst)
    }

    /// Returns the number of batches that are durable.
    #[must_use]
    pub fn safe(&self) -> u64 {
        self.safe.load(Ordering::SeqCst)
    }

    /// Allows `batches` more of the committed batches to become durable.
    pub fn allow(&self, batches: u64) {
        let allowed = self.allowed.load(Ordering::SeqCst).saturating_add(batches);
        self.allowed.store(allowed.min(self.committed()), Ordering::SeqCst);
    }

    /// Resets the counts to 0 for a new process, whose tickets also restart.
    fn begin(&self) {
        for count in [&self.committed, &self.allowed, &self.safe] {
            count.store(0, Ordering::SeqCst);
        }
    }
}

#[derive(Clone, Debug)]
struct Kept {
    kind: Kind,
    time_ns: u64,
    bytes: Vec<u8>,
}

/// A record with a copy of its bytes.
#[derive(Clone, Debug)]
enum Owned {
    Outbound(u64, Kept),
    Inbound(u64, Kept),
    Queued(u64, Kept),
    NextIn(u64),
    NextOut(u64),
    Reset,
    Unqueued(u64),
    Note(String),
}

/// The contents of a store as its readers see them, including batches that are not durable yet.
#[derive(Debug)]
struct Visible {
    numbers: Numbers,
    outbound: BTreeMap<u64, Kept>,
    inbound: BTreeMap<u64, Kept>,
    waiting: BTreeMap<u64, Kept>,
}

impl Visible {
    fn of(store: &mut dyn Store) -> Result<Self, StoreError> {
        let kept = |found: Stored<'_>| Kept {
            kind: found.kind,
            time_ns: found.time_ns,
            bytes: found.bytes.to_vec(),
        };
        let numbers = store.numbers();
        let (mut outbound, mut inbound) = (BTreeMap::new(), BTreeMap::new());
        for seq in 1..numbers.next_out {
            outbound.extend(store.outbound(seq)?.map(|found| (seq, kept(found))));
        }
        for seq in 1..numbers.next_in {
            inbound.extend(store.inbound(seq)?.map(|found| (seq, kept(found))));
        }
        let (mut waiting, mut next) = (BTreeMap::new(), 0);
        while let Some(found) = store.queued(next)? {
            next = found.seq + 1;
            waiting.insert(found.seq, kept(found));
        }
        Ok(Self { numbers, outbound, inbound, waiting })
    }

    fn put(&mut self, time_ns: u64, record: &Owned) {
        match record {
            Owned::Outbound(seq, kept) => {
                self.outbound.split_off(seq);
                self.outbound.insert(*seq, kept.clone());
                self.numbers.next_out = seq + 1;
            }
            Owned::Inbound(seq, kept) => _ = self.inbound.insert(*seq, kept.clone()),
            Owned::Queued(ticket, kept) => _ = self.waiting.insert(*ticket, kept.clone()),
            Owned::NextIn(seq) => self.numbers.next_in = *seq,
            Owned::NextOut(seq) => {
                self.outbound.split_off(seq);
                self.numbers.next_out = *seq;
            }
            Owned::Reset => {
                self.outbound.clear();
                self.inbound.clear();
                self.numbers = Numbers { next_in: 1, next_out: 1, created_ns: time_ns };
            }
            Owned::Unqueued(last) => self.waiting.retain(|ticket, _| ticket > last),
            Owned::Note(_) => {}
        }
    }
}

type Batch = Vec<(u64, Owned)>;

/// A store that writes only allowed batches to the inner store. Later batches stay in memory:
/// readers see them, but a process end loses them.
#[derive(Debug)]
pub struct Delayed<S> {
    store: S,
    visible: Visible,
    batch: Batch,
    waiting: VecDeque<Batch>,
    pace: Arc<Pace>,
    failed: bool,
}

impl<S: Store> Delayed<S> {
    /// Wraps an open store. `pace` determines when batches become durable.
    ///
    /// # Errors
    /// If the inner store cannot be read.
    pub fn new(mut store: S, pace: Arc<Pace>) -> Result<Self, StoreError> {
        pace.begin();
        let visible = Visible::of(&mut store)?;
        let (batch, waiting) = (Vec::new(), VecDeque::new());
        Ok(Self { store, visible, batch, waiting, pace, failed: false })
    }

    /// Writes the batches that are allowed by now to the inner store.
    fn go_on(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        while self.pace.safe() < self.pace.allowed.load(Ordering::SeqCst)
            && let Some(batch) = self.waiting.pop_front()
        {
            self.failed = true;
            for (time_ns, record) in &batch {
                self.store.put(*time_ns, record.record())?;
            }
            self.store.commit()?;
            self.failed = false;
            self.pace.safe.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

impl Owned {
    fn of(time_ns: u64, record: Record<'_>) -> Self {
        let kept = |kind, bytes: &[u8]| Kept { kind, time_ns, bytes: bytes.to_vec() };
        match record {
            Record::Outbound { seq, kind, bytes } => Self::Outbound(seq, kept(kind, bytes)),
            Record::Inbound { seq, kind, bytes } => Self::Inbound(seq, kept(kind, bytes)),
            Record::Queued { ticket, bytes } => {
                Self::Queued(ticket, kept(Kind::Application, bytes))
            }
            Record::NextIn(seq) => Self::NextIn(seq),
            Record::NextOut(seq) => Self::NextOut(seq),
            Record::Reset => Self::Reset,
            Record::Unqueued(last) => Self::Unqueued(last),
            Record::Note(text) => Self::Note(text.to_owned()),
        }
    }

    fn record(&self) -> Record<'_> {
        match self {
            Self::Outbound(seq, kept) => {
                Record::Outbound { seq: *seq, kind: kept.kind, bytes: &kept.bytes }
            }
            Self::Inbound(seq, kept) => {
                Record::Inbound { seq: *seq, kind: kept.kind, bytes: &kept.bytes }
            }
            Self::Queued(ticket, kept) => Record::Queued { ticket: *ticket, bytes: &kept.bytes },
            Self::NextIn(seq) => Record::NextIn(*seq),
            Self::NextOut(seq) => Record::NextOut(*seq),
            Self::Reset => Record::Reset,
            Self::Unqueued(last) => Record::Unqueued(*last),
            Self::Note(text) => Record::Note(text),
        }
    }
}

fn stored(seq: u64, kept: &Kept) -> Stored<'_> {
    Stored { seq, kind: kept.kind, time_ns: kept.time_ns, bytes: &kept.bytes }
}

impl<S: Store> Store for Delayed<S> {
    fn numbers(&self) -> Numbers {
        self.visible.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        self.batch.push((now_ns, Owned::of(now_ns, record)));
        Ok(())
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        self.go_on()?;
        if !self.batch.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            for (time_ns, record) in &batch {
                self.visible.put(*time_ns, record);
            }
            self.waiting.push_back(batch);
            self.pace.committed.fetch_add(1, Ordering::SeqCst);
        }
        match self.waiting.is_empty() {
            true => Ok(Committed::Now),
            false => Ok(Committed::Pending(self.pace.committed())),
        }
    }

    fn safe(&mut self) -> Result<u64, StoreError> {
        self.go_on()?;
        Ok(self.pace.safe())
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(self.visible.outbound.get(&seq).map(|kept| stored(seq, kept)))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(self.visible.inbound.get(&seq).map(|kept| stored(seq, kept)))
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let found = self.visible.waiting.range(ticket..).next();
        Ok(found.map(|(ticket, kept)| stored(*ticket, kept)))
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.failed = true;
        self.store.reopen()?;
        self.visible = Visible::of(&mut self.store)?;
        self.batch.clear();
        self.waiting.clear();
        // Tickets only increase: the tickets of dropped batches are never reused.
        let committed = self.pace.committed();
        self.pace.allowed.store(committed, Ordering::SeqCst);
        self.pace.safe.store(committed, Ordering::SeqCst);
        self.failed = false;
        Ok(())
    }
}
