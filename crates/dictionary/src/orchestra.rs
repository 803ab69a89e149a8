//! Reader of FIX Orchestra, the machine-readable form in which the standard itself is published.
//!
//! A `<repository>` contains `<codeSets>`, `<fields>`, `<components>`, `<groups>` and `<messages>`;
//! references use numbers. A group becomes a component of the same name that contains only the
//! group, as in QuickFIX XML. Rules that require a member become the member's condition. The reader
//! uses a single scenario, by default `base`; a reference that names another scenario refers to the
//! component or group of that scenario. Workflow and documentation are ignored.

use std::collections::{HashMap, HashSet};

use roxmltree::Node;

use crate::nearest::nearest;
use crate::xml::{Source, children, listed};
use crate::{
    Category, Code, DataType, Dictionary, DictionaryError, Draft, DraftComponent, DraftKind,
    DraftMember, DraftMessage, Field, Problem, data_type,
};

impl Dictionary {
    /// Reads a dictionary from a FIX Orchestra repository.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// If the text is not XML, an element or attribute is missing or invalid, or a reference has no
    /// target; see [`DictionaryError`].
    pub fn from_orchestra_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        Draft::from_orchestra_xml(text, file)?.resolve()
    }
}

impl Draft {
    /// Reads the scenario `base` of a FIX Orchestra repository.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// The errors of [`Dictionary::from_orchestra_xml`], except the errors of [`Draft::resolve`].
    pub fn from_orchestra_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        let (document, source) = crate::xml::parse(text, file)?;
        let root = document.root_element();
        if root.tag_name().name() != "repository" {
            return Err(source.error(root, Problem::NotADictionary));
        }
        read(root, &source)
    }

    /// Reads one scenario of a FIX Orchestra repository.
    ///
    /// A definition of the scenario replaces the definition of the same element in `base`.
    ///
    /// # Errors
    /// The errors of [`from_orchestra_xml`](Self::from_orchestra_xml). Also if the repository does
    /// not contain the scenario.
    pub fn from_orchestra_scenario(
        text: &str,
        file: &str,
        scenario: &str,
    ) -> Result<Self, DictionaryError> {
        let (document, source) = crate::xml::parse(text, file)?;
        let root = document.root_element();
        if root.tag_name().name() != "repository" {
            return Err(source.error(root, Problem::NotADictionary));
        }
        let scenarios = root.descendants().filter_map(|node| node.attribute("scenario"));
        let scenarios: HashSet<&str> = scenarios.chain([BASE]).collect();
        if !scenarios.contains(scenario) {
            let nearest = nearest(scenario, scenarios.iter().copied()).map(str::to_owned);
            let problem = Problem::UnknownScenario { name: scenario.to_owned(), nearest };
            return Err(source.error(root, problem));
        }
        read_scenario(root, &source, scenario)
    }
}

pub(crate) fn read(root: Node<'_, '_>, source: &Source<'_>) -> Result<Draft, DictionaryError> {
    read_scenario(root, source, BASE)
}

fn read_scenario(
    root: Node<'_, '_>,
    source: &Source<'_>,
    scenario: &str,
) -> Result<Draft, DictionaryError> {
    let reader = Reader::of(root, source, scenario)?;
    let version = source.attribute(root, "version")?;
    let (name, pack) = version.split_once("_EP").unwrap_or((version, ""));
    // The repository of the session layer is published under the name of an application version, so
    // the name is replaced.
    let name = if root.attribute("name") == Some("FIXT") { "FIXT.1.1" } else { name };
    let mut draft = Draft {
        file: source.file().to_owned(),
        name: name.to_owned(),
        extension_pack: pack.parse().ok(),
        ..Draft::default()
    };
    for node in chosen(root, ("fields", "field"), "id", scenario) {
        draft.fields.push(reader.field(node)?);
    }
    for node in chosen(root, ("components", "component"), "id", scenario) {
        if let HEADER | TRAILER = source.attribute(node, "name")? {
            let members = reader.members(node)?;
            let is_header = node.attribute("name") == Some(HEADER);
            *(if is_header { &mut draft.header } else { &mut draft.trailer }) = members;
        }
    }
    for node in listed(root, "components").filter(|node| node.tag_name().name() == "component") {
        let name = scenario_name(node, source)?;
        let members = reader.members(node)?;
        if let HEADER | TRAILER = source.attribute(node, "name")? {
            continue;
        }
        draft.components.push(DraftComponent { name, members, line: source.line(node) });
    }
    for node in listed(root, "groups").filter(|node| node.tag_name().name() == "group") {
        draft.components.push(DraftComponent {
            name: scenario_name(node, source)?,
            members: vec![reader.group(node)?],
            line: source.line(node),
        });
    }
    for node in chosen(root, ("messages", "message"), "msgType", scenario) {
        draft.messages.push(reader.message(node)?);
    }
    Ok(draft)
}

