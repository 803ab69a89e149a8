//! The encoding of records, as docs/store-format.md describes it. Every number is little-endian.
//!
//! **Invariant:** no function here reads outside its slice, whatever the slice contains.

use crate::map::crc_of;
use crate::record::{Kind, Record};

/// Length of a record's header, which precedes the message, in bytes.
pub(crate) const RECORD_HEADER: usize = 32;
/// Records begin at offsets that are multiples of this number of bytes.
pub(crate) const ALIGN: usize = 8;
/// Maximum length of a record with its header and padding: 16 MiB.
pub(crate) const RECORD_MAX: usize = 16 << 20;

/// Offset of the checksum in a record's header.
const CRC: usize = 4;
/// Offset of the time in a record's header.
const TIME: usize = 16;
/// Offset of the flags in a record's header.
const FLAGS: usize = 26;
/// Offset in a record's header of the word that contains the record's own offset in the segment.
const PLACE: usize = 28;

/// Flag of the first record of a batch.
pub(crate) const BEGIN: u8 = 1;
/// Flag of the last record of a batch.
pub(crate) const END: u8 = 2;
/// Flag of a record after whose padding the next inbound number is stored.
const NUMBERED: u8 = 4;

/// Length of the next inbound number after a record, in bytes.
pub(crate) const NEXT_IN_SIZE: usize = 8;

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

pub(crate) const fn is_number(seq: u64) -> bool {
    seq > 0 && seq < u64::MAX
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Returns the checksum that the record at offset `at` contains.
pub(crate) fn crc_at(file: &[u8], at: usize) -> u32 {
    u32_at(file, at + CRC)
}

/// Returns the length in the file, including padding, of a record for a message of `len` bytes. A
/// next inbound number after the record is not included.
pub(crate) const fn record_size(len: usize) -> usize {
    (RECORD_HEADER + len).next_multiple_of(ALIGN)
}

/// Returns the length of a written record in the file. `len` is its length word, which may not be
/// written yet.
pub(crate) const fn size_of(place: &[u8], len: u32) -> usize {
    record_size(len as usize - RECORD_HEADER) + next_in_size(flags(place))
}

const fn next_in_size(flags: u8) -> usize {
    if flags & NUMBERED == 0 { 0 } else { NEXT_IN_SIZE }
}

/// Adds the next inbound number to a written record that has no flags yet. `place` is the record
/// and the zero bytes for the number. Returns false, without any change, if the record already has
/// a number, or if its time differs from `now_ns`, because a record has only one time.
#[inline]
pub(crate) fn add_next_in(place: &mut [u8], now_ns: u64, next_in: u64) -> bool {
    let is_free = place[FLAGS] == 0 && u64_at(place, TIME) == now_ns;
    if is_free && let Some(word) = place.last_chunk_mut() {
        *word = next_in.to_le_bytes();
        place[FLAGS] = NUMBERED;
    }
    is_free
}

/// Returns the message or the text of a record; an empty slice for a record without either.
pub(crate) const fn message<'a>(record: &Record<'a>) -> &'a [u8] {
    match *record {
        Record::Outbound { bytes, .. }
        | Record::Inbound { bytes, .. }
        | Record::Queued { bytes, .. } => bytes,
        Record::Note(text) => text.as_bytes(),
        Record::NextIn(_) | Record::NextOut(_) | Record::Reset | Record::Unqueued(_) => &[],
    }
}

/// Writes all fields of a record except length, checksum and flags. `place` consists of
/// `record_size` zero bytes.
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
    place[TIME..TIME + 8].copy_from_slice(&now_ns.to_le_bytes());
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

/// The values besides the record's own bytes that its offset word and its checksum verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// No other values, in formats before 4.
    Plain,
    /// This key of the segment, and the offset in the segment. The upper half of the key masks the
    /// offset word in the record; the lower half masks the checksum. The chance is 1 in 2^64 that
    /// bytes written without the key are accepted as a record at their offset.
    Keyed(u64),
}

