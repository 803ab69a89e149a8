//! Finds differences between two dictionaries of one version.
//!
//! The comparison replaces components by their members, as on the wire. Differences may concern the
//! tag, the nesting, the required flag, or the order within groups. Names of codes are not
//! compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use transfix_dictionary::{Dictionary, Field, Flat, Member, Message};

/// A difference: the subject, the value in the authoritative dictionary, and the value in the other
/// dictionary.
pub(crate) struct Difference {
    area: Area,
    what: String,
    believed: String,
    other: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Area {
    Field,
    Type,
    Codes,
    Message,
    Member,
    Required,
    Order,
}

impl Area {
    fn name(self) -> &'static str {
        match self {
            Self::Field => "field",
            Self::Type => "type",
            Self::Codes => "codes",
            Self::Message => "message",
            Self::Member => "member",
            Self::Required => "required",
            Self::Order => "order",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { area, what, believed, other } = self;
        write!(f, "{} {what}: {believed}, other: {other}", area.name())
    }
}

/// Returns a text with the number of differences of each kind.
pub(crate) fn count(differences: &[Difference]) -> String {
    let mut counts = BTreeMap::new();
    for difference in differences {
        *counts.entry(difference.area).or_insert(0) += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(area, count)| format!("{count} {}", area.name())).collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}

/// Returns all differences between two dictionaries. `believed` is the authoritative one.
pub(crate) fn differences(believed: &Dictionary, other: &Dictionary) -> Vec<Difference> {
    let mut found = Found { believed, other, differences: Vec::new() };
    found.fields();
    found.members("header", believed.header(), other.header());
    found.members("trailer", believed.trailer(), other.trailer());
    found.messages();
    found.differences
}

struct Found<'d> {
    believed: &'d Dictionary,
    other: &'d Dictionary,
    differences: Vec<Difference>,
}

impl Found<'_> {
    fn add(&mut self, area: Area, what: impl Into<String>, said: (String, String)) {
        let (believed, other) = said;
        self.differences.push(Difference { area, what: what.into(), believed, other });
    }

    fn fields(&mut self) {
        let tags: BTreeSet<u32> =
            self.believed.fields().iter().chain(self.other.fields()).map(|f| f.tag).collect();
        for tag in tags {
            let (a, b) = (self.believed.field(tag), self.other.field(tag));
            let name = |field: Option<&Field>| field.map_or("none".into(), |f| f.name.clone());
            if name(a) != name(b) {
                self.add(Area::Field, tag.to_string(), (name(a), name(b)));
            }
            let (Some(a), Some(b)) = (a, b) else { continue };
            let what = format!("{}({tag})", a.name);
            if a.data_type != b.data_type {
                let types = (a.data_type.name().to_owned(), b.data_type.name().to_owned());
                self.add(Area::Type, &what, types);
            }
            let (more, fewer) = (codes_only_of(a, b), codes_only_of(b, a));
            if !more.is_empty() || !fewer.is_empty() {
                let said = (format!("has {}", more.join(" ")), format!("has {}", fewer.join(" ")));
                self.add(Area::Codes, &what, said);
            }
        }
    }

    fn messages(&mut self) {
        let types: BTreeSet<&str> = self
            .believed
            .messages()
            .iter()
            .chain(self.other.messages())
            .map(|message| message.msg_type.as_str())
            .collect();
        for msg_type in types {
            let (a, b) = (self.believed.message(msg_type), self.other.message(msg_type));
            let heading = |message: Option<&Message>| {
                message.map_or("none".into(), |m| format!("{} {:?}", m.name, m.category))
            };
            if heading(a) != heading(b) {
                self.add(Area::Message, msg_type, (heading(a), heading(b)));
            }
            if let (Some(a), Some(b)) = (a, b) {
                let what = format!("{}({msg_type})", a.name);
                self.members(&what, &a.members, &b.members);
            }
        }
    }

    fn members(&mut self, what: &str, believed: &[Member], other: &[Member]) {
        let (mut a, mut b) = (Paths::default(), Paths::default());
        a.walk(self.believed, believed, "");
        b.walk(self.other, other, "");
        for (path, required) in &a.required {
            match b.required.get(path) {
                None => self.add(Area::Member, format!("{what} {path}"), said("has it", "hasn't")),
                Some(other) if other != required => {
                    let said = (required.to_string(), other.to_string());
                    self.add(Area::Required, format!("{what} {path}"), said);
                }
                Some(_) => {}
            }
        }
        for path in b.required.keys().filter(|path| !a.required.contains_key(*path)) {
            self.add(Area::Member, format!("{what} {path}"), said("hasn't", "has it"));
        }
        for (group, order) in &a.orders {
            let Some(other) = b.orders.get(group) else { continue };
            let common = |these: &[u32], those: &[u32]| -> Vec<u32> {
                these.iter().copied().filter(|tag| those.contains(tag)).collect()
            };
            let (order, other) = (common(order, other), common(other, order));
            if order != other {
                let said = (format!("{order:?}"), format!("{other:?}"));
                self.add(Area::Order, format!("{what} {group}"), said);
            }
        }
    }
}

