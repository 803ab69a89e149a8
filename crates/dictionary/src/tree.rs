//! Describes messages, components and fields as text for people.
//!
//! Invariant: members are listed in the published order, indented by component and group.

use core::fmt;
use std::fmt::Write;

use crate::nearest::nearest;
use crate::{Category, Dictionary, Field, Flat, Member, MemberKind, Message};

/// The error for a name that a dictionary does not contain.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The name, tag or MsgType(35) that was requested.
    pub what: String,
    /// The name of the dictionary.
    pub version: String,
    /// The most similar name in the dictionary.
    pub nearest: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, version, nearest } = self;
        write!(f, "{version} has no message, field or component '{what}'")?;
        match nearest {
            Some(nearest) => write!(f, "; did you mean '{nearest}'?"),
            None => f.write_str("; ask for a name, a tag or a MsgType"),
        }
    }
}

/// Formats as [`fmt::Display`] does, so that an error returned by `main` prints as text.
impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for Unknown {}

/// Describes a message (by name or MsgType(35)), a field (by name or tag), a component, or `header`
/// or `trailer`.
///
/// If several elements have the name, all of them are described.
/// ```
/// # #[cfg(feature = "xml")] {
/// use transfix_dictionary::{describe, standard};
///
/// let fix44 = standard("FIX44").expect("a standard dictionary");
/// let text = describe(&fix44, "Side").expect("a field of FIX 4.4");
/// assert!(text.starts_with("Side(54)"));
/// assert!(text.contains("SELL_SHORT"));
/// # }
/// ```
///
/// # Errors
/// If the dictionary does not contain the name; the error suggests the nearest name.
pub fn describe(dictionary: &Dictionary, what: &str) -> Result<String, Unknown> {
    let mut found = all_of(dictionary, what, |name| name == what);
    if found.is_empty() {
        found = all_of(dictionary, what, |name| name.eq_ignore_ascii_case(what));
    }
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    let names = dictionary.messages.iter().map(|message| message.name.as_str());
    let names = names.chain(dictionary.fields.iter().map(|field| field.name.as_str()));
    let names = names.chain(dictionary.components.iter().map(|known| known.name.as_str()));
    Err(Unknown {
        what: what.to_owned(),
        version: dictionary.name.clone(),
        nearest: nearest(what, names).map(str::to_owned),
    })
}

/// Returns the descriptions of all elements whose tag or MsgType(35) is `what`, or whose name
/// satisfies `is_meant`.
fn all_of(dictionary: &Dictionary, what: &str, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let tag: Option<u32> = what.parse().ok();
    for field in &dictionary.fields {
        if tag == Some(field.tag) || is_meant(&field.name) {
            found.push(field_text(dictionary, field));
        }
    }
    for message in &dictionary.messages {
        if message.msg_type == what || is_meant(&message.name) {
            found.push(message_text(dictionary, message));
        }
    }
    for component in &dictionary.components {
        if is_meant(&component.name) {
            let head = format!("{}  {}  component", component.name, dictionary.name);
            found.push(tree(dictionary, &head, &component.members));
        }
    }
    for (name, members) in [("header", &dictionary.header), ("trailer", &dictionary.trailer)] {
        if is_meant(name) && !members.is_empty() {
            found.push(tree(dictionary, &format!("{name}  {}", dictionary.name), members));
        }
    }
    found
}

fn message_text(dictionary: &Dictionary, message: &Message) -> String {
    let category = match message.category {
        Category::Admin => "session message",
        Category::App => "application message",
    };
    let head = format!("{}({})  {}  {category}", message.name, message.msg_type, dictionary.name);
    let mut text = tree(dictionary, &head, &message.members);
    for rule in &message.conditions {
        let name = |tag| dictionary.field(tag).map_or_else(|| u32::to_string(&tag), label);
        let group = rule.group.map_or_else(String::new, |group| format!(" in {}", name(group)));
        let _ = writeln!(text, "if {}: {}{group}", rule.when, name(rule.tag));
        let _ = writeln!(text, "    \"{}\"", rule.says);
    }
    text
}

fn field_text(dictionary: &Dictionary, field: &Field) -> String {
    let mut text = format!("{}  {}  {}\n", label(field), dictionary.name, field.data_type);
    // Writing to a String never fails.
    if let Some(length) = dictionary.length_tag(field.tag).and_then(|tag| dictionary.field(tag)) {
        let _ = writeln!(text, "  length in {}", label(length));
    }
    let width = field.codes.iter().map(|code| code.value.chars().count()).max().unwrap_or(0);
    for code in &field.codes {
        let _ = writeln!(text, "  {:width$}  {}", code.value, code.name);
    }
    if field.open {
        let _ = writeln!(text, "  other values are allowed too");
    }
    let holds = |message: &&Message| contains(&message.members, field.tag);
    let messages: Vec<String> = dictionary
        .messages
        .iter()
        .filter(holds)
        .map(|message| format!("{}({})", message.name, message.msg_type))
        .collect();
    if !messages.is_empty() {
        text.push_str(&wrapped("  in ", &messages));
    }
    for (place, members) in groups(dictionary, field.tag) {
        text.push_str(&tree(dictionary, &format!("an entry in {place}"), members));
    }
    text
}

