//! Constant bytes between what is written anew, and the one way in which anything is appended.

use alloc::vec::Vec;

const BLOCK: usize = 32;

/// Bytes kept in whole blocks: a copy of constant size is a store, one of variable size a call.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    blocks: Vec<[u8; BLOCK]>,
    len: usize,
}

impl Piece {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let block = |part: &[u8]| {
            let mut block = [0; BLOCK];
            block[..part.len()].copy_from_slice(part);
            block
        };
        Self { blocks: bytes.chunks(BLOCK).map(block).collect(), len: bytes.len() }
    }

    #[inline]
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let end = out.len().wrapping_add(self.len);
        for block in &self.blocks {
            out.extend_from_slice(block);
        }
        out.truncate(end);
    }
}

/// Appends the first `len` bytes of `block`: the whole of it is one store, and what is too much is
/// taken back.
#[inline]
pub(crate) fn append<const N: usize>(out: &mut Vec<u8>, block: [u8; N], len: usize) {
    let end = out.len().wrapping_add(len);
    out.extend_from_slice(&block);
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_each_length() {
        let bytes: Vec<u8> = (0..100).collect();
        for n in 0..100 {
            let mut out = b"before".to_vec();
            Piece::new(&bytes[..n]).append(&mut out);
            assert_eq!(out, [b"before", &bytes[..n]].concat());
        }
    }
}