struct Reader<'a, 's> {
    source: &'a Source<'s>,
    /// For the name of each code set, its data type and codes.
    code_sets: HashMap<&'a str, (DataType, Vec<Code>)>,
    /// The names of components, by number and scenario.
    components: Names<'a>,
    /// The names of groups, by number and scenario.
    groups: Names<'a>,
}

impl<'a, 's> Reader<'a, 's> {
    fn of(
        root: Node<'a, '_>,
        source: &'a Source<'s>,
        scenario: &str,
    ) -> Result<Self, DictionaryError> {
        let mut code_sets = HashMap::new();
        for node in chosen(root, ("codeSets", "codeSet"), "name", scenario) {
            let data_type = data_type(node, source)?;
            let mut codes = Vec::new();
            for code in children(node, "code") {
                let value = source.attribute(code, "value")?.to_owned();
                codes.push(Code { value, name: upper_snake(source.attribute(code, "name")?) });
            }
            code_sets.insert(source.attribute(node, "name")?, (data_type, codes));
        }
        let components = numbered(root, source, "components", "component")?;
        let groups = numbered(root, source, "groups", "group")?;
        Ok(Self { source, code_sets, components, groups })
    }

    fn field(&self, node: Node<'_, '_>) -> Result<Field, DictionaryError> {
        let (data_type, codes) = match self.code_sets.get(self.source.attribute(node, "type")?) {
            Some((data_type, codes)) => (*data_type, codes.clone()),
            None => (data_type(node, self.source)?, Vec::new()),
        };
        Ok(Field {
            tag: self.source.tag(node, "id")?,
            name: self.source.attribute(node, "name")?.to_owned(),
            data_type,
            // In Orchestra, a union permits values besides the codes, such as numbers from 100 on,
            // a quantity or a tenor.
            open: !codes.is_empty() && node.has_attribute("unionDataType"),
            codes,
        })
    }

    fn message(&self, node: Node<'_, '_>) -> Result<DraftMessage, DictionaryError> {
        let mut members = Vec::new();
        for structure in children(node, "structure") {
            members.extend(self.members(structure)?);
        }
        // Header and trailer are the same for all messages, and are not part of the body.
        members.retain(|member| match &member.kind {
            DraftKind::Component(name) => !name.starts_with(HEADER) && !name.starts_with(TRAILER),
            _ => true,
        });
        let session = node.attribute("category") == Some("Session");
        Ok(DraftMessage {
            msg_type: self.source.attribute(node, "msgType")?.to_owned(),
            name: self.source.attribute(node, "name")?.to_owned(),
            category: if session { Category::Admin } else { Category::App },
            members,
            conditions: Vec::new(),
            line: self.source.line(node),
        })
    }

    /// Reads a `<group>` definition.
    fn group(&self, node: Node<'_, '_>) -> Result<DraftMember, DictionaryError> {
        let Some(count) = children(node, "numInGroup").next() else {
            return Err(self.source.error(node, Problem::MissingAttribute("numInGroup")));
        };
        let (count_tag, members) = (self.source.tag(count, "id")?, self.members(node)?);
        // The group itself is marked as required, because the reference to its component states
        // whether the group is required.
        let kind = DraftKind::Group { count_tag, members };
        Ok(DraftMember { required: true, required_if: None, kind, line: self.source.line(node) })
    }

    fn members(&self, parent: Node<'_, '_>) -> Result<Vec<DraftMember>, DictionaryError> {
        let mut members = Vec::new();
        for node in parent.children().filter(Node::is_element) {
            let kind = match node.tag_name().name() {
                "fieldRef" => DraftKind::Field(self.source.tag(node, "id")?),
                "componentRef" => self.named(node, &self.components)?,
                "groupRef" => self.named(node, &self.groups)?,
                _ => continue,
            };
            let required = node.attribute("presence") == Some("required");
            let required_if = required_if(node);
            members.push(DraftMember { required, required_if, kind, line: self.source.line(node) });
        }
        Ok(members)
    }

