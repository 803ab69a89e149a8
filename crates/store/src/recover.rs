//! Recovery of an existing store: reads every segment since the last reset, rebuilds numbers and
//! index, and removes the remains of an unfinished batch.
//!
//! **Invariant:** recovery changes only the end of the last segment.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, Map as _};
use crate::error::{Damage, StoreError};
use crate::format;
use crate::header::{HEADER_OLD, Owner, SegmentHeader};
use crate::last_batch::LastBatch;
use crate::ledger::{Change, Ledger};
use crate::newest;
use crate::options::Durability;
use crate::place::{Place, Segments, change_of, first_needed};
use crate::search::{Tail, tail};
use crate::segment::{self, io_error};

/// The findings when an existing store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Number of records read, from the segment of the last reset on.
    pub records: u64,
    /// Length of an unfinished batch that was removed at the end, in bytes. Not 0 after a crash
    /// within a commit.
    pub cut_bytes: u64,
    /// True if the note of the newest segment, in the file `lock`, was damaged. The store writes
    /// the note again. If the segments after the last existing one were lost, this can no longer be
    /// detected.
    pub note_damaged: bool,
}

/// The state of a store as read from its files.
pub(crate) struct State<M> {
    pub(crate) ledger: Ledger<Place>,
    pub(crate) segments: Segments<M>,
    /// The number of the first segment whose messages can be found.
    pub(crate) border: u64,
    /// The header of the last segment.
    pub(crate) header: SegmentHeader,
    /// The offset of the next batch in the last segment.
    pub(crate) tail: usize,
    /// The last record of the last batch.
    pub(crate) last_batch: Option<LastBatch>,
}

/// The properties of the store that is expected.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// The expected owner; an empty owner accepts any.
    pub(crate) owner: &'a Owner,
    /// The expected random number of the store; `None` accepts any number.
    pub(crate) store: Option<u64>,
}

/// The recovered store and the findings; `None` if the directory contains no store.
type Recovery<D> = Option<(State<<D as Disk>::Map>, Recovered)>;

/// Reads the store in `dir`; fails if it is not the expected one. Returns `None` if the directory
/// contains no store.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    dir: &Path,
    wanted: Wanted<'_>,
    durability: Durability,
) -> Result<Recovery<D>, StoreError> {
    let last = segment::list(disk, dir)?.last().copied();
    let noted = newest::read(disk, dir);
    newest::check(dir, noted, last)?;
    let Some(last) = last else { return Ok(None) };
    let path = segment::path(dir, last);
    let newest = read_header(&path, &map(disk, &path)?, last)?;
    check_owner(dir, &newest.owner(), wanted.owner)?;
    if wanted.store.is_some_and(|store| newest.store() != Some(store)) {
        return Err(damaged(&path, 0, Damage::Replaced));
    }
    if noted.is_some_and(|noted| noted.number == last && !noted.is_of(&newest)) {
        return Err(damaged(&path, 0, Damage::Store));
    }
    let numbers = match newest.reset_segment {
        first if first == last => newest.numbers,
        first => {
            let path = existing(disk, dir, first)?;
            read_header(&path, &map(disk, &path)?, first)?.numbers
        }
    };
    let border = newest.reset_segment;
    let segments = Segments::none(border);
    let mut state = State {
        ledger: Ledger::new(numbers),
        segments,
        border,
        header: newest,
        tail: 0,
        last_batch: None,
    };
    let mut found = Recovered::default();
    let mut before: Option<SegmentHeader> = None;
    for number in newest.reset_segment..=last {
        let path = existing(disk, dir, number)?;
        let map = map(disk, &path)?;
        let header = read_header(&path, &map, number)?;
        if let Some(before) = before.replace(header) {
            header.check_follows(&before).map_err(|reason| damaged(&path, 0, reason))?;
        }
        if header.numbers != state.ledger.numbers {
            return Err(damaged(&path, header.first(), Damage::Numbers));
        }
        let end = replay(&mut state, &mut found, &map, &header);
        match tail(&map, end, header.seal()) {
            Tail::Clean => {}
            Tail::Torn { bytes } if number == last => found.cut_bytes = bytes as u64,
            Tail::Torn { .. } | Tail::Damaged => {
                return Err(damaged(&path, end, Damage::Record));
            }
        }
        state.tail = end;
        state.segments.push(map, header.seal());
    }
    let path = segment::path(dir, last);
    if let Some(map) = state.segments.maps.last_mut() {
        // Removes the remains of an incomplete batch, and allocates the blocks of the rest of the
        // segment. A copy of the store may lack these blocks.
        let cleared = disk.clear(&path, map, state.tail, durability);
        cleared.map_err(|source| io_error(&path, source))?;
        map.settle();
    }
    Ok(Some((state, found)))
}

/// Returns an error if the store belongs to another session. A store without an owner is accepted.
fn check_owner(dir: &Path, found: &Owner, wanted: &Owner) -> Result<(), StoreError> {
    if found.is_nobody() || wanted.is_nobody() || found == wanted {
        return Ok(());
    }
    let (owner, wanted) = (found.name().into(), wanted.name().into());
    Err(StoreError::Foreign { dir: dir.into(), owner, wanted })
}

fn existing(disk: &impl Disk, dir: &Path, number: u64) -> Result<PathBuf, StoreError> {
    let path = segment::path(dir, number);
    if disk.len(&path).is_ok() { Ok(path) } else { Err(damaged(&path, 0, Damage::Missing)) }
}

fn map<D: Disk>(disk: &D, path: &Path) -> Result<D::Map, StoreError> {
    let bytes = disk.len(path).map_err(|source| io_error(path, source))?;
    if bytes < HEADER_OLD as u64 || u32::try_from(bytes).is_err() {
        return Err(damaged(path, 0, Damage::Header));
    }
    disk.open(path).map_err(|source| io_error(path, source))
}

fn read_header(path: &Path, file: &[u8], number: u64) -> Result<SegmentHeader, StoreError> {
    let header = SegmentHeader::decode(file).map_err(|reason| damaged(path, 0, reason))?;
    if header.number != number {
        return Err(damaged(path, 0, Damage::Name));
    }
    if header.is_short(file.len()) {
        return Err(damaged(path, file.len(), Damage::Short));
    }
    Ok(header)
}

fn damaged(path: &Path, offset: usize, reason: Damage) -> StoreError {
    StoreError::Damaged { path: path.to_path_buf(), offset: offset as u64, reason }
}

/// Applies all batches of a segment to the state, and returns the end of the last batch.
fn replay<M>(
    state: &mut State<M>,
    found: &mut Recovered,
    file: &[u8],
    header: &SegmentHeader,
) -> usize {
    let (mut start, seal, number) = (header.first(), header.seal(), header.number);
    while let Some(end) = format::batch_end(file, start, seal) {
        for (offset, framed) in format::records(file, start, end) {
            let place = Place { segment: number as u32, offset: offset as u32 };
            state.last_batch = Some(LastBatch::of(place, file));
            for record in framed.put() {
                let change = change_of(&record, place, framed.time_ns);
                state.ledger.apply(change);
                found.records += 1;
                if matches!(change, Change::Reset { .. }) {
                    state.border = number;
                    state.segments.drop_before(first_needed(&state.ledger, number));
                }
            }
        }
        start = end;
    }
    start
}
