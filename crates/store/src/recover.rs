//! Opening what is there: reads every segment since the last reset, rebuilds numbers and index,
//! removes the remains of an unfinished batch.
//!
//! **Invariant:** only the end of the last segment is ever changed here.

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

/// The findings when a store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Records read since the segment of the last reset.
    pub records: u64,
    /// Bytes of an unfinished batch at the end, now removed. Not 0 after a crash inside a commit.
    pub cut_bytes: u64,
    /// True if the note of the newest segment, in the file `lock`, was damaged. It is written anew;
    /// whether segments behind the last one have been there cannot be told any more.
    pub note_damaged: bool,
}

/// A store as it was left.
pub(crate) struct State<M> {
    pub(crate) ledger: Ledger<Place>,
    pub(crate) segments: Segments<M>,
    /// The first segment with messages to be found.
    pub(crate) border: u64,
    /// That of the last segment.
    pub(crate) header: SegmentHeader,
    /// Where the next batch goes in the last segment.
    pub(crate) tail: usize,
    /// The last record of the last batch.
    pub(crate) last_batch: Option<LastBatch>,
}

/// Which store is to be read.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// That of this session; any if it is nobody.
    pub(crate) owner: &'a Owner,
    /// This one; any if there is none.
    pub(crate) store: Option<u64>,
}

/// A store as it was left, and what was found; `None` if there is none.
type Recovery<D> = Option<(State<<D as Disk>::Map>, Recovered)>;

/// Reads the store in `dir`, unless it is another one, or says that there is none.
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
        // Removes what a torn batch left, and claims the blocks of the segment's rest: a copy of
        // the store may have come without them.
        let cleared = disk.clear(&path, map, state.tail, durability);
        cleared.map_err(|source| io_error(&path, source))?;
        map.settle();
    }
    Ok(Some((state, found)))
}

/// Refuses what belongs to somebody else. Nobody's store is anybody's.
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

/// Applies the segment's batches and returns the end of the last one.
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
