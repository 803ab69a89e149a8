//! A store in memory with a limit in bytes: the newest messages displace the oldest.
//!
//! **Invariant:** a store that has been full allocates only for a batch of over a thousand records
//! and for a reset. A reset returns the memory of forgotten messages to the operating system. A
//! store that is not yet full allocates chunks of its index, and when it requests memory in
//! advance. A small store does neither.
//!
//! **Invariant:** the physical memory of a store is at most four times the memory that its messages
//! need, plus 6 MiB. A session with few messages needs little memory.

use std::sync::Arc;

use crate::error::StoreError;
use crate::index::Index;
use crate::ledger::{CHUNK, CHUNK_BITS, Change, Ledger};
use crate::map::Mapped;
use crate::record::{Kind, Numbers, Record, Stored};
use crate::retention::WhenFull;
use crate::threads::{self, Helpers};
use crate::{Committed, PLACE_BYTES, Store};

/// The location of a message: the number of bytes written before it since the store was created,
/// and its length.
#[derive(Clone, Copy, Debug)]
struct Place {
    position: u64,
    len: u32,
    kind: Kind,
    time_ns: u64,
}

/// Maximum number of records in a batch that never allocates.
const STAGED_RESERVE: usize = 64;

/// Makes the pages of the ring buffer present in advance.
#[derive(Debug)]
struct Ahead {
    helpers: Option<Arc<Helpers>>,
    /// The position at which the ring buffer was new, without present pages.
    begin: u64,
    /// The position up to which the pages are present, or are being made present.
    end: u64,
}

impl Ahead {
    /// Length of the first part of the ring buffer, which is not made present in advance. A session
    /// with few messages needs no more.
    const FIRST: u64 = 16 << 10;
    /// Maximum number of bytes that are made present by one request.
    const STEP_MAX: u64 = 4 << 20;
    /// Length of the pieces in which the helper works; it yields the CPU after each piece.
    const PIECE: usize = 256 << 10;

    /// Creates the state for a ring buffer that is used up to position `head`, and was new at
    /// position `begin`.
    fn new(helpers: Option<Arc<Helpers>>, begin: u64, head: u64) -> Self {
        Self { helpers, begin, end: head.max(begin + Self::FIRST) }
    }

    /// Returns the number of bytes for the next request: as many as are already present.
    fn step(&self) -> u64 {
        (self.end - self.begin).min(Self::STEP_MAX)
    }

    /// Returns true if more pages should be requested now.
    #[inline]
    fn is_time(&self, head: u64, capacity: usize) -> bool {
        self.end < self.begin + capacity as u64 && head + self.step() / 2 > self.end
    }

    /// Requests more pages from the helpers. A page that is not present in time is made present on
    /// first use.
    #[cold]
    fn touch(&mut self, head: u64, ring: &Mapped) {
        let (first, capacity) = (self.end.max(head), ring.len() as u64);
        let start = first % capacity;
        let len = self.step().min(capacity - start);
        self.end = first + len;
        let Some(helpers) = &self.helpers else { return };
        // Because the handle is weak, a discarded ring buffer can be unmapped at once.
        let pages = ring.pages().if_mapped();
        let (start, end) = (start as usize, (start + len) as usize);
        let touch = move || {
            let mut pieces = (start..end).step_by(Self::PIECE);
            while let Some(from) = pieces.next()
                && let Some(pages) = pages.get()
                && pages.touch(from, end.min(from + Self::PIECE))
            {
                drop(pages);
                threads::give_way();
            }
        };
        helpers.ask(len as usize, Box::new(touch));
    }
}

/// A store in memory. It keeps the newest messages, up to a limit in bytes, and loses them when the
/// process ends.
#[derive(Debug)]
pub struct MemoryStore {
    ledger: Ledger<Place>,
    ring: Mapped,
    ahead: Ahead,
    /// Number of bytes written since the store was created; modulo the capacity, the offset in the
    /// ring buffer.
    head: u64,
    /// Position before which the memory of the ring buffer has been returned to the operating
    /// system.
    released: u64,
    /// The position of the first message after a reset that is not yet committed.
    reset_at: Option<u64>,
    entries_max: usize,
    when_full: WhenFull,
}

impl MemoryStore {
    /// The default limit, 64 MiB.
    pub const CAPACITY_BYTES: usize = 64 << 20;

    /// Average message length in bytes below which the number of messages is limited instead of
    /// their bytes.
    const MESSAGE_BYTES_MIN: usize = 64;

