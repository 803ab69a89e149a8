//! Compares a dictionary file with a standard dictionary, and writes the differences as an overlay.
//!
//! Invariant: an overlay is returned only if it changes the standard dictionary so that fields,
//! types, codes and members equal those of the file. Not compared are names of codes, the order of
//! members outside of groups, and conditions, which only the standard has.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use transfix_dictionary::{Category, Draft, DraftKind, DraftMember, Field};
use transfix_settings::text_file;

/// The maximum number of differences for which an overlay is written. If there are more, the
/// settings use the file itself.
const FEW: usize = 200;

/// The result of a comparison with a standard dictionary.
pub(crate) struct Compared {
    /// The differences as text.
    pub(crate) differences: Vec<String>,
    /// The differences as an overlay; `None` if there are more than [`FEW`].
    pub(crate) overlay: Option<String>,
}

/// Compares a file with a standard dictionary.
pub(crate) fn compare(path: &Path, base: &'static str) -> Result<Compared, String> {
    let text = text_file::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let theirs = Draft::from_xml(&text, &path.display().to_string());
    let theirs = theirs.map_err(|error| error.to_string())?;
    theirs.clone().resolve().map_err(|error| error.to_string())?;
    let ours = Draft::standard(base).map_err(|error| error.to_string())?;
    Ok(beside(&ours, &theirs, base))
}

fn beside(ours: &Draft, theirs: &Draft, base: &str) -> Compared {
    let mut writer = Writer { names: names(ours, theirs), differences: Vec::new() };
    let fields = writer.fields(ours, theirs);
    let components = by(&ours.components, |c| c.name.clone());
    let their_components = by(&theirs.components, |c| c.name.clone());
    let mut lists = [String::new(), String::new(), String::new(), String::new()];
    for (name, theirs) in &their_components {
        let ours = components.get(name).map_or(&[][..], |c| &c.members);
        let what = format!("component {name}");
        let head = format!("  <component name='{}'", escaped(name));
        lists[0] += &writer.list(&head, "component", &what, (ours, &theirs.members));
    }
    for name in components.keys().filter(|name| !their_components.contains_key(*name)) {
        lists[0] += &format!("  <component name='{}' action='remove'/>\n", escaped(name));
        writer.tell(format!("component {name} removed"));
    }
    let messages = by(&ours.messages, |m| m.msg_type.clone());
    let their_messages = by(&theirs.messages, |m| m.msg_type.clone());
    for (msg_type, theirs) in &their_messages {
        let what = format!("{}({msg_type})", theirs.name);
        let (head, ours) = match messages.get(msg_type) {
            Some(ours) => (format!("  <message name='{}'", escaped(&ours.name)), &ours.members[..]),
            None => {
                writer.tell(format!("{what} added"));
                let category = if theirs.category == Category::Admin { "admin" } else { "app" };
                let (name, msg_type) = (escaped(&theirs.name), escaped(msg_type));
                let attributes = format!("msgtype='{msg_type}' msgcat='{category}'");
                (format!("  <message name='{name}' {attributes}"), &[][..])
            }
        };
        lists[1] += &writer.list(&head, "message", &what, (ours, &theirs.members));
    }
    for (msg_type, ours) in messages.iter().filter(|(t, _)| !their_messages.contains_key(*t)) {
        lists[1] += &format!("  <message name='{}' action='remove'/>\n", escaped(&ours.name));
        writer.tell(format!("{}({msg_type}) removed", ours.name));
    }
    lists[2] += &writer.list(" <header", "header", "header", (&ours.header, &theirs.header));
    lists[3] += &writer.list(" <trailer", "trailer", "trailer", (&ours.trailer, &theirs.trailer));
    let [components, messages, header, trailer] = lists;
    let within = |name: &str, list: String| match list.is_empty() {
        true => String::new(),
        false => format!(" <{name}>\n{list} </{name}>\n"),
    };
    let text = format!(
        "<fix base='{base}'>\n{}{}{}{header}{trailer}</fix>\n",
        within("fields", fields),
        within("components", components),
        within("messages", messages),
    );
    let differences = writer.differences;
    let is_few = (1..=FEW).contains(&differences.len());
    let laid = is_few.then(|| ours.clone().overlay(&text, "overlay").ok()).flatten();
    let is_same = laid.is_some_and(|laid| {
        laid.clone().resolve().is_ok() && canonical(laid) == canonical(theirs.clone())
    });
    Compared { differences, overlay: is_same.then_some(text) }
}

fn by<T, K: Ord>(all: &[T], key: impl Fn(&T) -> K) -> BTreeMap<K, &T> {
    all.iter().map(|one| (key(one), one)).collect()
}

