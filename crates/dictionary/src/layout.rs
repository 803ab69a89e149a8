//! One message, group, header or trailer with its components dissolved.
//!
//! [`Flat`] walks the fields in the published order; [`Layout`] is the table that a validator
//! looks tags up in.
//!
//! Invariants: components are never yielded; a member of an optional component counts as
//! optional; a tag stands in a [`Layout`] once.

use core::slice;
use std::sync::Arc;

use crate::{Condition, Member, MemberKind};

/// Walks members with their components dissolved, in the published order.
#[derive(Clone, Debug)]
pub struct Flat<'a> {
    /// The open components, innermost last, each with whether it must be there.
    open: Vec<(slice::Iter<'a, Member>, Need<'a>)>,
}

/// The need for a member when the message is there.
#[derive(Clone, Copy, Debug)]
enum Need<'a> {
    Always,
    If(&'a Arc<Condition>),
    Never,
}

impl<'a> Need<'a> {
    /// The need of a member whose component has this one.
    ///
    /// A condition within a condition counts as never: the standard has none.
    const fn of(self, member: &'a Member) -> Self {
        match (self, member.required, &member.required_if) {
            (need, true, _) => need,
            (Self::Always, false, Some(condition)) => Self::If(condition),
            _ => Self::Never,
        }
    }
}

/// A field or group as [`Flat`] yields it.
#[derive(Clone, Copy, Debug)]
pub struct FlatMember<'a> {
    /// The field's tag; for a group that of the counting field.
    pub tag: u32,
    /// True if the message (or group entry, or header) must have it.
    pub required: bool,
    /// When it must have it although `required` is not set.
    pub required_if: Option<&'a Arc<Condition>>,
    /// The members of one entry, if it is a group.
    pub group: Option<&'a [Member]>,
}

impl<'a> Flat<'a> {
    /// Walks these members.
    #[must_use]
    pub fn of(members: &'a [Member]) -> Self {
        Self { open: vec![(members.iter(), Need::Always)] }
    }
}

impl<'a> Iterator for Flat<'a> {
    type Item = FlatMember<'a>;

    fn next(&mut self) -> Option<FlatMember<'a>> {
        while let Some((members, parents)) = self.open.last_mut() {
            let Some(member) = members.next() else {
                self.open.pop();
                continue;
            };
            let need = parents.of(member);
            let (tag, group) = match &member.kind {
                MemberKind::Field(tag) => (*tag, None),
                MemberKind::Group(group) => (group.count_tag, Some(group.members.as_slice())),
                MemberKind::Component(component) => {
                    self.open.push((component.members.iter(), need));
                    continue;
                }
            };
            let (required, required_if) = match need {
                Need::Always => (true, None),
                Need::If(condition) => (false, Some(condition)),
                Need::Never => (false, None),
            };
            return Some(FlatMember { tag, required, required_if, group });
        }
        None
    }
}

/// A table of what may stand in a message, group entry, header or trailer, by tag.
///
/// It costs a walk over all members (a few thousand in the largest messages of FIX Latest): make
/// it once for each message and keep it.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// By tag.
    places: Vec<LayoutField>,
    /// A hash table of the tags: one more than the place of each, or 0. At least half is free.
    slots: Box<[u32]>,
    /// How far a hash is shifted to be a slot.
    shift: u32,
    required: Vec<u32>,
    first: Option<u32>,
}

/// The entry of a [`Layout`] for one tag.
#[derive(Clone, Debug)]
pub struct LayoutField {
    /// The tag.
    pub tag: u32,
    /// The place in the published order, counted from 0.
    pub position: u32,
    /// True if it must be present.
    pub required: bool,
    /// When it must be present although `required` is not set.
    pub required_if: Option<Arc<Condition>>,
    /// The layout of one entry, if the tag counts the entries of a group.
    pub group: Option<Layout>,
}

/// The first slot of a tag.
#[inline(always)]
const fn hash(tag: u32, shift: u32) -> usize {
    (tag.wrapping_mul(0x9E37_79B1) >> shift) as usize
}

impl Layout {
    /// The layout of these members.
    #[must_use]
    pub fn of(members: &[Member]) -> Self {
        let mut places: Vec<LayoutField> = Vec::new();
        for (flat, position) in Flat::of(members).zip(0..) {
            let group = flat.group.map(Self::of);
            let required_if = flat.required_if.cloned();
            places.push(LayoutField {
                tag: flat.tag,
                position,
                required: flat.required,
                required_if,
                group,
            });
        }
        let first = places.first().map(|place| place.tag);
        let required: Vec<u32> = places.iter().filter(|p| p.required).map(|p| p.tag).collect();
        // FIX 4.3 and 5.0 publish some fields twice in one message: the first place counts.
        places.sort_by_key(|place| (place.tag, place.position));
        places.dedup_by_key(|place| place.tag);
        let size = (places.len() * 2).next_power_of_two().max(2);
        let shift = 32 - size.trailing_zeros();
        let mut slots = vec![0; size].into_boxed_slice();
        for (place, number) in places.iter().zip(1..) {
            let mut slot = hash(place.tag, shift);
            while slots[slot] != 0 {
                slot = (slot + 1) % size;
            }
            slots[slot] = number;
        }
        Self { places, slots, shift, required, first }
    }

