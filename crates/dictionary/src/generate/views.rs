//! Generator of the views that read a message, a component or a group entry.

use super::names::snake;
use super::parts::{Item, Owner};
use super::plan::{Part, Plan, flat_tags};
use super::text::Text;
use crate::{Component, Member, Message};

/// Writes the imports of a module for a message, component or group.
///
/// The generated root module is `depth` levels above this module.
pub(super) fn uses(text: &mut Text, depth: usize) {
    let root = "super::".repeat(depth);
    text.line(format!("use {root}{{codes, components, t}};"));
}

impl<'d> Plan<'d> {
    /// Writes views and modules of all components, including header and trailer.
    pub(super) fn component_views(&self, text: &mut Text) {
        text.doc("The components: parts that messages share.");
        text.open("pub mod components {");
        text.line("use super::{codes, components, t};");
        for part in self.components.values() {
            self.component(text, part);
        }
        for (view, members) in self.frame_parts() {
            if !members.is_empty() {
                self.fields_view(text, view, &format!("The `{view}`."), members, &snake(view));
                text.doc(format!("Groups of [`{view}`]."));
                text.open(format!("pub mod {} {{", snake(view)));
                uses(text, 2);
                self.group_views(text, members, 2);
                text.close("}");
            }
        }
        text.close("}");
    }

    /// Returns the members of header and trailer, with the names of their views.
    fn frame_parts(&self) -> [(&'static str, &'d [Member]); 2] {
        let dictionary = self.dictionary;
        [("StandardHeader", dictionary.header()), ("StandardTrailer", dictionary.trailer())]
    }

    fn component(&self, text: &mut Text, part: &Part<'d, Component>) {
        let Part { part: component, view, module } = part;
        let doc = format!("The component `{}`.", component.name);
        self.fields_view(text, view, &doc, &component.members, module);
        text.doc(format!("Writer and groups of [`{view}`]."));
        text.open(format!("pub mod {module} {{"));
        uses(text, 2);
        self.component_writer(text, component);
        self.group_views(text, &component.members, 2);
        text.close("}");
    }

    /// Writes a view over the fields of a component or a group entry.
    fn fields_view(
        &self,
        text: &mut Text,
        view: &str,
        doc: &str,
        members: &'d [Member],
        module: &str,
    ) {
        text.doc(doc);
        text.line("#[derive(Clone, Copy)]");
        text.line("#[must_use]");
        text.line(format!("pub struct {view}<'a>(t::Fields<'a>);"));
        text.open(format!("impl<'a> t::View<'a> for {view}<'a> {{"));
        text.line("#[inline]");
        text.line("fn of(fields: t::Fields<'a>) -> Self { Self(fields) }");
        text.close("}");
        text.open(format!("impl<'a> {view}<'a> {{"));
        text.doc("The fields, also those that the dictionary lacks.");
        text.line("#[must_use]");
        text.line("#[inline]");
        text.line("pub const fn fields(&self) -> t::Fields<'a> { self.0 }");
        self.getters(text, members, &format!("{module}::"), "self.0");
        text.close("}");
    }

    /// Writes the views and modules of the groups among the members; `depth` is the nesting depth
    /// of the current module.
    pub(super) fn group_views(&self, text: &mut Text, members: &'d [Member], depth: usize) {
        for item in self.items(members) {
            let Item::Group { named, module, members } = item else { continue };
            let view = &named.pascal;
            let doc = format!("An entry of `{}({})`.", named.field.name, named.field.tag);
            self.fields_view(text, view, &doc, members, &module);
            let tags: Vec<String> = flat_tags(members).iter().map(u32::to_string).collect();
            text.open(format!("impl<'a> t::Entry<'a> for {view}<'a> {{"));
            text.line(format!("const MEMBERS: &'static [u32] = &[{}];", tags.join(", ")));
            text.close("}");
            text.doc(format!("Writers and groups of [`{view}`]."));
            text.open(format!("pub mod {module} {{"));
            uses(text, depth + 1);
            self.writers(text, members, Owner::Entry, depth + 1);
            self.group_views(text, members, depth + 1);
            text.close("}");
        }
    }

