//! Layouts: the tags of messages that came before, in their order. A message with the same ones
//! needs no tag read and no field searched.
//!
//! Invariants: a layout says what reading and searching would say, whatever came before; it has no
//! data field, whose end depends on a value; messages that all differ cost a few percent more than
//! without layouts; the memory is bounded.

use alloc::vec::Vec;

use crate::{Tag, data};

/// Messages with more fields spend their time elsewhere.
pub(super) const FIELDS_MAX: usize = 32;
/// Layouts that are known at once, each in the place that its number of fields gives it.
pub(super) const LAYOUTS: usize = 4;
/// One in 128 messages of unknown layout is learned.
const UNKNOWN_PER_LAYOUT: u32 = 128;
/// Which of them is learned, from 0 on: an index that sees a message or two learns none.
const UNKNOWN_LEARNED: u32 = 2;
/// Misses, or other messages that want its place, before a layout is ignored.
const CREDIT: u8 = 3;
/// Places of the table that finds a tag.
const SLOTS: usize = 64;
/// No field has a tag of this place.
const NO_FIELD: u8 = u8::MAX;

/// The layouts of one index.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    pub(super) known: Vec<Layout>,
    /// Messages that had none of them.
    unknown: u32,
    /// Above 0 while most messages have a known one: each of them adds 1, each other takes 2.
    credit: u8,
    /// The place of the last message's layout in `known`; `usize::MAX` for none.
    current: usize,
}

/// The common parts of all messages with these tags. The entry behind the last field is 0.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    count: usize,
    credit: u8,
    pub(super) tags: [Tag; FIELDS_MAX],
    /// Tag and `=` of each field, as they stand on the wire, first byte lowest.
    pub(super) heads: [u32; FIELDS_MAX],
    /// Their bytes among the first four of a field.
    pub(super) masks: [u32; FIELDS_MAX],
    /// How many bytes these are.
    pub(super) lens: [u8; FIELDS_MAX],
    /// Which field is the first one with a tag of this place.
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

    /// Takes the layout of a frame with these tags, whose fields and values begin there. Returns
    /// whether it can be one.
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

    /// Where the first occurrence of `tag` stands, if there is one; `None` if another tag has the
    /// same place in the table, so that it must be searched for.
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
    /// Makes room for all layouts at once: nothing is allocated when one is learned.
    pub(super) fn grow(&mut self) {
        self.known.resize(LAYOUTS, Layout::NONE);
    }

    /// The layout of the last message, if that has a known one.
    #[inline(always)]
    pub(super) fn current(&self) -> Option<&Layout> {
        self.known.get(self.current)
    }

    /// The next message has none as far as is known.
    #[inline(always)]
    pub(super) const fn forget_current(&mut self) {
        self.current = usize::MAX;
    }

    /// The layout that a message of so many fields may have.
    #[inline(always)]
    pub(super) fn likely(&self, count: usize) -> Option<&Layout> {
        let layout = self.known.get(count % LAYOUTS)?;
        (layout.count == count && layout.credit > 0).then_some(layout)
    }

    /// Notes whether a message of so many fields has the likely layout, and returns it.
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

    /// Returns true if the next message is likely to have a known one.
    #[inline(always)]
    pub(super) const fn are_usual(&self) -> bool {
        self.credit > 0
    }

    /// Returns true if the message of unknown layout that was just indexed is to be learned.
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
        // One that messages have had lately stays.
        match known.credit.checked_sub(1) {
            Some(left) => known.credit = left,
            None if known.take(tags, places, frame) => {}
            None => known.count = 0,
        }
    }
}
