//! Writer of drafts in canonical QuickFIX XML.
//!
//! Invariants: the order is header, messages, trailer, components, fields. Messages, components,
//! fields and codes are sorted. Each level is indented by one blank; there are no comments. Equal
//! drafts give equal bytes. Reading the bytes restores the draft, except for its line numbers.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::{Category, Draft, DraftConditional, DraftKind, DraftMember, Field};

impl Draft {
    /// Returns the draft as canonical QuickFIX XML.
    ///
    /// An undefined field is written with its tag as its name; reading such XML fails.
    #[must_use]
    pub fn to_quickfix_xml(&self) -> String {
        let mut sorted = self.clone();
        sorted.sort();
        let names = sorted.fields.iter().map(|f| (f.tag, f.name.as_str())).collect();
        let mut writer = Writer { names, text: String::new(), depth: 0 };
        let (family, major, minor, pack) = version(&sorted.name);
        let ep = sorted.extension_pack.map(|pack| pack.to_string());
        let mut root =
            vec![("type", family), ("major", major), ("minor", minor), ("servicepack", pack)];
        root.extend(ep.as_deref().map(|pack| ("extensionpack", pack)));
        writer.element("fix", &root, true, |writer| writer.sections(&sorted));
        writer.text
    }
}

/// Splits the name of a version, such as `FIX.5.0SP2`, into (`FIX`, `5`, `0`, `2`).
fn version(name: &str) -> (&str, &str, &str, &str) {
    let (family, numbers) = name.split_once('.').unwrap_or((name, "0.0"));
    let (major, rest) = numbers.split_once('.').unwrap_or((numbers, "0"));
    let (minor, pack) = rest.split_once("SP").unwrap_or((rest, "0"));
    (family, major, minor, pack)
}

struct Writer<'d> {
    names: HashMap<u32, &'d str>,
    text: String,
    depth: usize,
}

impl Writer<'_> {
    fn sections(&mut self, draft: &Draft) {
        self.element("header", &[], !draft.header.is_empty(), |w| w.members(&draft.header));
        self.element("messages", &[], !draft.messages.is_empty(), |w| {
            for message in &draft.messages {
                let category = match message.category {
                    Category::Admin => "admin",
                    Category::App => "app",
                };
                let attributes = [
                    ("name", &*message.name),
                    ("msgtype", &message.msg_type),
                    ("msgcat", category),
                ];
                let full = !message.members.is_empty() || !message.conditions.is_empty();
                w.element("message", &attributes, full, |w| {
                    w.members(&message.members);
                    message.conditions.iter().for_each(|condition| w.condition(condition));
                });
            }
        });
        self.element("trailer", &[], !draft.trailer.is_empty(), |w| w.members(&draft.trailer));
        self.element("components", &[], !draft.components.is_empty(), |w| {
            for component in &draft.components {
                let attributes = [("name", &*component.name)];
                let full = !component.members.is_empty();
                w.element("component", &attributes, full, |w| w.members(&component.members));
            }
        });
        self.element("fields", &[], !draft.fields.is_empty(), |w| {
            draft.fields.iter().for_each(|field| w.field(field));
        });
    }

    fn members(&mut self, members: &[DraftMember]) {
        for member in members {
            let required = ("required", if member.required { "Y" } else { "N" });
            let condition = member.required_if.as_deref().map(|text| ("requiredIf", text));
            let attributes = |name| -> Vec<_> {
                [("name", name), required].into_iter().chain(condition).collect()
            };
            match &member.kind {
                DraftKind::Field(tag) => {
                    let name = self.name(*tag);
                    self.element("field", &attributes(&name), false, |_| ());
                }
                DraftKind::Group { count_tag, members } => {
                    let name = self.name(*count_tag);
                    self.element("group", &attributes(&name), true, |w| {
                        w.members(members);
                    });
                }
                DraftKind::Component(name) => {
                    self.element("component", &attributes(name), false, |_| ());
                }
            }
        }
    }

    fn condition(&mut self, condition: &DraftConditional) {
        let field = self.name(condition.tag);
        let group = condition.group.map(|count_tag| self.name(count_tag));
        let mut attributes = vec![("field", &*field)];
        attributes.extend(group.as_deref().map(|group| ("group", group)));
        attributes.extend([("when", &*condition.when), ("says", &*condition.says)]);
        self.element("condition", &attributes, false, |_| ());
    }

    fn field(&mut self, field: &Field) {
        let (tag, data_type) = (field.tag.to_string(), field.data_type.name().to_uppercase());
        let mut attributes = vec![("number", &*tag), ("name", &field.name), ("type", &data_type)];
        if field.open {
            attributes.push(("allowOtherValues", "Y"));
        }
        self.element("field", &attributes, !field.codes.is_empty(), |w| {
            for code in &field.codes {
                let attributes = [("enum", &*code.value), ("description", &code.name)];
                w.element("value", &attributes, false, |_| ());
            }
        });
    }

    fn name(&self, tag: u32) -> String {
        self.names.get(&tag).map_or_else(|| tag.to_string(), |name| (*name).to_owned())
    }

    fn element(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        full: bool,
        content: impl FnOnce(&mut Self),
    ) {
        self.indent();
        self.text.push('<');
        self.text.push_str(name);
        for (attribute, value) in attributes {
            self.text.push(' ');
            self.text.push_str(attribute);
            self.text.push_str("='");
            self.text.push_str(&escaped(value));
            self.text.push('\'');
        }
        if !full {
            self.text.push_str("/>\n");
            return;
        }
        self.text.push_str(">\n");
        self.depth += 1;
        content(self);
        self.depth -= 1;
        self.indent();
        self.text.push_str("</");
        self.text.push_str(name);
        self.text.push_str(">\n");
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n(' ', self.depth));
    }
}

/// Escapes a value for use between single quotes.
fn escaped(value: &str) -> Cow<'_, str> {
    if !value.contains(['&', '<', '\'']) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;"))
}
