//! Creates a valid store from a damaged one, only on request.
//!
//! **Invariant:** the new store contains every valid batch, in order. The damaged store is only
//! read.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::disk::Disk as _;
use crate::error::{Damage, StoreError};
use crate::files::{Files, write_zeros};
use crate::format::{self, BEGIN, END, RECORD_HEADER};
use crate::header::{HEADER, Identity, Owner, SegmentHeader, VERSION};
use crate::opening::sync_dir;
use crate::owner_only::for_owner;
use crate::place::{Place, change_of};
use crate::record::{Numbers, Record};
use crate::segment::{self, io_error};
use crate::segment_files::SegmentFiles;
use crate::survey::{Found, find};

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Number of segments that had to be changed; all other segments are copies.
    pub segments: u64,
    /// Number of records in the new store, in all segments.
    pub records: u64,
    /// Number of bytes that were omitted, because they belong to no valid batch.
    pub lost_bytes: u64,
}

/// The values that a segment inherits from the preceding segments.
#[derive(Clone, Copy, Debug)]
struct Carried {
    /// The number of the first segment whose messages can be found.
    border: u64,
    numbers: Numbers,
    /// The mark of the last written segment, for the header of the next segment.
    mark: u64,
}

/// Maximum number of consecutive missing segments. A larger gap means that a file belongs to
/// another store.
const MISSING_MAX: u64 = 10_000;

/// Repairs all segments in order; each begins with the numbers at the end of the preceding one.
pub(crate) fn repair(from: &Path, to: &Path, owner: Option<Owner>) -> Result<Repaired, StoreError> {
    let mut done = Repaired::default();
    let segment_files = SegmentFiles::of(from)?;
    let numbers = (segment_files.files.keys().next(), segment_files.files.keys().last());
    let (Some(&first), Some(&last)) = numbers else { return Ok(done) };
    check_gaps(from, &segment_files)?;
    let store = segment_files.store.unwrap_or_else(|| Files.random());
    let mut carried: Option<Carried> = None;
    let mut waiting = BTreeMap::new();
    for number in first..=last {
        let found = match segment_files.files.get(&number) {
            Some(&file) => find(from, file, segment_files.mark(number))?,
            None => Found::nothing(),
        };
        let before = carried.unwrap_or_else(|| begin(&found, number, segment_files.header(last)));
        let own = found.header.ok();
        // A segment may need fewer earlier segments than the preceding segment, because the store
        // forgot some when it made the segment.
        let border = before.border.max(own.map_or(0, |own| own.reset_segment));
        let first_waiting = waiting.first_key_value().map_or(u64::MAX, |(_, &segment)| segment);
        let mut header = SegmentHeader {
            version: VERSION,
            number,
            reset_segment: border.min(first_waiting).min(number),
            numbers: before.numbers,
            bytes: own.map_or(0, |own| own.bytes),
            identity: Ok(Identity {
                salt: own
                    .and_then(|own| own.identity.ok())
                    .map_or_else(|| Files.random(), |i| i.salt),
                store,
                before: before.mark,
                owner: owner.unwrap_or_else(|| own.map_or(segment_files.owner, |own| own.owner())),
            }),
        };
        let bridge = bridge(&found, &header);
        done.segments += u64::from(write_segment(to, &mut header, bridge, &found)?);
        done.lost_bytes += found.lost_bytes;
        wait(&mut waiting, number, &found);
        let border = Carried { border, mark: header.mark(), ..before };
        carried = Some(replay(&border, number, bridge, &found, &mut done.records));
    }
    // The last segment is renamed first. Because a store with a missing segment is refused, a crash
    // here never leaves a store that seems complete.
    for number in (first..=last).rev() {
        let path = segment::path(to, number);
        fs::rename(segment::path_new(to, number), &path).map_err(|e| io_error(&path, e))?;
    }
    sync_dir(&Files, to)?;
    Ok(done)
}

fn check_gaps(from: &Path, segment_files: &SegmentFiles) -> Result<(), StoreError> {
    let numbers = segment_files.files.keys();
    for (&number, &next) in numbers.clone().zip(numbers.skip(1)) {
        if next - number > MISSING_MAX {
            let (path, reason) = (segment::path(from, number + 1), Damage::Missing);
            return Err(StoreError::Damaged { path, offset: 0, reason });
        }
    }
    Ok(())
}

/// Writes the repaired segment. Returns true if it differs from the original.
fn write_segment(
    to: &Path,
    header: &mut SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
) -> Result<bool, StoreError> {
    let is_whole = found.lost_bytes == 0 && !found.is_short() && !found.has_moved;
    let own = found.header.ok().filter(|own| own.mark() == header.mark() && !own.is_keyless());
    let (Some(own), true, None) = (own, is_whole, bridge) else {
        let len_min = found.file.len().max(header.bytes as usize);
        let anew = write_anew(header, bridge, found, len_min);
        write(to, header.number, &anew, len_min)?;
        return Ok(true);
    };
    let mut file = found.file.clone();
    file[..HEADER].copy_from_slice(&header.encode());
    write(to, header.number, &file, 0)?;
    Ok(own != *header)
}

