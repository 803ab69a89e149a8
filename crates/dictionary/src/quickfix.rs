//! Reader of QuickFIX XML.
//!
//! The root `<fix>` contains `<header>`, `<messages>`, `<trailer>`, `<components>` and `<fields>`,
//! in any order. Members refer to field names, so the fields are read first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use roxmltree::Node;

use crate::nearest::nearest;
use crate::xml::{Source, children, listed};
use crate::{
    Category, Code, DataType, DictionaryError, Draft, DraftComponent, DraftConditional, DraftKind,
    DraftMember, DraftMessage, Field, Problem, data_type,
};

/// Reads the dictionary from its root element `<fix>`.
pub(crate) fn read(root: Node<'_, '_>, source: &Source<'_>) -> Result<Draft, DictionaryError> {
    let name = version(root, source)?;
    let fields = fields(root, source, &name)?;
    let tags = fields.iter().map(|field| (field.name.clone(), field.tag)).collect();
    let reader = Reader { source, tags };
    let mut draft = Draft {
        file: source.file().to_owned(),
        extension_pack: root.attribute("extensionpack").and_then(|pack| pack.parse().ok()),
        name,
        fields,
        ..Draft::default()
    };
    for node in listed(root, "components").filter(|node| node.has_tag_name("component")) {
        draft.components.push(DraftComponent {
            name: source.attribute(node, "name")?.to_owned(),
            members: reader.members(node, 0)?,
            line: source.line(node),
        });
    }
    for node in listed(root, "messages").filter(|node| node.has_tag_name("message")) {
        let mut message = message(node, source, reader.members(node, 0)?)?;
        message.conditions = reader.conditions(node)?;
        draft.messages.push(message);
    }
    for node in children(root, "header") {
        draft.header.extend(reader.members(node, 0)?);
    }
    for node in children(root, "trailer") {
        draft.trailer.extend(reader.members(node, 0)?);
    }
    Ok(draft)
}

/// Returns the name of the version from the attributes of the root: `FIX.4.4`, `FIXT.1.1`,
/// `FIX.5.0SP2` or `FIX.Latest`, for example.
fn version(root: Node<'_, '_>, source: &Source<'_>) -> Result<String, DictionaryError> {
    let family = root.attribute("type").unwrap_or("FIX");
    let major = source.attribute(root, "major")?;
    if major.parse::<u32>().is_err() {
        return Ok(format!("{family}.{major}"));
    }
    let minor = source.attribute(root, "minor")?;
    let pack = match root.attribute("servicepack") {
        None | Some("" | "0") => String::new(),
        Some(pack) => format!("SP{pack}"),
    };
    Ok(format!("{family}.{major}.{minor}{pack}"))
}

/// Reads all fields. Two definitions of the same field are merged, with the codes of both
/// definitions.
fn fields(
    root: Node<'_, '_>,
    source: &Source<'_>,
    version: &str,
) -> Result<Vec<Field>, DictionaryError> {
    let mut fields: Vec<Field> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for node in listed(root, "fields").filter(|node| node.has_tag_name("field")) {
        let field = field(node, source, version)?;
        match places.entry(field.tag) {
            Entry::Occupied(place) if fields[*place.get()].name == field.name => {
                fields[*place.get()].codes.extend(field.codes);
            }
            Entry::Occupied(place) => {
                let name = fields[*place.get()].name.clone();
                return Err(source.error(node, Problem::TagTaken { name, tag: field.tag }));
            }
            Entry::Vacant(place) => {
                place.insert(fields.len());
                fields.push(field);
            }
        }
    }
    Ok(fields)
}

pub(crate) fn field(
    node: Node<'_, '_>,
    source: &Source<'_>,
    version: &str,
) -> Result<Field, DictionaryError> {
    let mut codes = Vec::new();
    let wrapped = children(node, "values").flat_map(|values| children(values, "value"));
    for value in children(node, "value").chain(wrapped) {
        let code = source.attribute(value, "enum")?.to_owned();
        let name = value.attribute("description").unwrap_or(&code).to_owned();
        codes.push(Code { value: code, name });
    }
    let data_type = data_type(node, source, version)?;
    Ok(Field {
        tag: source.tag(node, "number")?,
        name: source.attribute(node, "name")?.to_owned(),
        data_type,
        codes,
        open: node.attribute("allowOtherValues").is_some_and(is_yes),
    })
}