    fn named(&self, node: Node<'_, '_>, names: &Names<'_>) -> Result<DraftKind, DictionaryError> {
        let number = self.source.attribute(node, "id")?;
        match names.get(&(number, scenario_of(node))) {
            Some(name) => Ok(DraftKind::Component(name.clone())),
            None => {
                let name = number.to_owned();
                Err(self.source.error(node, Problem::UnknownComponent { name, nearest: None }))
            }
        }
    }
}

/// Returns the condition under which a member is required; joins the conditions of several rules by
/// `or`.
fn required_if(node: Node<'_, '_>) -> Option<String> {
    let rules =
        children(node, "rule").filter(|rule| rule.attribute("presence") == Some("required"));
    let conditions = rules.flat_map(|rule| children(rule, "when"));
    let conditions: Vec<&str> = conditions.filter_map(|when| when.text()).map(str::trim).collect();
    match conditions.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        several => Some(format!("({})", several.join(") or ("))),
    }
}

/// The names of definitions; the key is their number and scenario.
type Names<'a> = HashMap<(&'a str, &'a str), String>;

/// Returns the names of all definitions in a list; the key is their number and scenario.
fn numbered<'a>(
    root: Node<'a, '_>,
    source: &Source<'_>,
    list: &'static str,
    definition: &'static str,
) -> Result<Names<'a>, DictionaryError> {
    let nodes = listed(root, list).filter(|node| node.tag_name().name() == definition);
    let name = |node| {
        let key = (source.attribute(node, "id")?, scenario_of(node));
        Ok((key, scenario_name(node, source)?))
    };
    nodes.map(name).collect()
}

/// Returns the scenario to which a definition belongs, or which a reference names.
fn scenario_of<'a>(node: Node<'a, '_>) -> &'a str {
    node.attribute("scenario").unwrap_or(BASE)
}

/// Returns the name of a component or group; outside the scenario `base`, the scenario is appended.
fn scenario_name(node: Node<'_, '_>, source: &Source<'_>) -> Result<String, DictionaryError> {
    let name = source.attribute(node, "name")?;
    Ok(match scenario_of(node) {
        BASE => name.to_owned(),
        scenario => format!("{name}-{scenario}"),
    })
}

/// Returns one definition for each element of a list.
///
/// If an element has several definitions, the given scenario takes precedence, then `base`, then
/// the first definition. `key` is the attribute that identifies an element.
fn chosen<'a, 'i>(
    root: Node<'a, 'i>,
    (list, definition): (&'static str, &'static str),
    key: &'static str,
    scenario: &str,
) -> Vec<Node<'a, 'i>> {
    let rank = |node: &Node<'_, '_>| match scenario_of(*node) {
        own if own == scenario => 0,
        BASE => 1,
        _ => 2,
    };
    let mut chosen: Vec<Node<'a, 'i>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for node in listed(root, list).filter(|node| node.tag_name().name() == definition) {
        // A definition without this attribute is kept, so that its reader reports the error.
        match node.attribute(key).and_then(|key| places.get(key)) {
            Some(&place) if scenario_of(chosen[place]) == scenario_of(node) => chosen.push(node),
            Some(&place) if rank(&node) < rank(&chosen[place]) => chosen[place] = node,
            Some(_) => {}
            None => {
                places.extend(node.attribute(key).map(|key| (key, chosen.len())));
                chosen.push(node);
            }
        }
    }
    chosen
}

/// The scenario to which definitions without a scenario belong.
const BASE: &str = "base";

/// Returns the data type that the attribute `type` names.
fn data_type(node: Node<'_, '_>, source: &Source<'_>) -> Result<DataType, DictionaryError> {
    let name = source.attribute(node, "type")?;
    DataType::parse(name).ok_or_else(|| {
        let nearest = nearest(name, data_type::names()).map(str::to_owned);
        source.error(node, Problem::UnknownType { name: name.to_owned(), nearest })
    })
}

/// Converts a name such as `BuyMinus` to the spelling of QuickFIX XML, `BUY_MINUS`.
fn upper_snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 8);
    for (i, c) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(i + 1);
        let starts_word = match before {
            Some(before) if c.is_uppercase() => {
                before.is_lowercase()
                    || (before.is_alphanumeric() && after.is_some_and(|c| c.is_lowercase()))
            }
            _ => false,
        };
        if starts_word {
            snake.push('_');
        }
        snake.extend(c.to_uppercase());
    }
    snake
}

/// Name of the component that contains the standard header.
const HEADER: &str = "StandardHeader";
/// Name of the component that contains the standard trailer.
const TRAILER: &str = "StandardTrailer";

#[cfg(test)]
mod tests;