/// Joins names by commas, in lines of at most [`WIDTH_MAX`] columns; the first line begins with
/// `head`.
fn wrapped(head: &str, names: &[String]) -> String {
    let mut text = head.to_owned();
    let mut column = head.len();
    for (n, name) in names.iter().enumerate() {
        let end = if n + 1 < names.len() { ", " } else { "\n" };
        if column + name.len() + end.trim_end().len() > WIDTH_MAX && column > head.len() {
            text.truncate(text.trim_end().len());
            let _ = write!(text, "\n{:indent$}", "", indent = head.len());
            column = head.len();
        }
        text.push_str(name);
        text.push_str(end);
        column += name.len() + end.len();
    }
    text
}

/// Returns the groups whose NumInGroup field is `tag`, each with the name of the message or
/// component that contains the group.
///
/// Groups with equal members are listed once.
fn groups(dictionary: &Dictionary, tag: u32) -> Vec<(String, &[Member])> {
    let components = dictionary.components.iter();
    let components = components.map(|known| (known.name.clone(), known.members.as_slice()));
    let messages = dictionary.messages.iter();
    let messages = messages.map(|known| (known.name.clone(), known.members.as_slice()));
    let (mut found, mut seen) = (Vec::new(), Vec::new());
    for (place, members) in components.chain(messages) {
        find_groups(members, tag, &mut |group| {
            let tags: Vec<u32> = Flat::of(group).map(|member| member.tag).collect();
            if !seen.contains(&tags) {
                seen.push(tags);
                found.push((place.clone(), group));
            }
        });
    }
    found
}

/// Calls `found` with the members of each group whose NumInGroup field is `tag`.
///
/// Components are not searched; the caller visits them separately.
fn find_groups<'d>(members: &'d [Member], tag: u32, found: &mut impl FnMut(&'d [Member])) {
    for member in members {
        if let MemberKind::Group(group) = &member.kind {
            if group.count_tag == tag {
                found(&group.members);
            }
            find_groups(&group.members, tag, found);
        }
    }
}

fn contains(members: &[Member], tag: u32) -> bool {
    Flat::of(members)
        .any(|member| member.tag == tag || member.group.is_some_and(|group| contains(group, tag)))
}

/// Returns a label such as `Price(44)`.
fn label(field: &Field) -> String {
    format!("{}({})", field.name, field.tag)
}

/// A line in the description of a message or component.
struct Row {
    required: char,
    label: String,
    kind: String,
}