    /// Writes views and modules of all messages.
    pub(super) fn message_views(&self, text: &mut Text) {
        for Part { part: message, view, module } in &self.messages {
            self.message(text, message, view, module);
            text.doc(format!("Writer and groups of [`{view}`]."));
            text.open(format!("pub mod {module} {{"));
            uses(text, 1);
            self.writers(text, &message.members, Owner::Message, 1);
            self.group_views(text, &message.members, 1);
            text.close("}");
        }
    }

    fn message(&self, text: &mut Text, message: &'d Message, view: &str, module: &str) {
        let Message { name, msg_type, .. } = message;
        text.doc(format!("`{name}({msg_type})`; write it by [`{module}::Required`]."));
        text.line("#[derive(Clone, Copy, Debug)]");
        text.line("#[must_use]");
        text.line(format!("pub struct {view}<'a>(t::Message<'a>);"));
        text.open(format!("impl<'a> {view}<'a> {{"));
        text.doc("The value of `MsgType(35)`.");
        text.line(format!(
            "pub const MSG_TYPE: t::MsgType<'static> = t::MsgType::new({msg_type:?});"
        ));
        text.doc("The message.");
        text.line("#[must_use]");
        text.line("#[inline]");
        text.line("pub const fn message(&self) -> &t::Message<'a> { &self.0 }");
        for ((part, members), method) in self.frame_parts().into_iter().zip(["header", "trailer"]) {
            if !members.is_empty() {
                text.doc(format!("The `{part}`."));
                text.line("#[inline]");
                text.open(format!("pub fn {method}(&self) -> components::{part}<'a> {{"));
                text.line("t::View::of(*self.0)");
                text.close("}");
            }
        }
        self.getters(text, &message.members, &format!("{module}::"), "*self.0");
        text.close("}");
        text.open(format!("impl<'a> TryFrom<&t::Message<'a>> for {view}<'a> {{"));
        text.line("type Error = t::Reject;");
        text.line("#[inline]");
        text.open("fn try_from(message: &t::Message<'a>) -> Result<Self, t::Reject> {");
        text.line("t::check(message, Self::MSG_TYPE)?;");
        text.line("Ok(Self(*message))");
        text.close("}");
        text.close("}");
    }

    /// Writes the getters of members. `module` is the path of the module of their groups; `fields`
    /// is a Rust expression for the fields to read.
    fn getters(&self, text: &mut Text, members: &'d [Member], module: &str, fields: &str) {
        for item in self.items(members) {
            match item {
                Item::Field { named, required } => {
                    let (tag, rust) = (named.field.tag, named.rust.read("codes::"));
                    let (answer, call, end) = match required {
                        true => (format!("Result<{rust}, t::Reject>"), "require", ", required"),
                        false => (format!("Result<Option<{rust}>, t::Reject>"), "find", ""),
                    };
                    let (name, data_type) = (&named.field.name, named.field.data_type);
                    text.doc(format!("`{name}({tag})`: {data_type}{end}."));
                    text.line("#[inline]");
                    let method = &named.method;
                    text.line(format!(
                        "pub fn {method}(&self) -> {answer} {{ self.0.{call}(t::Tag({tag})) }}"
                    ));
                }
                Item::Group { named, .. } => {
                    let (tag, view) = (named.field.tag, &named.pascal);
                    text.doc(format!("The entries of `{}({tag})`.", named.field.name));
                    text.line("#[inline]");
                    let method = &named.method;
                    text.line(format!(
                        "pub fn {method}(&self) -> t::Entries<'a, {module}{view}<'a>> \
                         {{ t::Entries::of({fields}, t::Tag({tag})) }}"
                    ));
                }
                Item::Component { part, method } => {
                    let view = &part.view;
                    text.doc(format!("The component `{}`.", part.part.name));
                    text.line("#[inline]");
                    text.line(format!(
                        "pub fn {method}(&self) -> components::{view}<'a> \
                         {{ t::View::of({fields}) }}"
                    ));
                }
            }
        }
    }
}
