//! A store in a plain file: each commit appends the length of a batch and then the batch.
//!
//! Invariants: an incomplete batch is ignored. Only the process that holds the file lock writes or
//! truncates, so bytes after the last whole batch come from a killed process. The index in memory
//! holds the numbers and the positions of messages; the file holds the messages.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use transfix_store::{Committed, Kind, Numbers, Record, Store, StoreError, Stored};

// The kinds of a record. `OUT` is the highest kind of a message, so that removing the last entries
// of the index removes sent messages only.
const IN: u8 = 0;
const QUEUED: u8 = 1;
const OUT: u8 = 2;
const NEXT_IN: u8 = 3;
const NEXT_OUT: u8 = 4;
const RESET: u8 = 5;
const UNQUEUED: u8 = 6;
/// Bytes of a record's header: kind, layer, number, time, and message length.
const HEAD: usize = 22;

#[derive(Clone, Copy)]
struct Place {
    kind: Kind,
    time_ns: u64,
    offset: u64,
    len: usize,
}

/// The plain-file store of one session.
pub(crate) struct PlainStore {
    file: File,
    /// The file offset after the last whole batch.
    end: u64,
    numbers: Numbers,
    places: BTreeMap<(u8, u64), Place>,
    batch: Vec<u8>,
    found: Vec<u8>,
    failed: bool,
}

impl PlainStore {
    /// Opens the file, or creates a missing file.
    pub(crate) fn open(path: &Path, now_ns: u64) -> Result<Self, StoreError> {
        let file = File::options().read(true).append(true).create(true).open(path);
        let mut store = Self {
            file: file.map_err(StoreError::Own)?,
            end: 0,
            numbers: Numbers::fresh(now_ns),
            places: BTreeMap::new(),
            batch: vec![0; 4],
            found: Vec::new(),
            failed: false,
        };
        store.put(now_ns, Record::Reset)?;
        store.locked(|store| {
            store.read_on()?;
            if store.end == 0 { store.append() } else { Ok(()) }
        })?;
        store.batch.truncate(4);
        Ok(store)
    }

    /// Holds the file lock while `work` runs, so that no other process writes.
    fn locked(&mut self, work: impl FnOnce(&mut Self) -> io::Result<()>) -> Result<(), StoreError> {
        self.file.lock().map_err(StoreError::Own)?;
        let done = work(self);
        self.file.unlock().and(done).map_err(StoreError::Own)
    }

    /// Appends the pending batch to the file. Fails if another process has appended a batch
    /// meanwhile.
    fn append(&mut self) -> io::Result<()> {
        let known = self.end;
        self.read_on()?;
        if self.end > known {
            return Err(io::Error::other("another process has written to the store meanwhile"));
        }
        // Removes the incomplete batch that a killed process may have left.
        self.file.set_len(self.end)?;
        let len = (self.batch.len() - 4) as u32;
        self.batch[..4].copy_from_slice(&len.to_le_bytes());
        self.file.write_all(&self.batch)?;
        let batch = std::mem::take(&mut self.batch);
        self.end += 4;
        self.apply(&batch[4..]);
        self.batch = batch;
        Ok(())
    }

    /// Reads the whole batches that other processes have appended.
    fn read_on(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(self.end))?;
        self.file.read_to_end(&mut bytes)?;
        let mut rest = &bytes[..];
        while let Some((&len, more)) = rest.split_first_chunk()
            && let Some((batch, more)) = more.split_at_checked(u32::from_le_bytes(len) as usize)
        {
            self.end += 4;
            self.apply(batch);
            rest = more;
        }
        Ok(())
    }

    /// Adds the records of `batch`, which begins at file offset `self.end`, to the index in memory.
    fn apply(&mut self, mut batch: &[u8]) {
        while let Some((head, rest)) = batch.split_first_chunk::<HEAD>() {
            let number = |at| u64::from_le_bytes(std::array::from_fn(|n| head[at + n]));
            let (what, seq, time_ns) = (head[0], number(2), number(10));
            let len = u32::from_le_bytes(std::array::from_fn(|n| head[18 + n])) as usize;
            let kind = if head[1] == 0 { Kind::Admin } else { Kind::Application };
            let offset = self.end + HEAD as u64;
            let numbers = &mut self.numbers;
            match what {
                OUT => numbers.next_out = seq + 1,
                NEXT_IN => numbers.next_in = seq,
                NEXT_OUT => numbers.next_out = seq,
                RESET => *numbers = Numbers::fresh(time_ns),
                _ => {}
            }
            match what {
                OUT | NEXT_OUT => drop(self.places.split_off(&(OUT, seq))),
                RESET => self.places.retain(|place, _| place.0 == QUEUED),
                UNQUEUED => self.places.retain(|place, _| place.0 != QUEUED || place.1 > seq),
                _ => {}
            }
            if what <= OUT {
                self.places.insert((what, seq), Place { kind, time_ns, offset, len });
            }
            self.end = offset + len as u64;
            batch = &rest[len..];
        }
    }

    fn find(&mut self, what: u8, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let Some(&Place { kind, time_ns, offset, len }) = self.places.get(&(what, seq)) else {
            return Ok(None);
        };
        self.found.resize(len, 0);
        self.file.read_exact_at(&mut self.found, offset).map_err(StoreError::Own)?;
        Ok(Some(Stored { seq, kind, time_ns, bytes: &self.found }))
    }
}

impl Store for PlainStore {
    fn numbers(&self) -> Numbers {
        self.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        let (what, kind, seq, bytes) = match record {
            Record::Outbound { seq, kind, bytes } => (OUT, kind, seq, bytes),
            Record::Inbound { seq, kind, bytes } => (IN, kind, seq, bytes),
            Record::NextIn(seq) => (NEXT_IN, Kind::Admin, seq, &[][..]),
            Record::NextOut(seq) => (NEXT_OUT, Kind::Admin, seq, &[][..]),
            Record::Reset => (RESET, Kind::Admin, 0, &[][..]),
            Record::Queued { ticket, bytes } => (QUEUED, Kind::Application, ticket, bytes),
            Record::Unqueued(ticket) => (UNQUEUED, Kind::Admin, ticket, &[][..]),
            Record::Note(_) => return Ok(()),
        };
        self.batch.extend([what, u8::from(kind == Kind::Application)]);
        self.batch.extend(seq.to_le_bytes());
        self.batch.extend(now_ns.to_le_bytes());
        self.batch.extend((bytes.len() as u32).to_le_bytes());
        self.batch.extend(bytes);
        Ok(())
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        if self.failed {
            return Err(StoreError::Poisoned);
        }
        if self.batch.len() == 4 {
            return Ok(Committed::Now);
        }
        self.failed = true;
        self.locked(Self::append)?;
        self.failed = false;
        self.batch.truncate(4);
        Ok(Committed::Now)
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.find(OUT, seq)
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        self.find(IN, seq)
    }

    fn queued(&mut self, ticket: u64) -> Result<Option<Stored<'_>>, StoreError> {
        let next = self.places.range((QUEUED, ticket)..(OUT, 0)).next();
        let Some((&(what, ticket), _)) = next else { return Ok(None) };
        self.find(what, ticket)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.batch.truncate(4);
        self.locked(Self::read_on)?;
        self.failed = false;
        Ok(())
    }

    fn refresh(&mut self) -> Result<(), StoreError> {
        self.read_on().map_err(StoreError::Own)
    }
}
