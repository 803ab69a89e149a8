//! The note of the newest segment, in the lock file. The note shows whether the last segments are
//! missing or replaced. With the note, the records of the newest segment can be verified even if
//! its header is destroyed.
//!
//! **Invariant:** the note is written only after its segment is in place and, with power
//! durability, on the device. An unreadable note counts as no note.

use std::io::Read as _;
use std::path::Path;

use crate::disk::{Disk, Map as _};
use crate::error::{Damage, StoreError};
use crate::format::u64_at;
use crate::header::SegmentHeader;
use crate::owner_only::open_regular;
use crate::segment::{self, io_error};

/// The name of the lock file.
pub(crate) const LOCK: &str = "lock";
/// Length of the note in bytes: number, mark, store, and their checksum.
const BYTES: usize = 28;
/// Length of the note in bytes in formats before 4: the number and its checksum.
const BYTES_OLD: usize = 12;

/// The note of the newest segment: its number and the values that identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    pub(crate) number: u64,
    /// [`SegmentHeader::mark`]: a second copy of the key that checks the segment's records.
    pub(crate) mark: Option<u64>,
    /// The random number of the store; `None` in formats before 4.
    pub(crate) store: Option<u64>,
}

impl Newest {
    pub(crate) fn of(header: &SegmentHeader) -> Self {
        Self { number: header.number, mark: Some(header.mark()), store: header.store() }
    }

    /// Returns true if the note and the header belong to the same segment, as far as the note can
    /// tell.
    pub(crate) fn is_of(&self, header: &SegmentHeader) -> bool {
        self.number == header.number && self.mark.is_none_or(|mark| mark == header.mark())
    }

    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let fields = [self.number, self.mark.unwrap_or(0), self.store.unwrap_or(0)];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..24]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, crc) = bytes.split_last_chunk()?;
        if crc32c::crc32c(fields).to_le_bytes() != *crc {
            return None;
        }
        let field = |at| Some(u64_at(fields, at)).filter(|&field| field > 0);
        match bytes.len() {
            BYTES => Some(Self { number: u64_at(fields, 0), mark: field(8), store: field(16) }),
            BYTES_OLD => Some(Self { number: u64_at(fields, 0), mark: None, store: None }),
            _ => None,
        }
    }
}

/// Writes the note that this segment is in place.
pub(crate) fn write<D: Disk>(
    disk: &D,
    dir: &Path,
    header: &SegmentHeader,
) -> Result<(), StoreError> {
    let path = dir.join(LOCK);
    let is_made = disk.len(&path).is_ok_and(|len| len == BYTES as u64);
    // An older note does no harm, so the note is not synced.
    let map = if is_made { disk.open(&path) } else { disk.make_over(&path, BYTES) };
    let mut map = map.map_err(|source| io_error(&path, source))?;
    map.copy_from_slice(&Newest::of(header).encode());
    map.settle();
    Ok(())
}

/// Reads the note of the store; returns `None` if there is none.
pub(crate) fn read<D: Disk>(disk: &D, dir: &Path) -> Option<Newest> {
    let path = dir.join(LOCK);
    disk.len(&path).ok().filter(|len| [BYTES, BYTES_OLD].contains(&(*len as usize)))?;
    Newest::decode(&disk.open(&path).ok()?)
}

/// Returns true if the note has content that no store writes; the last segments may then be missing
/// without notice. Zeros or an empty file are not damage, because a process killed before its first
/// note leaves them.
pub(crate) fn is_damaged<D: Disk>(disk: &D, dir: &Path) -> bool {
    let path = dir.join(LOCK);
    let has_bytes = disk.len(&path).is_ok_and(|len| len > 0);
    let noted = disk.open(&path).ok().filter(|_| has_bytes);
    noted
        .is_some_and(|noted| noted.iter().any(|byte| *byte > 0) && Newest::decode(&noted).is_none())
}

/// Reads the note like [`read`], but needs no write permission.
pub(crate) fn peek(dir: &Path) -> Option<Newest> {
    let mut bytes = Vec::new();
    let file = open_regular(&dir.join(LOCK)).ok()?;
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Newest::decode(&bytes)
}

/// Returns an error if the last segment of the store is missing, or older than the newest segment
/// according to the note.
pub(crate) fn check(
    dir: &Path,
    newest: Option<Newest>,
    last: Option<u64>,
) -> Result<(), StoreError> {
    let Some(missing) = first_missing(newest, last) else { return Ok(()) };
    let (path, reason) = (segment::path(dir, missing), Damage::Missing);
    Err(StoreError::Damaged { path, offset: 0, reason })
}

/// Returns the number of the first missing segment after the last existing one; `None` if no
/// segment is missing.
pub(crate) fn first_missing(newest: Option<Newest>, last: Option<u64>) -> Option<u64> {
    let newest = newest?.number;
    match last {
        Some(last) => (last < newest).then_some(last + 1),
        // No segment exists, so the number of the first one is unknown.
        None => Some(newest),
    }
}
