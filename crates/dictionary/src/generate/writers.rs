//! Generator of the writers: `Required` sets the required fields, and `Writer` sets all other
//! fields.

use super::parts::{Item, Owner, Required};
use super::plan::{Named, Plan};
use super::text::Text;
use super::types::Type;
use crate::{Component, Member};

impl<'d> Plan<'d> {
    /// Writes the writer of a component, with all of its members.
    pub(super) fn component_writer(&self, text: &mut Text, component: &'d Component) {
        self.writer(text, &component.members, &[], 2);
    }

    /// Writes the types `Required` and `Writer` of a message or group, and the type `GroupWriter`
    /// of a group.
    pub(super) fn writers(
        &self,
        text: &mut Text,
        members: &'d [Member],
        owner: Owner,
        depth: usize,
    ) {
        let required = self.required(members, owner);
        let lifetime = required_struct(text, &required);
        match owner {
            Owner::Message => {
                text.open(format!("impl Required{} {{", anonymous(lifetime)));
                text.doc("Writes the required fields; add the others through the returned writer.");
                begin(
                    text,
                    "write<'w, 'b>",
                    "self, body: &'w mut t::Body<'b>",
                    "<'w, 'b>",
                    &required,
                );
                text.line("let mut writer = t::Writer::new(body);");
                put_all(text, &required, "self");
                text.close("}");
                text.close("}");
            }
            Owner::Entry => {
                let root = "super::".repeat(depth);
                let root = root.trim_end_matches("::");
                text.doc("Writes the entries of the group.");
                text.line(format!(
                    "pub struct GroupWriter<'w, 'b>(pub(in {root}) t::GroupWriter<'w, 'b>);"
                ));
                text.open("impl<'b> GroupWriter<'_, 'b> {");
                text.doc(
                    "Begins an entry with the required fields; add the others through the \
                          returned writer.",
                );
                let arguments = format!("&mut self, required: Required{}", anonymous(lifetime));
                begin(text, "entry", &arguments, "<'_, 'b>", &required);
                text.line("let mut writer = self.0.entry();");
                put_all(text, &required, "required");
                text.close("}");
                text.close("}");
            }
        }
        self.writer(text, members, &required, depth);
    }

    /// Writes the type `Writer`, with a method for each member that `Required` does not contain.
    fn writer(
        &self,
        text: &mut Text,
        members: &'d [Member],
        required: &[Required<'_, 'd>],
        depth: usize,
    ) {
        let root = "super::".repeat(depth);
        let root = root.trim_end_matches("::");
        text.doc(
            "Writes fields in the order of the calls; fields of a group entry in the order \
                  of the entry.",
        );
        text.line(format!("pub struct Writer<'w, 'b>(pub(in {root}) t::Writer<'w, 'b>);"));
        text.open("impl<'b> Writer<'_, 'b> {");
        text.doc("The body, for fields that the dictionary lacks.");
        text.line("#[inline]");
        text.line("pub fn body(&mut self) -> &mut t::Body<'b> { self.0.body() }");
        let is_required = |tag: u32| required.iter().any(|known| known.tag() == tag);
        for item in self.items(members) {
            match item {
                Item::Field { named, .. } => {
                    let tag = named.field.tag;
                    if !is_required(tag) && !self.lengths.contains(&tag) {
                        setter(text, named);
                    }
                }
                Item::Group { named, module, .. } => {
                    let (tag, method) = (named.field.tag, &named.method);
                    if is_required(tag) {
                        continue;
                    }
                    text.doc(format!("`{}({tag})` and its entries.", named.field.name));
                    text.open(format!(
                        "pub fn {method}(&mut self, \
                         fill: impl FnOnce(&mut {module}::GroupWriter<'_, 'b>)) -> &mut Self {{"
                    ));
                    group(text, "self.0", named, &module, "fill");
                    text.line("self");
                    text.close("}");
                }
                Item::Component { part, method } => {
                    let module = &part.module;
                    text.doc(format!("Writes fields of the component `{}`.", part.part.name));
                    text.line("#[inline]");
                    text.open(format!(
                        "pub fn {method}(&mut self) -> components::{module}::Writer<'_, 'b> {{"
                    ));
                    text.line(format!("components::{module}::Writer(self.0.part())"));
                    text.close("}");
                }
            }
        }
        text.close("}");
    }
}

