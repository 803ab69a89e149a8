//! Segment files: their names, and making one off the path of messages.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use crate::compress;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::Durability;

/// What a compressed segment's name has behind the other's.
const COMPRESSED: &str = ".zst";

/// The file name of the segment with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:08}.seg")
}

/// The segment with this number.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// The same segment while it is made; it counts only under its final name.
pub(crate) fn path_new(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.new"))
}

/// The numbers of all segments in `dir`, compressed or not, ascending.
pub(crate) fn list(disk: &impl Disk, dir: &Path) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    for path in disk.list(dir).map_err(|source| io_error(dir, source))? {
        let Some(name) = path.file_name() else { continue };
        let Some(name) = name.to_str() else { continue };
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
        let number = name.strip_suffix(".seg").and_then(|number| number.parse::<u32>().ok());
        // Only the name which `path` gives; "1.seg" is somebody else's.
        if let Some(number) = number.filter(|number| *name == *self::name((*number).into())) {
            numbers.push(number.into());
        }
    }
    numbers.sort_unstable();
    // Who was killed while he compressed one has left both.
    numbers.dedup();
    Ok(numbers)
}

/// Whether this is the name of a segment while it is made, or compressed.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_suffix(".new")) else { return false };
    let digits = name.strip_suffix(".seg").unwrap_or(name);
    // Only the names which `path_new` and `compress` give; "notes.new" is somebody else's.
    digits.parse::<u32>().is_ok_and(|number| *digits == format!("{number:08}"))
}

/// Whether there is such a segment, compressed or not.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists() || compressed(path).exists()
}

/// The same segment when it is compressed.
pub(crate) fn compressed(path: &Path) -> PathBuf {
    compress::with(path, compress::ENDING)
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), source }
}

/// A segment that another thread is making.
#[derive(Debug)]
pub(crate) struct Preparation<D: Disk> {
    disk: D,
    thread: Option<JoinHandle<Option<D::Map>>>,
    path: PathBuf,
}

impl<D: Disk> Preparation<D> {
    /// Begins. What goes wrong is told to `report` at once; the segment is then made when it is
    /// needed, as it is without a thread.
    pub(crate) fn start(
        disk: &D,
        path: PathBuf,
        bytes: usize,
        durability: Durability,
        report: fn(&StoreError),
    ) -> Self {
        let name = "store-segment".to_owned();
        let (maker, target) = (disk.clone(), path.clone());
        let make = move || {
            let made = maker.make(&target, bytes, durability);
            made.map_err(|source| report(&io_error(&target, source))).ok()
        };
        let thread = thread::Builder::new().name(name).spawn(make).ok();
        Self { disk: disk.clone(), thread, path }
    }

    /// The segment, unless it could not be made; waits for it if it is still being made.
    pub(crate) fn finish(&mut self) -> Option<D::Map> {
        self.thread.take()?.join().ok()?
    }
}

impl<D: Disk> Drop for Preparation<D> {
    /// A thread that outlived the lock could destroy another store's file.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
            // What is left behind is removed when the store is opened.
            drop(self.disk.remove(&self.path));
        }
    }
}
