//! Making a sound store of a damaged one, on request only.
//!
//! **Invariant:** every sound batch is kept, in its order, and the damaged store is only read.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::disk::{Files, write_zeros};
use crate::error::{Damage, StoreError};
use crate::file::{Place, change_of, sync_dir};
use crate::format::{self, BEGIN, END, RECORD_HEADER, SEGMENT_HEADER, SegmentHeader};
use crate::record::{Numbers, Record};
use crate::segment::{self, io_error};
use crate::survey::{Found, find};

/// What a repair did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Segments that had to be changed; the others are copies.
    pub segments: u64,
    /// Records kept, in all segments.
    pub records: u64,
    /// Bytes that belong to no sound batch and were left out.
    pub lost_bytes: u64,
}

/// Goes through every segment, carrying the numbers from each to the next.
pub(crate) fn repair(from: &Path, to: &Path) -> Result<Repaired, StoreError> {
    let mut done = Repaired::default();
    let all = segment::list(&Files, from)?;
    let (Some(&first), Some(&last)) = (all.first(), all.last()) else { return Ok(done) };
    // What comes from the segments before: the numbers, and as `reset_segment` the first segment
    // with messages to be found.
    let mut carried: Option<SegmentHeader> = None;
    let mut waiting = VecDeque::new();
    for number in first..=last {
        let found = find(from, number)?;
        let header = match carried {
            Some(header) => header,
            None => first_header(&found, number, find(from, last)?.header),
        };
        let border = SegmentHeader { number, ..without_forgotten(&found, header) };
        let first = waiting.front().map_or(u64::MAX, |&(_, segment)| segment);
        let bytes = found.header.map_or(0, |own| own.bytes);
        let reset_segment = border.reset_segment.min(first);
        let header = SegmentHeader { reset_segment, bytes, ..border };
        let bridge = bridge(&found, &header);
        let is_whole = found.lost_bytes == 0 && !found.is_short();
        if found.header != Ok(header) || !is_whole || bridge.is_some() {
            let len_min = found.file.len().max(bytes as usize);
            let anew = write_anew(&header, bridge, &found, len_min);
            write(to, number, &anew, len_min)?;
            done.segments += 1;
        } else {
            write(to, number, &found.file, 0)?;
        }
        done.lost_bytes += found.lost_bytes;
        wait(&mut waiting, number, &found);
        carried = Some(replay(&border, bridge, &found, &mut done.records));
    }
    // The last segment first: one that names a missing segment is refused, so what a crash leaves
    // here is never taken for the whole.
    for number in (first..=last).rev() {
        let path = segment::path(to, number);
        fs::rename(segment::path_new(to, number), &path).map_err(|e| io_error(&path, e))?;
    }
    sync_dir(&Files, to)?;
    Ok(done)
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
    SegmentHeader { number, reset_segment: number, numbers, bytes: 0 }
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

/// A segment with these contents, to be filled up with zeros to that length.
fn write_anew(
    header: &SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
    len_min: usize,
) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT_HEADER];
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
    let header = SegmentHeader { bytes: bytes.len().max(len_min) as u64, ..*header };
    bytes[..SEGMENT_HEADER].copy_from_slice(&header.encode());
    bytes
}

/// Writes a segment file of at least `len_min` bytes, which is on the device afterwards.
fn write(dir: &Path, number: u64, bytes: &[u8], len_min: usize) -> Result<(), StoreError> {
    let path = segment::path_new(dir, number);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(bytes)?;
        write_zeros(&mut file, bytes.len() as u64, len_min as u64)?;
        file.sync_all()
    });
    written.map_err(|source| io_error(&path, source))
}

/// Which tickets wait behind this segment, and the segment of each.
fn wait(waiting: &mut VecDeque<(u64, u64)>, number: u64, found: &Found) {
    for &(start, end) in &found.batches {
        for (_, framed) in format::records(&found.file, start, end) {
            match framed.record {
                Record::Queued { ticket, .. } => waiting.push_back((ticket, number)),
                Record::Unqueued(last) => waiting.retain(|&(ticket, _)| ticket > last),
                _ => {}
            }
        }
    }
}

/// What the segment after this one comes from.
fn replay(
    header: &SegmentHeader,
    bridge: Option<Numbers>,
    found: &Found,
    count: &mut u64,
) -> SegmentHeader {
    let mut numbers = bridge.unwrap_or(header.numbers);
    let mut reset_segment = header.reset_segment;
    if bridge.is_some_and(|to| to.created_ns != header.numbers.created_ns) {
        reset_segment = header.number;
    }
    for &(start, end) in &found.batches {
        for (_, framed) in format::records(&found.file, start, end) {
            let place = Place { segment: 0, offset: 0 };
            change_of(&framed.record, place, framed.time_ns).renumber(&mut numbers);
            if framed.record == Record::Reset {
                reset_segment = header.number;
            }
            *count += 1;
        }
    }
    SegmentHeader { reset_segment, numbers, ..*header }
}