    /// A reset returns memory only if it can return at least this fraction (1/`KEPT`) of the
    /// capacity.
    const KEPT: usize = 64;

    /// Creates a store for up to `capacity_bytes` of messages (at most 4 GiB). Memory is reserved
    /// here, but becomes physical only when it is used. `now_ns` is in UTC nanoseconds since 1970.
    ///
    /// # Panics
    /// If `capacity_bytes` is 0 or above 4 GiB - 1, or the system has no memory.
    #[must_use]
    pub fn new(capacity_bytes: usize, now_ns: u64) -> Self {
        Self::bounded(capacity_bytes, WhenFull::Forget, now_ns)
    }

    /// Creates a store like [`MemoryStore::new`]. `when_full` is the reaction to an outbound
    /// message that would displace another one sent since the last reset.
    ///
    /// # Panics
    /// As [`MemoryStore::new`].
    #[must_use]
    pub fn bounded(capacity_bytes: usize, when_full: WhenFull, now_ns: u64) -> Self {
        assert!(capacity_bytes > 0 && u32::try_from(capacity_bytes).is_ok(), "capacity_bytes");
        let entries_max = (capacity_bytes / Self::MESSAGE_BYTES_MIN).max(16);
        let chunk_bits = entries_max.ilog2().min(CHUNK_BITS);
        let mut ledger = Ledger::of_chunks(Numbers::fresh(now_ns), chunk_bits);
        if entries_max <= CHUNK {
            // The index needs one chunk more than a full store has entries for, because its first
            // chunk may be half forgotten.
            ledger.outbound.reserve(entries_max + (1 << chunk_bits));
            ledger.inbound.reserve(entries_max + (1 << chunk_bits));
        }
        ledger.staged.reserve_exact(STAGED_RESERVE);
        Self {
            ledger,
            ring: Mapped::memory(capacity_bytes),
            ahead: Ahead::new(None, 0, 0),
            head: 0,
            released: 0,
            reset_at: None,
            entries_max,
            when_full,
        }
    }

    /// From now on, the threads of `helpers` make pages of memory present before they are used,
    /// until the ring buffer is full. A put then rarely waits for a page.
    pub fn help_by(&mut self, helpers: &Arc<Helpers>) {
        self.ledger.help_by(helpers);
        self.ahead.helpers = Some(Arc::clone(helpers));
    }

    /// Copies `bytes` into the ring buffer, and returns their position and length.
    fn keep(&mut self, bytes: &[u8]) -> Result<(u64, u32), StoreError> {
        let max = self.ring.len();
        let (Ok(len), true) = (u32::try_from(bytes.len()), bytes.len() <= max) else {
            return Err(StoreError::TooLarge { len: bytes.len(), max });
        };
        let (mut head, mut start) = (self.head, self.offset(self.head));
        if start + bytes.len() > max {
            // A message must be contiguous, so it never wraps around the end of the ring buffer.
            head += (max - start) as u64;
            start = 0;
        }
        let after = head + bytes.len() as u64;
        if self.when_full == WhenFull::Refuse && self.is_full(after) {
            return Err(StoreError::Full { bytes_max: max as u64 });
        }
        self.head = head;
        self.ring[start..start + bytes.len()].copy_from_slice(bytes);
        let position = self.head;
        self.head += bytes.len() as u64;
        Ok((position, len))
    }

    /// Returns true if a message that ends at position `after` would displace a message sent since
    /// the last reset.
    fn is_full(&self, after: u64) -> bool {
        let put = self.ledger.staged.iter().find_map(|change| match change {
            Change::Outbound(_, place) => Some(*place),
            _ => None,
        });
        let first = self.ledger.outbound.first().or(put);
        first.is_some_and(|first| !is_held(&first, after, self.ring.len()))
            || self.ledger.outbound.len() + self.ledger.staged.len() >= self.entries_max
    }

    /// Returns the memory of everything written before position `first` to the operating system. A
    /// small amount is kept, because keeping it costs less than another system call.
    fn release(&mut self, first: u64) {
        let capacity = self.ring.len();
        if first - self.released <= (capacity / Self::KEPT) as u64 {
            return;
        }
        let held = (self.head - first) as usize;
        if held <= capacity {
            let mut ring = Mapped::memory(capacity);
            let start = self.offset(first);
            let to_end = held.min(capacity - start);
            ring[start..start + to_end].copy_from_slice(&self.ring[start..start + to_end]);
            ring[..held - to_end].copy_from_slice(&self.ring[..held - to_end]);
            self.ring = ring;
            self.released = first;
            self.ahead = Ahead::new(self.ahead.helpers.take(), first, self.head);
        }
    }

