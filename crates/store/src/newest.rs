//! The number of the newest segment, noted in the lock file: if the last segments are gone, that
//! shows.
//!
//! **Invariant:** it is written only when that segment is in its place, and on the device with
//! power durability. What can't be read says nothing.

use std::path::Path;

use crate::disk::{Disk, Map as _};
use crate::error::{Damage, StoreError};
use crate::file::Durability;
use crate::segment::{self, io_error};

/// The file that is locked.
pub(crate) const LOCK: &str = "lock";
/// The number and its checksum.
const BYTES: usize = 12;

/// Notes that the segment with this number is in its place.
pub(crate) fn write<D: Disk>(disk: &D, dir: &Path, number: u64) -> Result<(), StoreError> {
    let path = dir.join(LOCK);
    let is_made = disk.len(&path).is_ok_and(|len| len == BYTES as u64);
    // An older note does no harm, so none is waited for.
    let map = if is_made { disk.open(&path) } else { disk.make(&path, BYTES, Durability::Process) };
    let mut map = map.map_err(|source| io_error(&path, source))?;
    let number = number.to_le_bytes();
    map[..8].copy_from_slice(&number);
    map[8..].copy_from_slice(&crc32c::crc32c(&number).to_le_bytes());
    map.settle();
    Ok(())
}

/// The number noted in the store, if there is one.
pub(crate) fn read<D: Disk>(disk: &D, dir: &Path) -> Option<u64> {
    let path = dir.join(LOCK);
    disk.len(&path).ok().filter(|len| *len == BYTES as u64)?;
    decode(&disk.open(&path).ok()?)
}

/// The same without the right to write there.
pub(crate) fn peek(dir: &Path) -> Option<u64> {
    decode(&std::fs::read(dir.join(LOCK)).ok()?)
}

fn decode(bytes: &[u8]) -> Option<u64> {
    let (number, sum) = bytes.split_first_chunk()?;
    (*sum == crc32c::crc32c(number).to_le_bytes()).then(|| u64::from_le_bytes(*number))
}

/// Refuses a store whose last segment, if it has any, comes before the newest.
pub(crate) fn check(dir: &Path, newest: Option<u64>, last: Option<u64>) -> Result<(), StoreError> {
    let Some(missing) = first_missing(newest, last) else { return Ok(()) };
    let (path, reason) = (segment::path(dir, missing), Damage::Missing);
    Err(StoreError::Damaged { path, offset: 0, reason })
}

/// The first segment behind the last one that must be there.
pub(crate) fn first_missing(newest: Option<u64>, last: Option<u64>) -> Option<u64> {
    let newest = newest?;
    match last {
        Some(last) => (last < newest).then_some(last + 1),
        // Which one was the first is not known.
        None => Some(newest),
    }
}
