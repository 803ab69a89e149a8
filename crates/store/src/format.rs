//! The bytes of a segment file; docs/store-format.md draws them. Every number is little-endian.
//!
//! **Invariant:** no function here reads outside the slice it is given, whatever that holds.

use crate::error::Damage;
use crate::record::{Kind, Numbers, Record};

/// Bytes before the first record of a segment.
pub(crate) const SEGMENT_HEADER: usize = 64;
/// Bytes before the message in a record.
pub(crate) const RECORD_HEADER: usize = 32;
/// Records begin at multiples of this many bytes.
pub(crate) const ALIGN: usize = 8;
/// A record with its header and padding is at most this long: 16 MiB.
pub(crate) const RECORD_MAX: usize = 16 << 20;

/// First record of its batch.
pub(crate) const BEGIN: u8 = 1;
/// Last record of its batch.
pub(crate) const END: u8 = 2;

const MAGIC: [u8; 8] = *b"TRANSFIX";
/// What is written. Version 1 has no notes and version 2 no queue; both are read as well.
const VERSION: u32 = 3;
/// The first version that knows [`Record::Note`].
const VERSION_NOTES: u32 = 2;
/// The first version that knows [`Record::Queued`].
const VERSION_QUEUE: u32 = 3;

const OUTBOUND: u8 = 1;
const INBOUND: u8 = 2;
const NEXT_IN: u8 = 3;
const NEXT_OUT: u8 = 4;
const RESET: u8 = 5;
const NOTE: u8 = 6;
const QUEUED: u8 = 7;
const UNQUEUED: u8 = 8;

const ADMIN: u8 = 1;
const APPLICATION: u8 = 2;

/// What a segment says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    /// The earliest segment needed to find every message since the last reset.
    pub(crate) reset_segment: u64,
    /// The numbers before the segment's first record.
    pub(crate) numbers: Numbers,
    /// The length with which the file was made; 0 where that was not noted yet.
    pub(crate) bytes: u64,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let fields = [
            self.number,
            self.reset_segment,
            self.numbers.next_in,
            self.numbers.next_out,
            self.numbers.created_ns,
            self.bytes,
        ];
        for (place, field) in bytes[16..].chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let crc = header_crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header at the head of a file.
    pub(crate) fn decode(file: &[u8]) -> Result<Self, Damage> {
        let bytes: &[u8; SEGMENT_HEADER] = file.first_chunk().ok_or(Damage::Header)?;
        if bytes[..8] != MAGIC {
            return Err(Damage::Header);
        }
        if !(1..=VERSION).contains(&u32_at(bytes, 8)) {
            return Err(Damage::Version);
        }
        let header = Self {
            number: u64_at(bytes, 16),
            reset_segment: u64_at(bytes, 24),
            numbers: Numbers {
                next_in: u64_at(bytes, 32),
                next_out: u64_at(bytes, 40),
                created_ns: u64_at(bytes, 48),
            },
            bytes: u64_at(bytes, 56),
        };
        let sound = u32_at(bytes, 12) == header_crc(bytes)
            && u32::try_from(header.number).is_ok()
            && u32::try_from(header.bytes).is_ok()
            && header.reset_segment <= header.number
            && is_number(header.numbers.next_in)
            && is_number(header.numbers.next_out);
        if sound { Ok(header) } else { Err(Damage::Header) }
    }

    /// Whether a file of that length has lost its end.
    pub(crate) const fn is_short(&self, len: usize) -> bool {
        (len as u64) < self.bytes
    }
}

/// Whether the header's checksum holds, whatever its version: it stays where it is in all of them.
pub(crate) fn is_header_checked(file: &[u8]) -> bool {
    file.first_chunk().is_some_and(|bytes| u32_at(bytes, 12) == header_crc(bytes))
}

/// Whether a segment with this sound header may hold the record: a reader of its version would take
/// one that it does not know for damage.
pub(crate) fn takes(file: &[u8], record: &Record<'_>) -> bool {
    let needed = match record {
        Record::Note(_) => VERSION_NOTES,
        Record::Queued { .. } | Record::Unqueued(_) => VERSION_QUEUE,
        _ => return true,
    };
    u32_at(file, 8) >= needed
}

