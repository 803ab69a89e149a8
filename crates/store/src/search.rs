//! Finds valid batches after invalid bytes, and classifies the invalid bytes.
//!
//! **Invariant:** the work per byte is bounded by a constant, even if a counterparty chose the
//! bytes. No byte is checksummed twice: one pass stores the state of the checksum at each offset
//! where a record can begin. Two such states give the checksum of the bytes between them.

use crate::format::{self, ALIGN, BEGIN, END, Seal};

/// The kinds of bytes that can follow the last valid batch of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Zeros only.
    Clean,
    /// The remains of one unfinished batch, with a length of `bytes`.
    Torn { bytes: usize },
    /// Valid batches follow, which means that the bytes before them were destroyed.
    Damaged,
}

/// Classifies the bytes from offset `start` on, where no valid batch begins.
pub(crate) fn tail(file: &[u8], start: usize, seal: Seal) -> Tail {
    let bytes = written(file.get(start..).unwrap_or_default());
    match bytes {
        0 => Tail::Clean,
        _ if Search::new(file, start, seal).next(start).is_some() => Tail::Damaged,
        bytes => Tail::Torn { bytes },
    }
}

/// Returns the number of bytes up to and including the last nonzero byte.
pub(crate) fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// A valid batch that the search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The offset at which the batch was written. If it differs from `start`, the bytes were moved.
    pub(crate) home: usize,
}

/// A search through the invalid part of a file.
pub(crate) struct Search<'f> {
    file: &'f [u8],
    seal: Seal,
    sums: Sums,
    /// For each offset where a record can begin: the end of the sequence of valid records that
    /// begins there and completes a batch; 0 if there is none.
    chains: Vec<u32>,
    /// Offsets of records with a correct checksum but without the key of a segment: message bodies
    /// that imitate batches.
    imitations: Vec<usize>,
}

impl<'f> Search<'f> {
    /// Searches the bytes from offset `start` on.
    pub(crate) fn new(file: &'f [u8], start: usize, seal: Seal) -> Self {
        let start = start.next_multiple_of(ALIGN);
        let bytes = written(file.get(start..).unwrap_or_default());
        let sums = Sums::of(file, start, bytes);
        let chains = vec![0; bytes.div_ceil(ALIGN)];
        let mut search = Self { file, seal, sums, chains, imitations: Vec::new() };
        for slot in (0..search.chains.len()).rev() {
            search.look_at(slot);
        }
        search.imitations.reverse();
        search
    }

    /// Returns the first valid batch at or after offset `start`.
    pub(crate) fn next(&self, start: usize) -> Option<Batch> {
        let first = self.slot(start.next_multiple_of(ALIGN))?;
        let slot = (first..self.chains.len()).find(|&slot| {
            self.chains[slot] > 0 && format::flags(&self.file[self.place(slot)..]) & BEGIN != 0
        })?;
        let start = self.place(slot);
        let home = self.seal.home(&self.file[start..], start);
        Some(Batch { start, end: self.chains[slot] as usize, home })
    }

    /// Returns the number of imitations between two offsets: batches that a counterparty put into
    /// the body of a message.
    pub(crate) fn imitations(&self, start: usize, end: usize) -> usize {
        let before = |place| self.imitations.partition_point(|&at| at < place);
        before(end.max(start)) - before(start)
    }

    fn place(&self, slot: usize) -> usize {
        self.sums.start + slot * ALIGN
    }

    fn slot(&self, place: usize) -> Option<usize> {
        Some(place.checked_sub(self.sums.start)? / ALIGN)
    }

    /// Examines one offset. The search runs backwards, so all later offsets are already examined.
    fn look_at(&mut self, slot: usize) {
        let at = self.place(slot);
        let record = &self.file[at..];
        let Some(framed) = format::read_record(record) else { return };
        let len = format::u32_at(record, 0);
        let crc = self.sums.record_crc(at, framed.size, len);
        if crc != self.seal.unkeyed(record) {
            if self.seal != Seal::Plain
                && framed.flags & BEGIN != 0
                && crc == Seal::Plain.unkeyed(record)
            {
                self.imitations.push(at);
            }
            return;
        }
        let home = self.seal.home(record, at);
        // A moved batch must come from within the invalid part. With fewer permitted offsets, a
        // guessed key is less likely to be accepted.
        if home != at && !(self.sums.start..self.place(self.chains.len())).contains(&home) {
            return;
        }
        let next = at + framed.size;
        let end = match framed.flags & END {
            0 => self.chain_behind(next, home.wrapping_sub(at)),
            _ => u32::try_from(next).ok(),
        };
        self.chains[slot] = end.unwrap_or(0);
    }

