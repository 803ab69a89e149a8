//! Layouts: the sequences of tags of earlier messages.
//!
//! In a message with a known layout, the code need not parse tags or search for fields.
//!
//! Invariants: a layout gives the same result as parsing and searching, for any earlier messages. A
//! layout has no data field, because the end of a data field depends on a value. If all messages
//! differ, layouts cost a few percent of time. The memory is bounded.

use alloc::vec::Vec;

use crate::{Tag, data};

/// Maximum number of fields of a layout. For larger messages, layouts would save too little time.
pub(super) const FIELDS_MAX: usize = 32;
/// Number of stored layouts; the slot of a layout is its number of fields modulo this number.
pub(super) const LAYOUTS: usize = 4;
/// From each run of this many messages with unknown layouts, a single layout is learned.
const UNKNOWN_PER_LAYOUT: u32 = 128;
/// Position in the run, from 0, of the message whose layout is learned; an index used for only one
/// or two messages learns none.
const UNKNOWN_LEARNED: u32 = 2;
/// Number of misses, or of attempts to learn another layout, until a stored layout is replaced.
const CREDIT: u8 = 3;
/// Number of slots in a layout's table from tags to fields.
const SLOTS: usize = 64;
/// The value of a slot that no field uses.
const NO_FIELD: u8 = u8::MAX;

/// The stored layouts of one index.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) known: Vec<Layout>,
    /// Number of messages so far whose layout was unknown.
    unknown: u32,
    /// Above 0 while most messages have a known layout: each hit adds 1, each miss subtracts 2.
    credit: u8,
    /// Index in `known` of the last message's layout; `usize::MAX` for none.
    current: usize,
}

/// The common properties of all messages with the same tags in the same order. Array elements after
/// the last field are 0.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    count: usize,
    credit: u8,
    pub(super) tags: [Tag; FIELDS_MAX],
    /// The bytes `tag=` of each field, first byte lowest.
    pub(super) heads: [u32; FIELDS_MAX],
    /// For each field, the mask that selects the bytes `tag=` among the first four bytes of the
    /// field.
    pub(super) masks: [u32; FIELDS_MAX],
    /// Length of `tag=` of each field, in bytes.
    pub(super) lens: [u8; FIELDS_MAX],
    /// For each slot, the index of the first field whose tag maps to the slot.
    first: [u8; SLOTS],
}

impl Layout {
    const NONE: Self = Self {
        count: 0,
        credit: 0,
        tags: [Tag(0); FIELDS_MAX],
        heads: [0; FIELDS_MAX],
        masks: [0; FIELDS_MAX],
        lens: [0; FIELDS_MAX],
        first: [NO_FIELD; SLOTS],
    };

    /// Stores the layout of a frame; the arguments are the tags, field offsets and value offsets of
    /// its fields.
    ///
    /// Returns false if the frame has a field that a layout cannot represent, such as a data field.
    fn take(&mut self, tags: &[Tag], (starts, values): (&[u32], &[u32]), frame: &[u8]) -> bool {
        *self = Self::NONE;
        for (n, ((tag, start), value)) in tags.iter().zip(starts).zip(values).enumerate() {
            let len = value.wrapping_sub(*start);
            let bytes = frame.get(*start as usize..).and_then(<[u8]>::first_chunk);
            let (Some(bytes), 2..=4) = (bytes, len) else { return false };
            if *tag == Tag(0) || data::length_of(*tag).is_some() {
                return false;
            }
            let mask = u32::MAX >> (32 - 8 * len);
            (self.tags[n], self.lens[n], self.masks[n]) = (*tag, len as u8, mask);
            self.heads[n] = u32::from_le_bytes(*bytes) & mask;
            let first = &mut self.first[tag.0 as usize % SLOTS];
            *first = (n as u8).min(*first);
        }
        (self.count, self.credit) = (tags.len(), CREDIT);
        true
    }

    /// Returns the index of the first occurrence of `tag`, or `Some(None)` if `tag` is absent.
    ///
    /// Returns `None` if a field with another tag occupies the slot, so that a search is needed.
    #[inline(always)]
    pub(crate) fn position(&self, tag: Tag) -> Option<Option<usize>> {
        let first = self.first[tag.0 as usize % SLOTS];
        if first == NO_FIELD {
            return Some(None);
        }
        let first = usize::from(first) % FIELDS_MAX;
        (self.tags[first] == tag).then_some(Some(first))
    }
}

impl Layouts {
    /// Allocates room for all layouts at once, so that learning does not allocate.
    pub(super) fn grow(&mut self) {
        self.known.resize(LAYOUTS, Layout::NONE);
    }

    /// Returns the layout of the last message, if that layout is known.
    #[inline(always)]
    pub(super) fn current(&self) -> Option<&Layout> {
        self.known.get(self.current)
    }

    /// Marks the layout of the next message as unknown until it is matched.
    #[inline(always)]
    pub(super) const fn forget_current(&mut self) {
        self.current = usize::MAX;
    }

    /// Returns the only stored layout that a message with `count` fields may have.
    #[inline(always)]
    pub(super) fn likely(&self, count: usize) -> Option<&Layout> {
        let layout = self.known.get(count % LAYOUTS)?;
        (layout.count == count && layout.credit > 0).then_some(layout)
    }

    /// Records whether a message with `count` fields has the layout of [`Layouts::likely`]; returns
    /// `is_likely`.
    #[inline(always)]
    pub(super) fn note(&mut self, count: usize, is_likely: bool) -> bool {
        let layout = &mut self.known[count % LAYOUTS];
        if is_likely {
            (self.current, layout.credit) = (count % LAYOUTS, CREDIT);
            self.credit = self.credit.saturating_add(1);
        } else {
            layout.credit = layout.credit.saturating_sub(1);
        }
        is_likely
    }

    /// Returns true if the next message is likely to have a known layout.
    #[inline(always)]
    pub(super) const fn are_usual(&self) -> bool {
        self.credit > 0
    }

    /// Returns true if the layout of the message just indexed, which is unknown, is to be learned.
    #[inline(always)]
    pub(super) const fn wants(&mut self) -> bool {
        self.credit = self.credit.saturating_sub(2);
        let unknown = self.unknown;
        self.unknown = unknown.wrapping_add(1);
        unknown % UNKNOWN_PER_LAYOUT == UNKNOWN_LEARNED
    }

    #[cold]
    #[inline(never)]
    pub(super) fn learn(&mut self, tags: &[Tag], places: (&[u32], &[u32]), frame: &[u8]) {
        if tags.len() > FIELDS_MAX {
            return;
        }
        self.credit = CREDIT;
        let Some(known) = self.known.get_mut(tags.len() % LAYOUTS) else { return };
        // A layout with credit was used recently and is kept.
        match known.credit.checked_sub(1) {
            Some(left) => known.credit = left,
            None if known.take(tags, places, frame) => {}
            None => known.count = 0,
        }
    }
}
