//! Field heads: the tag and `=`, precomputed for common tags.

use super::tail::Tail;
use crate::Tag;

/// The bytes `tag=` as an integer, first byte lowest; at most five bytes.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(super) word: u64,
    pub(super) len: usize,
}

/// The heads `tag=` of the tags below 4096; the highest byte contains the length.
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
    /// An empty head, for a value whose tag is already written.
    pub(crate) const NONE: Self = Self { word: 0, len: 0 };

    /// Returns the head `tag=` from the table.
    ///
    /// The table lacks user-defined tags and the tags of recent extension packs. For such a tag,
    /// this function writes the head to `tail` and returns an empty head.
    #[inline(always)]
    pub(super) fn of(tag: Tag, tail: &mut Tail<'_>) -> Self {
        let Some(&head) = HEADS.get(tag.0 as usize) else {
            tail.slice(itoa::Buffer::new().format(tag.0).as_bytes());
            tail.store(b"=", 1);
            return Self::NONE;
        };
        Self { word: head & ((1 << LEN_SHIFT) - 1), len: (head >> LEN_SHIFT) as usize }
    }

    /// Writes the head to the start of `room`; returns the offset of the value, at most 7.
    #[inline(always)]
    pub(super) fn open<const N: usize>(self, room: &mut [u8; N]) -> usize {
        room[..8].copy_from_slice(&self.word.to_le_bytes());
        self.len & 7
    }
}
