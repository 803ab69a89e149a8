//! How a store in files is opened.

use crate::format;
use crate::header::HEADER;

/// What a commit outlives.
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
    /// What a commit outlives.
    pub durability: Durability,
    /// Length of the first segment in bytes; each later one is four times as long as the one
    /// before.
    pub segment_bytes_first: usize,
    /// Length of a segment in bytes at most, unless one batch needs more.
    pub segment_bytes_max: usize,
}

impl Default for Options {
    /// Process durability, segments from 1 MiB to 64 MiB.
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            segment_bytes_first: 1 << 20,
            segment_bytes_max: 64 << 20,
        }
    }
}

impl Options {
    pub(crate) fn segment_bytes(&self, number: u64) -> usize {
        let shift = u32::try_from(number.saturating_mul(2)).unwrap_or(u32::MAX);
        let grown = 1_usize.checked_shl(shift).unwrap_or(usize::MAX);
        let bytes = self.segment_bytes_first.saturating_mul(grown).min(self.segment_bytes_max);
        bytes.clamp(SEGMENT_MIN, SEGMENT_MAX).next_multiple_of(format::ALIGN)
    }

    pub(crate) const fn is_durable(&self) -> bool {
        matches!(self.durability, Durability::Power)
    }
}

const SEGMENT_MIN: usize = HEADER + format::RECORD_HEADER;
/// Offsets have 32 bits: 1 GiB leaves room for any batch.
const SEGMENT_MAX: usize = 1 << 30;