/// Returns the data type that the attribute `type` names.
pub(crate) fn data_type(
    node: Node<'_, '_>,
    source: &Source<'_>,
    version: &str,
) -> Result<DataType, DictionaryError> {
    let name = source.attribute(node, "type")?;
    type_in(version, name).ok_or_else(|| {
        let nearest = nearest(name, data_type::names()).map(str::to_owned);
        source.error(node, Problem::UnknownType { name: name.to_owned(), nearest })
    })
}

/// Returns the data type that a name denotes in this version.
fn type_in(version: &str, name: &str) -> Option<DataType> {
    let found = DataType::parse(name)?;
    // In FIX 4.0 and 4.1, the type char denotes any text, and the type date denotes a market date,
    // later called LocalMktDate.
    if matches!(version, "FIX.4.0" | "FIX.4.1") {
        if found == DataType::Char {
            return Some(DataType::String);
        }
        if name.eq_ignore_ascii_case("date") {
            return Some(DataType::LocalMktDate);
        }
    }
    Some(found)
}

pub(crate) fn is_yes(value: &str) -> bool {
    value.eq_ignore_ascii_case("y") || value.eq_ignore_ascii_case("true")
}

/// Returns the layer that handles a message; the default is the application layer.
pub(crate) fn category(
    node: Node<'_, '_>,
    source: &Source<'_>,
) -> Result<Category, DictionaryError> {
    match node.attribute("msgcat") {
        Some(admin) if admin.eq_ignore_ascii_case("admin") => Ok(Category::Admin),
        Some(app) if app.eq_ignore_ascii_case("app") => Ok(Category::App),
        None => Ok(Category::App),
        Some(other) => {
            let value = other.to_owned();
            Err(source.error(node, Problem::BadAttribute { attribute: "msgcat", value }))
        }
    }
}

/// Reads the definition of a message.
pub(crate) fn message(
    node: Node<'_, '_>,
    source: &Source<'_>,
    members: Vec<DraftMember>,
) -> Result<DraftMessage, DictionaryError> {
    Ok(DraftMessage {
        msg_type: source.attribute(node, "msgtype")?.to_owned(),
        name: source.attribute(node, "name")?.to_owned(),
        category: category(node, source)?,
        members,
        conditions: Vec::new(),
        line: source.line(node),
    })
}

struct Reader<'s> {
    source: &'s Source<'s>,
    tags: HashMap<String, u32>,
}

impl Reader<'_> {
    fn members(
        &self,
        parent: Node<'_, '_>,
        depth: usize,
    ) -> Result<Vec<DraftMember>, DictionaryError> {
        if depth > Problem::DEPTH_MAX {
            return Err(self.source.error(parent, Problem::TooDeep));
        }
        let mut members = Vec::new();
        for node in parent.children().filter(Node::is_element) {
            let kind = match node.tag_name().name() {
                "field" => DraftKind::Field(self.tag(node)?),
                "group" => DraftKind::Group {
                    count_tag: self.tag(node)?,
                    members: self.members(node, depth + 1)?,
                },
                "component" => {
                    DraftKind::Component(self.source.attribute(node, "name")?.to_owned())
                }
                _ => continue,
            };
            let required = node.attribute("required").is_some_and(is_yes);
            let required_if = node.attribute("requiredIf").map(str::to_owned);
            members.push(DraftMember { required, required_if, kind, line: self.source.line(node) });
        }
        Ok(members)
    }

    /// Reads the fields of a message that the standard's descriptions require under a condition.
    fn conditions(&self, message: Node<'_, '_>) -> Result<Vec<DraftConditional>, DictionaryError> {
        let read = |node: Node<'_, '_>| {
            let group = node.attribute("group").map(|name| self.named(node, name)).transpose()?;
            Ok(DraftConditional {
                tag: self.named(node, self.source.attribute(node, "field")?)?,
                group,
                when: self.source.attribute(node, "when")?.to_owned(),
                says: self.source.attribute(node, "says")?.to_owned(),
                line: self.source.line(node),
            })
        };
        children(message, "condition").map(read).collect()
    }

    fn tag(&self, node: Node<'_, '_>) -> Result<u32, DictionaryError> {
        self.named(node, self.source.attribute(node, "name")?)
    }

    fn named(&self, node: Node<'_, '_>, name: &str) -> Result<u32, DictionaryError> {
        match self.tags.get(name) {
            Some(tag) => Ok(*tag),
            None => {
                let names = self.tags.keys().map(String::as_str);
                let nearest = nearest(name, names).map(str::to_owned);
                let problem = Problem::UnknownField { name: name.to_owned(), nearest };
                Err(self.source.error(node, problem))
            }
        }
    }
}

#[cfg(test)]
mod tests;