fn tree(dictionary: &Dictionary, head: &str, members: &[Member]) -> String {
    let mut rows = Vec::new();
    rows_of(dictionary, members, 0, &mut rows);
    let width = rows.iter().map(|row| row.label.len()).max().unwrap_or(0);
    let mut text = format!("{head}\n");
    for Row { required, label, kind } in &rows {
        let line = format!("{required} {label:width$}  {kind}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let notes = [
        ('*', "(*: required, if its component or group is there)\n"),
        ('?', "(?: required under a condition)\n"),
    ];
    for (mark, note) in notes {
        if rows.iter().any(|row| row.required == mark) {
            text.push_str(note);
        }
    }
    text
}

fn rows_of(dictionary: &Dictionary, members: &[Member], depth: usize, rows: &mut Vec<Row>) {
    let name = |tag: u32| dictionary.field(tag).map_or_else(|| tag.to_string(), label);
    let indent = "  ".repeat(depth);
    for member in members {
        let (label, kind, inner): (String, String, &[Member]) = match &member.kind {
            MemberKind::Field(tag) => (name(*tag), kind_of(dictionary.field(*tag)), &[]),
            MemberKind::Group(group) => (name(group.count_tag), "group".into(), &group.members),
            MemberKind::Component(component) => {
                (component.name.clone(), "component".into(), &component.members)
            }
        };
        let required = match (member.required, &member.required_if) {
            (true, _) => '*',
            (false, Some(_)) => '?',
            (false, None) => ' ',
        };
        rows.push(Row { required, label: format!("{indent}{label}"), kind });
        rows_of(dictionary, inner, depth + 1, rows);
    }
}

fn kind_of(field: Option<&Field>) -> String {
    let Some(field) = field else { return String::new() };
    match field.codes.as_slice() {
        [] => field.data_type.to_string(),
        codes if codes.len() <= CODES_SHOWN_MAX => {
            let values: Vec<&str> = codes.iter().map(|code| code.value.as_str()).collect();
            format!("{}  {}", field.data_type, values.join(" "))
        }
        codes => format!("{}  {} codes", field.data_type, codes.len()),
    }
}

/// Maximum line width, in columns.
const WIDTH_MAX: usize = 80;

/// Maximum number of codes listed with a member; the description of the field lists all codes.
const CODES_SHOWN_MAX: usize = 10;

#[cfg(all(test, feature = "xml"))]
mod tests {
    use super::*;

    const TEXT: &str = "<fix major='4' minor='4'>\
        <header><field name='MsgType' required='Y'/></header><messages>\
        <message name='Order' msgtype='D'><field name='Side' required='Y'/>\
        <component name='Parties' requiredIf='Side == 1'/></message>\
        <message name='Side' msgtype='44' msgcat='admin'/></messages>\
        <components><component name='Parties'><group name='NoPartyIDs' required='Y'>\
        <field name='PartyID' required='N'/></group></component></components><fields>\
        <field number='54' name='Side' type='CHAR'><value enum='1' description='BUY'/></field>\
        <field number='35' name='MsgType' type='STRING'/>\
        <field number='44' name='Price' type='PRICE'/>\
        <field number='95' name='RawDataLength' type='LENGTH'/>\
        <field number='96' name='RawData' type='DATA'/>\
        <field number='448' name='PartyID' type='STRING'/>\
        <field number='453' name='NoPartyIDs' type='NUMINGROUP'/></fields></fix>";

    const ORDER: &str = "\
Order(D)  FIX.4.4  application message
* Side(54)           char  1
? Parties            component
*   NoPartyIDs(453)  group
      PartyID(448)   String
(*: required, if its component or group is there)
(?: required under a condition)
";

    const GROUP: &str = "\
NoPartyIDs(453)  FIX.4.4  NumInGroup
  in Order(D)
an entry in Parties
  PartyID(448)  String
";

    #[test]
    fn long_lists_are_wrapped() {
        let names: Vec<String> = (0..4).map(|n| format!("{n}").repeat(35)).collect();
        let (a, b, c, d) = (&names[0], &names[1], &names[2], &names[3]);
        let expected = format!("  in {a}, {b},\n     {c}, {d}\n");
        assert_eq!(wrapped("  in ", &names), expected);
        assert!(expected.lines().all(|line| line.len() <= WIDTH_MAX));
        let long = ["x".repeat(100)];
        assert_eq!(wrapped("in ", &long), format!("in {}\n", long[0]));
    }

    #[test]
    fn each_kind_of_thing_is_described() {
        let dictionary = Dictionary::from_quickfix_xml(TEXT, "t.xml").unwrap();
        let side = "Side(54)  FIX.4.4  char\n  1  BUY\n  in Order(D)\n";
        let session = "Side(44)  FIX.4.4  session message\n";
        let price = "Price(44)  FIX.4.4  Price\n";
        let both = |a: &str, b: &str| format!("{a}\n{b}");
        let cases = [
            ("D", ORDER.to_owned()),
            ("order", ORDER.to_owned()),
            ("54", side.to_owned()),
            ("Side", both(side, session)),
            ("44", both(price, session)),
            ("PRICE", price.to_owned()),
            ("NoPartyIDs", GROUP.to_owned()),
            ("PartyID", "PartyID(448)  FIX.4.4  String\n  in Order(D)\n".to_owned()),
            ("RawData", "RawData(96)  FIX.4.4  data\n  length in RawDataLength(95)\n".to_owned()),
        ];
        for (what, expected) in cases {
            assert_eq!(describe(&dictionary, what).unwrap(), expected, "{what}");
        }
        let parties = describe(&dictionary, "Parties").unwrap();
        assert!(parties.starts_with("Parties  FIX.4.4  component\n* NoPartyIDs(453)"), "{parties}");
        assert!(describe(&dictionary, "header").unwrap().contains("\n* MsgType(35)"));
    }

    #[test]
    fn what_is_unknown_is_named_with_the_nearest() {
        let dictionary = Dictionary::from_quickfix_xml(TEXT, "t.xml").unwrap();
        let cases = [
            ("Prise", "; did you mean 'Price'?"),
            ("9999", "; ask for a name, a tag or a MsgType"),
            ("trailer", "; ask for a name, a tag or a MsgType"),
        ];
        for (what, end) in cases {
            let shown = describe(&dictionary, what).unwrap_err().to_string();
            assert_eq!(shown, format!("FIX.4.4 has no message, field or component '{what}'{end}"));
        }
    }
}
