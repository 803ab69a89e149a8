//! Where a dictionary comes from: a standard one or a file, and what is laid over it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use transfix_dictionary::{Dictionary, Draft, standard_text};

/// A dictionary by the name of a standard one or the path of a file, with the files laid over it.
///
/// In settings it is text, `"FIX44"`, `"venue.xml"` or a name from `[dictionaries]`, or a table,
/// `{ base = "FIX44", overlays = ["venue.xml"] }`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DictionarySource {
    /// The name of a standard dictionary, or the path of a file.
    pub base: PathBuf,
    /// Files that change it, laid over it in turn.
    pub overlays: Vec<PathBuf>,
}

impl<T: Into<PathBuf>> From<T> for DictionarySource {
    fn from(base: T) -> Self {
        Self { base: base.into(), overlays: Vec::new() }
    }
}

impl DictionarySource {
    /// Reads the files.
    ///
    /// # Errors
    /// Says which file, line and element.
    pub fn load(&self) -> Result<Dictionary, String> {
        let name = self.base.to_str().filter(|name| standard_text(name).is_ok());
        let mut draft = match name {
            Some(name) => Draft::standard(name),
            None => Draft::from_xml(&text_of(&self.base)?, &self.base.display().to_string()),
        };
        for path in &self.overlays {
            let text = text_of(path)?;
            draft = draft.and_then(|draft| draft.overlay(&text, &path.display().to_string()));
        }
        draft.and_then(Draft::resolve).map_err(|error| error.to_string())
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("dictionary {}: {error}", path.display()))
}

/// The table's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    base: PathBuf,
    #[serde(default)]
    overlays: Vec<PathBuf>,
}

impl<'de> Deserialize<'de> for DictionarySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = DictionarySource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, a path, or a table with base and overlays")
            }

            fn visit_str<E: de::Error>(self, base: &str) -> Result<DictionarySource, E> {
                Ok(base.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DictionarySource, A::Error> {
                let Table { base, overlays } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(DictionarySource { base, overlays })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
