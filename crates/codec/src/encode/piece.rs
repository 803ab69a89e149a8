//! Constant byte strings that headers and templates write between variable values.

use alloc::vec::Vec;

use super::tail::Tail;
use crate::scan;

/// A constant byte string whose beginning is stored in a block of `N` bytes.
///
/// Copying a block of constant size compiles to a few stores, whereas copying a variable size is a
/// call. Most byte strings fit into the block.
#[derive(Clone, Debug)]
pub(crate) struct Piece<const N: usize = 32> {
    block: [u8; N],
    /// Number of used bytes in the block.
    len: usize,
    rest: Vec<u8>,
    /// The sum of all bytes.
    sum: u8,
}

impl<const N: usize> Piece<N> {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let (begin, rest) = bytes.split_at(bytes.len().min(N));
        let mut block = [0; N];
        block[..begin.len()].copy_from_slice(begin);
        Self { block, len: begin.len(), rest: rest.to_vec(), sum: scan::sum(bytes) }
    }

    /// Returns the block, the length and the sum if the byte string leaves at least one byte of the
    /// block free.
    #[inline(always)]
    pub(super) fn short(&self) -> Option<(&[u8; N], usize, u8)> {
        (self.len < N).then_some((&self.block, self.len % N, self.sum))
    }

    #[inline(always)]
    pub(super) fn write(&self, tail: &mut Tail<'_>) {
        tail.store(&self.block, self.len);
        if !self.rest.is_empty() {
            tail.slice(&self.rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_each_length() {
        let bytes: Vec<u8> = (0..100).collect();
        for n in 0..100 {
            let mut out = b"before".to_vec();
            let mut tail = Tail::open(&mut out);
            Piece::<32>::new(&bytes[..n]).write(&mut tail);
            drop(tail);
            assert_eq!(out, [b"before", &bytes[..n]].concat());
        }
    }
}
