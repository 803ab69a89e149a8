//! Entry points for reading XML: detect the file format, and overlays.

use roxmltree::Node;

use crate::xml::{self, Source};
use crate::{Dictionary, DictionaryError, Draft, Problem, orchestra, overlay, quickfix};

impl Draft {
    /// Reads a draft from QuickFIX XML or FIX Orchestra; the root element determines the format.
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
    /// Reads a dictionary from QuickFIX XML or FIX Orchestra; the root element determines the
    /// format.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// See [`DictionaryError`].
    pub fn from_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        Draft::from_xml(text, file)?.resolve()
    }
}

impl Dictionary {
    /// Reads a dictionary from QuickFIX XML.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// If the text is not XML, an element or attribute is missing or invalid, a member is
    /// undefined, or components form a cycle; see [`DictionaryError`].
    pub fn from_quickfix_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        Draft::from_quickfix_xml(text, file)?.resolve()
    }
}

impl Draft {
    /// Reads a draft from QuickFIX XML.
    ///
    /// `file` is the file name in error messages.
    ///
    /// # Errors
    /// The errors of [`Dictionary::from_quickfix_xml`], except the errors of [`Draft::resolve`].
    pub fn from_quickfix_xml(text: &str, file: &str) -> Result<Self, DictionaryError> {
        let (document, source) = xml::parse(text, file)?;
        let root = document.root_element();
        if root.tag_name().name() != "fix" {
            return Err(source.error(root, Problem::NotADictionary));
        }
        read_quickfix(root, &source)
    }
}

/// Reads a root element `<fix>`: a whole dictionary, or, if the root has the attribute `base`, an
/// overlay over that standard dictionary.
fn read_quickfix(root: Node<'_, '_>, source: &Source<'_>) -> Result<Draft, DictionaryError> {
    match root.attribute("base") {
        Some(base) => overlay::over_standard(root, source, base),
        None => quickfix::read(root, source),
    }
}
