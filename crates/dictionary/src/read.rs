//! Reads a dictionary from XML: finds out which layout it has, and whether it is an overlay.

use roxmltree::Node;

use crate::xml::{self, Source};
use crate::{Dictionary, DictionaryError, Draft, Problem, orchestra, overlay, quickfix};

impl Draft {
    /// Reads either layout, by the root element.
    ///
    /// # Errors
    /// See [`DictionaryError`].
    pub fn from_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        let (document, source) = xml::parse(text, file)?;
        let root = document.root_element();
        match root.tag_name().name() {
            "fix" => read_quickfix(root, &source),
            "repository" => orchestra::read(root, &source),
            _ => Err(source.error(root, Problem::NotADictionary)),
        }
    }
}

impl Dictionary {
    /// Reads a dictionary from XML: the layout of the QuickFIX family or FIX Orchestra, by the
    /// root element. `file` is only used in errors.
    ///
    /// # Errors
    /// See [`DictionaryError`].
    pub fn from_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        Draft::from_xml(text, file)?.resolve()
    }
}

impl Dictionary {
    /// Reads a dictionary in the XML layout of the QuickFIX family. `file` is only used in errors.
    ///
    /// # Errors
    /// If the text is no XML, an element or attribute is missing or wrong, a member is not
    /// defined, or components contain themselves; see [`DictionaryError`].
    pub fn from_quickfix_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        Draft::from_quickfix_xml(text, file)?.resolve()
    }
}

impl Draft {
    /// Reads the XML layout of the QuickFIX family. `file` is only used in errors.
    ///
    /// # Errors
    /// As [`Dictionary::from_quickfix_xml`], but for what only resolving finds.
    pub fn from_quickfix_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        let (document, source) = xml::parse(text, file)?;
        let root = document.root_element();
        if root.tag_name().name() != "fix" {
            return Err(source.error(root, Problem::NotADictionary));
        }
        read_quickfix(root, &source)
    }
}

/// A root `<fix>` is a whole dictionary, or with `base` an overlay over a standard one.
fn read_quickfix(root: Node<'_, '_>, source: &Source<'_>) -> Result<Draft, DictionaryError> {
    match root.attribute("base") {
        Some(base) => overlay::over_standard(root, source, base),
        None => quickfix::read(root, source),
    }
}
