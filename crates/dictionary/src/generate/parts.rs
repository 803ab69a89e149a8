//! The named members of a message, component or group, from which views and writers are generated.

use std::collections::HashSet;
use std::mem::replace;

use super::names::snake;
use super::plan::{Named, Part, Plan};
use crate::{Component, Member, MemberKind};

/// A member of a message, component or group, with its Rust names.
pub(super) enum Item<'p, 'd> {
    /// A field.
    Field { named: &'p Named<'d>, required: bool },
    /// A group, with the name of its module.
    Group { named: &'p Named<'d>, module: String, members: &'d [Member] },
    /// A component, with the name of the method that returns its view.
    Component { part: &'p Part<'d, Component>, method: String },
}

/// A required field or group of a message or entry.
pub(super) enum Required<'p, 'd> {
    /// A field.
    Field(&'p Named<'d>),
    /// A group, with the path of its Rust module.
    Group { named: &'p Named<'d>, module: String },
}

/// The kind of element that owns the members. An entry of a group begins with its first field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A message.
    Message,
    /// An entry of a group.
    Entry,
}

impl<'d> Plan<'d> {
    /// Returns the members in their order and without duplicates: FIX 4.3 and 5.0 publish some
    /// members twice.
    pub(super) fn items(&self, members: &'d [Member]) -> Vec<Item<'_, 'd>> {
        let mut taken = HashSet::new();
        let mut items = Vec::with_capacity(members.len());
        for member in members {
            match &member.kind {
                MemberKind::Field(tag) => {
                    let named = self.named(*tag);
                    if taken.insert(named.method.clone()) {
                        items.push(Item::Field { named, required: member.required });
                    }
                }
                MemberKind::Group(group) => {
                    let named = self.named(group.count_tag);
                    if taken.insert(named.method.clone()) {
                        let (module, members) = (group_module(named), &*group.members);
                        items.push(Item::Group { named, module, members });
                    }
                }
                MemberKind::Component(component) => {
                    let part = &self.components[&*component.name];
                    let mut method = snake(&part.view);
                    if self.fields.values().any(|named| named.method == method) {
                        method.push_str("_component");
                    }
                    if taken.insert(method.clone()) {
                        items.push(Item::Component { part, method });
                    }
                }
            }
        }
        items
    }

    /// Returns the fields and groups that a writer must set.
    ///
    /// The result contains required fields, required fields of required components, and the first
    /// field of an entry, which may be a NumInGroup field. A Length field is written with its data
    /// field.
    pub(super) fn required(&self, members: &'d [Member], owner: Owner) -> Vec<Required<'_, 'd>> {
        let mut walk =
            Walk { plan: self, seen: HashSet::new(), required: Vec::new(), first: owner };
        walk.members(members, true, "");
        walk.required
    }
}

impl Plan<'_> {
    /// Returns the data field that belongs to the Length field, if the data field is generated.
    fn data_of(&self, length: u32) -> Option<u32> {
        let pairs = self.dictionary.length_tags().iter();
        let mut data = pairs.filter(|pair| pair.1 == length).map(|pair| pair.0);
        data.find(|data| self.fields.contains_key(data))
    }
}

fn group_module(named: &Named<'_>) -> String {
    snake(&named.pascal)
}

struct Walk<'p, 'd> {
    plan: &'p Plan<'d>,
    seen: HashSet<u32>,
    required: Vec<Required<'p, 'd>>,
    /// `Owner::Entry` until the first field of an entry has been visited.
    first: Owner,
}

impl<'d> Walk<'_, 'd> {
    /// Visits members; `path` leads from the owner's module to the module of the members' groups.
    fn members(&mut self, members: &'d [Member], parents_required: bool, path: &str) {
        for member in members {
            let required = member.required && parents_required;
            match &member.kind {
                MemberKind::Field(tag) => self.field(*tag, required),
                MemberKind::Group(group) => {
                    let begins_entry = self.begins_entry();
                    if (required || begins_entry) && self.seen.insert(group.count_tag) {
                        let named = self.plan.named(group.count_tag);
                        let module = format!("{path}{}", group_module(named));
                        self.required.push(Required::Group { named, module });
                    }
                }
                MemberKind::Component(component) => {
                    let part = &self.plan.components[&*component.name];
                    let path = format!("components::{}::", part.module);
                    self.members(&component.members, required, &path);
                }
            }
        }
    }

    fn field(&mut self, tag: u32, required: bool) {
        let begins_entry = self.begins_entry();
        let written_by = match self.plan.lengths.contains(&tag) {
            false => (required || begins_entry).then_some(tag),
            true if begins_entry => self.plan.data_of(tag),
            true => None,
        };
        if let Some(tag) = written_by.filter(|tag| self.seen.insert(*tag)) {
            self.required.push(Required::Field(self.plan.named(tag)));
        }
    }

    /// Returns true if the current member is the first field of an entry, and remembers that the
    /// entry has begun.
    fn begins_entry(&mut self) -> bool {
        replace(&mut self.first, Owner::Message) == Owner::Entry
    }
}

#[cfg(all(test, feature = "xml"))]
mod tests {
    use crate::generate::{Options, generate};
    use crate::standard;

    #[test]
    fn no_entry_begins_without_its_delimiter() {
        // Some groups of FIX 5.0 SP2 begin with a Length field, and some with another group.
        let fix50sp2 = standard("FIX50SP2").expect("a standard dictionary");
        let text = generate(&fix50sp2, &Options::new("fix50sp2")).expect("all messages are wanted");
        let (mut has_fields, mut entries) = (true, 0);
        for line in text.lines().map(str::trim) {
            if line.starts_with("pub struct Required") {
                has_fields = line != "pub struct Required;";
            }
            if line.starts_with("pub fn entry(") {
                assert!(has_fields || line.contains("impl FnOnce"), "{line}");
                entries += 1;
            }
        }
        assert!(entries > 500, "{entries}");
    }
}
