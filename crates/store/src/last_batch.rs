//! The last committed batch, which a store must still contain after it is reopened.
//!
//! **Invariant:** a reopened store without this batch is used only if a repair may have moved the
//! batch. In that case, the store's numbers and waiting messages must not be behind the committed
//! ones.

use std::path::Path;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::format;
use crate::ledger::Ledger;
use crate::place::Place;
use crate::record::Numbers;
use crate::recover::State;
use crate::segment;

/// The last record of the last batch, with its checksum, which covers the record's offset, segment
/// and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastBatch {
    place: Place,
    crc: u32,
}

impl LastBatch {
    /// Returns the position and checksum of the record at `place` of the segment file.
    pub(crate) fn of(place: Place, file: &[u8]) -> Self {
        Self { place, crc: format::crc_at(file, place.offset as usize) }
    }

    /// Returns true if the segment file still contains this record.
    fn is_in(&self, file: &[u8]) -> bool {
        let (at, len) = (self.place.offset as usize, file.len());
        at + format::RECORD_HEADER <= len && format::crc_at(file, at) == self.crc
    }

    /// Returns true if the store that was read contains this record.
    fn is_in_store<D: Disk>(&self, disk: &D, dir: &Path, state: &State<D::Map>) -> bool {
        let (number, first) = (u64::from(self.place.segment), state.segments.first);
        let last = first + state.segments.maps.len() as u64 - 1;
        if number == last && self.place.offset as usize >= state.tail {
            return false;
        }
        match number.checked_sub(first) {
            Some(at) => state.segments.maps.get(at as usize).is_some_and(|map| self.is_in(map)),
            // The segment precedes the last reset, so it was not read with the store and must be
            // opened.
            None => disk.open(&segment::path(dir, number)).is_ok_and(|map| self.is_in(&map)),
        }
    }
}

/// The state of a store after a commit, to recognize an older copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    last_batch: Option<LastBatch>,
    numbers: Numbers,
    /// The lowest and the highest ticket of the messages that waited to be sent; `None` if none
    /// waited.
    waiting: Option<(u64, u64)>,
}

impl Mark {
    pub(crate) fn of(last_batch: Option<LastBatch>, ledger: &Ledger<Place>) -> Self {
        Self { last_batch, numbers: ledger.numbers, waiting: ledger.waiting.ends() }
    }
}

/// Returns an error if the store that was read is an older copy of the store that `had` marks.
pub(crate) fn check<D: Disk>(
    disk: &D,
    dir: &Path,
    had: Mark,
    state: &State<D::Map>,
) -> Result<(), StoreError> {
    let has = &state.ledger;
    let is_behind = has.numbers.created_ns != had.numbers.created_ns
        || has.numbers.next_in < had.numbers.next_in
        || has.numbers.next_out < had.numbers.next_out
        || has.waiting.ends() != had.waiting;
    let is_there = match had.last_batch {
        Some(last_batch) => last_batch.is_in_store(disk, dir, state),
        // Nothing was committed since the first segment that still exists was made, so only the
        // numbers and the waiting messages can be compared.
        None => !is_behind,
    };
    if is_there || !is_behind {
        return Ok(());
    }
    let (found, committed) = (Box::new(has.numbers), Box::new(had.numbers));
    Err(StoreError::Older { dir: dir.into(), found, committed })
}
