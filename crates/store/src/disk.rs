//! The requests of a store to a file system. Tests put another one in its place.

use std::fmt;
use std::fs::TryLockError;
use std::io;
use std::ops::DerefMut;
use std::path::{Path, PathBuf};

use crate::options::Durability;

/// A place for files. Nothing of it is on the path of messages: they go through a [`Map`].
pub trait Disk: Clone + fmt::Debug + Send + 'static {
    /// A whole file in memory.
    type Map: Map;
    /// Held as long as the store is open.
    type Lock: fmt::Debug + Send;

    /// Returns true if the next segment may be made in a thread of its own.
    fn makes_ahead(&self) -> bool;

    /// Returns true if a thread of its own may sync what was committed with power durability.
    fn syncs_behind(&self) -> bool {
        self.makes_ahead()
    }

    /// Makes the directory and those above it, where they are missing.
    ///
    /// # Errors
    /// If the system refuses, as all below.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;

    /// Locks the file, and makes it first if it is missing.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if somebody holds the lock.
    fn lock(&self, path: &Path) -> Result<Self::Lock, TryLockError>;

    /// Returns true if the file at `path` is the one that is locked.
    ///
    /// # Errors
    /// If there is none.
    fn is_locked_at(&self, lock: &Self::Lock, path: &Path) -> io::Result<bool>;

    /// Returns true if the file at `path` is the one in the map.
    ///
    /// # Errors
    /// If there is none.
    fn is_at(&self, map: &Self::Map, path: &Path) -> io::Result<bool>;

    /// A number that nobody can foretell, another one each time.
    fn random(&self) -> u64;

    /// Every file in the directory.
    ///
    /// # Errors
    /// If the system refuses.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none.
    fn len(&self, path: &Path) -> io::Result<u64>;

    /// Makes a file of `bytes` zeros, all of which have their place; with power durability it is on
    /// the device. It takes the name of a file that is there, which whoever has it open keeps.
    ///
    /// # Errors
    /// If the system refuses; a full disk does so here, and not when the map is written.
    fn make(&self, path: &Path, bytes: usize, durability: Durability) -> io::Result<Self::Map>;

    /// Writes `bytes` zeros over a file, which stays the same file, and has that length afterwards.
    ///
    /// # Errors
    /// As [`Disk::make`], which it does without more.
    fn make_over(&self, path: &Path, bytes: usize) -> io::Result<Self::Map> {
        self.make(path, bytes, Durability::Process)
    }

    /// Maps an existing file, which must not be empty.
    ///
    /// # Errors
    /// If the system refuses.
    fn open(&self, path: &Path) -> io::Result<Self::Map>;

    /// Writes zeros into an open file from `start` to its end, and claims their place.
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

    /// Gives a file another name, in place of a file that has it.
    ///
    /// # Errors
    /// If the system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file another name where no file has it, perhaps on another file system: there it is
    /// under that name only when it is whole and on the device.
    ///
    /// # Errors
    /// If the system refuses.
    fn move_to(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.rename(from, to)
    }

    /// Puts a compressed copy in the place of a file, under its name and `.zst`. A process that
    /// ends in between leaves the file, perhaps beside the copy.
    ///
    /// # Errors
    /// If the system refuses, or it can't be done here, which is what it does without more.
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

/// A whole file in memory. Its bytes are those of the file: what is written outlives the process.
pub trait Map: DerefMut<Target = [u8]> + fmt::Debug + Send {
    /// Syncs the file, also while the map is being written.
    type Syncer: Syncer;

    /// Stores a length word behind everything written before it: whoever sees the word, even after
    /// this process was killed, sees the rest.
    fn publish(&mut self, at: usize, len: u32);

    /// Everything written so far comes before what is done to files next.
    fn settle(&mut self);

    /// The means to sync this file.
    fn syncer(&self) -> Self::Syncer;

    /// As [`Syncer::sync`].
    ///
    /// # Errors
    /// As [`Syncer::sync`].
    fn sync(&mut self, start: usize, end: usize) -> io::Result<()> {
        self.syncer().sync(start, end)
    }
}

/// Syncs a file that is mapped, in whatever thread.
pub trait Syncer: fmt::Debug + Send + 'static {
    /// Returns once what was published or settled in the range, before the call, is on the device.
    ///
    /// # Errors
    /// If the system refuses; what is on the device is not known then.
    fn sync(&self, start: usize, end: usize) -> io::Result<()>;
}
