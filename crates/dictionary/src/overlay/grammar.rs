//! Checks that an overlay contains only known elements and attributes.
//!
//! Without this check, a misspelt element or attribute would silently change nothing.

use roxmltree::Node;

use crate::nearest::nearest;
use crate::xml::Source;
use crate::{DictionaryError, Problem};

/// The rule for one element: its name, its permitted attributes and its permitted child elements.
struct Rule {
    element: &'static str,
    attributes: &'static [&'static str],
    children: &'static [&'static str],
}

const MEMBERS: &[&str] = &["field", "group", "component"];
const MEMBER: &[&str] = &["name", "required", "requiredIf", "after", "before", "action"];

/// The rules for the root element and for the lists of definitions.
const LISTS: &[Rule] = &[
    Rule {
        element: "fix",
        attributes: &["base", "name", "type", "major", "minor", "servicepack", "extensionpack"],
        children: &["fields", "components", "messages", "header", "trailer"],
    },
    Rule { element: "fields", attributes: &[], children: &["field"] },
    Rule { element: "components", attributes: &[], children: &["component"] },
    Rule { element: "messages", attributes: &[], children: &["message"] },
    Rule { element: "header", attributes: &[], children: MEMBERS },
    Rule { element: "trailer", attributes: &[], children: MEMBERS },
];

/// The rules for the definitions in the lists.
const DEFINITIONS: &[Rule] = &[
    Rule {
        element: "field",
        attributes: &["number", "name", "type", "allowOtherValues", "action"],
        children: &["value"],
    },
    Rule { element: "component", attributes: &["name", "action"], children: MEMBERS },
    Rule {
        element: "message",
        attributes: &["name", "msgtype", "msgcat", "action"],
        children: MEMBERS,
    },
];

/// The rules for the parts of definitions, such as members and codes.
const PARTS: &[Rule] = &[
    Rule { element: "value", attributes: &["enum", "description", "action"], children: &[] },
    Rule { element: "field", attributes: MEMBER, children: &[] },
    Rule { element: "group", attributes: MEMBER, children: MEMBERS },
    Rule { element: "component", attributes: MEMBER, children: &[] },
];

/// Rejects unknown elements and attributes below `root`, and invalid values of the attribute
/// `required`.
pub(super) fn check(root: Node<'_, '_>, source: &Source<'_>) -> Result<(), DictionaryError> {
    for node in root.descendants().filter(Node::is_element) {
        let parent = node.parent().filter(Node::is_element).map(|parent| parent.tag_name().name());
        let rules = match parent {
            None | Some("fix") => LISTS,
            Some("fields" | "components" | "messages") => DEFINITIONS,
            Some(_) => PARTS,
        };
        let name = node.tag_name().name();
        // An element without a rule was already rejected when its parent was checked.
        let Some(rule) = rules.iter().find(|rule| rule.element == name) else { continue };
        for attribute in node.attributes().map(|attribute| attribute.name()) {
            if !rule.attributes.contains(&attribute) {
                return Err(source.error(node, meaningless(attribute, rule.attributes)));
            }
        }
        for child in node.children().filter(Node::is_element) {
            let name = child.tag_name().name();
            if !rule.children.contains(&name) {
                return Err(source.error(child, meaningless(name, rule.children)));
            }
        }
        if let Some(required) = node.attribute("required") {
            let known = ["y", "n", "true", "false"];
            if !known.iter().any(|word| required.eq_ignore_ascii_case(word)) {
                let value = required.to_owned();
                return Err(
                    source.error(node, Problem::BadAttribute { attribute: "required", value })
                );
            }
        }
    }
    Ok(())
}

fn meaningless(name: &str, known: &[&str]) -> Problem {
    let nearest = nearest(name, known.iter().copied()).map(str::to_owned);
    Problem::Meaningless { name: name.to_owned(), nearest }
}
