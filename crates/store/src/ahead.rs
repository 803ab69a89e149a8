//! The next segment, made ahead of time: when, and how large.
//!
//! Invariant: making a segment holds up messages by no more than a short one takes, with power
//! durability until the device has it. Nobody waits for a segment that is not there when it is
//! needed: a short one takes its place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::StoreError;
use crate::options::Options;
use crate::segment::{self, Asked, Preparation, io_error};
use crate::threads::Helpers;

/// A segment that is made while messages wait is this long at most, unless one batch needs more:
/// it takes some 0.1 ms.
const SHORT: usize = 256 << 10;
/// However little comes, a segment may be as long as this: a store of few messages a second has few
/// segments a day.
const STEADY: usize = 1 << 20;
/// A segment may be as long as what comes in this time, in nanoseconds.
const BUSY_NS: u64 = 500_000_000;
/// Bytes that came in less time than this, in nanoseconds, count as if they had taken it. One long
/// message says nothing of the next ones.
const ELAPSED_NS_MIN: u64 = 50_000_000;

/// The pace of one store.
#[derive(Debug)]
pub(crate) struct Ahead<D: Disk> {
    helpers: Arc<Helpers>,
    next: Option<Preparation<D>>,
    /// Where the first record lies that was put since the segment began or the store was opened,
    /// and when that was.
    begun: Option<(usize, u64)>,
    now_ns: u64,
}

/// Bytes that the store has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Has {
    /// The number of the last segment.
    pub(crate) number: u64,
    /// Bytes of all segments in use.
    pub(crate) held: usize,
    /// Where the next record of the last one goes.
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

    /// A record is put at this place.
    pub(crate) fn note(&mut self, at: usize, now_ns: u64) {
        if now_ns < self.now_ns {
            // The clock was set back.
            self.begun = None;
        }
        self.now_ns = now_ns;
        self.begun.get_or_insert((at, now_ns));
    }

    /// Bytes that come in half a second.
    fn busy_bytes(&self, tail: usize) -> usize {
        let Some((at, begun_ns)) = self.begun else { return 0 };
        let elapsed_ns = self.now_ns.saturating_sub(begun_ns).max(ELAPSED_NS_MIN);
        let bytes = tail.saturating_sub(at) as u64;
        usize::try_from(bytes.saturating_mul(BUSY_NS) / elapsed_ns).unwrap_or(usize::MAX)
    }

    /// The length of the segment behind the last one.
    fn bytes(&self, options: &Options, has: &Has) -> usize {
        // Bytes that the store holds. A large store has some dozens of segments. Each takes one of
        // the mappings that a process may have (`vm.max_map_count`).
        let allowed = self.busy_bytes(has.tail).max(has.held).max(STEADY);
        options.segment_bytes_within(has.number + 1, allowed)
    }

    /// The length of the next segment at most.
    pub(crate) fn bytes_max(&self, options: &Options, has: &Has) -> usize {
        let prepared = self.next.as_ref().map_or(0, |next| next.bytes);
        self.bytes(options, has).max(prepared)
    }

    /// Returns true if it is time to have the next segment made, asked at each commit; `is_near` if
    /// its time comes, however empty the last one is.
    pub(crate) fn is_time(&self, len: usize, tail: usize, is_near: bool) -> bool {
        // A busy store asks earlier: it is a matter of milliseconds.
        let is_used = || tail > len / 2 || (tail > len / 4 && self.busy_bytes(tail) > STEADY);
        self.next.is_none() && (is_near || is_used())
    }

    /// Has the next segment made.
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

    /// The next segment with room for `needed` bytes, and the name that it has meanwhile. One that
    /// is made now has room for `wanted` bytes.
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
                // Too short for this message. A file that is left behind is removed when the store
                // opens.
                drop(disk.remove(&path));
            }
        }
        let bytes = if disk.makes_ahead() { bytes.min(SHORT) } else { bytes };
        // One that is under way has the other name.
        let number = has.number + 1 + u64::from(is_under_way);
        let path = segment::path_new(dir, number);
        let made = disk.make(&path, bytes.max(wanted), options.durability);
        Ok((made.map_err(|source| io_error(&path, source))?, path))
    }

    /// Gives up the segment that is being made, and waits until nobody makes it.
    pub(crate) fn forget(&mut self) {
        (self.next, self.begun) = (None, None);
    }
}
