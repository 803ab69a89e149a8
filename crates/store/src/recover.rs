//! Opening what is there: reads every segment since the last reset, rebuilds numbers and index,
//! removes the remains of an unfinished batch.
//!
//! **Invariant:** only the end of the last segment is ever changed here.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Damage, StoreError};
use crate::file::{Place, Recovered, Segments, change_of};
use crate::format::{self, SEGMENT_HEADER, SegmentHeader, Tail};
use crate::ledger::{Change, Ledger};
use crate::map::Map;
use crate::segment::{self, io_error};

/// A store as it was left.
pub(crate) struct State {
    pub(crate) ledger: Ledger<Place>,
    pub(crate) segments: Segments,
    /// Where the next batch goes in the last segment.
    pub(crate) tail: usize,
}

/// Reads the store in `dir`, or says that there is none.
pub(crate) fn recover(dir: &Path, durable: bool) -> Result<Option<(State, Recovered)>, StoreError> {
    let Some(&last) = segment::list(dir)?.last() else { return Ok(None) };
    let path = segment::path(dir, last);
    let header = read_header(&path, &map(&path)?, last)?;
    let numbers = match header.reset_segment {
        first if first == last => header.numbers,
        first => {
            let path = existing(dir, first)?;
            read_header(&path, &map(&path)?, first)?.numbers
        }
    };
    let segments = Segments { first: header.reset_segment, maps: Vec::new() };
    let mut state = State { ledger: Ledger::new(numbers), segments, tail: 0 };
    let mut found = Recovered::default();
    for number in header.reset_segment..=last {
        let path = existing(dir, number)?;
        let map = map(&path)?;
        let header = read_header(&path, &map, number)?;
        if header.numbers != state.ledger.numbers {
            return Err(damaged(&path, SEGMENT_HEADER, Damage::Numbers));
        }
        let end = replay(&mut state, &mut found, &map, number);
        match format::tail(&map, end) {
            Tail::Clean => {}
            Tail::Torn { bytes } if number == last => found.cut_bytes = bytes as u64,
            Tail::Torn { .. } | Tail::Damaged => {
                return Err(damaged(&path, end, Damage::Record));
            }
        }
        state.tail = end;
        state.segments.maps.push(map);
    }
    let path = segment::path(dir, last);
    clear_behind(&path, &mut state, durable).map_err(|source| io_error(&path, source))?;
    Ok(Some((state, found)))
}

fn existing(dir: &Path, number: u64) -> Result<PathBuf, StoreError> {
    let path = segment::path(dir, number);
    if path.exists() { Ok(path) } else { Err(damaged(&path, 0, Damage::Missing)) }
}

fn map(path: &Path) -> Result<Map, StoreError> {
    let file = segment::open_writable(path)?;
    let bytes = file.metadata().map_err(|source| io_error(path, source))?.len();
    if bytes < SEGMENT_HEADER as u64 || u32::try_from(bytes).is_err() {
        return Err(damaged(path, 0, Damage::Header));
    }
    Map::of(&file).map_err(|source| io_error(path, source))
}

fn read_header(path: &Path, file: &[u8], number: u64) -> Result<SegmentHeader, StoreError> {
    let header = SegmentHeader::decode(file).map_err(|reason| damaged(path, 0, reason))?;
    if header.number != number {
        return Err(damaged(path, 0, Damage::Name));
    }
    Ok(header)
}

fn damaged(path: &Path, offset: usize, reason: Damage) -> StoreError {
    StoreError::Damaged { path: path.to_path_buf(), offset: offset as u64, reason }
}

/// Applies the segment's batches and returns the end of the last one.
fn replay(state: &mut State, found: &mut Recovered, file: &[u8], number: u64) -> usize {
    let mut start = SEGMENT_HEADER;
    while let Some(end) = format::batch_end(file, start) {
        for (offset, framed) in format::records(file, start, end) {
            let place = Place { segment: number as u32, offset: offset as u32 };
            let change = change_of(&framed.record, place, framed.time_ns);
            state.ledger.apply(change);
            found.records += 1;
            if matches!(change, Change::Reset { .. }) {
                state.segments.maps.clear();
                state.segments.first = number;
            }
        }
        start = end;
    }
    start
}

/// Removes what a torn batch left, and claims the blocks of the segment's rest: a copy of the store
/// may have come without them.
fn clear_behind(path: &Path, state: &mut State, durable: bool) -> io::Result<()> {
    let Some(map) = state.segments.maps.last_mut() else { return Ok(()) };
    let mut file = OpenOptions::new().write(true).open(path)?;
    segment::write_zeros(&mut file, state.tail as u64, map.len() as u64)?;
    if durable {
        file.sync_all()?;
    }
    map.touch(state.tail);
    Ok(())
}
