//! A batch of records that is not yet published: the offsets of its records in the current segment.

/// The records of one batch, after the last published record of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) start: usize,
    pub(crate) tail: usize,
    /// The length word of the first record, which only the commit writes.
    pub(crate) first_len: u32,
    /// Offset of the last record, which is sealed when it is known whether another record follows.
    pub(crate) last: usize,
    pub(crate) last_len: u32,
}

impl Batch {
    pub(crate) const fn empty(at: usize) -> Self {
        Self { start: at, tail: at, first_len: 0, last: at, last_len: 0 }
    }
}
