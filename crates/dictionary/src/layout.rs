//! Members of a message, group, header or trailer with components expanded in place.
//!
//! [`Flat`] iterates over the fields in the published order. [`Layout`] is a table in which a
//! validator finds tags.
//!
//! Invariants: the iterator never returns a component itself. A member of an optional component is
//! optional. A [`Layout`] contains each tag once.

use core::slice;
use std::sync::Arc;

use crate::{Condition, Member, MemberKind};

/// Iterator over members in the published order, with components expanded in place.
#[derive(Clone, Debug)]
pub struct Flat<'a> {
    /// The components that are being expanded, innermost last, each with its requirement.
    open: Vec<(slice::Iter<'a, Member>, Need<'a>)>,
}

/// Tells when a message or group entry must contain a member: always, never or under a condition.
#[derive(Clone, Copy, Debug)]
enum Need<'a> {
    Always,
    If(&'a Arc<Condition>),
    Never,
}

impl<'a> Need<'a> {
    /// Returns the requirement of a member whose component has the requirement `self`.
    ///
    /// A condition inside a component that is itself conditional counts as `Never`; the standard
    /// has no such case.
    const fn of(self, member: &'a Member) -> Self {
        match (self, member.required, &member.required_if) {
            (need, true, _) => need,
            (Self::Always, false, Some(condition)) => Self::If(condition),
            _ => Self::Never,
        }
    }
}

/// A field or group as yielded by [`Flat`].
#[derive(Clone, Copy, Debug)]
pub struct FlatMember<'a> {
    /// The field's tag; for a group, the tag of its NumInGroup field.
    pub tag: u32,
    /// True if the message, group entry, header or trailer requires the member.
    pub required: bool,
    /// The condition under which the member is required; used only if `required` is false.
    pub required_if: Option<&'a Arc<Condition>>,
    /// The members of one entry; `None` if this member is not a group.
    pub group: Option<&'a [Member]>,
}

impl<'a> Flat<'a> {
    /// Creates an iterator over these members.
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

/// The permitted fields of a message, group entry, header or trailer, by tag.
///
/// Creating a layout visits all members of the message, up to a few thousand in FIX Latest. Create
/// one layout per message and keep it.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The fields, sorted by tag.
    places: Vec<LayoutField>,
    /// A hash table of the tags: each slot contains an index into `places` plus 1, or 0. At least
    /// half of the slots are free.
    slots: Box<[u32]>,
    /// Number of bits by which a hash is shifted right to become the index of a slot.
    shift: u32,
    required: Vec<u32>,
    first: Option<u32>,
}

/// The properties of one tag in a [`Layout`].
#[derive(Clone, Debug)]
pub struct LayoutField {
    /// The tag.
    pub tag: u32,
    /// The position of the field in the published order, counted from 0.
    pub position: u32,
    /// True if the field is required.
    pub required: bool,
    /// The condition under which the field is required; used only if `required` is false.
    pub required_if: Option<Arc<Condition>>,
    /// The layout of one entry, if the tag is a NumInGroup field.
    pub group: Option<Layout>,
}

/// Returns the slot at which the search for a tag begins.
#[inline(always)]
const fn hash(tag: u32, shift: u32) -> usize {
    (tag.wrapping_mul(0x9E37_79B1) >> shift) as usize
}

impl Layout {
    /// Creates the layout of these members.
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
        // FIX 4.3 and 5.0 publish some fields twice in one message; the layout keeps the first
        // position.
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

    /// Returns the properties of this tag; `None` if the tag is not permitted here.
    #[must_use]
    #[inline]
    pub fn place(&self, tag: u32) -> Option<&LayoutField> {
        let mut slot = hash(tag, self.shift);
        loop {
            // A layout made by `default` has no slots, so `get` fails.
            let number = *self.slots.get(slot)? as usize;
            let place = self.places.get(number.checked_sub(1)?)?;
            if place.tag == tag {
                return Some(place);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the properties of all tags, sorted by tag.
    #[must_use]
    pub fn places(&self) -> &[LayoutField] {
        &self.places
    }

    /// Returns the required tags, in the published order.
    #[must_use]
    pub fn required(&self) -> &[u32] {
        &self.required
    }

    /// Returns the first field in the published order, which is the delimiter of a group entry.
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
