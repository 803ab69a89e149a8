//! Constant bytes between what is written anew.

use alloc::vec::Vec;

use super::tail::Tail;

const BLOCK: usize = 32;

/// Bytes kept in whole blocks: a copy of constant size is a store, one of variable size a call.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    blocks: Vec<[u8; BLOCK]>,
    /// Bytes of the last block that count.
    last: usize,
}

impl Piece {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let block = |part: &[u8]| {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            block
        };
        let blocks = bytes.chunks(BLOCK).map(block).collect();
        Self { blocks, last: bytes.chunks(BLOCK).last().map_or(0, <[u8]>::len) }
    }

    #[inline(always)]
    pub(super) fn write(&self, tail: &mut Tail<'_>) {
        if let Some((last, whole)) = self.blocks.split_last() {
            for block in whole {
                tail.store(block, BLOCK);
            }
            tail.store(last, self.last);
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
