//! What a view or writer is made of: the members of a message, component or group, named.

use std::collections::HashSet;

use super::names::snake;
use super::plan::{Named, Part, Plan};
use crate::{Component, Kind, Member};

/// A member with its names.
pub(super) enum Item<'p, 'd> {
    /// A field.
    Field { named: &'p Named<'d>, required: bool },
    /// A group, and the name of the module beside which its view stands.
    Group { named: &'p Named<'d>, module: String, members: &'d [Member] },
    /// A component, and the name of the method that leads to it.
    Component { part: &'p Part<'d, Component>, method: String },
}

/// What must be written of a message or entry.
pub(super) enum Required<'p, 'd> {
    /// A field.
    Field(&'p Named<'d>),
    /// A group, and the path of its module.
    Group { named: &'p Named<'d>, module: String },
}

/// Whether members are those of a group entry, which begins with its first field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A message.
    Message,
    /// An entry of a group.
    Entry,
}

impl<'d> Plan<'d> {
    /// The members in their order, each once: FIX 4.3 and 5.0 publish some twice.
    pub(super) fn items(&self, members: &'d [Member]) -> Vec<Item<'_, 'd>> {
        let mut taken = HashSet::new();
        let mut items = Vec::with_capacity(members.len());
        for member in members {
            match &member.kind {
                Kind::Field(tag) => {
                    let named = self.named(*tag);
                    if taken.insert(named.method.clone()) {
                        items.push(Item::Field { named, required: member.required });
                    }
                }
                Kind::Group(group) => {
                    let named = self.named(group.count_tag);
                    if taken.insert(named.method.clone()) {
                        let (module, members) = (group_module(named), &*group.members);
                        items.push(Item::Group { named, module, members });
                    }
                }
                Kind::Component(component) => {
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

    /// What must be written: the required fields, those of required components among them, and the
    /// first field of an entry. A Length field is written by its data field.
    pub(super) fn required(&self, members: &'d [Member], owner: Owner) -> Vec<Required<'_, 'd>> {
        let mut walk =
            Walk { plan: self, seen: HashSet::new(), required: Vec::new(), first: owner };
        walk.members(members, true, "");
        walk.required
    }
}

fn group_module(named: &Named<'_>) -> String {
    snake(&named.pascal)
}

struct Walk<'p, 'd> {
    plan: &'p Plan<'d>,
    seen: HashSet<u32>,
    required: Vec<Required<'p, 'd>>,
    /// `Entry` until the first field is met.
    first: Owner,
}

impl<'d> Walk<'_, 'd> {
    /// `path` leads from the owner's module to that of the groups among the members.
    fn members(&mut self, members: &'d [Member], parents_required: bool, path: &str) {
        for member in members {
            let required = member.required && parents_required;
            match &member.kind {
                Kind::Field(tag) => self.field(*tag, required),
                Kind::Group(group) => {
                    self.first = Owner::Message;
                    if required && self.seen.insert(group.count_tag) {
                        let named = self.plan.named(group.count_tag);
                        let module = format!("{path}{}", group_module(named));
                        self.required.push(Required::Group { named, module });
                    }
                }
                Kind::Component(component) => {
                    let part = &self.plan.components[&*component.name];
                    let path = format!("components::{}::", part.module);
                    self.members(&component.members, required, &path);
                }
            }
        }
    }

    fn field(&mut self, tag: u32, required: bool) {
        let begins_entry = self.first == Owner::Entry;
        self.first = Owner::Message;
        let is_length = self.plan.lengths.contains(&tag);
        if (required || begins_entry) && !is_length && self.seen.insert(tag) {
            self.required.push(Required::Field(self.plan.named(tag)));
        }
    }
}