/// Returns the name of each tag. The standard name is preferred, because an overlay uses it.
fn names(ours: &Draft, theirs: &Draft) -> HashMap<u32, String> {
    theirs.fields.iter().chain(&ours.fields).map(|f| (f.tag, f.name.clone())).collect()
}

struct Writer {
    names: HashMap<u32, String>,
    differences: Vec<String>,
}

impl Writer {
    fn tell(&mut self, what: String) {
        self.differences.push(what);
    }

    fn name(&self, tag: u32) -> String {
        self.names.get(&tag).cloned().unwrap_or_else(|| tag.to_string())
    }

    fn shown(&self, member: &DraftMember) -> String {
        match &member.kind {
            DraftKind::Field(tag) | DraftKind::Group { count_tag: tag, .. } => {
                format!("{}({tag})", self.name(*tag))
            }
            DraftKind::Component(name) => name.clone(),
        }
    }

    fn fields(&mut self, ours: &Draft, theirs: &Draft) -> String {
        let (ours, theirs) = (by(&ours.fields, |f| f.tag), by(&theirs.fields, |f| f.tag));
        let mut text = String::new();
        for (tag, field) in &theirs {
            text += &self.field(*tag, ours.get(tag).copied(), field);
        }
        for (tag, field) in ours.iter().filter(|(tag, _)| !theirs.contains_key(tag)) {
            self.tell(format!("{}({tag}) removed", field.name));
            text += &format!("  <field name='{}' action='remove'/>\n", escaped(&field.name));
        }
        text
    }

    fn field(&mut self, tag: u32, ours: Option<&Field>, theirs: &Field) -> String {
        let name = self.name(tag);
        let before = self.differences.len();
        let mut attributes = format!("name='{}'", escaped(&name));
        let of_type = theirs.data_type.name().to_uppercase();
        match ours {
            None => {
                self.tell(format!("{name}({tag}) added"));
                attributes += &format!(" number='{tag}' type='{of_type}'");
                attributes += if theirs.open { " allowOtherValues='Y'" } else { "" };
            }
            Some(ours) => {
                if ours.data_type != theirs.data_type {
                    self.tell(format!("{name}({tag}) is {of_type}"));
                    attributes += &format!(" type='{of_type}'");
                }
                if ours.open != theirs.open {
                    let open = if theirs.open { "Y" } else { "N" };
                    self.tell(format!("{name}({tag}) allowOtherValues={open}"));
                    attributes += &format!(" allowOtherValues='{open}'");
                }
            }
        }
        let known = ours.map_or(&[][..], |field| &field.codes);
        let mut codes = String::new();
        for code in &theirs.codes {
            if !known.iter().any(|other| other.value == code.value) {
                let (value, name) = (escaped(&code.value), escaped(&code.name));
                codes += &format!("   <value enum='{value}' description='{name}'/>\n");
                if ours.is_some() {
                    self.tell(format!(
                        "code {} ({name}) of {}({tag}) added",
                        code.value,
                        self.name(tag)
                    ));
                }
            }
        }
        for code in known.iter().filter(|c| !theirs.codes.iter().any(|o| o.value == c.value)) {
            codes += &format!("   <value enum='{}' action='remove'/>\n", escaped(&code.value));
            self.tell(format!("code {} of {name}({tag}) removed", code.value));
        }
        match (before == self.differences.len(), codes.is_empty()) {
            (true, _) => String::new(),
            (false, true) => format!("  <field {attributes}/>\n"),
            (false, false) => format!("  <field {attributes}>\n{codes}  </field>\n"),
        }
    }

    /// Returns an XML element with the members that differ, or an empty text if no member differs
    /// and the element is not new.
    fn list(
        &mut self,
        head: &str,
        element: &str,
        what: &str,
        (ours, theirs): (&[DraftMember], &[DraftMember]),
    ) -> String {
        let indent = head.len() - head.trim_start().len();
        let members = self.members(what, (ours, theirs), indent + 1);
        let blank = " ".repeat(indent);
        match members.is_empty() {
            // A new element without members is written nevertheless.
            true if head.contains("msgtype=") => format!("{head}/>\n"),
            true => String::new(),
            false => format!("{head}>\n{members}{blank}</{element}>\n"),
        }
    }

    fn members(
        &mut self,
        what: &str,
        (ours, theirs): (&[DraftMember], &[DraftMember]),
        depth: usize,
    ) -> String {
        let mut text = String::new();
        let mut before: Option<String> = None;
        for member in theirs {
            let known = ours.iter().find(|other| is_same(other, member));
            text += &self.member(what, (known, member), before.as_deref(), depth);
            before = Some(self.name_of(member));
        }
        for member in ours.iter().filter(|m| !theirs.iter().any(|other| is_same(m, other))) {
            self.tell(format!("{what}: {} removed", self.shown(member)));
            let (element, name) = (element_of(member), escaped(&self.name_of(member)));
            let blank = " ".repeat(depth);
            text += &format!("{blank}<{element} name='{name}' action='remove'/>\n");
        }
        text
    }

