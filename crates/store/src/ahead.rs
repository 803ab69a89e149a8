//! The preparation of the next segment: when it is made in advance, and its length.
//!
//! Invariants:
//! - Making a segment delays messages no longer than making a short segment. With power durability
//!   the delay lasts until the segment is on the device.
//! - A store never waits for a segment that another thread is making. The store makes a short
//!   segment instead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::Options;
use crate::segment::{self, Asked, Preparation, io_error};
use crate::threads::Helpers;

/// Maximum length of a segment that must be made while messages wait, unless one batch needs more.
/// Making a segment of this length takes about 0.1 ms.
const SHORT: usize = 256 << 10;
/// Length that a segment may always have, even in a quiet store, so that a store of few messages a
/// second makes few segments a day.
const STEADY: usize = 1 << 20;
/// A segment may be as long as the bytes that the store receives in this time, in nanoseconds.
const BUSY_NS: u64 = 500_000_000;
/// Minimum time, in nanoseconds, over which a rate of bytes is computed, because a single long
/// message does not predict the following messages.
const ELAPSED_NS_MIN: u64 = 50_000_000;

/// Prepares the segments of one store in advance.
#[derive(Debug)]
pub(crate) struct Ahead<D: Disk> {
    helpers: Arc<Helpers>,
    next: Option<Preparation<D>>,
    /// Offset and time of the first record since the segment began or the store was opened.
    begun: Option<(usize, u64)>,
    now_ns: u64,
}

/// The extent of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Has {
    /// The number of the store's last segment.
    pub(crate) number: u64,
    /// Total bytes of all segments in use.
    pub(crate) held: usize,
    /// The offset of the next record in the last segment.
    pub(crate) tail: usize,
}

impl<D: Disk> Ahead<D> {
    pub(crate) fn new(helpers: Arc<Helpers>) -> Self {
        Self { helpers, next: None, begun: None, now_ns: 0 }
    }

    pub(crate) fn help_by(&mut self, helpers: Arc<Helpers>) {
        self.helpers = helpers;
    }

    pub(crate) const fn helpers(&self) -> &Arc<Helpers> {
        &self.helpers
    }

    /// Records that a record was put at offset `at` at time `now_ns`.
    pub(crate) fn note(&mut self, at: usize, now_ns: u64) {
        if now_ns < self.now_ns {
            // The clock was set back, so the measurement begins again.
            self.begun = None;
        }
        self.now_ns = now_ns;
        self.begun.get_or_insert((at, now_ns));
    }

    /// Returns the number of bytes that the store receives in half a second at the current rate.
    fn busy_bytes(&self, tail: usize) -> usize {
        let Some((at, begun_ns)) = self.begun else { return 0 };
        let elapsed_ns = self.now_ns.saturating_sub(begun_ns).max(ELAPSED_NS_MIN);
        let bytes = tail.saturating_sub(at) as u64;
        usize::try_from(bytes.saturating_mul(BUSY_NS) / elapsed_ns).unwrap_or(usize::MAX)
    }

    /// Returns the length for the segment that will follow the last segment.
    fn bytes(&self, options: &Options, has: &Has) -> usize {
        // The length may grow with the bytes in the store, so that even a large store has only some
        // dozens of segments. Each segment uses one of the limited mappings of a process
        // (`vm.max_map_count`).
        let allowed = self.busy_bytes(has.tail).max(has.held).max(STEADY);
        options.segment_bytes_within(has.number + 1, allowed)
    }

    /// Returns the maximum length of the next segment.
    pub(crate) fn bytes_max(&self, options: &Options, has: &Has) -> usize {
        let prepared = self.next.as_ref().map_or(0, |next| next.bytes);
        self.bytes(options, has).max(prepared)
    }

    /// Returns true if the next segment should be made in advance now; called at each commit.
    /// `is_near` means that a rotation is near, even if the last segment is almost empty.
    pub(crate) fn is_time(&self, len: usize, tail: usize, is_near: bool) -> bool {
        // A busy store fills a segment within milliseconds, so its next segment is made earlier.
        let is_used = || tail > len / 2 || (tail > len / 4 && self.busy_bytes(tail) > STEADY);
        self.next.is_none() && (is_near || is_used())
    }

    /// Starts making the next segment in a helper thread.
    pub(crate) fn prepare(
        &mut self,
        (disk, dir): (&D, &Path),
        options: &Options,
        has: &Has,
        report: fn(&StoreError),
    ) {
        if disk.makes_ahead() {
            let path = segment::path_new(dir, has.number + 1);
            let order = (self.bytes(options, has), options.durability);
            self.next = Some(Preparation::start(disk, path, order, &self.helpers, report));
        }
    }

    /// Returns the next segment with room for `needed` bytes, and its temporary path. If the
    /// segment must be made now, it has room for `wanted` bytes.
    pub(crate) fn take(
        &mut self,
        (disk, dir): (&D, &Path),
        options: &Options,
        has: &Has,
        (needed, wanted): (usize, usize),
    ) -> Result<(D::Map, PathBuf), StoreError> {
        let bytes = self.bytes(options, has);
        self.begun = None;
        let asked = self.next.as_mut().map_or(Asked::Nothing, Preparation::look);
        let is_under_way = matches!(asked, Asked::UnderWay);
        if !is_under_way {
            let path = self.next.take().map(Preparation::forget);
            if let (Asked::Made(map), Some(path)) = (asked, path) {
                if map.len() >= needed {
                    return Ok((map, path));
                }
                // The prepared segment is too short for the message. If its file cannot be removed
                // now, it is removed when the store is next opened.
                drop(disk.remove(&path));
            }
        }
        let bytes = if disk.makes_ahead() { bytes.min(SHORT) } else { bytes };
        // Another thread is still making a segment under the usual name, so the next number is
        // used.
        let number = has.number + 1 + u64::from(is_under_way);
        let path = segment::path_new(dir, number);
        let made = disk.make(&path, bytes.max(wanted), options.durability);
        Ok((made.map_err(|source| io_error(&path, source))?, path))
    }

    /// Discards a segment that is being made in advance, after waiting until its thread has
    /// finished.
    pub(crate) fn forget(&mut self) {
        (self.next, self.begun) = (None, None);
    }
}
