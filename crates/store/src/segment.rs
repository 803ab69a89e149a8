//! Segment files: their names, and making them in advance.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::compress;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::Durability;
use crate::threads::Helpers;

/// The extension of a compressed segment's file name.
const COMPRESSED: &str = ".zst";

/// Returns the file name of segment `number`.
pub(crate) fn name(number: u64) -> String {
    let mut name = String::new();
    write_name(&mut name, number);
    name
}

/// Appends the file name of segment `number` to `name`.
pub(crate) fn write_name(name: &mut String, number: u64) {
    // Writing to a `String` cannot fail.
    let _ = write!(name, "{number:08}.seg");
}

/// Returns the path of segment `number`.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(name(number))
}

/// Returns the path of a segment while it is being made. A segment is part of the store only under
/// its final name.
pub(crate) fn path_new(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.new"))
}

/// Returns the numbers of all segments in `dir`, compressed or not, ascending.
pub(crate) fn list(disk: &impl Disk, dir: &Path) -> Result<Vec<u64>, StoreError> {
    let mut numbers = Vec::new();
    for path in disk.list(dir).map_err(|source| io_error(dir, source))? {
        let Some(name) = path.file_name() else { continue };
        let Some(name) = name.to_str() else { continue };
        let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
        let number = name.strip_suffix(".seg").and_then(|number| number.parse::<u32>().ok());
        // Only a file with exactly the name that `name` gives is a segment; "1.seg" belongs to
        // another program.
        if let Some(number) = number.filter(|number| *name == *self::name((*number).into())) {
            numbers.push(number.into());
        }
    }
    numbers.sort_unstable();
    // A process that was killed during compression has left both files of a segment.
    numbers.dedup();
    Ok(numbers)
}

/// Returns true if `path` is the name of a segment that is being made or compressed.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_suffix(".new")) else { return false };
    let digits = name.strip_suffix(".seg").unwrap_or(name);
    // Only the exact names from `path_new` and `compress` are accepted; "notes.new" belongs to
    // another program.
    digits.parse::<u32>().is_ok_and(|number| *digits == format!("{number:08}"))
}

/// Returns true if the segment exists, compressed or not.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists() || compressed(path).exists()
}

/// Returns the path of the segment's compressed form.
pub(crate) fn compressed(path: &Path) -> PathBuf {
    compress::with(path, compress::ENDING)
}

pub(crate) fn io_error(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_path_buf(), source }
}

/// The progress of a segment that was requested in advance.
pub(crate) enum Asked<M> {
    Made(M),
    UnderWay,
    /// The segment was not requested, or could not be made.
    Nothing,
}

/// A segment that another thread is making, or will make.
#[derive(Debug)]
pub(crate) struct Preparation<D: Disk> {
    disk: D,
    path: PathBuf,
    pub(crate) bytes: usize,
    making: Arc<Making<D::Map>>,
}

#[derive(Debug)]
struct Making<M> {
    stage: Mutex<Stage<M>>,
    changed: Condvar,
}

#[derive(Debug)]
enum Stage<M> {
    /// The segment is requested, but no thread has begun to make it.
    Asked,
    Begun,
    /// The thread has ended: the segment, or `None` if it could not be made.
    Done(Option<M>),
    /// The segment was taken, or the request was cancelled.
    Over,
}

impl<M> Making<M> {
    fn lock(&self) -> MutexGuard<'_, Stage<M>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Preparation<D> {
    /// Requests the segment from a helper thread. An error is passed to `report` at once. If the
    /// segment cannot be made or is not begun in time, the store makes one when it needs it.
    pub(crate) fn start(
        disk: &D,
        path: PathBuf,
        (bytes, durability): (usize, Durability),
        helpers: &Helpers,
        report: fn(&StoreError),
    ) -> Self {
        let making = Making { stage: Mutex::new(Stage::Asked), changed: Condvar::new() };
        let making = Arc::new(making);
        let (maker, target, of_maker) = (disk.clone(), path.clone(), Arc::clone(&making));
        let make = move || {
            match &mut *of_maker.lock() {
                stage @ Stage::Asked => *stage = Stage::Begun,
                _ => return,
            }
            let guard = WakeOnDrop { making: of_maker };
            let made = maker.make(&target, bytes, durability);
            let made = made.map_err(|source| report(&io_error(&target, source))).ok();
            *guard.making.lock() = Stage::Done(made);
        };
        helpers.ask(bytes, Box::new(make));
        Self { disk: disk.clone(), path, bytes, making }
    }

    /// Returns the progress without waiting. If no thread has begun to make the segment, the
    /// request is cancelled.
    pub(crate) fn look(&mut self) -> Asked<D::Map> {
        let mut stage = self.making.lock();
        if matches!(*stage, Stage::Begun) {
            return Asked::UnderWay;
        }
        match std::mem::replace(&mut *stage, Stage::Over) {
            Stage::Done(Some(map)) => Asked::Made(map),
            _ => Asked::Nothing,
        }
    }

    /// Returns the path of the segment, after the caller has taken the segment.
    pub(crate) fn forget(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl<D: Disk> Drop for Preparation<D> {
    /// Waits until the thread has ended. A thread that outlived the lock could destroy a file of
    /// another store.
    fn drop(&mut self) {
        let (stage, changed) = (self.making.lock(), &self.making.changed);
        drop(changed.wait_while(stage, |stage| matches!(stage, Stage::Begun)));
        if let Asked::Made(_) = self.look() {
            // If the file cannot be removed now, it is removed when the store is next opened.
            drop(self.disk.remove(&self.path));
        }
    }
}

/// Wakes the thread that waits for a segment, even if the thread that makes the segment panics.
struct WakeOnDrop<M> {
    making: Arc<Making<M>>,
}

impl<M> Drop for WakeOnDrop<M> {
    fn drop(&mut self) {
        let mut stage = self.making.lock();
        if matches!(*stage, Stage::Begun) {
            *stage = Stage::Done(None);
        }
        drop(stage);
        self.making.changed.notify_all();
    }
}