    fn member(
        &mut self,
        what: &str,
        (known, member): (Option<&DraftMember>, &DraftMember),
        before: Option<&str>,
        depth: usize,
    ) -> String {
        let shown = self.shown(member);
        let required = if member.required { "Y" } else { "N" };
        let mut attributes = format!("name='{}'", escaped(&self.name_of(member)));
        let mut differs = false;
        match known {
            None => {
                self.tell(format!("{what}: {shown} added"));
                attributes += &format!(" required='{required}'");
                // Writes the position of the member, because the order matters in a group.
                attributes += &before.map_or(String::new(), |b| format!(" after='{}'", escaped(b)));
                differs = true;
            }
            Some(known) if known.required != member.required => {
                let word = if member.required { "required" } else { "optional" };
                self.tell(format!("{what}: {shown} {word}"));
                attributes += &format!(" required='{required}'");
                differs = true;
            }
            Some(_) => {}
        }
        let inner = match (&member.kind, known.map(|known| &known.kind)) {
            (DraftKind::Group { members, .. }, known) => {
                let ours = match known {
                    Some(DraftKind::Group { members, .. }) => &members[..],
                    _ => &[][..],
                };
                let count = self.differences.len();
                let inner = self.members(&format!("{what}, {shown}"), (ours, members), depth + 1);
                if known.is_none() {
                    // A changed group counts as one difference.
                    self.differences.truncate(count);
                }
                inner
            }
            _ => String::new(),
        };
        let (blank, element) = (" ".repeat(depth), element_of(member));
        match (differs, inner.is_empty()) {
            (false, true) => String::new(),
            (_, true) => format!("{blank}<{element} {attributes}/>\n"),
            (_, false) => format!("{blank}<{element} {attributes}>\n{inner}{blank}</{element}>\n"),
        }
    }

    fn name_of(&self, member: &DraftMember) -> String {
        match &member.kind {
            DraftKind::Field(tag) | DraftKind::Group { count_tag: tag, .. } => self.name(*tag),
            DraftKind::Component(name) => name.clone(),
        }
    }
}

fn is_same(a: &DraftMember, b: &DraftMember) -> bool {
    match (&a.kind, &b.kind) {
        (DraftKind::Field(a), DraftKind::Field(b)) => a == b,
        (DraftKind::Group { count_tag: a, .. }, DraftKind::Group { count_tag: b, .. }) => a == b,
        (DraftKind::Component(a), DraftKind::Component(b)) => a == b,
        _ => false,
    }
}

const fn element_of(member: &DraftMember) -> &'static str {
    match member.kind {
        DraftKind::Field(_) => "field",
        DraftKind::Group { .. } => "group",
        DraftKind::Component(_) => "component",
    }
}

/// Returns the compared parts of a draft, in a canonical order.
fn canonical(mut draft: Draft) -> Draft {
    let fields = draft.fields.iter_mut();
    for field in fields {
        field.name.clear();
        field.codes.sort_by(|a, b| a.value.cmp(&b.value));
        field.codes.iter_mut().for_each(|code| code.name.clear());
    }
    draft.fields.sort_by_key(|field| field.tag);
    draft.components.sort_by(|a, b| a.name.cmp(&b.name));
    draft.messages.sort_by(|a, b| a.msg_type.cmp(&b.msg_type));
    for message in &mut draft.messages {
        message.conditions.clear();
        message.name.clear();
        message.line = 0;
        plain(&mut message.members, false);
    }
    for component in &mut draft.components {
        component.line = 0;
        plain(&mut component.members, false);
    }
    plain(&mut draft.header, false);
    plain(&mut draft.trailer, false);
    Draft { file: String::new(), name: String::new(), extension_pack: None, ..draft }
}

/// Removes the lines of members, and sorts members outside of groups.
fn plain(members: &mut [DraftMember], is_group: bool) {
    for member in members.iter_mut() {
        member.line = 0;
        if let DraftKind::Group { members, .. } = &mut member.kind {
            plain(members, true);
        }
    }
    if !is_group {
        members.sort_by_cached_key(|member| match &member.kind {
            DraftKind::Field(tag) => (0, *tag, String::new()),
            DraftKind::Group { count_tag, .. } => (1, *count_tag, String::new()),
            DraftKind::Component(name) => (2, 0, name.clone()),
        });
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('\'', "&apos;")
}
