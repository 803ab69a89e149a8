//! The retention of a store: which segments it keeps, and what happens to the others.
//!
//! **Invariant:** a segment leaves the store's directory only when the newest segment is in place
//! and no longer refers to it. From then on, neither opening the store nor a resend needs the
//! segment.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::compress;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::file::FileStore;
use crate::format;
use crate::header::{HEADER, SegmentHeader};
use crate::index::Index;
use crate::place::{Place, first_needed};
use crate::segment::{self, io_error};

/// The settings for which messages a [`FileStore`] keeps, and for how long. By default, everything
/// stays in its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The directory to which unneeded segments are moved, under their names. A segment is unneeded
    /// if it precedes the last reset, or if `bytes_max` is exceeded. The directory must serve only
    /// this store. If it is on another file system, segments are copied. With `None`, segments stay
    /// in the store's directory.
    pub archive_dir: Option<PathBuf>,
    /// The compression of unneeded segments, in the archive or in the store's directory.
    /// Compressing and reading compressed segments needs the Cargo feature `zstd`.
    pub compress: Compress,
    /// An unneeded segment is deleted when its newest record is older than this. 0 means never.
    pub delete_after: Duration,
    /// Length of the periods into which time is divided, counted from 1970. The first record of a
    /// period begins a new segment. 0 disables this rotation.
    pub rotate_every: Duration,
    /// Maximum total bytes of the segments since the last reset; 0 means no limit. The current
    /// segment and the preceding one are always kept.
    pub bytes_max: u64,
    /// The reaction when the segments would exceed `bytes_max`.
    pub when_full: WhenFull,
}

/// The compression of unneeded segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compress {
    /// Segments stay uncompressed.
    #[default]
    Never,
    /// Segments are compressed with zstd, into files `NUMBER.seg.zst`.
    Zstd,
}

/// The reaction of a store when its messages would exceed their limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The oldest messages are no longer found. A resend covers their numbers by gap fills.
    #[default]
    Forget,
    /// The store refuses the next message with [`StoreError::Full`].
    Refuse,
}

/// The state of a store's retention.
#[derive(Debug)]
pub(crate) struct Keeper {
    retention: Retention,
    report: fn(&StoreError),
    /// The time of the first record in the current segment; `None` if the segment has none.
    begun_ns: Option<u64>,
    /// The time of the last record.
    now_ns: u64,
    sweep: Option<JoinHandle<()>>,
    wanted: Arc<Mutex<Wanted>>,
}

/// The requests to the thread that moves and deletes segments.
#[derive(Debug, Default)]
struct Wanted {
    /// The newest request, which includes the segments of all earlier requests.
    next: Option<Unneeded>,
    /// True if a running thread will read `next` once more before it ends.
    is_awaited: bool,
}

/// The segments that a store no longer needs.
#[derive(Clone, Copy, Debug)]
struct Unneeded {
    /// The number of the first segment that the store still needs.
    end: u64,
    /// A segment is deleted if its newest record is older than this time; 0 means that no segment
    /// is deleted.
    delete_before_ns: u64,
}

impl Wanted {
    /// Removes and returns the next request. If there is none, the thread must end.
    fn take(wanted: &Mutex<Self>) -> Option<Unneeded> {
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.is_awaited = wanted.next.is_some();
        wanted.next.take()
    }
}

impl Keeper {
    /// Returns true if a record at time `at_ns` is in another period than the first record of the
    /// current segment.
    #[inline(never)]
    fn is_due(&self, at_ns: u64) -> bool {
        let every_ns = nanos(self.retention.rotate_every);
        every_ns > 0 && self.begun_ns.is_some_and(|begun| begun / every_ns != at_ns / every_ns)
    }

    /// Waits until the thread that moves and deletes segments has ended. After the lock is
    /// released, the thread could move files of another store.
    fn settle(&mut self) {
        if let Some(thread) = self.sweep.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.settle();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Time in nanoseconds before the beginning of a period at which its segment is made in advance.
const AHEAD_NS: u64 = 60_000_000_000;

impl<D: Disk> FileStore<D> {
    /// Applies `retention` at once and from now on. `now_ns` is in UTC nanoseconds since 1970. A
    /// separate thread moves and deletes segments, now and whenever a segment is completed. Errors
    /// are passed to `report`, and the work is tried again the next time.
    pub fn retain(&mut self, retention: Retention, now_ns: u64, report: fn(&StoreError)) {
        let first = self.segments.last().get(HEADER..).and_then(format::read_record);
        let begun_ns = first.map(|framed| framed.time_ns);
        let (sweep, wanted) = (None, Arc::default());
        self.keeper = Some(Keeper { retention, report, begun_ns, now_ns, sweep, wanted });
        self.sweep(now_ns);
    }

    /// Returns true if a batch at time `now_ns` must begin a new segment, because it is the first
    /// of a period.
    pub(crate) fn is_rotation_due(&self, now_ns: u64) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.is_due(now_ns))
    }