    /// Returns the end of the sequence of records that continues at offset `at`, if these records
    /// were moved by the same distance as the record before them.
    fn chain_behind(&self, at: usize, moved: usize) -> Option<u32> {
        let end = *self.chains.get(self.slot(at)?)?;
        let record = &self.file[at..];
        let goes_on = end > 0
            && format::flags(record) & BEGIN == 0
            && self.seal.home(record, at).wrapping_sub(at) == moved;
        goes_on.then_some(end)
    }
}

/// Gives the checksum of any part of a file between two record offsets.
struct Sums {
    start: usize,
    /// The state of the checksum at each record offset; the first state is zero.
    states: Vec<u32>,
    /// The polynomials x to the power of 64 · 256^k · n, for n below 256.
    powers: [[u32; 256]; 3],
    /// Number of bytes that were checksummed, for the tests.
    #[cfg(test)]
    work: usize,
}

impl Sums {
    /// Computes the states for `bytes` bytes from offset `start` on; only zeros may follow these
    /// bytes.
    fn of(file: &[u8], start: usize, bytes: usize) -> Self {
        let mut states = Vec::with_capacity(bytes.div_ceil(ALIGN) + 1);
        states.push(0);
        let mut state = 0;
        let rest = file.get(start..).unwrap_or_default();
        for place in rest[..bytes.next_multiple_of(ALIGN).min(rest.len())].chunks(ALIGN) {
            state = append(state, place);
            states.push(state);
        }
        Self {
            start,
            states,
            powers: powers(),
            #[cfg(test)]
            work: bytes,
        }
    }

    fn record_crc(&self, at: usize, size: usize, len: u32) -> u32 {
        let begun = append(!0, &len.to_le_bytes());
        let (from, to) = (at + ALIGN, at + size);
        let moved = self.shifted(self.state(from) ^ begun, to - from);
        !(self.state(to) ^ moved)
    }

    /// Returns the state at offset `at`, which may lie in the zeros after the bytes.
    fn state(&self, at: usize) -> u32 {
        let slot = (at - self.start) / ALIGN;
        let last = self.states.len() - 1;
        match self.states.get(slot) {
            Some(state) => *state,
            None => self.shifted(self.states[last], (slot - last) * ALIGN),
        }
    }

    /// Returns the state after `zeros` additional zero bytes, a multiple of 8.
    fn shifted(&self, state: u32, zeros: usize) -> u32 {
        let mut places = zeros / ALIGN;
        let mut state = state;
        for powers in &self.powers {
            state = times(state, powers[places % 256]);
            places /= 256;
        }
        assert_eq!(places, 0, "a record has at most 16 MiB");
        state
    }
}

/// Returns the state of CRC-32C after appending these bytes.
fn append(state: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!state, bytes)
}

/// The polynomial of CRC-32C. In all polynomials here, the lowest bit is the highest power.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;

/// Returns the product of two polynomials, modulo the polynomial of CRC-32C.
const fn times(a: u32, b: u32) -> u32 {
    let (mut a, mut product, mut bit) = (a, 0, ONE);
    while bit != 0 {
        if b & bit != 0 {
            product ^= a;
        }
        a = (a >> 1) ^ (POLYNOMIAL & (a & 1).wrapping_neg());
        bit >>= 1;
    }
    product
}

