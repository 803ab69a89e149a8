//! The file system operations that a store needs; tests replace them by simulated ones.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::ops::DerefMut;
use std::path::{Path, PathBuf};

use crate::options::Durability;

/// A file system as the store uses it. Messages are not written through it, but through a [`Map`].
pub trait Disk: Clone + fmt::Debug + Send + 'static {
    /// The type of a mapped file.
    type Map: Map;
    /// The type of the lock that is held while the store is open.
    type Lock: fmt::Debug + Send;

    /// Returns true if a separate thread may make the next segment in advance.
    fn makes_ahead(&self) -> bool;

    /// Returns true if a separate thread may sync commits to the device, for power durability.
    fn syncs_behind(&self) -> bool {
        self.makes_ahead()
    }

    /// Creates the directory and its missing parents.
    ///
    /// # Errors
    /// If the system refuses; all methods below do the same.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks the file; creates it first if it is missing.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if the lock is already held.
    fn lock(&self, path: &Path) -> Result<Self::Lock, TryLockError>;

    /// Returns true if the file at `path` is the file that `lock` has locked.
    ///
    /// # Errors
    /// If there is no file at `path`.
    fn is_locked_at(&self, lock: &Self::Lock, path: &Path) -> io::Result<bool>;

    /// Returns true if the file at `path` is the file that `map` maps.
    ///
    /// # Errors
    /// If there is no file at `path`.
    fn is_at(&self, map: &Self::Map, path: &Path) -> io::Result<bool>;

    /// Returns an unpredictable number, which differs at each call.
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

    /// Creates a file of `bytes` zeros with all blocks allocated. With power durability, the file
    /// is on the device when the method returns. An existing file of that name is unlinked;
    /// processes that have it open keep their file.
    ///
    /// # Errors
    /// If the system refuses. A full disk fails here, and not when the map is written.
    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<Self::Map>;

    /// Overwrites an existing file with `bytes` zeros, which is then its length. The file keeps its
    /// identity.
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

    /// Writes zeros into an open file from offset `start` to its end, and allocates the blocks.
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

    /// Renames a file; replaces an existing file of the new name.
    ///
    /// # Errors
    /// If the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Moves a file to an unused name, which may be on another file system. In that case, the new
    /// name appears only when the file is complete and on the device.
    ///
    /// # Errors
    /// If the system refuses.
    fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)
    }

    /// Replaces a file by a compressed copy with the appended extension `.zst`. If the process ends
    /// during the compression, the original file remains, perhaps together with the copy.
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

    /// Syncs the directory: on return, its file names are on the device.
    ///
    /// # Errors
    /// If the system refuses.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A whole file mapped into memory. Written bytes are part of the file at once, so they survive the
/// end of the process.
pub trait Map: DerefMut<Target = [u8]> + fmt::Debug + Send {
    /// The type that can sync the file to the device, even while the map is being written.
    type Syncer: Syncer;

    /// Stores a length word after all earlier writes. A reader that sees the word also sees these
    /// writes, even after this process was killed.
    fn publish(&mut self, at: usize, len: u32);

    /// Ensures that all earlier writes precede the following file operations.
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

/// Syncs a mapped file to the device, from any thread.
pub trait Syncer: fmt::Debug + Send + 'static {
    /// Syncs the range: on return, all its bytes that were published or settled before the call are
    /// on the device.
    ///
    /// # Errors
    /// If the system refuses. The content of the device is then unknown.
    fn sync(&self, start: usize, end: usize) -> io::Result<()>;
}
