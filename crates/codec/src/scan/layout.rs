//! Layouts: the tags of earlier messages, in their order.
//!
//! A message with a known layout needs no parsing of tags and no search for fields.
//!
//! Invariants: a layout gives the same result as parsing and searching, for any earlier messages. A
//! layout has no data field, whose end depends on a value. If all messages differ, layouts cost a
//! few percent of time. The memory is bounded.

use alloc::vec::Vec;

use crate::{Tag, data};

/// Maximum number of fields of a layout. Larger messages spend their time elsewhere.
pub(super) const FIELDS_MAX: usize = 32;
/// Number of stored layouts; the number of fields determines the position of each.
pub(super) const LAYOUTS: usize = 4;
/// One of this many messages with unknown layout is learned.
const UNKNOWN_PER_LAYOUT: u32 = 128;
/// Which of these messages is learned, from 0; an index used for one or two messages learns none.
const UNKNOWN_LEARNED: u32 = 2;
/// Number of misses, or of competing messages, before a layout is ignored.
const CREDIT: u8 = 3;
/// Number of slots in the table that finds a tag.
const SLOTS: usize = 64;
/// Marks a slot without a field.
const NO_FIELD: u8 = u8::MAX;

/// The stored layouts of one index.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) known: Vec<Layout>,
    /// Number of messages without a known layout.
    unknown: u32,
    /// Above 0 while most messages have a known layout: each hit adds 1, each miss subtracts 2.
    credit: u8,
    /// Index in `known` of the last message's layout; `usize::MAX` for none.
    current: usize,
}

/// The common parts of all messages with these tags. Elements after the last field are 0.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    count: usize,
    credit: u8,
    pub(super) tags: [Tag; FIELDS_MAX],
    /// Encoded tag and `=` of each field, first byte lowest.
    pub(super) heads: [u32; FIELDS_MAX],
    /// Mask of the `heads` bytes among the first four bytes of a field.
    pub(super) masks: [u32; FIELDS_MAX],
    /// Length of tag and `=` of each field, in bytes.
    pub(super) lens: [u8; FIELDS_MAX],
    /// For each slot, the index of the first field whose tag has the slot.
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

    /// Stores the layout of a frame with these tags, field offsets and value offsets.
    ///
    /// Returns false if the frame cannot be a layout.
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
    /// Returns `None` if another tag has the same slot, so that a search is needed.
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

    /// Returns the layout of the last message, if known.
    #[inline(always)]
    pub(super) fn current(&self) -> Option<&Layout> {
        self.known.get(self.current)
    }

    /// Clears the current layout before the next message.
    #[inline(always)]
    pub(super) const fn forget_current(&mut self) {
        self.current = usize::MAX;
    }

    /// Returns the layout that a message with `count` fields may have.
    #[inline(always)]
    pub(super) fn likely(&self, count: usize) -> Option<&Layout> {
        let layout = self.known.get(count % LAYOUTS)?;
        (layout.count == count && layout.credit > 0).then_some(layout)
    }

    /// Records whether a message with `count` fields has the likely layout; returns `is_likely`.
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

    /// Returns true if the just indexed message of unknown layout is to be learned.
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
        // A recently used layout is kept.
        match known.credit.checked_sub(1) {
            Some(left) => known.credit = left,
            None if known.take(tags, places, frame) => {}
            None => known.count = 0,
        }
    }
}
