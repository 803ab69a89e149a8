//! The options for opening a file store.

use crate::format;
use crate::header::HEADER;

/// The failures that a commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// Any end of the process, but not a power failure.
    Process,
    /// A power failure. A commit is safe when the device has stored it; a thread of the store waits
    /// for the device.
    Power,
}

/// The options for opening a [`FileStore`](crate::FileStore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The failures that a commit survives.
    pub durability: Durability,
    /// Length of the first segment in bytes. The following segments are up to 16 times as long,
    /// then up to 256 times, and so on. A segment is longer than 1 MiB only if as many bytes arrive
    /// in half a second, or if the store already contains as many bytes.
    pub segment_bytes_first: usize,
    /// Maximum length of a segment in bytes, unless one batch needs more.
    pub segment_bytes_max: usize,
}

impl Default for Options {
    /// Returns options with process durability, and with segments from 8 KiB to 64 MiB.
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            segment_bytes_first: 8 << 10,
            segment_bytes_max: 64 << 20,
        }
    }
}

impl Options {
    /// Returns the length of segment `number` in bytes, limited by `allowed`.
    pub(crate) fn segment_bytes_within(&self, number: u64, allowed: usize) -> usize {
        let shift = u32::try_from(number.saturating_mul(4)).unwrap_or(u32::MAX);
        let grown = 1_usize.checked_shl(shift).unwrap_or(usize::MAX);
        let grown = self.segment_bytes_first.saturating_mul(grown);
        let wanted = grown.min(allowed.max(self.segment_bytes_first));
        wanted
            .min(self.segment_bytes_max)
            .clamp(SEGMENT_MIN, SEGMENT_MAX)
            .next_multiple_of(format::ALIGN)
    }

    pub(crate) const fn is_durable(&self) -> bool {
        matches!(self.durability, Durability::Power)
    }
}

const SEGMENT_MIN: usize = HEADER + format::RECORD_HEADER;
/// Upper limit of `segment_bytes_max`: 1 GiB leaves room for any batch within offsets of 32 bits.
const SEGMENT_MAX: usize = 1 << 30;