impl Required<'_, '_> {
    fn tag(&self) -> u32 {
        match self {
            Self::Field(named) | Self::Group { named, .. } => named.field.tag,
        }
    }
}

fn anonymous(lifetime: &str) -> &'static str {
    if lifetime.is_empty() { "" } else { "<'_>" }
}

/// Writes the type `Required`, a struct of the required fields; returns its lifetime parameter.
fn required_struct(text: &mut Text, required: &[Required<'_, '_>]) -> &'static str {
    let fields: Vec<(&Named<'_>, String)> = required
        .iter()
        .filter_map(|required| match required {
            Required::Field(named) => Some((*named, named.rust.write("codes::"))),
            Required::Group { .. } => None,
        })
        .collect();
    let borrows = fields.iter().any(|(_, rust)| rust.contains("'a"));
    let lifetime = if borrows { "<'a>" } else { "" };
    text.doc("The required fields.");
    text.line("#[derive(Clone, Copy)]");
    if fields.is_empty() {
        text.line("pub struct Required;");
        return lifetime;
    }
    text.open(format!("pub struct Required{lifetime} {{"));
    for (named, rust) in fields {
        text.doc(format!("`{}({})`: {}", named.field.name, named.field.tag, named.field.data_type));
        text.line(format!("pub {}: {rust},", named.method));
    }
    text.close("}");
    lifetime
}

/// Writes the head of a function with a closure argument for each required group.
fn begin(text: &mut Text, name: &str, arguments: &str, answer: &str, all: &[Required<'_, '_>]) {
    let groups = all.iter().filter_map(|required| match required {
        Required::Field(_) => None,
        Required::Group { named, module, .. } => {
            Some(format!(", {}: impl FnOnce(&mut {module}::GroupWriter<'_, 'b>)", named.method))
        }
    });
    let groups: String = groups.collect();
    text.line("#[inline]");
    text.open(format!("pub fn {name}({arguments}{groups}) -> Writer{answer} {{"));
}

fn put_all(text: &mut Text, all: &[Required<'_, '_>], from: &str) {
    for required in all {
        match required {
            Required::Field(named) => {
                put(text, "writer", named, &format!("{from}.{}", named.method))
            }
            Required::Group { named, module, .. } => {
                group(text, "writer", named, module, &named.method);
            }
        }
    }
    text.line("Writer(writer)");
}

fn setter(text: &mut Text, named: &Named<'_>) {
    let rust = named.rust.write("codes::").replace("'a", "'_");
    let (name, tag, data_type) = (&named.field.name, named.field.tag, named.field.data_type);
    text.doc(format!("`{name}({tag})`: {data_type}."));
    text.line("#[inline]");
    text.open(format!("pub fn {}(&mut self, value: {rust}) -> &mut Self {{", named.method));
    put(text, "self.0", named, "value");
    text.line("self");
    text.close("}");
}

fn put(text: &mut Text, writer: &str, named: &Named<'_>, value: &str) {
    let tag = named.field.tag;
    match &named.rust {
        Type::Data(length) => {
            text.line(format!("{writer}.data(t::Tag({length}), t::Tag({tag}), {value});"));
        }
        Type::Codes(..) => text.line(format!("{writer}.words(t::Tag({tag}), {value});")),
        Type::Plain(_) | Type::Code(..) => {
            text.line(format!("{writer}.put(t::Tag({tag}), {value});"));
        }
    }
}

/// Writes the code that writes a group through the closure `fill`; `module` is the path of the
/// group's module.
fn group(text: &mut Text, writer: &str, named: &Named<'_>, module: &str, fill: &str) {
    let (tag, view) = (named.field.tag, &named.pascal);
    // The group's view is in the parent of the group's module.
    let beside = module.rsplit_once("::").map_or(String::new(), |(path, _)| format!("{path}::"));
    text.open(format!(
        "{writer}.group(t::Tag({tag}), <{beside}{view}<'_> as t::Entry<'_>>::MEMBERS, |group| {{"
    ));
    text.line(format!("{fill}(&mut {module}::GroupWriter(group));"));
    text.close("});");
}