    /// Returns true if a new period begins soon.
    pub(crate) fn is_rotation_near(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.is_due(keeper.now_ns + AHEAD_NS))
    }

    /// Records that a record was put at `now_ns`.
    pub(crate) fn note_time(&mut self, now_ns: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.now_ns = now_ns;
            keeper.begun_ns.get_or_insert(now_ns);
        }
    }

    /// Returns the number of the first segment that can be kept when a new segment of `bytes` bytes
    /// is added.
    pub(crate) fn first_kept(&self, bytes: usize) -> Result<u64, StoreError> {
        let all = &self.segments;
        let Some(Keeper { retention, .. }) = &self.keeper else { return Ok(self.border) };
        let bytes_max = retention.bytes_max;
        let maps = &all.maps[(self.border - all.first) as usize..];
        let mut taken = bytes as u64 + maps.iter().map(|map| map.len() as u64).sum::<u64>();
        if bytes_max == 0 || taken <= bytes_max {
            return Ok(self.border);
        }
        if retention.when_full == WhenFull::Refuse {
            return Err(StoreError::Full { bytes_max });
        }
        let mut first = self.border;
        for map in &maps[..maps.len() - 1] {
            if taken <= bytes_max {
                break;
            }
            taken -= map.len() as u64;
            first += 1;
        }
        Ok(first)
    }

    /// Drops the segments before `border`, except those with queued messages. A new segment must be
    /// in place that needs no other earlier segments.
    pub(crate) fn forget_before(&mut self, border: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.begun_ns = None;
        }
        self.segments.drop_before(first_needed(&self.ledger, border));
        if border == std::mem::replace(&mut self.border, border) {
            return;
        }
        let forget = |index: &mut Index<Place>| {
            while index.first().is_some_and(|place| u64::from(place.segment) < border) {
                index.forget_first();
            }
        };
        forget(&mut self.ledger.outbound);
        forget(&mut self.ledger.inbound);
    }

    pub(crate) fn settle_sweep(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.settle();
        }
    }

    /// Requests that unneeded segments are moved and deleted.
    pub(crate) fn sweep(&mut self, now_ns: u64) {
        let Some(keeper) = &mut self.keeper else { return };
        let Retention { archive_dir, delete_after, compress, .. } = &keeper.retention;
        let does_nothing =
            archive_dir.is_none() && delete_after.is_zero() && *compress == Compress::Never;
        if does_nothing {
            return;
        }
        let Ok(newest) = SegmentHeader::decode(self.segments.last()) else { return };
        let sweep = Sweep {
            disk: self.disk.clone(),
            dir: self.dir.clone(),
            archive_dir: archive_dir.clone(),
            compress: *compress,
        };
        let delete_before_ns = match nanos(*delete_after) {
            0 => 0,
            age => now_ns.saturating_sub(age),
        };
        let unneeded = Unneeded { end: newest.reset_segment, delete_before_ns };
        let report = keeper.report;
        let run = move |unneeded| sweep.run(unneeded).unwrap_or_else(|error| report(&error));
        if !self.disk.makes_ahead() {
            return run(unneeded);
        }
        let is_busy = keeper.sweep.as_ref().is_some_and(|thread| !thread.is_finished());
        let mut wanted = keeper.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.next = Some(unneeded);
        if std::mem::replace(&mut wanted.is_awaited, true) && is_busy {
            return;
        }
        drop(wanted);
        // If there still is a thread, it is about to end.
        keeper.settle();
        let wanted = Arc::clone(&keeper.wanted);
        let work = move || {
            while let Some(unneeded) = Wanted::take(&wanted) {
                run(unneeded);
            }
        };
        // If no thread can be started, the request is repeated with the next segment.
        keeper.sweep = self.ahead.helpers().spawn("store-archive", work).ok();
    }
}

