//! Making a damaged store sound again, on request only.
//!
//! **Invariant:** every sound batch is kept, in its order, and no file is deleted.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::disk::{Files, write_zeros};
use crate::error::{Damage, StoreError};
use crate::file::{Place, change_of};
use crate::format::{self, BEGIN, END, RECORD_HEADER, SEGMENT_HEADER, SegmentHeader};
use crate::ledger::Ledger;
use crate::record::{Numbers, Record};
use crate::segment::{self, io_error};

/// What a repair did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Segments that were written anew; the old ones end in `.damaged`.
    pub segments: u64,
    /// Records kept, in all segments.
    pub records: u64,
    /// Bytes that belong to no sound batch and were left out.
    pub lost_bytes: u64,
}

/// A segment file as it was found.
struct Found {
    file: Vec<u8>,
    header: Result<SegmentHeader, Damage>,
    /// Sound batches: where each begins and ends.
    batches: Vec<(usize, usize)>,
    lost_bytes: u64,
}

/// Goes through every segment, carrying the numbers from each to the next.
pub(crate) fn repair(dir: &Path) -> Result<Repaired, StoreError> {
    let mut done = Repaired::default();
    let all = segment::list(&Files, dir)?;
    let (Some(&first), Some(&last)) = (all.first(), all.last()) else { return Ok(done) };
    let mut carried: Option<SegmentHeader> = None;
    for number in first..=last {
        let found = find(dir, number)?;
        let header = match carried {
            Some(header) => header,
            None => first_header(&found, number, find(dir, last)?.header),
        };
        let header = SegmentHeader { number, ..without_forgotten(&found, header) };
        let bridge = bridge(&found, &header);
        if found.header != Ok(header) || found.lost_bytes > 0 || bridge.is_some() {
            write_anew(dir, &header, bridge, &found)?;
            done.segments += 1;
        }
        done.lost_bytes += found.lost_bytes;
        carried = Some(replay(&header, bridge, &found, &mut done.records));
    }
    Ok(done)
}

fn find(dir: &Path, number: u64) -> Result<Found, StoreError> {
    let path = segment::path(dir, number);
    let file = match fs::read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(io_error(&path, source)),
    };
    let header = match SegmentHeader::decode(&file) {
        // The checksum tells another version from a damaged version number.
        Err(Damage::Version) if format::is_header_checked(&file) => {
            return Err(StoreError::Damaged { path, offset: 8, reason: Damage::Version });
        }
        Ok(header) if header.number != number => Err(Damage::Name),
        header => header,
    };
    let (mut batches, mut lost_bytes, mut start) = (Vec::new(), 0, SEGMENT_HEADER);
    while let Some((at, end)) = format::next_batch(&file, start) {
        lost_bytes += written(&file[start..at]);
        batches.push((at, end));
        start = end;
    }
    lost_bytes += written(file.get(start..).unwrap_or_default());
    Ok(Found { file, header, batches, lost_bytes })
}

/// Bytes up to the last one that isn't zero.
fn written(bytes: &[u8]) -> u64 {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}

/// A segment may ask for fewer segments before it than the one before does: the others were
/// forgotten when it was made.
fn without_forgotten(found: &Found, header: SegmentHeader) -> SegmentHeader {
    let own = found.header.map_or(0, |own| own.reset_segment);
    SegmentHeader { reset_segment: header.reset_segment.max(own), ..header }
}

/// The first segment there is refers to earlier ones only if the last one doesn't need them.
fn first_header(found: &Found, number: u64, last: Result<SegmentHeader, Damage>) -> SegmentHeader {
    if let Ok(header) = found.header {
        let needs_earlier = last.map_or(true, |last| last.reset_segment < number);
        let reset_segment = if needs_earlier { number } else { header.reset_segment };
        return SegmentHeader { reset_segment, ..header };
    }
    let first = found.batches.first();
    let framed = first.and_then(|&(at, _)| format::read_record(&found.file[at..]));
    let numbers = Numbers::fresh(framed.map_or(0, |framed| framed.time_ns));
    SegmentHeader { number, reset_segment: number, numbers }
}

/// The numbers a sound header says, where they are not those carried from the segment before: what
/// was lost there is bridged.
fn bridge(found: &Found, header: &SegmentHeader) -> Option<Numbers> {
    let numbers = found.header.ok()?.numbers;
    (numbers != header.numbers).then_some(numbers)
}

fn bridge_records(from: Numbers, to: Numbers) -> impl Iterator<Item = Record<'static>> {
    let reset = (from.created_ns != to.created_ns).then_some(Record::Reset);
    let numbers = [Record::NextIn(to.next_in), Record::NextOut(to.next_out)];
    reset.into_iter().chain(numbers)
}

/// Writes a segment with these contents, and puts it in the place of the old one.
fn write_anew(
    dir: &Path,
    header: &SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
) -> Result<(), StoreError> {
    let mut bytes = header.encode().to_vec();
    if let Some(to) = bridge {
        for record in bridge_records(header.numbers, to) {
            let start = bytes.len();
            bytes.resize(start + format::record_size(0), 0);
            let place = &mut bytes[start..];
            format::write_record(place, to.created_ns, &record);
            format::seal_record(place, RECORD_HEADER as u32, BEGIN | END);
            format::write_len(place, RECORD_HEADER as u32);
        }
    }
    for &(start, end) in &found.batches {
        bytes.extend_from_slice(&found.file[start..end]);
    }
    let (new, path) = (segment::path_new(dir, header.number), segment::path(dir, header.number));
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(&bytes)?;
        let (start, end) = (bytes.len() as u64, found.file.len() as u64);
        write_zeros(&mut file, start, end)?;
        file.sync_all()
    });
    written.map_err(|source| io_error(&new, source))?;
    if path.exists() {
        let old = path.with_extension("damaged");
        fs::rename(&path, &old).map_err(|source| io_error(&old, source))?;
    }
    fs::rename(&new, &path).map_err(|source| io_error(&path, source))
}

/// The header that the segment after this one has to have, but for its number.
fn replay(
    header: &SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
    count: &mut u64,
) -> SegmentHeader {
    let mut ledger = Ledger::<Place>::new(bridge.unwrap_or(header.numbers));
    let mut reset_segment = header.reset_segment;
    if bridge.is_some_and(|to| to.created_ns != header.numbers.created_ns) {
        reset_segment = header.number;
    }
    for &(start, end) in &found.batches {
        for (_, framed) in format::records(&found.file, start, end) {
            let place = Place { segment: 0, offset: 0 };
            ledger.apply(change_of(&framed.record, place, framed.time_ns));
            if framed.record == Record::Reset {
                reset_segment = header.number;
            }
            *count += 1;
        }
    }
    SegmentHeader { number: header.number, reset_segment, numbers: ledger.numbers }
}
