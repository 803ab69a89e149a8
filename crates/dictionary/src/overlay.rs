//! Overlays: short files in QuickFIX XML that change a dictionary.
//!
//! A file whose root element has the attribute `base` is an overlay over the standard dictionary of
//! that name. [`Draft::overlay`] applies an overlay to any other dictionary.
//! ```xml
//! <fix base='FIX44' name='VENUE'>
//!   <fields>
//!     <field number='9001' name='VenueFlag' type='BOOLEAN'/>
//!     <field name='OrdType'><value enum='Z' description='ICEBERG'/></field>
//!   </fields>
//!   <messages>
//!     <message name='NewOrderSingle'>
//!       <field name='VenueFlag' required='Y' after='Side'/>
//!       <field name='Account' required='Y'/>
//!       <field name='StopPx' requiredIf='OrdType in {^STOP, ^STOP_LIMIT}'/>
//!       <field name='SolicitedFlag' action='remove'/>
//!     </message>
//!   </messages>
//! </fix>
//! ```
//!
//! A new member is added at the end, or at the position that `after` or `before` gives. In an
//! existing element, only the attributes and children change that the overlay contains. The
//! optional attribute `action` states the intent: `add`, `change` or `remove`. Removing a field
//! also removes it from all messages, components and groups.
//!
//! Invariant: an overlay is rejected if it changes an element that does not exist, or adds an
//! element that exists.

use std::collections::HashSet;

mod grammar;

use roxmltree::Node;

use crate::nearest::nearest;
use crate::xml::{Source, children, listed};
use crate::{
    Code, DictionaryError, Draft, DraftComponent, DraftKind, DraftMember, Field, Problem, quickfix,
    standard_text,
};

impl Draft {
    /// Applies an overlay to this draft.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// If the text is not XML, or refers to missing elements; see [`DictionaryError`].
    pub fn overlay(mut self, text: &str, file: &str) -> Result<Self, DictionaryError> {
        let (document, source) = crate::xml::parse(text, file)?;
        let root = document.root_element();
        if root.tag_name().name() != "fix" {
            return Err(source.error(root, Problem::NotADictionary));
        }
        if let Some(base) = root.attribute("base") {
            // The overlay is applied to this draft instead of the dictionary `base`, but `base`
            // must be the name of a standard dictionary.
            standard_text(base).map_err(|unknown| source.error(root, unknown.problem))?;
        }
        self.apply(root, &source)?;
        Ok(self)
    }

    fn apply(&mut self, root: Node<'_, '_>, source: &Source<'_>) -> Result<(), DictionaryError> {
        grammar::check(root, source)?;
        self.forget_lines();
        source.file().clone_into(&mut self.file);
        if let Some(name) = root.attribute("name") {
            name.clone_into(&mut self.name);
        }
        let mut overlay = Overlay { draft: self, source };
        for node in listed(root, "fields").filter(|node| node.has_tag_name("field")) {
            overlay.field(node)?;
        }
        for node in listed(root, "components").filter(|node| node.has_tag_name("component")) {
            overlay.component(node)?;
        }
        for node in listed(root, "messages").filter(|node| node.has_tag_name("message")) {
            overlay.message(node)?;
        }
        for node in children(root, "header") {
            let mut members = std::mem::take(&mut overlay.draft.header);
            overlay.members(node, &mut members, 0)?;
            overlay.draft.header = members;
        }
        for node in children(root, "trailer") {
            let mut members = std::mem::take(&mut overlay.draft.trailer);
            overlay.members(node, &mut members, 0)?;
            overlay.draft.trailer = members;
        }
        Ok(())
    }

    /// Sets the line numbers to 0: error messages name the overlay's file, in which the lines of
    /// the base dictionary do not exist.
    fn forget_lines(&mut self) {
        self.components.iter_mut().for_each(|component| component.line = 0);
        for message in &mut self.messages {
            message.line = 0;
            message.conditions.iter_mut().for_each(|condition| condition.line = 0);
        }
        self.each_members(&mut |members| members.iter_mut().for_each(|member| member.line = 0));
    }

    /// Calls `change` with each list of members, including members of groups.
    fn each_members(&mut self, change: &mut impl FnMut(&mut Vec<DraftMember>)) {
        each_below(&mut self.header, change);
        each_below(&mut self.trailer, change);
        let components = self.components.iter_mut().map(|component| &mut component.members);
        let messages = self.messages.iter_mut().map(|message| &mut message.members);
        components.chain(messages).for_each(|members| each_below(members, change));
    }
}

