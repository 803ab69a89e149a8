//! What stands before a value: the tag and `=`, ready for the usual tags.

use alloc::vec::Vec;

use super::piece::append;
use crate::Tag;

/// `tag=`, first byte lowest; at most five bytes.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(super) word: u64,
    pub(super) len: usize,
}

/// The heads of the tags below 4096, and in the highest byte their lengths.
static HEADS: [u64; 4096] = heads();
const LEN_SHIFT: u32 = 56;

const fn heads() -> [u64; 4096] {
    let mut heads = [0; 4096];
    let mut tag = 0;
    while tag < heads.len() {
        let (mut head, mut len) = (b'=' as u64, 1);
        let mut number = tag as u64;
        while number > 0 || len == 1 {
            head = head << 8 | (b'0' as u64 + number % 10);
            number /= 10;
            len += 1;
        }
        heads[tag] = head | len << LEN_SHIFT;
        tag += 1;
    }
    heads
}

impl Head {
    /// For a value whose tag is there already.
    pub(crate) const NONE: Self = Self { word: 0, len: 0 };

    /// The head of `tag`; a rare one, which does not fit, is written at once.
    #[inline]
    pub(super) fn of(tag: Tag, out: &mut Vec<u8>) -> Self {
        if let Some(&head) = HEADS.get(tag.0 as usize) {
            return Self { word: head & ((1 << LEN_SHIFT) - 1), len: (head >> LEN_SHIFT) as usize };
        }
        write(tag, out);
        Self::NONE
    }

    #[inline]
    pub(super) fn append(self, out: &mut Vec<u8>) {
        append(out, self.word.to_le_bytes(), self.len);
    }
}

/// A tag of a user, or of the newest extension packs.
#[cold]
fn write(tag: Tag, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(tag.0).as_bytes());
    out.push(b'=');
}