/// Returns the codes of `field` that `other` does not have.
fn codes_only_of<'f>(field: &'f Field, other: &Field) -> Vec<&'f str> {
    let only = field.codes.iter().filter(|code| other.code(&code.value).is_none());
    let mut only: Vec<&str> = only.map(|code| code.value.as_str()).collect();
    only.extend((field.open && !other.open).then_some("(others)"));
    only
}

fn said(believed: &str, other: &str) -> (String, String) {
    (believed.to_owned(), other.to_owned())
}

/// The members of a message, keyed by their path through the nested groups.
#[derive(Default)]
struct Paths {
    /// For each path, true if the member is required.
    required: BTreeMap<String, bool>,
    /// For each group's path, the order of the fields in an entry.
    orders: BTreeMap<String, Vec<u32>>,
}

impl Paths {
    fn walk(&mut self, dictionary: &Dictionary, members: &[Member], parent: &str) {
        for member in Flat::of(members) {
            let name = dictionary.field(member.tag).map_or("?", |field| field.name.as_str());
            let path = format!("{parent}{name}({})", member.tag);
            if let Some(group) = member.group {
                self.walk(dictionary, group, &format!("{path}/"));
                self.orders.insert(path.clone(), Flat::of(group).map(|m| m.tag).collect());
            }
            *self.required.entry(path).or_insert(false) |= member.required;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dictionary(members: &str, fields: &str) -> Dictionary {
        let text = format!(
            "<fix major='4' minor='4'><messages><message name='M' msgtype='M'>{members}</message>\
             </messages><fields><field number='1' name='A' type='INT'/>{fields}</fields></fix>"
        );
        Dictionary::from_quickfix_xml(&text, "test.xml").unwrap()
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let b = |attributes: &str| format!("<field number='2' name='B' {attributes}/>");
        let believed = dictionary("<field name='A' required='Y'/>", &b("type='INT'"));
        let none = differences(&believed, &believed);
        assert_eq!((none.len(), count(&none)), (0, "nothing".to_owned()));
        let cases = [
            ("<field name='A' required='N'/>", b("type='INT'"), "1 required"),
            ("", b("type='INT'"), "1 member"),
            ("<field name='A' required='Y'/>", b("type='QTY'"), "1 type"),
            ("<field name='A' required='Y'/>", String::new(), "1 field"),
            (
                "<field name='A' required='Y'/>",
                "<field number='2' name='B' type='INT'><value enum='1'/></field>".into(),
                "1 codes",
            ),
        ];
        for (members, fields, expected) in cases {
            let found = differences(&believed, &dictionary(members, &fields));
            assert_eq!(count(&found), expected, "{members} {fields}");
        }
    }
}