    fn offset(&self, position: u64) -> usize {
        (position % self.ring.len() as u64) as usize
    }

    fn stored(&self, seq: u64, place: Option<Place>) -> Option<Stored<'_>> {
        let place = place.filter(|place| is_held(place, self.head, self.ring.len()))?;
        let start = self.offset(place.position);
        let bytes = &self.ring[start..start + place.len as usize];
        Some(Stored { seq, kind: place.kind, time_ns: place.time_ns, bytes })
    }
}

const fn is_held(place: &Place, head: u64, capacity: usize) -> bool {
    place.position + capacity as u64 >= head
}

fn forget_lost(index: &mut Index<Place>, head: u64, capacity: usize, entries_max: usize) {
    if head <= capacity as u64 && index.len() <= entries_max {
        // The usual case must not read the oldest entry, which may not be in the processor's cache.
        return;
    }
    while let Some(first) = index.first()
        && (!is_held(&first, head, capacity) || index.len() > entries_max)
    {
        index.forget_first();
    }
}

impl Store for MemoryStore {
    fn numbers(&self) -> Numbers {
        self.ledger.numbers
    }

    fn put(&mut self, now_ns: u64, record: Record<'_>) -> Result<(), StoreError> {
        record.assert_valid();
        let change = match record {
            Record::Outbound { seq, kind, bytes } => {
                let (position, len) = self.keep(bytes)?;
                Change::Outbound(seq, Place { position, len, kind, time_ns: now_ns })
            }
            Record::Inbound { seq, kind, bytes } => {
                let (position, len) = self.keep(bytes)?;
                Change::Inbound(seq, Place { position, len, kind, time_ns: now_ns })
            }
            Record::NextIn(seq) => Change::NextIn(seq),
            Record::NextOut(seq) => Change::NextOut(seq),
            Record::Reset => {
                self.reset_at = Some(self.head);
                Change::Reset { now_ns }
            }
            // A memory store has no journal, and its queued messages are lost when the process
            // ends.
            Record::Note(_) | Record::Queued { .. } | Record::Unqueued(_) => Change::Nothing,
        };
        self.ledger.staged.push(change);
        Ok(())
    }

    fn next_place(&self) -> &[u8] {
        let start = self.offset(self.head);
        &self.ring[start..(start + PLACE_BYTES).min(self.ring.len())]
    }

    fn commit(&mut self) -> Result<Committed, StoreError> {
        let (head, capacity) = (self.head, self.ring.len());
        // The oldest entries are removed first, so that the index never grows.
        let keep = self.entries_max.saturating_sub(self.ledger.staged.len());
        forget_lost(&mut self.ledger.outbound, head, capacity, keep);
        forget_lost(&mut self.ledger.inbound, head, capacity, keep);
        self.ledger.commit();
        if let Some(first) = self.reset_at.take() {
            self.release(first);
        }
        if self.ahead.is_time(self.head, self.ring.len()) {
            self.ahead.touch(self.head, &self.ring);
        }
        Ok(Committed::Now)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        let put = self.ledger.staged.iter().find_map(|change| match change {
            Change::Outbound(_, place) | Change::Inbound(_, place) => Some(*place),
            _ => None,
        });
        self.head = put.map_or(self.head, |place| place.position);
        self.reset_at = None;
        self.ledger.staged.clear();
        Ok(())
    }

