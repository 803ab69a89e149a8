//! Helpers of the XML readers: attributes, lines and errors.

use roxmltree::{Document, Node, ParsingOptions};

use crate::{DictionaryError, Problem};

/// The text and the name of an XML file, for error messages with a line.
pub(crate) struct Source<'s> {
    file: &'s str,
    /// The offsets of the line ends. With `Document::text_pos_at`, each look-up of a line would
    /// search the whole text.
    line_ends: Vec<usize>,
}

/// Parses the document in `text`.
pub(crate) fn parse<'s>(
    text: &'s str,
    file: &'s str,
) -> Result<(Document<'s>, Source<'s>), DictionaryError> {
    let bytes = text.bytes().enumerate();
    let line_ends = bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let source = Source { file, line_ends };
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    match Document::parse_with_options(text, options) {
        Ok(document) => Ok((document, source)),
        Err(error) => {
            let problem = Problem::NotXml(error.to_string());
            Err(source.error_at(error.pos().row, "document".into(), problem))
        }
    }
}

impl Source<'_> {
    pub(crate) fn file(&self) -> &str {
        self.file
    }

    pub(crate) fn line(&self, node: Node<'_, '_>) -> u32 {
        let line = self.line_ends.partition_point(|&end| end < node.range().start) + 1;
        u32::try_from(line).unwrap_or(u32::MAX)
    }

    pub(crate) fn error(&self, node: Node<'_, '_>, problem: Problem) -> DictionaryError {
        let kind = node.tag_name().name();
        let named = ["name", "id", "enum", "value"].iter().find_map(|name| node.attribute(*name));
        let element = match named {
            Some(name) => format!("{kind} '{name}'"),
            None => kind.to_owned(),
        };
        self.error_at(self.line(node), element, problem)
    }

    fn error_at(&self, line: u32, element: String, problem: Problem) -> DictionaryError {
        DictionaryError { file: self.file.to_owned(), line, element, problem }
    }

    /// Returns the value of a required attribute.
    pub(crate) fn attribute<'a>(
        &self,
        node: Node<'a, '_>,
        name: &'static str,
    ) -> Result<&'a str, DictionaryError> {
        let missing = || self.error(node, Problem::MissingAttribute(name));
        node.attribute(name).map(str::trim).ok_or_else(missing)
    }

    /// Returns the value of a required attribute that is a tag, a number of at least 1.
    pub(crate) fn tag(
        &self,
        node: Node<'_, '_>,
        name: &'static str,
    ) -> Result<u32, DictionaryError> {
        let text = self.attribute(node, name)?;
        match text.parse() {
            Ok(tag) if tag > 0 => Ok(tag),
            _ => {
                let problem = Problem::BadAttribute { attribute: name, value: text.to_owned() };
                Err(self.error(node, problem))
            }
        }
    }
}

/// Iterates over the child elements with this name.
pub(crate) fn children<'a, 'i>(
    node: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

/// Iterates over the elements inside all children with this name, such as the fields inside
/// `<fields>`.
pub(crate) fn listed<'a, 'i>(
    root: Node<'a, 'i>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'i>> {
    children(root, name).flat_map(|list| list.children()).filter(Node::is_element)
}

/// Maximum number of nodes of an XML document. FIX Latest as published in Orchestra has about
/// 250,000.
const NODES_MAX: u32 = 4_000_000;
