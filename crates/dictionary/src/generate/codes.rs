//! Generator of the tag constants and code sets.

use std::collections::{HashMap, HashSet};

use super::names::{pascal, unused};
use super::plan::{Named, Plan};
use super::text::Text;
use super::types::{CodeKind, Type};

/// A code set: the kind of its codes, and the value and name of each code.
type Set<'d> = (CodeKind, Vec<(&'d str, &'d str)>);

impl Plan<'_> {
    /// Writes a tag constant for each field.
    pub(super) fn tags(&self, text: &mut Text) {
        text.doc("The tags of all fields.");
        text.open("pub mod tag {");
        text.line("use super::t;");
        for (tag, Named { field, constant, .. }) in &self.fields {
            text.doc(format!("`{}({tag})`: {}.", field.name, field.data_type));
            text.line(format!("pub const {constant}: t::Tag = t::Tag({tag});"));
        }
        text.close("}");
    }

    /// Writes an enum for each code set; fields with equal codes share one enum.
    pub(super) fn code_sets(&self, text: &mut Text) {
        text.doc("The code sets of fields, named as the fields.");
        text.doc("");
        text.doc("`Unlisted` is a value that is not one of the codes.");
        text.open("pub mod codes {");
        text.line("use super::t::CodeSet;");
        let mut known: HashMap<Set<'_>, &str> = HashMap::new();
        for (tag, named) in &self.fields {
            let (Type::Code(_, kind) | Type::Codes(_, kind)) = &named.rust else { continue };
            let codes = named.field.codes.iter();
            let set = (*kind, codes.map(|code| (&*code.value, &*code.name)).collect());
            text.doc(format!("The codes of `{}({tag})`.", named.field.name));
            match known.get(&set) {
                Some(first) => {
                    let lifetime = kind.lifetime();
                    let name = &named.pascal;
                    text.line(format!("pub type {name}{lifetime} = {first}{lifetime};"));
                }
                None => {
                    code_set(text, &named.pascal, &set);
                    known.insert(set, &named.pascal);
                }
            }
        }
        text.close("}");
    }
}

fn code_set(text: &mut Text, name: &str, (kind, codes): &Set<'_>) {
    let mut taken = HashSet::from(["Unlisted".to_owned()]);
    let cases: Vec<(String, String, &str)> = codes
        .iter()
        .map(|(value, code)| {
            let literal = match kind {
                CodeKind::Char => format!("b{:?}", char::from(value.as_bytes()[0])),
                CodeKind::Int => (*value).to_owned(),
                CodeKind::Text => format!("{value:?}"),
            };
            (unused(&mut taken, pascal(code), value), literal, *value)
        })
        .collect();
    let (rust, lifetime) = (kind.rust(), kind.lifetime());
    text.line("#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]");
    text.open(format!("pub enum {name}{lifetime} {{"));
    for (case, _, value) in &cases {
        text.doc(format!("`{value}`"));
        text.line(format!("{case},"));
    }
    text.doc("Another value.");
    text.line(format!("Unlisted({rust}),"));
    text.close("}");
    text.open(format!("impl<'a> CodeSet<'a> for {name}{lifetime} {{"));
    text.line(format!("type Code = {rust};"));
    text.line("#[inline]");
    text.open(format!("fn of(code: {rust}) -> Self {{"));
    if *kind == CodeKind::Text {
        cases_of_text(text, &cases);
    } else {
        text.open("match code {");
        for (case, literal, _) in &cases {
            text.line(format!("{literal} => Self::{case},"));
        }
        text.line("_ => Self::Unlisted(code),");
        text.close("}");
    }
    text.close("}");
    text.line("#[inline]");
    text.open(format!("fn code(self) -> {rust} {{"));
    text.open("match self {");
    for (case, literal, _) in &cases {
        text.line(format!("Self::{case} => {literal},"));
    }
    text.line("Self::Unlisted(code) => code,");
    text.close("}");
    text.close("}");
    text.close("}");
}

/// Writes a `match` that compares texts as numbers, which needs few steps even for a hundred codes.
///
/// Texts of more than seven bytes and empty texts have no unique number, so such codes are compared
/// one by one.
fn cases_of_text(text: &mut Text, cases: &[(String, String, &str)]) {
    let (short, long): (Vec<_>, Vec<_>) =
        cases.iter().partition(|(_, _, value)| (1..WORD_BYTES).contains(&value.len()));
    text.open("match super::t::word(code) {");
    for (case, literal, value) in short {
        let number = word(value);
        text.line(format!("{number:#x} => Self::{case}, // {literal}"));
    }
    text.open("_ => match code {");
    for (case, literal, _) in long {
        text.line(format!("{literal} => Self::{case},"));
    }
    text.line("_ => Self::Unlisted(code),");
    text.close("},");
    text.close("}");
}

/// Number of bytes in the `u64` that represents a short text.
const WORD_BYTES: usize = 8;

/// Returns the number that `transfix_codec::typed::word` computes for a text of at most seven
/// bytes.
///
/// The number contains the bytes, the first byte lowest, and the length in the highest byte.
fn word(text: &str) -> u64 {
    let mut bytes = [0; WORD_BYTES];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes[WORD_BYTES - 1] = text.len() as u8;
    u64::from_le_bytes(bytes)
}