fn each_below(members: &mut Vec<DraftMember>, change: &mut impl FnMut(&mut Vec<DraftMember>)) {
    change(members);
    for member in members {
        if let DraftKind::Group { members, .. } = &mut member.kind {
            each_below(members, change);
        }
    }
}

/// Returns the standard dictionary `base` with the overlay of `root` applied.
pub(crate) fn over_standard(
    root: Node<'_, '_>,
    source: &Source<'_>,
    base: &str,
) -> Result<Draft, DictionaryError> {
    let mut draft = Draft::standard(base).map_err(|unknown| source.error(root, unknown.problem))?;
    draft.apply(root, source)?;
    Ok(draft)
}

/// The change that an element of the overlay requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    Add,
    Change,
    Remove,
}

struct Overlay<'o> {
    draft: &'o mut Draft,
    source: &'o Source<'o>,
}

impl Overlay<'_> {
    /// Returns the action that an element requests; `is_there` states whether the element that it
    /// names exists.
    fn action(&self, node: Node<'_, '_>, is_there: bool) -> Result<Action, DictionaryError> {
        let action = match (node.attribute("action"), is_there) {
            (None, true) | (Some("change"), _) => Action::Change,
            (None, false) | (Some("add"), _) => Action::Add,
            (Some("remove"), _) => Action::Remove,
            (Some(other), _) => {
                let value = other.to_owned();
                let problem = Problem::BadAttribute { attribute: "action", value };
                return Err(self.source.error(node, problem));
            }
        };
        match (action, is_there) {
            (Action::Add, true) => Err(self.source.error(node, Problem::DefinedTwice)),
            (Action::Change | Action::Remove, false) => {
                Err(self.source.error(node, Problem::NotThere { nearest: self.nearest(node) }))
            }
            _ => Ok(action),
        }
    }

    /// Returns the most similar existing name for the name in an element.
    fn nearest(&self, node: Node<'_, '_>) -> Option<String> {
        let wrong = node.attribute("name")?;
        let draft = &*self.draft;
        let found = match node.tag_name().name() {
            "message" => nearest(wrong, draft.messages.iter().map(|message| &*message.name)),
            "component" => nearest(wrong, draft.components.iter().map(|known| &*known.name)),
            _ => nearest(wrong, draft.fields.iter().map(|field| &*field.name)),
        };
        found.filter(|found| *found != wrong).map(str::to_owned)
    }

    fn field(&mut self, node: Node<'_, '_>) -> Result<(), DictionaryError> {
        let name = self.source.attribute(node, "name")?;
        let place = self.draft.fields.iter().position(|field| field.name == name);
        if let Some(known) = place.map(|place| &self.draft.fields[place])
            && node.attribute("action") != Some("remove")
            && node.has_attribute("number")
            && self.source.tag(node, "number")? != known.tag
        {
            // Members refer to fields by tag, so an overlay may not change the tag of a field.
            let (name, id) = (known.name.clone(), known.tag.to_string());
            return Err(self.source.error(node, Problem::NameTaken { name, id }));
        }
        match (self.action(node, place.is_some())?, place) {
            (Action::Remove, Some(place)) => {
                self.forget_conditions(place);
                let tag = self.draft.fields.remove(place).tag;
                self.draft.each_members(&mut |members| {
                    members.retain(|member| !member.is_of(tag));
                });
            }
            (_, Some(place)) => self.change_field(node, place)?,
            (_, None) => {
                let field = quickfix::field(node, self.source, &self.draft.name)?;
                if let Some(known) = self.draft.fields.iter().find(|known| known.tag == field.tag) {
                    let (name, tag) = (known.name.clone(), field.tag);
                    return Err(self.source.error(node, Problem::TagTaken { name, tag }));
                }
                self.draft.fields.push(field);
            }
        }
        Ok(())
    }

    /// Removes the standard's conditions that refer to the field at index `place`, before the field
    /// is removed.
    fn forget_conditions(&mut self, place: usize) {
        let Draft { fields, messages, .. } = &mut *self.draft;
        let Field { tag, name, .. } = &fields[place];
        for message in messages {
            message.conditions.retain(|condition| {
                let mut words = condition.when.split(|c: char| !c.is_alphanumeric() && c != '_');
                let is_named = words.any(|word| word == name);
                condition.tag != *tag && condition.group != Some(*tag) && !is_named
            });
        }
    }

    fn change_field(&mut self, node: Node<'_, '_>, place: usize) -> Result<(), DictionaryError> {
        if node.has_attribute("type") {
            let data_type = quickfix::data_type(node, self.source, &self.draft.name)?;
            self.draft.fields[place].data_type = data_type;
        }
        if let Some(open) = node.attribute("allowOtherValues") {
            self.draft.fields[place].open = quickfix::is_yes(open);
        }
        for value in children(node, "value") {
            let code = self.source.attribute(value, "enum")?;
            let at = self.draft.fields[place].codes.iter().position(|known| known.value == code);
            let action = self.action(value, at.is_some())?;
            let codes = &mut self.draft.fields[place].codes;
            let name = value.attribute("description").unwrap_or(code).to_owned();
            match (action, at) {
                (Action::Remove, Some(at)) => _ = codes.remove(at),
                (_, Some(at)) => codes[at].name = name,
                (_, None) => codes.push(Code { value: code.to_owned(), name }),
            }
        }
        Ok(())
    }

    fn component(&mut self, node: Node<'_, '_>) -> Result<(), DictionaryError> {
        let name = self.source.attribute(node, "name")?;
        let place = self.draft.components.iter().position(|known| known.name == name);
        match (self.action(node, place.is_some())?, place) {
            (Action::Remove, Some(place)) => {
                self.draft.components.remove(place);
                self.draft.each_members(&mut |members| {
                    members.retain(|member| !member.is_component(name));
                });
            }
            (_, Some(place)) => {
                let mut members = std::mem::take(&mut self.draft.components[place].members);
                self.members(node, &mut members, 0)?;
                self.draft.components[place].members = members;
            }
            (_, None) => {
                let mut members = Vec::new();
                self.members(node, &mut members, 0)?;
                let (name, line) = (name.to_owned(), self.source.line(node));
                self.draft.components.push(DraftComponent { name, members, line });
            }
        }
        Ok(())
    }

    fn message(&mut self, node: Node<'_, '_>) -> Result<(), DictionaryError> {
        let name = self.source.attribute(node, "name")?;
        let place = self.draft.messages.iter().position(|known| known.name == name);
        if let Some(known) = place.map(|place| &self.draft.messages[place])
            && matches!(node.attribute("action"), None | Some("add"))
            && node.attribute("msgtype").is_some_and(|msg_type| msg_type != known.msg_type)
        {
            // Without the action `change`, a known name with another MsgType(35) means a custom
            // message, whose name is then already taken.
            let (name, id) = (known.name.clone(), known.msg_type.clone());
            return Err(self.source.error(node, Problem::NameTaken { name, id }));
        }
        match (self.action(node, place.is_some())?, place) {
            (Action::Remove, Some(place)) => _ = self.draft.messages.remove(place),
            (_, Some(place)) => {
                let mut members = std::mem::take(&mut self.draft.messages[place].members);
                self.members(node, &mut members, 0)?;
                let message = &mut self.draft.messages[place];
                message.members = members;
                if let Some(msg_type) = node.attribute("msgtype") {
                    msg_type.clone_into(&mut message.msg_type);
                }
                if node.has_attribute("msgcat") {
                    message.category = quickfix::category(node, self.source)?;
                }
            }
            (_, None) => {
                let mut members = Vec::new();
                self.members(node, &mut members, 0)?;
                let message = quickfix::message(node, self.source, members)?;
                self.draft.messages.push(message);
            }
        }
        Ok(())
    }

    fn members(
        &self,
        parent: Node<'_, '_>,
        members: &mut Vec<DraftMember>,
        depth: usize,
    ) -> Result<(), DictionaryError> {
        if depth > Problem::DEPTH_MAX {
            return Err(self.source.error(parent, Problem::TooDeep));
        }
        for node in parent.children().filter(Node::is_element) {
            let Some(kind) = self.kind(node)? else { continue };
            let place = members.iter().position(|member| member.kind.is_same(&kind));
            let action = match (place, self.component_of(members, &kind)) {
                (None, Some(component)) => {
                    let component = component.to_owned();
                    return Err(self.source.error(node, Problem::InComponent { component }));
                }
                (place, _) => self.action(node, place.is_some())?,
            };
            let mut member = match place {
                Some(place) => members.remove(place),
                None => DraftMember { required: false, required_if: None, kind, line: 0 },
            };
            if action == Action::Remove {
                continue;
            }
            if let Some(required) = node.attribute("required") {
                member.required = quickfix::is_yes(required);
            }
            if let Some(condition) = node.attribute("requiredIf") {
                member.required_if = (!condition.is_empty()).then(|| condition.to_owned());
            }
            member.line = self.source.line(node);
            if let DraftKind::Group { members, .. } = &mut member.kind {
                self.members(node, members, depth + 1)?;
            }
            let at = self.place(node, members)?.or(place).unwrap_or(members.len());
            members.insert(at, member);
        }
        Ok(())
    }

    /// Returns the name of a component, nested in these members at any depth, that already contains
    /// the same field or group.
    fn component_of(&self, members: &[DraftMember], sought: &DraftKind) -> Option<&str> {
        let mut seen = HashSet::new();
        let mut open: Vec<&str> = components_of(members).collect();
        while let Some(name) = open.pop() {
            let component = self.draft.components.iter().find(|known| known.name == name);
            let Some(component) = component.filter(|_| seen.insert(name)) else { continue };
            if component.members.iter().any(|member| member.kind.is_same(sought)) {
                return Some(&component.name);
            }
            open.extend(components_of(&component.members));
        }
        None
    }

    /// Returns the position that `after` or `before` gives for a member.
    fn place(
        &self,
        node: Node<'_, '_>,
        members: &[DraftMember],
    ) -> Result<Option<usize>, DictionaryError> {
        for (attribute, offset) in [("after", 1), ("before", 0)] {
            let Some(name) = node.attribute(attribute) else { continue };
            let tag = self.draft.fields.iter().find(|field| field.name == name);
            let is_meant = |member: &DraftMember| {
                member.is_component(name) || tag.is_some_and(|field| member.is_of(field.tag))
            };
            let Some(at) = members.iter().position(is_meant) else {
                let problem = Problem::BadAttribute { attribute, value: name.to_owned() };
                return Err(self.source.error(node, problem));
            };
            return Ok(Some(at + offset));
        }
        Ok(None)
    }

    /// Returns the member to which an element refers; a group is returned without its members.
    fn kind(&self, node: Node<'_, '_>) -> Result<Option<DraftKind>, DictionaryError> {
        let kind = match node.tag_name().name() {
            "field" => DraftKind::Field(self.tag(node)?),
            "group" => DraftKind::Group { count_tag: self.tag(node)?, members: Vec::new() },
            "component" => DraftKind::Component(self.source.attribute(node, "name")?.to_owned()),
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    fn tag(&self, node: Node<'_, '_>) -> Result<u32, DictionaryError> {
        let name = self.source.attribute(node, "name")?;
        match self.draft.fields.iter().find(|field| field.name == name) {
            Some(field) => Ok(field.tag),
            None => {
                let problem =
                    Problem::UnknownField { name: name.to_owned(), nearest: self.nearest(node) };
                // Here an undefined name is an error; names of components are checked later, when
                // the draft is resolved.
                Err(self.source.error(node, problem))
            }
        }
    }
}

/// Iterates over the names of the components to which the members refer directly.
fn components_of(members: &[DraftMember]) -> impl Iterator<Item = &str> {
    members.iter().filter_map(|member| match &member.kind {
        DraftKind::Component(name) => Some(name.as_str()),
        _ => None,
    })
}

impl DraftMember {
    /// Returns true if the member is the field, or the group whose NumInGroup field is `tag`.
    fn is_of(&self, tag: u32) -> bool {
        match &self.kind {
            DraftKind::Field(own) | DraftKind::Group { count_tag: own, .. } => *own == tag,
            DraftKind::Component(_) => false,
        }
    }

    fn is_component(&self, name: &str) -> bool {
        matches!(&self.kind, DraftKind::Component(own) if own == name)
    }
}

impl DraftKind {
    /// Returns true if both denote the same field, group or component, whatever the members of the
    /// group.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a == b,
            (Self::Group { count_tag: a, .. }, Self::Group { count_tag: b, .. }) => a == b,
            (Self::Component(a), Self::Component(b)) => a == b,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
