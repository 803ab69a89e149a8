//! Finds requirements that the published file of a version seems to have forgotten.
//!
//! There are two signs: the versions before and after require the member, or a required component
//! contains no required member. The list [`RIGHT`] names the places that are correct in spite of
//! such a sign, each with its reason.
//!
//! Invariant: a sign that is not listed in `RIGHT` is an error, and an entry of `RIGHT` without a
//! sign is also an error. The list is therefore corrected when sources or amendments change.

use std::collections::{BTreeMap, BTreeSet};

use transfix_dictionary::{Dictionary, Flat, Member, MemberKind};

/// The required components that correctly contain no required member, with the versions and the
/// reason.
const RIGHT: &[(&[&str], &str, &str)] = &[
    (
        &["FIX43", "FIX44", "FIX50", "FIX50SP1", "FIX50SP2", "FIXLatest"],
        "OrderQtyData",
        "one of several fields gives the quantity; none of them always",
    ),
    (
        &["FIX43", "FIX44", "FIX50", "FIX50SP1", "FIX50SP2", "FIXLatest"],
        "CommissionData",
        "BidResponse(l): a response may leave its commission open; all sources agree",
    ),
    (
        &["FIX50", "FIX50SP1", "FIX50SP2", "FIXLatest"],
        "Instrument",
        "an instrument is named by Symbol(55) or by SecurityID(48)",
    ),
    (
        &["FIX44", "FIX50", "FIX50SP1"],
        "InstrmtLegGrp",
        "Confirmation(AK): most instruments have no legs",
    ),
    (
        &["FIX44", "FIX50", "FIX50SP1"],
        "UndInstrmtGrp",
        "Confirmation(AK): most instruments have no underlyings",
    ),
    (
        &["FIX44", "FIX50", "FIX50SP1"],
        "Parties",
        "position messages: the chosen source leaves the group optional, which accepts more",
    ),
    (
        &["FIX44", "FIX50", "FIX50SP1"],
        "PositionQty",
        "position messages: the chosen source leaves the group optional, which accepts more",
    ),
    (
        &["FIX44"],
        "PositionAmountData",
        "position messages: the chosen source leaves the group optional, which accepts more",
    ),
    (
        &["FIX50", "FIX50SP1"],
        "ExpirationQty",
        "ContraryIntentionReport(BO): the only source leaves the group optional",
    ),
    (
        &["FIX50SP1"],
        "SettlObligationInstructions",
        "SettlementObligationReport(BQ): the only source leaves the group optional",
    ),
    (
        &["FIXLatest"],
        "ApplicationSequenceControl",
        "MassOrderAck(DK): no field of it is required where applications do not number messages",
    ),
];

/// Checks the versions for forgotten requirements. The versions must be given in chronological
/// order.
///
/// # Errors
/// A line for each place, and for each unneeded entry of [`RIGHT`].
pub(super) fn check(versions: &[(&str, &Dictionary)]) -> Result<(), String> {
    let mut wrong = between(versions);
    wrong.extend(hollow(versions, RIGHT));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!(
        "seems to be forgotten (add an amendment, or the reason why it is right):\n{}",
        wrong.join("\n")
    ))
}

/// Returns the members that a version does not require although the versions directly before and
/// after do.
fn between(versions: &[(&str, &Dictionary)]) -> Vec<String> {
    let versions: Vec<_> = versions.iter().filter(|(_, known)| is_of_applications(known)).collect();
    let required: Vec<_> = versions.iter().map(|(_, known)| places(known)).collect();
    let mut wrong = Vec::new();
    for (n, (name, dictionary)) in versions.iter().enumerate() {
        for (place, _) in required[n].iter().filter(|(_, is_required)| !**is_required) {
            let before = required[..n].iter().rev().find_map(|places| places.get(place));
            let after = required[n + 1..].iter().find_map(|places| places.get(place));
            if (before, after) == (Some(&true), Some(&true)) {
                let (msg_type, path) = place;
                let tags = path.iter().map(|tag| match dictionary.field(*tag) {
                    Some(field) => format!("{}({tag})", field.name),
                    None => tag.to_string(),
                });
                let path = tags.collect::<Vec<_>>().join("/");
                wrong.push(format!(
                    "{name}: {path} in message {msg_type}, required before and after"
                ));
            }
        }
    }
    wrong
}

/// Returns true if the dictionary has application messages. FIXT 1.1 has none, so it is not part of
/// the sequence of versions.
fn is_of_applications(dictionary: &Dictionary) -> bool {
    dictionary.message("D").is_some()
}

/// The place of a member: MsgType(35), and the tags from the outermost group to the field itself.
type Place = (String, Vec<u32>);

