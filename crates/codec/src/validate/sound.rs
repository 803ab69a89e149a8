//! The usual message: sound. One quick walk says so, or that a closer look is due.
//!
//! Invariant: what is sound here passes every check of [`Check`](super::Check), whatever the
//! switches; the other way round it need not be so.

use super::tables::{Body, Layout, Look, NO_GROUP, Place, Tables};
use super::{Scratch, values};
use crate::{Field, Fields, Tag, value};

/// A walk over a message that is expected to be sound.
pub(super) struct Sound<'c, 'm> {
    pub(super) tables: &'c Tables,
    pub(super) message: &'c Fields<'m>,
    pub(super) scratch: &'c mut Scratch,
    /// The next field.
    pub(super) at: usize,
}

impl Sound<'_, '_> {
    /// Whether the message is sound.
    pub(super) fn holds(mut self, body: &Body) -> bool {
        let tables = self.tables;
        let layouts = [tables.header, body.layout, tables.trailer];
        let epoch = self.scratch.next_epoch();
        let mut sections = layouts.iter().map(|layout| &tables.layouts[*layout]);
        let Some(mut layout) = sections.next() else { return false };
        let mut required = 0_usize;
        let mut fields = self.message.fields();
        while let Some(field) = fields.next() {
            let place = loop {
                if let Some(place) = layout.place(field.tag.0) {
                    break place;
                }
                // The section ends, or the field has no place in the message.
                let Some(next) = sections.next() else { return false };
                if required != layout.required.len() {
                    return false;
                }
                (layout, required) = (next, 0);
            };
            let Some(mark) = self.scratch.marks.get_mut(place.mark as usize) else { return false };
            if core::mem::replace(mark, epoch) == epoch || !self.is_value(field, place) {
                return false;
            }
            required = required.wrapping_add(usize::from(place.required));
            if place.group != NO_GROUP {
                self.at = self.message.len() - fields.len();
                if !self.group(field, place) {
                    return false;
                }
                fields = self.message.slice(self.at, self.message.len()).fields();
            }
        }
        required == layout.required.len() && sections.next().is_none()
    }

    #[inline(always)]
    fn is_value(&self, field: Field<'_>, place: &Place) -> bool {
        let rule = |place: &Place| &self.tables.fields[place.field as usize];
        match place.look {
            _ if field.value.is_empty() => false,
            Look::Text => true,
            Look::Codes => rule(place).is_code(field.value),
            Look::Decimal => crate::Decimal::parse(field.value).is_some(),
            Look::Timestamp => crate::Timestamp::parse(field.value).is_some(),
            Look::Form => values::fits(rule(place).data_type, field.value),
            Look::Data => self.is_as_long_as_said(field),
        }
    }

    /// Whether a data field is as long as a field of the message says; the standard lets it be the
    /// one before, and then it was read by it.
    #[cold]
    fn is_as_long_as_said(&self, field: Field<'_>) -> bool {
        let said = crate::data::length_of(field.tag).and_then(|length| self.message.raw(length));
        said.and_then(value::uint) == Some(field.value.len() as u64)
    }

    /// Whether as many sound entries follow as `count` says.
    fn group(&mut self, count: Field<'_>, place: &Place) -> bool {
        let layout = &self.tables.layouts[place.group as usize];
        let Some(count) = value::uint(count.value).filter(|count| *count > 0) else {
            return false;
        };
        let first = Tag(layout.first);
        for _ in 0..count {
            if self.message.at(self.at).is_none_or(|field| field.tag != first)
                || !self.entry(layout)
            {
                return false;
            }
        }
        // One entry more, or a field that could stand at a level around.
        self.message.at(self.at).is_none_or(|field| field.tag != first)
    }

    fn entry(&mut self, layout: &Layout) -> bool {
        let (begin, mut next, mut required) = (self.at, 0, 0);
        while let Some(field) = self.message.at(self.at)
            && let Some(place) = layout.place(field.tag.0)
        {
            if self.at > begin && field.tag.0 == layout.first {
                break;
            }
            if place.mark < next || !self.is_value(field, place) {
                return false;
            }
            next = place.mark + 1;
            required += usize::from(place.required);
            self.at += 1;
            if place.group != NO_GROUP && !self.group(field, place) {
                return false;
            }
        }
        required == layout.required.len()
    }
}