/// Returns the inherited values for the first existing segment. It may refer to earlier segments
/// only if the last segment does not need them.
fn begin(found: &Found, number: u64, last: Option<&SegmentHeader>) -> Carried {
    if let Ok(header) = found.header {
        let needs_earlier = last.is_none_or(|last| last.reset_segment < number);
        let border = if needs_earlier { number } else { header.reset_segment };
        let mark = header.identity.map_or(0, |identity| identity.before);
        return Carried { border, numbers: header.numbers, mark };
    }
    let first = found.batches.first();
    let framed = first.and_then(|batch| format::read_record(&found.file[batch.start..]));
    let numbers = Numbers::fresh(framed.map_or(0, |framed| framed.time_ns));
    Carried { border: number, numbers, mark: 0 }
}

/// Returns the numbers in a valid header if they differ from the inherited ones, because records
/// were lost. A record with these numbers is then added.
fn bridge(found: &Found, header: &SegmentHeader) -> Option<Numbers> {
    let numbers = found.header.ok()?.numbers;
    (numbers != header.numbers).then_some(numbers)
}

fn bridge_records(from: Numbers, to: Numbers) -> impl Iterator<Item = Record<'static>> {
    let reset = (from.created_ns != to.created_ns).then_some(Record::Reset);
    let numbers = [Record::NextIn(to.next_in), Record::NextOut(to.next_out)];
    reset.into_iter().chain(numbers)
}

/// Returns the bytes of a segment with this content. The caller appends zeros up to the length
/// `len_min`.
fn write_anew(
    header: &mut SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
    len_min: usize,
) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    if let Some(to) = bridge {
        for record in bridge_records(header.numbers, to) {
            let start = bytes.len();
            bytes.resize(start + format::record_size(0), 0);
            let place = &mut bytes[start..];
            format::write_record(place, to.created_ns, &record);
            seal(place, start, RECORD_HEADER as u32, BEGIN | END, header);
        }
    }
    for batch in found.in_order() {
        for (offset, framed) in format::records(&found.file, batch.start, batch.end) {
            let (start, record) = (bytes.len(), &found.file[offset..offset + framed.size]);
            bytes.extend_from_slice(record);
            let len = format::u32_at(record, 0);
            seal(&mut bytes[start..], start, len, framed.flags, header);
        }
    }
    header.bytes = bytes.len().max(len_min) as u64;
    bytes[..HEADER].copy_from_slice(&header.encode());
    bytes
}

fn seal(place: &mut [u8], at: usize, len: u32, flags: u8, header: &SegmentHeader) {
    format::seal_record(place, at, len, flags, header.seal());
    format::write_len(place, len);
}

/// Writes and syncs a segment file of at least `len_min` bytes.
fn write(dir: &Path, number: u64, bytes: &[u8], len_min: usize) -> Result<(), StoreError> {
    let path = segment::path_new(dir, number);
    let mut options = for_owner();
    let made = options.write(true).create(true).truncate(true).open(&path);
    let written = made.and_then(|mut file| {
        file.write_all(bytes)?;
        write_zeros(&mut file, bytes.len() as u64, len_min as u64)?;
        file.sync_all()
    });
    written.map_err(|source| io_error(&path, source))
}

/// Updates `waiting`, which contains the tickets of messages that wait after this segment, and the
/// segment of each.
fn wait(waiting: &mut BTreeMap<u64, u64>, number: u64, found: &Found) {
    for batch in found.in_order() {
        for (_, framed) in format::records(&found.file, batch.start, batch.end) {
            match framed.record {
                Record::Queued { ticket, .. } => _ = waiting.insert(ticket, number),
                Record::Unqueued(last) => {
                    while waiting.first_key_value().is_some_and(|(ticket, _)| *ticket <= last) {
                        waiting.pop_first();
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns the inherited values for the segment after this one.
fn replay(
    before: &Carried,
    number: u64,
    bridge: Option<Numbers>,
    found: &Found,
    count: &mut u64,
) -> Carried {
    let mut carried = *before;
    if let Some(to) = bridge {
        if to.created_ns != carried.numbers.created_ns {
            carried.border = number;
        }
        carried.numbers = to;
    }
    for batch in found.in_order() {
        for (_, framed) in format::records(&found.file, batch.start, batch.end) {
            for record in framed.put() {
                let place = Place { segment: 0, offset: 0 };
                change_of(&record, place, framed.time_ns).renumber(&mut carried.numbers);
                if record == Record::Reset {
                    carried.border = number;
                }
                *count += 1;
            }
        }
    }
    carried
}
