//! A batch that is not published yet: where its records lie in the current segment.

/// Records of one batch, behind the last one of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    pub(crate) start: usize,
    pub(crate) tail: usize,
    /// The first record's length word, not written before the commit.
    pub(crate) first_len: u32,
    /// The last record, not sealed before it is known whether another follows.
    pub(crate) last: usize,
    pub(crate) last_len: u32,
}

impl Batch {
    pub(crate) const fn empty(at: usize) -> Self {
        Self { start: at, tail: at, first_len: 0, last: at, last_len: 0 }
    }
}
