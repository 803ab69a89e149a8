//! Which segments a store keeps, and what becomes of the others.
//!
//! **Invariant:** a segment leaves the store's directory only if the newest segment, which is in
//! its place by then, asks for none as early. Neither opening the store nor a resend needs it.

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

/// The messages that a [`FileStore`] keeps, and for how long. By default everything, in its
/// directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Where segments go that nothing needs any more, under their names: those from before the last
    /// reset, and those beyond `bytes_max`. For this store alone; on another file system than the
    /// store's they are copied. Without one they stay where they are.
    pub archive_dir: Option<PathBuf>,
    /// If true, such segments are compressed, there or where they stay. Only with the cargo feature
    /// `zstd`; reading them needs it too.
    pub compress: Compress,
    /// Such a segment is deleted when its newest record is older than this; never if 0.
    pub delete_after: Duration,
    /// The first record of a new stretch of this length, counted from 1970, begins a new segment; 0
    /// for none.
    pub rotate_every: Duration,
    /// Bytes that the segments since the last reset may take; 0 for any. At least the current one
    /// and the one before are kept.
    pub bytes_max: u64,
    /// The reaction when they would take more.
    pub when_full: WhenFull,
}

/// If true, segments that nothing needs any more are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compress {
    /// They stay as they are.
    #[default]
    Never,
    /// With zstd, as `NUMBER.seg.zst`.
    Zstd,
}

/// The reaction of a store when its messages would take more room than they may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenFull {
    /// The oldest are no longer found: a resend fills their numbers as a gap.
    #[default]
    Forget,
    /// The next one is refused by [`StoreError::Full`].
    Refuse,
}

/// A store's retention at work.
#[derive(Debug)]
pub(crate) struct Keeper {
    retention: Retention,
    report: fn(&StoreError),
    /// The time of the current segment's first record, if it has one.
    begun_ns: Option<u64>,
    /// The time of the last record.
    now_ns: u64,
    sweep: Option<JoinHandle<()>>,
    wanted: Arc<Mutex<Wanted>>,
}

/// The work that is left to the thread that moves and deletes.
#[derive(Debug, Default)]
struct Wanted {
    /// Only the newest is kept: it covers the segments of all earlier ones.
    next: Option<Unneeded>,
    /// A thread runs that looks at `next` once more before it ends.
    is_awaited: bool,
}

/// Segments that a store does not need.
#[derive(Clone, Copy, Debug)]
struct Unneeded {
    /// The first one that it does.
    end: u64,
    /// Those whose newest record is older are deleted; none if 0.
    delete_before_ns: u64,
}

impl Wanted {
    /// The next piece of work; without one the thread ends.
    fn take(wanted: &Mutex<Self>) -> Option<Unneeded> {
        let mut wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.is_awaited = wanted.next.is_some();
        wanted.next.take()
    }
}

impl Keeper {
    /// Returns true if a record at that time belongs into another segment than the current one's
    /// first.
    #[inline(never)]
    fn is_due(&self, at_ns: u64) -> bool {
        let every_ns = nanos(self.retention.rotate_every);
        every_ns > 0 && self.begun_ns.is_some_and(|begun| begun / every_ns != at_ns / every_ns)
    }

    /// Waits for the thread that moves and deletes: once the lock is given up it could move
    /// another store's file.
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

/// The next segment is made this long before its time begins.
const AHEAD_NS: u64 = 60_000_000_000;

impl<D: Disk> FileStore<D> {
    /// Keeps from now on what `retention` says, and sees to it at once: `now_ns` is UTC nanoseconds
    /// since 1970. Moving and deleting happens in a thread of its own, now and whenever a segment
    /// is sealed; what fails there is told to `report` and tried again the next time.
    pub fn retain(&mut self, retention: Retention, now_ns: u64, report: fn(&StoreError)) {
        let first = self.segments.last().get(HEADER..).and_then(format::read_record);
        let begun_ns = first.map(|framed| framed.time_ns);
        let (sweep, wanted) = (None, Arc::default());
        self.keeper = Some(Keeper { retention, report, begun_ns, now_ns, sweep, wanted });
        self.sweep(now_ns);
    }

    /// Returns true if the batch that begins at that time begins a new segment.
    pub(crate) fn is_rotation_due(&self, now_ns: u64) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.is_due(now_ns))
    }

    /// Returns true if that will be so before long.
    pub(crate) fn is_rotation_near(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.is_due(keeper.now_ns + AHEAD_NS))
    }

    /// A record was put at that time.
    pub(crate) fn note_time(&mut self, now_ns: u64) {
        if let Some(keeper) = &mut self.keeper {
            keeper.now_ns = now_ns;
            keeper.begun_ns.get_or_insert(now_ns);
        }
    }

    /// The first segment to be kept beside a new one of that many bytes.
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

    /// A new segment is in its place, which asks for none before `border` but for what waits there.
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

    /// Moves and deletes what is not needed.
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
        // It is at its end, if there is one.
        keeper.settle();
        let wanted = Arc::clone(&keeper.wanted);
        let work = move || {
            while let Some(unneeded) = Wanted::take(&wanted) {
                run(unneeded);
            }
        };
        // Without a thread it waits for the next segment.
        keeper.sweep = self.ahead.helpers().spawn("store-archive", work).ok();
    }
}

/// The segments to be moved and deleted.
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
                // Those that follow are younger; the age of an unsound one is not known.
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
                    // A process that ended between the copy and this left both.
                    self.disk.remove(&from).map_err(|source| io_error(&from, source))?;
                    continue;
                }
                if let Some(found) = taken.first() {
                    // Perhaps of a store that was here before: nothing is written over.
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

    /// The segment, its compressed form, or both, as they are there.
    fn files(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let all = [path.to_path_buf(), segment::compressed(path)];
        all.into_iter().filter(|path| self.disk.len(path).is_ok())
    }

    /// Numbers of segments there which the store does not need, wherever they lie.
    fn numbers(&self, dir: &Path, unneeded: Unneeded) -> Result<Vec<u64>, StoreError> {
        let mut numbers = segment::list(&self.disk, dir)?;
        numbers.retain(|number| *number < unneeded.end);
        Ok(numbers)
    }

    /// The time of the last sound record; `None` if the segment has none.
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
