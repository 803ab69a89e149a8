//! Constant bytes between what is written anew.

use alloc::vec::Vec;

use super::tail::Tail;

const BLOCK: usize = 32;

/// Bytes whose beginning is kept in a block: a copy of constant size is a store, one of variable
/// size a call. Most pieces are no longer.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    block: [u8; BLOCK],
    /// Bytes of the block that count.
    len: usize,
    rest: Vec<u8>,
}

impl Piece {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let (begin, rest) = bytes.split_at(bytes.len().min(BLOCK));
        let mut block = [0; BLOCK];
        block[..begin.len()].copy_from_slice(begin);
        Self { block, len: begin.len(), rest: rest.to_vec() }
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
            Piece::new(&bytes[..n]).write(&mut tail);
            drop(tail);
            assert_eq!(out, [b"before", &bytes[..n]].concat());
        }
    }
}