/// A run of moving and deleting segments.
struct Sweep<D> {
    disk: D,
    dir: PathBuf,
    archive_dir: Option<PathBuf>,
    compress: Compress,
}

impl<D: Disk> Sweep<D> {
    fn run(&self, unneeded: Unneeded) -> Result<(), StoreError> {
        if let Some(archive) = &self.archive_dir {
            self.move_to(archive, unneeded)?;
        }
        let dir = self.archive_dir.as_ref().unwrap_or(&self.dir);
        self.delete(dir, unneeded)?;
        if self.compress == Compress::Zstd {
            for number in self.numbers(dir, unneeded)? {
                let path = segment::path(dir, number);
                if self.disk.len(&path).is_ok() {
                    self.disk.compress(&path).map_err(|source| io_error(&path, source))?;
                }
            }
        }
        Ok(())
    }

    fn delete(&self, dir: &Path, unneeded: Unneeded) -> Result<(), StoreError> {
        let delete_before_ns = unneeded.delete_before_ns;
        if delete_before_ns == 0 {
            return Ok(());
        }
        for number in self.numbers(dir, unneeded)? {
            let path = segment::path(dir, number);
            match self.newest_ns(&path)? {
                Some(newest_ns) if newest_ns < delete_before_ns => {
                    for path in self.files(&path) {
                        self.disk.remove(&path).map_err(|source| io_error(&path, source))?;
                    }
                }
                // Later segments are newer. If a segment has no valid record, its age is unknown.
                _ => break,
            }
        }
        Ok(())
    }

    fn move_to(&self, archive: &Path, unneeded: Unneeded) -> Result<(), StoreError> {
        self.disk.create_dir(archive).map_err(|source| io_error(archive, source))?;
        for number in self.numbers(&self.dir, unneeded)? {
            let to = segment::path(archive, number);
            let taken: Vec<_> = self.files(&to).collect();
            for from in self.files(&segment::path(&self.dir, number)) {
                let to = archive.join(from.file_name().unwrap_or_default());
                if taken == [to.clone()] && self.is_copy(&from, &to)? {
                    // Both files exist if a process ended after copying and before removing the
                    // segment.
                    self.disk.remove(&from).map_err(|source| io_error(&from, source))?;
                    continue;
                }
                if let Some(found) = taken.first() {
                    // The existing file may belong to an earlier store, so it is not overwritten.
                    return Err(io_error(found, std::io::ErrorKind::AlreadyExists.into()));
                }
                self.disk.move_to(&from, &to).map_err(|source| io_error(&to, source))?;
            }
        }
        Ok(())
    }

    fn is_copy(&self, one: &Path, other: &Path) -> Result<bool, StoreError> {
        let map = |path: &Path| self.disk.open(path).map_err(|source| io_error(path, source));
        Ok(map(one)?[..] == map(other)?[..])
    }

    /// Returns the existing files of a segment: the uncompressed one, the compressed one, or both.
    fn files(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let all = [path.to_path_buf(), segment::compressed(path)];
        all.into_iter().filter(|path| self.disk.len(path).is_ok())
    }

    /// Returns the numbers of unneeded segments in `dir`.
    fn numbers(&self, dir: &Path, unneeded: Unneeded) -> Result<Vec<u64>, StoreError> {
        let mut numbers = segment::list(&self.disk, dir)?;
        numbers.retain(|number| *number < unneeded.end);
        Ok(numbers)
    }

    /// Returns the time of the last valid record; `None` if the segment has no valid record.
    fn newest_ns(&self, path: &Path) -> Result<Option<u64>, StoreError> {
        let newest_ns = |file: &[u8]| {
            let header = SegmentHeader::decode(file).ok()?;
            let (mut start, seal, mut newest_ns) = (header.first(), header.seal(), None);
            while let Some(end) = format::batch_end(file, start, seal) {
                newest_ns = format::records(file, start, end).map(|(_, r)| r.time_ns).last();
                start = end;
            }
            newest_ns
        };
        let found = match self.disk.open(path) {
            Ok(file) => newest_ns(&file),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                newest_ns(&compress::read(path).map_err(|source| io_error(path, source))?)
            }
            Err(source) => return Err(io_error(path, source)),
        };
        Ok(found)
    }
}
