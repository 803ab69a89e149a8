//! Parses and writes the XML of commands and answers, within fixed limits.
//!
//! Invariant: accepted XML is small and flat, has no DTD, and defines no entities.

use std::fmt::{Display, Write as _};

use roxmltree::{Document, Node, ParsingOptions};

/// Maximum length of accepted XML, in bytes.
pub(super) const XML_MAX: usize = 64 << 10;
/// Maximum number of nodes (elements, texts and comments) in accepted XML.
const NODES_MAX: u32 = 1_000;
/// Maximum nesting depth of elements in accepted XML.
const DEPTH_MAX: usize = 16;

/// Parses XML.
///
/// # Errors
/// Returns the reason if the XML is invalid or exceeds a limit.
pub(super) fn parse(text: &[u8]) -> Result<Document<'_>, String> {
    if text.len() > XML_MAX {
        return Err(format!("the XML has {} bytes; at most {XML_MAX} are accepted", text.len()));
    }
    let text = std::str::from_utf8(text).map_err(|_| "the XML is not UTF-8")?;
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let read = Document::parse_with_options(text, options);
    let document = read.map_err(|error| format!("the XML is not valid: {error}"))?;
    let depth = |node: Node<'_, '_>| node.ancestors().count();
    match document.descendants().all(|node| depth(node) <= DEPTH_MAX) {
        true => Ok(document),
        false => Err(format!("the XML is nested deeper than {DEPTH_MAX} elements")),
    }
}

/// Escapes a text for an element or an attribute. A character that XML forbids is replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\t' | '\n' => safe.push(c),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// A writer of XML elements.
#[derive(Debug, Default)]
pub(super) struct Writer(String);

impl Writer {
    /// Writes `<name>value</name>`.
    pub(super) fn leaf(&mut self, name: &str, value: impl Display) -> &mut Self {
        let value = escaped(&value.to_string());
        let _ = write!(self.0, "<{name}>{value}</{name}>");
        self
    }

    /// Writes `<name>value</name>`, or nothing if `value` is `None`.
    pub(super) fn some(&mut self, name: &str, value: Option<impl Display>) -> &mut Self {
        if let Some(value) = value {
            self.leaf(name, value);
        }
        self
    }

    /// Writes an element whose children `fill` writes.
    pub(super) fn within(&mut self, name: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let _ = write!(self.0, "<{name}>");
        fill(self);
        let _ = write!(self.0, "</{name}>");
        self
    }

    pub(super) fn into_xml(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_or_wrong_is_told() {
        let bomb = "<!DOCTYPE a [<!ENTITY b 'x'><!ENTITY c '&b;&b;'>]><a>&c;</a>";
        let deep = "<a>".repeat(400) + &"</a>".repeat(400);
        let many = format!("<a>{}</a>", "<b/>".repeat(2_000));
        let long = format!("<a>{}</a>", "x".repeat(XML_MAX));
        for (text, expected) in [
            ("", "is not valid"),
            ("<a", "is not valid"),
            ("<a></b>", "is not valid"),
            (bomb, "DTD"),
            ("<a>&b;</a>", "is not valid"),
            (&deep, "deeper than 16 elements"),
            (&many, "is not valid: nodes limit"),
            (&long, "at most 65536 are accepted"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{text:.60}: {error}");
        }
        assert_eq!(parse(b"<a>\xff</a>").unwrap_err(), "the XML is not UTF-8");
        parse(b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!-- --><a/>").unwrap();
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = "a<b>&\"'\u{1}\n]]>\u{ffff}é";
        let mut xml = Writer::default();
        xml.within("a", |xml| _ = xml.leaf("b", text).some("c", None::<u32>));
        let xml = xml.into_xml();
        let read = parse(xml.as_bytes()).unwrap();
        let found = read.root_element().first_element_child().unwrap().text().unwrap();
        assert_eq!(found, text.replace(['\u{1}', '\u{ffff}'], "\u{fffd}"));
    }
}
