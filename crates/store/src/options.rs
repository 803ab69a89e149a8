//! How a store in files is opened.

use crate::format;
use crate::header::HEADER;

/// The failures that a commit outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The end of the process, however it comes; not a power cut.
    Process,
    /// A power cut: a commit is safe when the device has it, which a thread of the store waits for.
    Power,
}

/// How a [`FileStore`](crate::FileStore) is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The failures that a commit outlives.
    pub durability: Durability,
    /// Length of the first segment in bytes. The next ones are up to 16 and 256 times as long, and
    /// so on. They are longer than 1 MiB only if half a second brings as much, or if the store
    /// holds as much already.
    pub segment_bytes_first: usize,
    /// Length of a segment in bytes at most, unless one batch needs more.
    pub segment_bytes_max: usize,
}

impl Default for Options {
    /// Process durability, segments from 8 KiB to 64 MiB.
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            segment_bytes_first: 8 << 10,
            segment_bytes_max: 64 << 20,
        }
    }
}

impl Options {
    /// The length of the segment with this number, of which not more is wanted than `allowed`.
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
/// Offsets have 32 bits: 1 GiB leaves room for any batch.
const SEGMENT_MAX: usize = 1 << 30;