impl Seal {
    /// Returns the masked offset for a record at offset `at`, and the mask for its checksum.
    const fn marks(self, at: usize) -> (u32, u32) {
        match self {
            Self::Plain => (0, 0),
            Self::Keyed(key) => ((key >> 32) as u32 ^ (at / ALIGN) as u32, key as u32),
        }
    }

    /// Returns the offset that the record contains as its own; `at` is used in formats without this
    /// word.
    pub(crate) fn home(self, record: &[u8], at: usize) -> usize {
        match self {
            Self::Plain => at,
            Self::Keyed(key) => ((key >> 32) as u32 ^ u32_at(record, PLACE)) as usize * ALIGN,
        }
    }

    /// Returns the checksum that a record contains, without the mask of the key.
    pub(crate) fn unkeyed(self, record: &[u8]) -> u32 {
        u32_at(record, 4) ^ self.marks(0).1
    }

    /// Returns true if the whole record at offset `at` is unchanged since it was written there.
    /// `len` is its length word, which may not be written yet.
    fn holds(self, record: &[u8], at: usize, len: u32) -> bool {
        u32_at(record, PLACE) == self.marks(at).0 && self.unkeyed(record) == record_crc(record, len)
    }
}

/// Sets the flags, the offset word and the checksum of a written record. `place` is the whole
/// record, including everything after its message. `at` is its offset in the segment. `len` is its
/// length word, which may not be written yet. A next inbound number is kept.
#[inline]
pub(crate) fn seal_record(place: &mut [u8], at: usize, len: u32, flags: u8, seal: Seal) {
    let (own, hidden) = seal.marks(at);
    place[FLAGS] = place[FLAGS] & NUMBERED | flags;
    place[PLACE..RECORD_HEADER].copy_from_slice(&own.to_le_bytes());
    let crc = record_crc(place, len) ^ hidden;
    place[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Returns the flags of a written record.
pub(crate) const fn flags(place: &[u8]) -> u8 {
    place[FLAGS]
}

/// Writes the length word, which makes the record valid.
pub(crate) fn write_len(place: &mut [u8], len: u32) {
    place[..4].copy_from_slice(&len.to_le_bytes());
}

/// Computes the checksum of a record, without the mask of a key.
fn record_crc(place: &[u8], len: u32) -> u32 {
    crc_of(len, &place[8..])
}

/// A record as read from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framed<'a> {
    pub(crate) record: Record<'a>,
    /// The next inbound number that was stored with the record, if any.
    pub(crate) next_in: Option<u64>,
    pub(crate) time_ns: u64,
    pub(crate) flags: u8,
    /// Number of bytes to the next record.
    pub(crate) size: usize,
}

impl<'a> Framed<'a> {
    /// Returns the record, and after it a record for the next inbound number, if any, in the order
    /// in which they were put.
    pub(crate) fn put(&self) -> impl Iterator<Item = Record<'a>> {
        [Some(self.record), self.next_in.map(Record::NextIn)].into_iter().flatten()
    }
}

/// Returns the record at the beginning of `file`, if there is one. The checksum is not verified.
pub(crate) fn read_record(file: &[u8]) -> Option<Framed<'_>> {
    let header = file.first_chunk()?;
    framed(file, header, u32_at(header, 0))
}

/// Returns the record at offset `at` of a segment, if it is unchanged since it was written.
pub(crate) fn sound_record(file: &[u8], at: usize, seal: Seal) -> Option<Framed<'_>> {
    let place = file.get(at..)?;
    sound_record_of(place, at, seal, u32_at(place.get(..RECORD_HEADER)?, 0))
}

/// Returns the record at the beginning of `place`, verified with the length word `len`, which is
/// not written yet.
#[inline(always)]
pub(crate) fn sound_record_of(place: &[u8], at: usize, seal: Seal, len: u32) -> Option<Framed<'_>> {
    let framed = framed(place, place.first_chunk()?, len)?;
    seal.holds(&place[..framed.size], at, len).then_some(framed)
}

