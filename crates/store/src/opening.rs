//! Prepares the directory of a store: locks it, removes the remains of earlier processes, and
//! installs new segments.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, Map as _};
use crate::error::StoreError;
use crate::header::{HEADER, SegmentHeader};
use crate::newest::{self, LOCK};
use crate::options::Options;
use crate::owner_only::open_regular;
use crate::segment::{self, io_error};

pub(crate) fn lock<D: Disk>(disk: &D, dir: &Path) -> Result<D::Lock, StoreError> {
    disk.create_dir(dir).map_err(|source| io_error(dir, source))?;
    lock_existing(disk, dir)
}

/// Locks the store like `lock`, but does not create the directory.
pub(crate) fn lock_existing<D: Disk>(disk: &D, dir: &Path) -> Result<D::Lock, StoreError> {
    let path = dir.join(LOCK);
    match disk.lock(&path) {
        Ok(lock) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path }),
        Err(TryLockError::Error(source)) => Err(io_error(&path, source)),
    }
}

/// A lock that prevents other processes from opening a store, and is held without writing the
/// store.
#[derive(Debug)]
pub(crate) struct Held(File);

impl Drop for Held {
    /// Unlocks the file explicitly, because a child process that was just started may still have
    /// the file open.
    fn drop(&mut self) {
        drop(self.0.unlock());
    }
}

/// Prevents other processes from opening the store. Returns `None` if there is no lock file,
/// because the store is then not open anywhere.
pub(crate) fn hold(dir: &Path) -> Result<Option<Held>, StoreError> {
    let path = dir.join(LOCK);
    let file = match open_regular(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_error(&path, source)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Some(Held(file))),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path }),
        Err(TryLockError::Error(source)) => Err(io_error(&path, source)),
    }
}

/// Removes the files of segments that were unfinished when their process ended; such segments were
/// never part of the store. Other files are left alone.
pub(crate) fn remove_unfinished(disk: &impl Disk, dir: &Path) -> Result<(), StoreError> {
    for path in disk.list(dir).map_err(|source| io_error(dir, source))? {
        if segment::is_unfinished(&path) {
            disk.remove(&path).map_err(|source| io_error(&path, source))?;
        }
    }
    Ok(())
}

/// Writes the header of a new segment, and renames its file to the final name.
pub(crate) fn install<D: Disk>(
    disk: &D,
    dir: &Path,
    options: &Options,
    header: &mut SegmentHeader,
    (mut map, from): (D::Map, PathBuf),
) -> Result<D::Map, StoreError> {
    let (durable, to) = (options.is_durable(), segment::path(dir, header.number));
    header.bytes = map.len() as u64;
    map[..HEADER].copy_from_slice(&header.encode());
    map.settle();
    if durable {
        map.sync(0, HEADER).map_err(|source| io_error(&from, source))?;
    }
    disk.rename(&from, &to).map_err(|source| io_error(&to, source))?;
    if durable {
        sync_dir(disk, dir)?;
    }
    Ok(map)
}

/// Writes the note of the newest segment while a store is opened. If the process that created the
/// segment was killed, the file's name may exist in memory only, so the directory is synced first.
pub(crate) fn note_newest(
    disk: &impl Disk,
    dir: &Path,
    options: &Options,
    header: &SegmentHeader,
) -> Result<(), StoreError> {
    if options.is_durable() {
        sync_dir(disk, dir)?;
    }
    newest::write(disk, dir, header)
}

pub(crate) fn sync_dir(disk: &impl Disk, dir: &Path) -> Result<(), StoreError> {
    disk.sync_dir(dir).map_err(|source| io_error(dir, source))
}
