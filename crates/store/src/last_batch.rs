//! The last committed batch, which a reopened store must still have.
//!
//! **Invariant:** a reopened store without the batch is used only if a repair may have moved the
//! batch. Its numbers and waiting messages are then not behind the committed ones.

use std::path::Path;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::format;
use crate::ledger::Ledger;
use crate::place::Place;
use crate::record::Numbers;
use crate::recover::State;
use crate::segment;

/// The last record of the last batch. The checksum covers offset, segment and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastBatch {
    place: Place,
    crc: u32,
}

impl LastBatch {
    /// Returns the record at `place` of the segment.
    pub(crate) fn of(place: Place, file: &[u8]) -> Self {
        Self { place, crc: format::crc_at(file, place.offset as usize) }
    }

    /// Returns true if the segment file still has the record.
    fn is_in(&self, file: &[u8]) -> bool {
        let (at, len) = (self.place.offset as usize, file.len());
        at + format::RECORD_HEADER <= len && format::crc_at(file, at) == self.crc
    }

    /// Returns true if the store that was read has the record.
    fn is_in_store<D: Disk>(&self, disk: &D, dir: &Path, state: &State<D::Map>) -> bool {
        let (number, first) = (u64::from(self.place.segment), state.segments.first);
        let last = first + state.segments.maps.len() as u64 - 1;
        if number == last && self.place.offset as usize >= state.tail {
            return false;
        }
        match number.checked_sub(first) {
            Some(at) => state.segments.maps.get(at as usize).is_some_and(|map| self.is_in(map)),
            // The segment is from before a reset.
            None => disk.open(&segment::path(dir, number)).is_ok_and(|map| self.is_in(&map)),
        }
    }
}

/// The state of a store after a commit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    last_batch: Option<LastBatch>,
    numbers: Numbers,
    /// The lowest and the highest ticket of waiting messages.
    waiting: Option<(u64, u64)>,
}

impl Mark {
    pub(crate) fn of(last_batch: Option<LastBatch>, ledger: &Ledger<Place>) -> Self {
        Self { last_batch, numbers: ledger.numbers, waiting: ledger.waiting.ends() }
    }
}

/// Refuses the store that was read if it is an older copy of the store that `had` marks.
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
        // Nothing was committed since the first existing segment was made.
        None => !is_behind,
    };
    if is_there || !is_behind {
        return Ok(());
    }
    let (found, committed) = (Box::new(has.numbers), Box::new(had.numbers));
    Err(StoreError::Older { dir: dir.into(), found, committed })
}