#[inline(always)]
fn framed<'a>(file: &'a [u8], header: &[u8; RECORD_HEADER], len: u32) -> Option<Framed<'a>> {
    let len = len as usize;
    let (seq, flags) = (u64_at(header, 8), header[FLAGS]);
    let padded = len.checked_next_multiple_of(ALIGN)?;
    let size = padded.checked_add(next_in_size(flags))?;
    if len < RECORD_HEADER || size > RECORD_MAX || size > file.len() {
        return None;
    }
    if !is_number(seq) || flags > BEGIN | END | NUMBERED || header[27] != 0 {
        return None;
    }
    let next_in = match flags & NUMBERED {
        0 => None,
        _ => Some(u64_at(file, padded)).filter(|&next_in| is_number(next_in)),
    };
    if flags & NUMBERED != 0 && next_in.is_none() {
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
    Some(Framed { record, next_in, time_ns: u64_at(header, TIME), flags, size })
}

const fn read_kind(byte: u8) -> Option<Kind> {
    match byte {
        ADMIN => Some(Kind::Admin),
        APPLICATION => Some(Kind::Application),
        _ => None,
    }
}

/// Returns the end of the batch that begins at offset `start`, if each record of the batch is
/// valid.
pub(crate) fn batch_end(file: &[u8], start: usize, seal: Seal) -> Option<usize> {
    let mut at = start;
    loop {
        let framed = sound_record(file, at, seal)?;
        let first = framed.flags & BEGIN != 0;
        if first != (at == start) {
            return None;
        }
        at += framed.size;
        if framed.flags & END != 0 {
            return Some(at);
        }
    }
}

/// Iterates over the records between two offsets that `batch_end` has verified, each with its
/// offset.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SEAL: Seal = Seal::Keyed(0x0123_4567_89ab_cdef);
    const AT: usize = 24;

    fn check(record: Record<'_>) {
        for (seal, next_in) in [(Seal::Plain, None), (SEAL, None), (SEAL, Some(300))] {
            check_sealed(record, next_in, seal);
        }
    }

    fn check_sealed(record: Record<'_>, next_in: Option<u64>, seal: Seal) {
        let len = RECORD_HEADER + message(&record).len();
        let size = record_size(len - RECORD_HEADER) + next_in.map_or(0, |_| NEXT_IN_SIZE);
        let mut bytes = vec![0; AT + size];
        let place = &mut bytes[AT..];
        write_record(place, 42, &record);
        if let Some(next_in) = next_in {
            assert!(!add_next_in(place, 41, next_in), "of another time");
            assert!(add_next_in(place, 42, next_in));
            assert!(!add_next_in(place, 42, next_in + 1), "a second one");
        }
        assert_eq!(size_of(place, len as u32), size);
        seal_record(place, AT, len as u32, BEGIN | END, seal);
        assert_eq!(batch_end(&bytes, AT, seal), None, "no length yet");
        write_len(&mut bytes[AT..], len as u32);
        assert_eq!(batch_end(&bytes, AT, seal), Some(bytes.len()));
        let found: Vec<_> = records(&bytes, AT, bytes.len()).collect();
        let flags = BEGIN | END | next_in.map_or(0, |_| NUMBERED);
        let framed = Framed { record, next_in, time_ns: 42, flags, size };
        assert_eq!(found, [(AT, framed)]);
        let put: Vec<_> =
            [Some(record), next_in.map(Record::NextIn)].into_iter().flatten().collect();
        assert_eq!(framed.put().collect::<Vec<_>>(), put);
        for (at, bit) in (AT..bytes.len()).flat_map(|at| (0..8).map(move |bit| (at, 1 << bit))) {
            let mut flipped = bytes.clone();
            flipped[at] ^= bit;
            assert_eq!(batch_end(&flipped, AT, seal), None, "byte {at} of {record:?}");
        }
        let Seal::Keyed(key) = seal else { return };
        for other in [Seal::Plain, Seal::Keyed(key ^ 1), Seal::Keyed(key ^ 1 << 32)] {
            assert_eq!(batch_end(&bytes, AT, other), None, "{other:?}");
        }
        assert_eq!(batch_end(&bytes[8..], AT - 8, seal), None, "in another place");
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
