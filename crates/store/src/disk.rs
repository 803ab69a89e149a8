//! The file system operations that a store needs. Tests replace them.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::ops::DerefMut;
use std::path::{Path, PathBuf};

use crate::options::Durability;

/// A place for files. Messages do not pass through it, but through a [`Map`].
pub trait Disk: Clone + fmt::Debug + Send + 'static {
    /// The type of a whole file in memory.
    type Map: Map;
    /// The lock that is held while the store is open.
    type Lock: fmt::Debug + Send;

    /// Returns true if a separate thread may make the next segment.
    fn makes_ahead(&self) -> bool;

    /// Returns true if a separate thread may sync commits with power durability.
    fn syncs_behind(&self) -> bool {
        self.makes_ahead()
    }

    /// Creates the directory and its missing parents.
    ///
    /// # Errors
    /// If the system refuses; all methods below do the same.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks the file, and creates it first if it is missing.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if the lock is already held.
    fn lock(&self, path: &Path) -> Result<Self::Lock, TryLockError>;

    /// Returns true if the file at `path` is the locked file.
    ///
    /// # Errors
    /// If there is no file at `path`.
    fn is_locked_at(&self, lock: &Self::Lock, path: &Path) -> io::Result<bool>;

    /// Returns true if the file at `path` is the mapped file.
    ///
    /// # Errors
    /// If there is no file at `path`.
    fn is_at(&self, map: &Self::Map, path: &Path) -> io::Result<bool>;

    /// Returns an unpredictable number, different at each call.
    fn random(&self) -> u64;

    /// Returns the path of every file in the directory.
    ///
    /// # Errors
    /// If the system refuses.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// Returns the length of a file in bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no file.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Creates a file of `bytes` zeros with all blocks allocated. With power durability the file is
    /// on the device. An existing file loses its name; processes that have it open keep it.
    ///
    /// # Errors
    /// If the system refuses. A full disk fails here, and not when the map is written.
    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<Self::Map>;

    /// Overwrites a file with `bytes` zeros. The file stays the same file and has that length
    /// afterwards.
    ///
    /// # Errors
    /// As [`Disk::make`], which the default implementation calls.
    fn make_over(&self, path: &Path, bytes: usize) -> io::Result<Self::Map> {
        self.make(path, bytes, Durability::Process)
    }

    /// Maps an existing file, which must not be empty.
    ///
    /// # Errors
    /// If the system refuses.
    fn open(&self, path: &Path) -> io::Result<Self::Map>;

    /// Writes zeros into an open file from `start` to its end, and allocates their blocks.
    ///
    /// # Errors
    /// If the system refuses.
    fn clear(
        &self,
        path: &Path,
        map: &mut Self::Map,
        start: usize,
        durability: Durability,
    ) -> io::Result<()>;

    /// Renames a file, and replaces a file of the new name.
    ///
    /// # Errors
    /// If the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file to an unused name, perhaps on another file system. On another file system the
    /// new name appears only when the file is whole and on the device.
    ///
    /// # Errors
    /// If the system refuses.
    fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)
    }

    /// Replaces a file by a compressed copy with the added ending `.zst`. If the process ends
    /// meanwhile, the file remains, perhaps along with the copy.
    ///
    /// # Errors
    /// If the system refuses, or compression is not supported, as in the default implementation.
    fn compress(&self, path: &Path) -> io::Result<()> {
        _ = path;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file.
    ///
    /// # Errors
    /// If the system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in the directory are on the device.
    ///
    /// # Errors
    /// If the system refuses.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A whole file in memory. Written bytes are part of the file at once, so they outlive the process.
pub trait Map: DerefMut<Target = [u8]> + fmt::Debug + Send {
    /// The type that syncs the file, even while the map is being written.
    type Syncer: Syncer;

    /// Stores a length word after everything written before it. A reader that sees the word sees
    /// the rest too, even after this process was killed.
    fn publish(&mut self, at: usize, len: u32);

    /// Orders everything written so far before the next file operations.
    fn settle(&mut self);

    /// Returns a syncer for this file.
    fn syncer(&self) -> Self::Syncer;

    /// As [`Syncer::sync`].
    ///
    /// # Errors
    /// As [`Syncer::sync`].
    fn sync(&mut self, start: usize, end: usize) -> io::Result<()> {
        self.syncer().sync(start, end)
    }
}

/// Syncs a mapped file, from any thread.
pub trait Syncer: fmt::Debug + Send + 'static {
    /// Returns once the bytes of the range that were published or settled before the call are on
    /// the device.
    ///
    /// # Errors
    /// If the system refuses. The content of the device is then unknown.
    fn sync(&self, start: usize, end: usize) -> io::Result<()>;
}