    fn outbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(self.stored(seq, self.ledger.outbound.find(seq)))
    }

    fn inbound(&mut self, seq: u64) -> Result<Option<Stored<'_>>, StoreError> {
        Ok(self.stored(seq, self.ledger.inbound.find(seq)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(store: &mut MemoryStore, seq: u64, bytes: &[u8]) {
        store.put(seq, Record::Outbound { seq, kind: Kind::Application, bytes }).unwrap();
        store.commit().unwrap();
    }

    #[test]
    fn the_oldest_make_room() {
        let mut store = MemoryStore::new(100, 0);
        for seq in 1..=50 {
            send(&mut store, seq, &[seq as u8; 30]);
            let first = seq.saturating_sub(2).max(1);
            for kept in first..=seq {
                assert_eq!(store.outbound(kept).unwrap().unwrap().bytes, [kept as u8; 30]);
            }
            assert_eq!(store.outbound(first - 1).unwrap(), None);
        }
        assert_eq!(store.numbers().next_out, 51);
    }

    #[test]
    fn next_place_is_where_the_next_message_goes() {
        let mut store = MemoryStore::new(1024, 0);
        for seq in 1..=100 {
            let place = store.next_place().as_ptr_range();
            send(&mut store, seq, &[1; 30]);
            let kept = store.outbound(seq).unwrap().unwrap().bytes.as_ptr();
            // At the end of the ring buffer a message wraps around, which `next_place` ignores.
            let is_at_end = place.end.addr() - place.start.addr() < 30;
            assert!(place.contains(&kept) || is_at_end, "message {seq}");
        }
    }

    #[test]
    fn a_reset_keeps_what_is_put_behind_it() {
        let mut store = MemoryStore::new(1024, 0);
        // The loop covers every offset in the ring buffer.
        for sent in 0..60_u64 {
            (1..=sent).for_each(|seq| send(&mut store, seq, &[1; 30]));
            store.put(0, Record::Reset).unwrap();
            for seq in 1..=20 {
                let bytes = &[seq as u8; 40];
                store.put(0, Record::Outbound { seq, kind: Kind::Admin, bytes }).unwrap();
            }
            store.commit().unwrap();
            for seq in 1..=20 {
                assert_eq!(store.outbound(seq).unwrap().unwrap().bytes, [seq as u8; 40]);
            }
            assert_eq!(store.numbers().next_out, 21);
        }
    }

    #[test]
    fn pages_that_are_made_ahead_change_nothing() {
        const CAPACITY: usize = 1 << 20;
        let mut store = MemoryStore::new(CAPACITY, 0);
        store.help_by(&Arc::default());
        let bytes = |seq: u64| vec![seq as u8; 100 + (seq % 700) as usize];
        for round in 1..=3 {
            // The messages of the first rounds fill the ring buffer several times, those of the
            // last round do not fill it once.
            for seq in 1..=9_000 / round {
                send(&mut store, seq, &bytes(seq));
                let Ahead { begin, end, .. } = store.ahead;
                assert!(end >= store.head.min(begin + CAPACITY as u64), "{seq}");
                let used_max = Ahead::FIRST.max(4 * (store.head - begin));
                assert!(end - begin <= used_max, "{seq}: {end}");
                let first = seq.saturating_sub(1_000).max(1);
                for kept in (first..=seq).step_by(333) {
                    assert_eq!(store.outbound(kept).unwrap().unwrap().bytes, bytes(kept));
                }
            }
            store.put(0, Record::Reset).unwrap();
            store.commit().unwrap();
        }
    }

    #[test]
    fn tiny_messages_are_bounded_by_their_number() {
        let mut store = MemoryStore::new(1024, 0);
        (1..=40).for_each(|seq| send(&mut store, seq, b""));
        assert_eq!(store.outbound(24).unwrap(), None);
        assert!(store.outbound(25).unwrap().is_some());
    }

    #[test]
    fn a_full_store_goes_on_after_a_reset() {
        let mut store = MemoryStore::bounded(100, WhenFull::Refuse, 0);
        let bytes = &[7; 40];
        let put = |store: &mut MemoryStore, seq| {
            store.put(0, Record::Outbound { seq, kind: Kind::Admin, bytes })
        };
        send(&mut store, 1, bytes);
        put(&mut store, 2).unwrap();
        assert!(matches!(put(&mut store, 3), Err(StoreError::Full { bytes_max: 100 })));
        store.reopen().unwrap();
        assert_eq!(store.numbers().next_out, 2, "what was not committed is gone");
        send(&mut store, 2, bytes);
        assert!(put(&mut store, 3).is_err());
        store.reopen().unwrap();
        store.put(9, Record::Reset).unwrap();
        store.commit().unwrap();
        (1..=2).for_each(|seq| send(&mut store, seq, bytes));
        assert_eq!(store.outbound(2).unwrap().unwrap().bytes, bytes);
    }

    #[test]
    fn too_large_changes_nothing() {
        let mut store = MemoryStore::new(10, 0);
        send(&mut store, 1, b"0123456789");
        let record = Record::Outbound { seq: 2, kind: Kind::Admin, bytes: &[0; 11] };
        let error = store.put(0, record).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { len: 11, max: 10 }));
        store.commit().unwrap();
        assert_eq!(store.numbers().next_out, 2);
        assert!(store.outbound(1).unwrap().is_some());
    }
}
