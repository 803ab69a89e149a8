//! The fast check of valid messages, the common case. For any other message, it requests the full
//! check.
//!
//! Invariant: a message that passes here would pass every check of [`Check`](super::check::Check),
//! whatever the switches, except the conditions of the standard's descriptions
//! ([`Switches::conditions`](super::Switches::conditions)). The converse need not hold.

use super::OuterFields;
use super::check::{Section, Stop};
use super::codes::{FieldRule, ValueCheck};
use super::tables::{Body, Layout, LayoutField, Level, NO_GROUP, Tables, is_common_code};
use super::values::{self, LastTime};
use crate::{Field, Fields, Tag, digits, value};

/// A fast check of a message that is expected to be valid.
pub(super) struct Sound<'c, 'm> {
    pub(super) tables: &'c Tables,
    pub(super) body: &'c Body,
    pub(super) message: &'c Fields<'m>,
    /// For each position of a layout, the epoch in which a field was last seen there.
    pub(super) marks: &'c mut [u32],
    pub(super) around: &'c OuterFields,
    pub(super) last_time: &'c mut LastTime,
    pub(super) epoch: u32,
    /// Index of the current field.
    pub(super) at: usize,
}

impl Sound<'_, '_> {
    /// Checks that the message is valid; otherwise returns the point at which the full check must
    /// begin.
    pub(super) fn check(mut self) -> Result<(), Stop> {
        use Section::{Body as Middle, Header, Trailer};
        let epoch = self.epoch;
        let sections = [Header, Middle, Trailer].into_iter().zip(self.tables.sections(self.body));
        let mut reached = Header;
        for (section, layout) in sections {
            let begin = self.at;
            let is_sound = self.section(layout);
            if self.at > begin {
                reached = section;
            }
            if !is_sound {
                return Err(Stop { section: reached, at: self.at, epoch });
            }
        }
        let all = self.at == self.message.len();
        all.then_some(()).ok_or(Stop { section: reached, at: self.at, epoch })
    }

    /// Checks the next fields as far as `layout` defines them; returns true if they are valid and
    /// no required field is missing.
    #[inline(always)]
    fn section(&mut self, layout: &Layout) -> bool {
        let (message, epoch) = (self.message, self.epoch);
        let mut required = 0_usize;
        let mut fields = message.slice(self.at, message.len()).fields();
        while let Some(field) = fields.next()
            && let Some(place) = layout.place(field.tag.0)
        {
            let mark = self.marks[place.mark as usize];
            if mark == epoch || !self.is_value(field, place) {
                return false;
            }
            let begin = self.at;
            self.at = begin.wrapping_add(1);
            if place.group != NO_GROUP {
                if !self.group(field, place, None) {
                    self.at = begin;
                    return false;
                }
                fields = message.slice(self.at, message.len()).fields();
            }
            self.marks[place.mark as usize] = epoch;
            required = required.wrapping_add(usize::from(place.required));
        }
        required == layout.required.len()
            && (layout.conditional.is_empty() || self.keeps_conditions(layout))
    }

    /// Returns true if a section contains all conditionally required fields.
    #[cold]
    #[inline(never)]
    fn keeps_conditions(&self, layout: &Layout) -> bool {
        let (marks, epoch, message) = (&self.marks, self.epoch, self.message);
        let is_there = |mark: u32, _| marks[mark as usize] == epoch;
        layout.lacking(is_there, |tag| message.raw(Tag(tag))).next().is_none()
    }

    /// Returns true if a group entry contains all conditionally required fields.
    #[cold]
    #[inline(never)]
    fn entry_keeps_conditions(&self, level: Level<'_>) -> bool {
        let (end, message) = (self.at, self.message);
        level.layout.lacking_in(level, end, message, self.around).next().is_none()
    }

    #[inline(always)]
    fn is_value(&mut self, field: Field<'_>, place: &LayoutField) -> bool {
        let tables = self.tables;
        let rule = |place: &LayoutField| &tables.fields[place.field as usize];
        match place.look {
            _ if field.value.is_empty() => false,
            ValueCheck::Text => true,
            ValueCheck::Codes => {
                is_common_code(place.codes, field.value) || rule(place).is_code(field.value)
            }
            // A number beyond the range of `Decimal` is valid but rare, so it is left to the full
            // check.
            ValueCheck::Decimal => crate::Decimal::parse(field.value).is_some(),
            ValueCheck::Digits => digits::are_all(field.value),
            ValueCheck::Int => digits::are_int(field.value),
            ValueCheck::Timestamp => self.last_time.is_timestamp(field.value),
            ValueCheck::Form => values::fits(place.data_type, field.value),
            ValueCheck::Data => self.is_as_long_as_said(field, rule(place)),
        }
    }

    /// Returns true if the length of the data field equals the preceding Length field.
    #[cold]
    fn is_as_long_as_said(&self, field: Field<'_>, rule: &FieldRule) -> bool {
        let before = self.at.checked_sub(1).and_then(|n| self.message.at(n));
        rule.length_in(before) == Some(field.value.len() as u64)
    }

    /// Returns true if exactly `count` valid entries follow.
    fn group(&mut self, count: Field<'_>, place: &LayoutField, outer: Option<&Level<'_>>) -> bool {
        let layout = &self.tables.layouts[place.group as usize];
        // An overlay may leave a group without members, whose entries without fields would never
        // end; so the count is limited to the remaining fields.
        let left = (self.message.len() - self.at) as u64;
        let Some(count) = value::uint(count.value).filter(|count| (1..=left).contains(count))
        else {
            return false;
        };
        let first = Tag(layout.first);
        for _ in 0..count {
            if self.message.at(self.at).is_none_or(|field| field.tag != first)
                || !self.entry(Level { layout, begin: self.at, outer })
            {
                return false;
            }
        }
        // A further entry is an error, and so is an undefined field, because it would belong to the
        // last entry.
        self.message.at(self.at).is_none_or(|field| {
            field.tag != first && self.tables.defines(field.tag.0, self.body.owner)
        })
    }

    fn entry(&mut self, level: Level<'_>) -> bool {
        let Level { layout, begin, .. } = level;
        let (mut next, mut required) = (0, 0);
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
            if place.group != NO_GROUP && !self.group(field, place, Some(&level)) {
                return false;
            }
        }
        required == layout.required.len()
            && (layout.conditional.is_empty() || self.entry_keeps_conditions(level))
    }
}
