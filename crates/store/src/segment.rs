//! Segment files: their names, and making one off the path of messages.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::compress;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::Durability;
use crate::threads::Helpers;

/// The end of a compressed segment's name, behind the other's.
const COMPRESSED: &str = ".zst";

/// The file name of the segment with this number.
pub(crate) fn name(number: u64) -> String {
    let mut name = String::new();
    write_name(&mut name, number);
    name
}

/// The same, behind what is in `name`.
pub(crate) fn write_name(name: &mut String, number: u64) {
    // A text takes anything.
    let _ = write!(name, "{number:08}.seg");
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
    // A process that was killed while it compressed one has left both.
    numbers.dedup();
    Ok(numbers)
}

/// Returns true if this is the name of a segment while it is made, or compressed.
pub(crate) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.and_then(|name| name.strip_suffix(".new")) else { return false };
    let digits = name.strip_suffix(".seg").unwrap_or(name);
    // Only the names which `path_new` and `compress` give; "notes.new" is somebody else's.
    digits.parse::<u32>().is_ok_and(|number| *digits == format!("{number:08}"))
}

/// Returns true if there is such a segment, compressed or not.
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

/// The state of a segment that was asked for.
pub(crate) enum Asked<M> {
    Made(M),
    UnderWay,
    /// Nobody had begun, or it could not be made.
    Nothing,
}

/// A segment that another thread is making, or will.
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
    /// Nobody has begun.
    Asked,
    Begun,
    /// With the segment, unless it could not be made.
    Done(Option<M>),
    /// It is not wanted any more, or it was taken.
    Over,
}

impl<M> Making<M> {
    fn lock(&self) -> MutexGuard<'_, Stage<M>> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk> Preparation<D> {
    /// Asks for it. `report` hears of an error at once. The segment is then made when it is needed,
    /// as it is if nobody has begun by then.
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
            let guard = Told { making: of_maker };
            let made = maker.make(&target, bytes, durability);
            let made = made.map_err(|source| report(&io_error(&target, source))).ok();
            *guard.making.lock() = Stage::Done(made);
        };
        helpers.ask(bytes, Box::new(make));
        Self { disk: disk.clone(), path, bytes, making }
    }

    /// The state of it, without waiting. Unless it is under way, nobody makes it any more.
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

    /// Where it is, for whoever has taken it.
    pub(crate) fn forget(mut self) -> PathBuf {
        std::mem::take(&mut self.path)
    }
}

impl<D: Disk> Drop for Preparation<D> {
    /// A thread that outlived the lock could destroy another store's file.
    fn drop(&mut self) {
        let (stage, changed) = (self.making.lock(), &self.making.changed);
        drop(changed.wait_while(stage, |stage| matches!(stage, Stage::Begun)));
        if let Asked::Made(_) = self.look() {
            // A file that is left behind is removed when the store is opened.
            drop(self.disk.remove(&self.path));
        }
    }
}

/// Wakes who waits for a segment, also if making it panics.
struct Told<M> {
    making: Arc<Making<M>>,
}

impl<M> Drop for Told<M> {
    fn drop(&mut self) {
        let mut stage = self.making.lock();
        if matches!(*stage, Stage::Begun) {
            *stage = Stage::Done(None);
        }
        drop(stage);
        self.making.changed.notify_all();
    }
}