/// Returns all places of a dictionary, each with true if its member is required.
fn places(dictionary: &Dictionary) -> BTreeMap<Place, bool> {
    fn walk(places: &mut BTreeMap<Place, bool>, members: &[Member], parent: &Place) {
        for member in Flat::of(members) {
            let mut place = parent.clone();
            place.1.push(member.tag);
            if let Some(entry) = member.group {
                walk(places, entry, &place);
            }
            *places.entry(place).or_insert(false) |= member.required;
        }
    }
    let mut places = BTreeMap::new();
    for message in dictionary.messages() {
        walk(&mut places, &message.members, &(message.msg_type.clone(), Vec::new()));
    }
    places
}

/// Returns the required components that contain no required member, except the components in
/// `right`.
fn hollow(
    versions: &[(&str, &Dictionary)],
    right: &[(&'static [&'static str], &'static str, &str)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, dictionary) in versions {
        let mut found = BTreeMap::new();
        for message in dictionary.messages() {
            hollow_in(&message.members, &message.msg_type, &mut found);
        }
        for (component, msg_types) in found {
            let is_right =
                |entry: &&(&[&str], &str, &str)| entry.0.contains(name) && entry.1 == component;
            if right.iter().any(|entry| is_right(&entry)) {
                seen.insert((*name, component.to_owned()));
                continue;
            }
            let msg_types = msg_types.into_iter().collect::<Vec<_>>().join(" ");
            wrong.push(format!(
                "{name}: component {component} is required in {msg_types} and may be empty"
            ));
        }
    }
    for (names, component, _) in right {
        for name in names.iter().filter(|name| !seen.contains(&(**name, (*component).to_owned()))) {
            wrong.push(format!("{name}: {component} is said to be right, but shows no sign"));
        }
    }
    wrong
}

fn hollow_in<'d>(
    members: &'d [Member],
    msg_type: &'d str,
    found: &mut BTreeMap<&'d str, BTreeSet<&'d str>>,
) {
    for member in members {
        match &member.kind {
            MemberKind::Field(_) => {}
            MemberKind::Group(group) => hollow_in(&group.members, msg_type, found),
            MemberKind::Component(component) => {
                if member.required && !Flat::of(&component.members).any(|inner| inner.required) {
                    found.entry(&component.name).or_default().insert(msg_type);
                }
                hollow_in(&component.members, msg_type, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a dictionary whose NewOrderSingle(D) has a component with a group. `component` and
    /// `group` state if these are required.
    fn version(component: char, group: char) -> Dictionary {
        let text = format!(
            "<fix major='4' minor='4'><messages><message name='NewOrderSingle' msgtype='D'>\
             <component name='C' required='{component}'/></message></messages><components>\
             <component name='C'><group name='NoA' required='{group}'>\
             <field name='A' required='N'/></group></component></components><fields>\
             <field number='1' name='NoA' type='NUMINGROUP'/>\
             <field number='2' name='A' type='INT'/></fields></fix>"
        );
        Dictionary::from_quickfix_xml(&text, "test.xml").unwrap()
    }

    #[test]
    fn what_the_neighbours_require_is_found() {
        let (required, optional) = (version('Y', 'Y'), version('Y', 'N'));
        let found = between(&[("X", &required), ("Y", &optional), ("Z", &required)]);
        assert_eq!(found, ["Y: NoA(1) in message D, required before and after"]);
        for row in [[&required, &optional, &optional], [&optional, &optional, &required]] {
            assert!(between(&[("X", row[0]), ("Y", row[1]), ("Z", row[2])]).is_empty());
        }
    }

    #[test]
    fn a_required_component_that_may_be_empty_is_found() {
        let (full, empty, free) = (version('Y', 'Y'), version('Y', 'N'), version('N', 'N'));
        assert!(hollow(&[("X", &full), ("Y", &free)], &[]).is_empty());
        let found = hollow(&[("X", &empty)], &[]);
        assert_eq!(found, ["X: component C is required in D and may be empty"]);
        assert!(hollow(&[("X", &empty)], &[(&["X"], "C", "why")]).is_empty());
        let stale = hollow(&[("X", &full)], &[(&["X"], "C", "why")]);
        assert_eq!(stale, ["X: C is said to be right, but shows no sign"]);
    }

    #[test]
    fn the_dictionaries_that_ship_have_forgotten_nothing() {
        let read = |name: &&'static str| {
            (*name, transfix_dictionary::standard(name).expect("a standard dictionary"))
        };
        let versions: Vec<_> = transfix_dictionary::STANDARD.iter().map(read).collect();
        let versions: Vec<_> = versions.iter().map(|(name, known)| (*name, known)).collect();
        assert_eq!(check(&versions), Ok(()));
    }
}