    /// The entry for that tag; nothing if it may not stand here.
    #[must_use]
    #[inline]
    pub fn place(&self, tag: u32) -> Option<&LayoutField> {
        let mut slot = hash(tag, self.shift);
        loop {
            // A default layout has neither places nor slots.
            let number = *self.slots.get(slot)? as usize;
            let place = self.places.get(number.checked_sub(1)?)?;
            if place.tag == tag {
                return Some(place);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// All places, by tag.
    #[must_use]
    pub fn places(&self) -> &[LayoutField] {
        &self.places
    }

    /// The tags that must be present, in the published order.
    #[must_use]
    pub fn required(&self) -> &[u32] {
        &self.required
    }

    /// The first field in the published order: the delimiter, if this is the entry of a group.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Component, Group};

    #[test]
    fn each_tag_has_its_place_and_no_other_has_one() {
        let looked_up = |layout: &Layout| {
            for place in layout.places() {
                let found = layout.place(place.tag).unwrap();
                assert_eq!((found.tag, found.position), (place.tag, place.position));
            }
            let has = |tag| layout.places().iter().any(|place| place.tag == tag);
            assert!((0..1_200).all(|tag| layout.place(tag).is_some() == has(tag)));
        };
        looked_up(&Layout::default());
        looked_up(&Layout::of(&[]));
        let many: Vec<Member> = (1..400).map(|tag| field(tag * 3, false)).collect();
        (1..many.len()).step_by(7).for_each(|n| looked_up(&Layout::of(&many[..n])));
    }

    fn field(tag: u32, required: bool) -> Member {
        Member { required, required_if: None, kind: MemberKind::Field(tag) }
    }

    fn component(required: bool, members: Vec<Member>) -> Member {
        let component = Arc::new(Component { name: "C".into(), members });
        Member { required, required_if: None, kind: MemberKind::Component(component) }
    }

    #[test]
    fn what_an_optional_component_requires_is_optional() {
        let inner = || vec![field(2, true), field(3, false)];
        let members = [
            field(1, true),
            component(false, inner()),
            component(true, vec![field(4, true), component(false, vec![field(5, true)])]),
        ];
        let flat: Vec<_> = Flat::of(&members).map(|m| (m.tag, m.required)).collect();
        assert_eq!(flat, [(1, true), (2, false), (3, false), (4, true), (5, false)]);
    }

    #[test]
    fn what_a_conditional_component_requires_has_its_condition() {
        let condition = Arc::new(Condition::Exists(9));
        let conditional = |mut member: Member| {
            member.required_if = Some(Arc::clone(&condition));
            member
        };
        let inner = vec![field(2, true), field(3, false), conditional(field(4, false))];
        let members = [conditional(field(1, false)), conditional(component(false, inner))];
        let flat: Vec<_> = Flat::of(&members).map(|m| (m.tag, m.required_if.is_some())).collect();
        assert_eq!(flat, [(1, true), (2, true), (3, false), (4, false)]);
        let layout = Layout::of(&members);
        assert_eq!(layout.place(2).and_then(|p| p.required_if.clone()), Some(condition));
        assert_eq!(layout.required(), []);
    }

    #[test]
    fn layout_of_nested_groups_and_repeated_fields() {
        let group = |count_tag, members| {
            let group = Group { count_tag, members };
            Member { required: true, required_if: None, kind: MemberKind::Group(group) }
        };
        let legs = group(555, vec![field(600, true), group(539, vec![field(524, false)])]);
        let layout = Layout::of(&[field(11, true), legs, field(9, false), field(11, false)]);
        assert_eq!(layout.first(), Some(11));
        assert_eq!(layout.required(), [11, 555]);
        assert_eq!(layout.places().len(), 3);
        let place = layout.place(11).expect("11 is in the layout");
        assert!(place.required && place.position == 0);
        let legs = layout.place(555).and_then(|p| p.group.as_ref()).expect("a group");
        assert_eq!(legs.first(), Some(600));
        assert!(legs.place(539).is_some_and(|p| p.group.is_some()));
        assert!(layout.place(600).is_none(), "a member of a group is none of the message");
    }
}