fn header_crc(bytes: &[u8; SEGMENT_HEADER]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

const fn is_number(seq: u64) -> bool {
    seq > 0 && seq < u64::MAX
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The bytes a record takes in the file, padding included, for a message of `len` bytes.
pub(crate) const fn record_size(len: usize) -> usize {
    (RECORD_HEADER + len).next_multiple_of(ALIGN)
}

/// The message or the words of a record; the others have none.
pub(crate) const fn message<'a>(record: &Record<'a>) -> &'a [u8] {
    match *record {
        Record::Outbound { bytes, .. }
        | Record::Inbound { bytes, .. }
        | Record::Queued { bytes, .. } => bytes,
        Record::Note(text) => text.as_bytes(),
        Record::NextIn(_) | Record::NextOut(_) | Record::Reset | Record::Unqueued(_) => &[],
    }
}

/// Writes everything but length, checksum and flags; `place` is `record_size` zero bytes.
pub(crate) fn write_record(place: &mut [u8], now_ns: u64, record: &Record<'_>) {
    let (what, kind, seq) = match *record {
        Record::Outbound { seq, kind, .. } => (OUTBOUND, kind_byte(kind), seq),
        Record::Inbound { seq, kind, .. } => (INBOUND, kind_byte(kind), seq),
        Record::NextIn(seq) => (NEXT_IN, 0, seq),
        Record::NextOut(seq) => (NEXT_OUT, 0, seq),
        Record::Reset => (RESET, 0, 1),
        Record::Note(_) => (NOTE, 0, 1),
        Record::Queued { ticket, .. } => (QUEUED, APPLICATION, ticket),
        Record::Unqueued(ticket) => (UNQUEUED, 0, ticket),
    };
    place[8..16].copy_from_slice(&seq.to_le_bytes());
    place[16..24].copy_from_slice(&now_ns.to_le_bytes());
    place[24] = what;
    place[25] = kind;
    let bytes = message(record);
    place[RECORD_HEADER..RECORD_HEADER + bytes.len()].copy_from_slice(bytes);
}

const fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Admin => ADMIN,
        Kind::Application => APPLICATION,
    }
}

/// Sets flags and checksum of a written record; `place` is the whole record with its padding, `len`
/// the length word that it has or will have.
pub(crate) fn seal_record(place: &mut [u8], len: u32, flags: u8) {
    place[26] = flags;
    let crc = record_crc(place, len);
    place[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// Writes the length word, which makes the record count.
pub(crate) fn write_len(place: &mut [u8], len: u32) {
    place[..4].copy_from_slice(&len.to_le_bytes());
}

fn record_crc(place: &[u8], len: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&len.to_le_bytes()), &place[8..])
}

/// A record as it lies in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framed<'a> {
    pub(crate) record: Record<'a>,
    pub(crate) time_ns: u64,
    pub(crate) flags: u8,
    /// Bytes to the next record.
    pub(crate) size: usize,
}

/// The record at the head of `file`, if there is one; its checksum is not looked at.
pub(crate) fn read_record(file: &[u8]) -> Option<Framed<'_>> {
    let header: &[u8; RECORD_HEADER] = file.first_chunk()?;
    let len = u32_at(header, 0) as usize;
    let size = len.checked_next_multiple_of(ALIGN)?;
    if len < RECORD_HEADER || size > RECORD_MAX || size > file.len() {
        return None;
    }
    let (seq, flags) = (u64_at(header, 8), header[26]);
    if !is_number(seq) || flags > BEGIN | END || header[27..] != [0; 5] {
        return None;
    }
    let bytes = &file[RECORD_HEADER..len];
    let record = match (header[24], read_kind(header[25])) {
        (OUTBOUND, Some(kind)) => Record::Outbound { seq, kind, bytes },
        (INBOUND, Some(kind)) => Record::Inbound { seq, kind, bytes },
        (NEXT_IN, None) if bytes.is_empty() => Record::NextIn(seq),
        (NEXT_OUT, None) if bytes.is_empty() => Record::NextOut(seq),
        (RESET, None) if bytes.is_empty() => Record::Reset,
        (NOTE, None) => Record::Note(str::from_utf8(bytes).ok()?),
        (QUEUED, Some(Kind::Application)) => Record::Queued { ticket: seq, bytes },
        (UNQUEUED, None) if bytes.is_empty() => Record::Unqueued(seq),
        _ => return None,
    };
    Some(Framed { record, time_ns: u64_at(header, 16), flags, size })
}