fn powers() -> [[u32; 256]; 3] {
    // `step` is x^64, which shifts the checksum by eight bytes.
    let mut step = append(ONE, &[0; ALIGN]);
    let mut powers = [[ONE; 256]; 3];
    for row in &mut powers {
        for n in 1..256 {
            row[n] = times(row[n - 1], step);
        }
        step = times(row[255], step);
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        NEXT_IN_SIZE, RECORD_HEADER, add_next_in, record_size, seal_record, write_len, write_record,
    };
    use crate::record::{Kind, Record};

    const SEAL: Seal = Seal::Keyed(0xfeed_face_cafe_beef);

    /// Writes a record with these flags at offset `at`, and returns the offset after the record.
    fn put(file: &mut [u8], at: usize, bytes: &[u8], flags: u8, seal: Seal) -> usize {
        let len = (RECORD_HEADER + bytes.len()) as u32;
        // In some records, the next inbound number follows the message.
        let is_numbered = bytes.len() % ALIGN == 4;
        let size = record_size(bytes.len()) + if is_numbered { NEXT_IN_SIZE } else { 0 };
        let place = &mut file[at..at + size];
        place.fill(0);
        write_record(place, 7, &Record::Outbound { seq: 5, kind: Kind::Application, bytes });
        assert!(!is_numbered || add_next_in(place, 7, 1 << 40));
        seal_record(place, at, len, flags, seal);
        write_len(place, len);
        at + size
    }

    /// Finds the first batch in the simplest way, by trying every offset.
    fn first_batch(file: &[u8], start: usize, seal: Seal) -> Option<Batch> {
        let places = (start.next_multiple_of(ALIGN)..file.len()).step_by(ALIGN);
        let mut found = places.filter_map(|at| Some((at, format::batch_end(file, at, seal)?)));
        found.next().map(|(start, end)| Batch { start, end, home: start })
    }

    #[test]
    fn it_finds_what_the_simplest_search_finds() {
        for seal in [Seal::Plain, SEAL] {
            let mut file = vec![0xa5; 4096];
            let mut at = put(&mut file, 120, b"one", BEGIN | END, seal);
            at = put(&mut file, at, b"", BEGIN, seal);
            at = put(&mut file, at, &[9; 300], 0, seal);
            at = put(&mut file, at, b"last", END, seal);
            at = put(&mut file, at + 16, &[3; 700], BEGIN | END, seal);
            // The message ends with zeros, which are hard to tell from the zeros after the record.
            at = put(&mut file, at, &[0; 90], BEGIN | END, seal);
            file[at..].fill(0);
            for broken in (100..at).step_by(13) {
                let mut file = file.clone();
                file[broken] ^= 4;
                let search = Search::new(&file, 64, seal);
                for start in (64..at + 8).step_by(4) {
                    let expected = first_batch(&file, start, seal);
                    assert_eq!(search.next(start), expected, "{seal:?} {broken} {start}");
                }
            }
        }
    }

    #[test]
    fn a_batch_that_was_moved_tells_where_it_belongs() {
        let mut file = vec![0; 2048];
        let one = put(&mut file, 256, &[1; 40], BEGIN | END, SEAL);
        let mut other = put(&mut file, one, &[2; 40], BEGIN, SEAL);
        other = put(&mut file, other, &[3; 40], END, SEAL);
        let (len, moved) = (other - one, file[one..other].to_vec());
        let first = file[256..one].to_vec();
        file[256..256 + len].copy_from_slice(&moved);
        file[256 + len..other].copy_from_slice(&first);
        let search = Search::new(&file, 256, SEAL);
        let batch = search.next(256).unwrap();
        assert_eq!(batch, Batch { start: 256, end: 256 + len, home: one });
        let batch = search.next(batch.end).unwrap();
        assert_eq!(batch, Batch { start: 256 + len, end: other, home: 256 });
        assert_eq!(tail(&file, 256, SEAL), Tail::Damaged);
        assert_eq!(search.next(batch.end), None);
    }

    /// Returns a tail of `bytes` bytes, full of record headers that each claim all following bytes.
    /// The checksums are all correct (`is_right`), or none is.
    fn crafted(bytes: usize, is_right: bool) -> Vec<u8> {
        let mut file = vec![0; 64 + bytes];
        for at in (64..file.len() - RECORD_HEADER).step_by(RECORD_HEADER).rev() {
            let len = (file.len() - at).min(format::RECORD_MAX) as u32;
            let place = &mut file[at..at + len as usize];
            place[8..16].copy_from_slice(&1_u64.to_le_bytes());
            place[24..27].copy_from_slice(&[1, 2, BEGIN]);
            if is_right {
                seal_record(place, at, len, BEGIN, Seal::Plain);
            }
            write_len(place, len);
        }
        file
    }

    #[test]
    fn the_work_is_linear_in_the_bytes_whatever_they_are() {
        for (is_right, bytes) in [(false, 1 << 20), (true, 1 << 13)] {
            for seal in [Seal::Plain, SEAL] {
                let file = crafted(bytes, is_right);
                let search = Search::new(&file, 64, seal);
                assert_eq!(search.next(64), None);
                assert!(search.sums.work <= bytes, "{} bytes checked", search.sums.work);
                assert!(search.chains.len() <= bytes / ALIGN, "each place is looked at once");
                let imitated = if is_right && seal == SEAL { bytes / RECORD_HEADER - 1 } else { 0 };
                assert_eq!(search.imitations.len(), imitated);
                assert_eq!(tail(&file, 64, seal), Tail::Torn { bytes: written(&file[64..]) });
            }
        }
    }
}
