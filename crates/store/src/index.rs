//! The index of a store: the location of each message by its sequence number, as a list in chunks.
//! The cost of a put is bounded, however many messages there are.
//!
//! Invariants: appending never moves entries, except in the first chunk while it is small. All
//! chunks before the last one in use are full. A chunk whose entries are all forgotten is reused
//! after the other chunks.

use std::hint::cold_path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::threads::Helpers;

/// The location of each message, in ascending order of sequence numbers.
#[derive(Debug)]
pub(crate) struct Index<L> {
    chunks: Vec<Vec<(u64, L)>>,
    /// Number of entries per chunk, as an exponent of two.
    chunk_bits: u32,
    /// Number of forgotten entries at the beginning of the first chunk.
    head: usize,
    len: usize,
    /// The lowest number; any value if the index is empty.
    first: u64,
    /// The highest number plus 1; 0 if the index is empty.
    end: u64,
    /// The threads that make chunks in advance, if any.
    helpers: Option<Arc<Helpers>>,
    /// The chunk that will follow the last one, while and after it is made in advance.
    next: Option<Making<L>>,
}

/// A chunk that another thread makes; `None` inside until it is complete.
type Making<L> = Arc<Mutex<Option<Vec<(u64, L)>>>>;

fn lock<L>(making: &Making<L>) -> std::sync::MutexGuard<'_, Option<Vec<(u64, L)>>> {
    making.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Copy + Send + 'static> Index<L> {
    /// Returns an empty index with 2^`chunk_bits` entries per chunk.
    pub(crate) const fn new(chunk_bits: u32) -> Self {
        let (helpers, next) = (None, None);
        Self { chunks: Vec::new(), chunk_bits, head: 0, len: 0, first: 0, end: 0, helpers, next }
    }

    const fn chunk_len(&self) -> usize {
        1 << self.chunk_bits
    }

    /// Makes room for `entries` more entries. Each chunk after the first one is allocated at its
    /// full length.
    pub(crate) fn reserve(&mut self, entries: usize) {
        let (begin, end) = (self.head + self.len, self.head + self.len + entries);
        for chunk in begin >> self.chunk_bits..end.div_ceil(self.chunk_len()) {
            let wanted = (end - (chunk << self.chunk_bits)).min(self.chunk_len());
            self.make_room(chunk, wanted);
        }
    }

    /// Ensures that this chunk exists and has room for `entries` entries.
    fn make_room(&mut self, chunk: usize, entries: usize) {
        match self.chunks.get_mut(chunk) {
            Some(chunk) if chunk.capacity() >= entries => {}
            Some(chunk) => chunk.reserve_exact(entries - chunk.len()),
            None if chunk == 0 => {
                // The list of chunks grows by one, because most stores never need a second chunk.
                self.chunks.reserve_exact(1);
                self.chunks.push(Vec::with_capacity(entries));
            }
            None => {
                let made = self.next.take().and_then(|next| lock(&next).take());
                let chunk = made.unwrap_or_else(|| Vec::with_capacity(self.chunk_len()));
                self.chunks.push(chunk);
            }
        }
    }

    /// From now on, the threads of `helpers` make chunks in advance, so that a put rarely waits for
    /// memory pages.
    pub(crate) fn help_by(&mut self, helpers: &Arc<Helpers>) {
        self.helpers = Some(Arc::clone(helpers));
    }

    /// Requests that a helper makes the chunk after `chunk`, which is half full. The helper fills
    /// the whole new chunk with `entry`, so that its pages are present.
    #[cold]
    fn prepare_next(&mut self, chunk: usize, entry: (u64, L)) {
        let Some(helpers) = &self.helpers else { return };
        if self.chunks.len() > chunk + 1 {
            return;
        }
        let (making, entries) = (Making::default(), self.chunk_len());
        self.next = Some(Arc::clone(&making));
        let make = move || {
            let mut made = vec![entry; entries];
            made.clear();
            *lock(&making) = Some(made);
        };
        helpers.ask(entries * size_of::<(u64, L)>(), Box::new(make));
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the entry at `place`, which must be below `len`.
    fn at(&self, place: usize) -> (u64, L) {
        let place = self.head + place;
        self.chunks[place >> self.chunk_bits][place & (self.chunk_len() - 1)]
    }

    fn at_mut(&mut self, place: usize) -> &mut (u64, L) {
        let (place, mask) = (self.head + place, self.chunk_len() - 1);
        &mut self.chunks[place >> self.chunk_bits][place & mask]
    }

    pub(crate) fn get(&self, place: usize) -> Option<(u64, L)> {
        (place < self.len).then(|| self.at(place))
    }

    pub(crate) fn first(&self) -> Option<L> {
        self.get(0).map(|entry| entry.1)
    }

    pub(crate) fn forget_first(&mut self) {
        if self.len == 0 {
            return;
        }
        (self.head, self.len) = (self.head + 1, self.len - 1);
        if self.len == 0 {
            return self.clear();
        }
        if self.head == self.chunk_len() {
            self.head = 0;
            self.chunks[0].clear();
            self.chunks.rotate_left(1);
        }
        self.first = self.at(0).0;
    }

    /// Forgets all entries, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.chunks.iter_mut().for_each(Vec::clear);
        (self.head, self.len, self.end) = (0, 0, 0);
    }

    pub(crate) fn find(&self, seq: u64) -> Option<L> {
        // Sequence numbers are nearly always consecutive, so the distance from the first number is
        // usually the index of the entry.
        let distance = usize::try_from(seq.wrapping_sub(self.first)).ok()?;
        match self.get(distance) {
            Some((found, place)) if found == seq => Some(place),
            _ => self.position(seq).ok().map(|position| self.at(position).1),
        }
    }

    /// Returns the entry with the lowest number that is at least `seq`.
    pub(crate) fn find_from(&self, seq: u64) -> Option<(u64, L)> {
        self.get(self.position(seq).unwrap_or_else(|position| position))
    }

    /// Returns the lowest and the highest number; `None` if the index is empty.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        (self.len > 0).then(|| (self.first, self.end - 1))
    }

    pub(crate) fn forget_to(&mut self, seq: u64) {
        while self.len > 0 && self.first <= seq {
            self.forget_first();
        }
    }

    /// Returns the index of the entry with this number, or the index at which it must be inserted.
    fn position(&self, seq: u64) -> Result<usize, usize> {
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = from.midpoint(to);
            match self.at(middle).0.cmp(&seq) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    pub(crate) fn insert(&mut self, seq: u64, place: L) {
        if seq >= self.end {
            return self.push((seq, place));
        }
        cold_path();
        match self.position(seq) {
            Ok(position) => self.at_mut(position).1 = place,
            Err(position) => self.insert_at(position, (seq, place)),
        }
    }

    fn push(&mut self, entry: (u64, L)) {
        let end = self.head + self.len;
        let (chunk, used) = (end >> self.chunk_bits, end & (self.chunk_len() - 1));
        if self.chunks.get(chunk).is_none_or(|chunk| chunk.capacity() == used) {
            cold_path();
            self.make_room(chunk, (2 * used).clamp(4, self.chunk_len()));
        }
        self.chunks[chunk].push(entry);
        if used == self.chunk_len() / 2 {
            self.prepare_next(chunk, entry);
        }
        if self.len == 0 {
            self.first = entry.0;
        }
        self.len += 1;
        self.end = entry.0 + 1;
    }

    /// Inserts an entry. Numbers are rarely out of order, and then the position is near the end.
    fn insert_at(&mut self, position: usize, mut entry: (u64, L)) {
        let place = self.head + position;
        let (mut chunk, mut at) = (place >> self.chunk_bits, place & (self.chunk_len() - 1));
        // In each full chunk, the last entry moves to the next chunk.
        while let Some(full) = self.chunks.get_mut(chunk)
            && full.len() == 1 << self.chunk_bits
            && let Some(last) = full.pop()
        {
            full.insert(at, entry);
            (entry, chunk, at) = (last, chunk + 1, 0);
        }
        let used = self.chunks.get(chunk).map_or(0, Vec::len);
        self.make_room(chunk, (used + 1).next_power_of_two().min(self.chunk_len()));
        self.chunks[chunk].insert(at, entry);
        self.len += 1;
        self.first = self.at(0).0;
    }

    pub(crate) fn hide_from(&mut self, seq: u64) {
        if seq >= self.end {
            return;
        }
        cold_path();
        self.len = self.position(seq).unwrap_or_else(|position| position);
        if self.len == 0 {
            return self.clear();
        }
        self.end = self.at(self.len - 1).0 + 1;
        let end = self.head + self.len;
        let (chunk, used) = (end >> self.chunk_bits, end & (self.chunk_len() - 1));
        if let Some(last) = self.chunks.get_mut(chunk) {
            last.truncate(used);
        }
        self.chunks.iter_mut().skip(chunk + 1).for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests;