const fn read_kind(byte: u8) -> Option<Kind> {
    match byte {
        ADMIN => Some(Kind::Admin),
        APPLICATION => Some(Kind::Application),
        _ => None,
    }
}

/// The end of the batch that begins at `start`, if every record of it is there and sound.
pub(crate) fn batch_end(file: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        let place = file.get(at..)?;
        let framed = read_record(place)?;
        let first = framed.flags & BEGIN != 0;
        if first != (at == start) {
            return None;
        }
        if u32_at(place, 4) != record_crc(&place[..framed.size], u32_at(place, 0)) {
            return None;
        }
        at += framed.size;
        if framed.flags & END != 0 {
            return Some(at);
        }
    }
}

/// The records between two places that `batch_end` vouched for, each with its offset.
pub(crate) fn records(
    file: &[u8],
    start: usize,
    end: usize,
) -> impl Iterator<Item = (usize, Framed<'_>)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let framed = read_record(file.get(at..end)?)?;
        let offset = at;
        at += framed.size;
        Some((offset, framed))
    })
}

/// What lies behind the last sound batch of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing but zeros.
    Clean,
    /// The remains of one batch, up to this many bytes behind.
    Torn { bytes: usize },
    /// Sound batches, so that something before them was destroyed.
    Damaged,
}

/// Looks at everything from `start` on, where no sound batch begins.
pub(crate) fn tail(file: &[u8], start: usize) -> Tail {
    let rest = file.get(start..).unwrap_or_default();
    match rest.iter().rposition(|&byte| byte != 0) {
        None => Tail::Clean,
        Some(_) if next_batch(file, start).is_some() => Tail::Damaged,
        Some(last) => Tail::Torn { bytes: last + 1 },
    }
}

/// Where the first sound batch at or behind `start` begins and ends.
pub(crate) fn next_batch(file: &[u8], start: usize) -> Option<(usize, usize)> {
    let first = start.next_multiple_of(ALIGN);
    (first..file.len()).step_by(ALIGN).find_map(|at| Some((at, batch_end(file, at)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back() {
        let numbers = Numbers { next_in: 3, next_out: 9, created_ns: 77 };
        let header = SegmentHeader { number: 4, reset_segment: 2, numbers, bytes: 1 << 20 };
        let bytes = header.encode();
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        for at in 0..SEGMENT_HEADER {
            let mut flipped = bytes;
            flipped[at] ^= 1;
            assert!(SegmentHeader::decode(&flipped).is_err(), "byte {at}");
            assert!(SegmentHeader::decode(&bytes[..at]).is_err(), "length {at}");
        }
    }

    fn check(record: Record<'_>) {
        let len = RECORD_HEADER + message(&record).len();
        let mut bytes = vec![0; record_size(len - RECORD_HEADER)];
        write_record(&mut bytes, 42, &record);
        seal_record(&mut bytes, len as u32, BEGIN | END);
        assert_eq!(batch_end(&bytes, 0), None, "no length yet");
        write_len(&mut bytes, len as u32);
        assert_eq!(batch_end(&bytes, 0), Some(bytes.len()));
        let found: Vec<_> = records(&bytes, 0, bytes.len()).collect();
        let framed = Framed { record, time_ns: 42, flags: BEGIN | END, size: bytes.len() };
        assert_eq!(found, [(0, framed)]);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            assert_eq!(batch_end(&flipped, 0), None, "byte {at} of {record:?}");
        }
    }

    #[test]
    fn records_come_back_and_a_flipped_bit_shows() {
        check(Record::Outbound { seq: 7, kind: Kind::Application, bytes: b"8=FIX.4.4" });
        check(Record::Inbound { seq: 1 << 40, kind: Kind::Admin, bytes: b"" });
        check(Record::NextIn(5));
        check(Record::NextOut(u64::MAX - 1));
        check(Record::Reset);
        check(Record::Note("reset: Müller"));
        check(Record::Queued { ticket: 3, bytes: b"35=D" });
        check(Record::Unqueued(3));
    }
}
