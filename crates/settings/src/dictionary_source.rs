//! The source of a dictionary: a standard dictionary or a file, with its overlays.

use crate::text_file;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use transfix_dictionary::{Dictionary, Draft, standard_text};
use transfix_session::settings_table;

settings_table! {
    /// A dictionary, by the name of a standard dictionary or the path of a file, and its overlays.
    ///
    /// In settings, a source is a text: `"FIX44"`, `"venue.xml"` or a name from `[dictionaries]`.
    /// It may also be a table, `{ base = "FIX44", overlays = ["venue.xml"] }`, with `scenario` to
    /// select a scenario of an Orchestra file.
    #[derive(PartialEq, Eq, Hash)]
    #[serde(remote = "Self")]
    pub struct DictionarySource {
        /// Name of a standard dictionary, or path of a file.
        pub base: PathBuf,
        /// Scenario of a FIX Orchestra file. By default the base scenario.
        pub scenario: Option<String> = None,
        /// Files that change the dictionary, applied in order.
        pub overlays: Vec<PathBuf> = Vec::new(),
    }
}

impl<T: Into<PathBuf>> From<T> for DictionarySource {
    fn from(base: T) -> Self {
        Self { base: base.into(), ..Self::default() }
    }
}

impl DictionarySource {
    /// Reads the files, and resolves all names in them.
    ///
    /// # Errors
    /// Names the file, line and element.
    pub fn load(&self) -> Result<Dictionary, String> {
        self.draft()?.resolve().map_err(|error| error.to_string())
    }

    /// Reads the files without resolving names, so that the caller can change the draft.
    ///
    /// # Errors
    /// As [`load`](Self::load), except for errors of resolving.
    pub fn draft(&self) -> Result<Draft, String> {
        let mut draft = self.base()?;
        for path in &self.overlays {
            let laid = draft.overlay(&text_of(path)?, &path.display().to_string());
            draft = laid.map_err(|error| error.to_string())?;
        }
        Ok(draft)
    }

    /// Checks that a standard dictionary of this name exists, unless `base` is a path.
    ///
    /// # Errors
    /// Names the nearest dictionary.
    pub(crate) fn check_name(&self) -> Result<(), String> {
        if self.scenario.is_some() || self.is_file() {
            return Ok(());
        }
        let found = standard_text(&self.base.display().to_string());
        found.map(drop).map_err(|error| error.to_string())
    }

    fn is_file(&self) -> bool {
        self.base.extension().is_some_and(|end| end.eq_ignore_ascii_case("xml"))
            || self.base.display().to_string().contains(['/', '\\'])
            || self.base.exists()
    }

    fn base(&self) -> Result<Draft, String> {
        let file = self.base.display().to_string();
        let draft = match &self.scenario {
            // If `base` is neither a path nor a known name, this returns an error that names the
            // nearest one.
            None if !self.is_file() || standard_text(&file).is_ok() => Draft::standard(&file),
            None => Draft::from_xml(&text_of(&self.base)?, &file),
            Some(scenario) => {
                Draft::from_orchestra_scenario(&text_of(&self.base)?, &file, scenario)
            }
        };
        draft.map_err(|error| error.to_string())
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    text_file::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

impl<'de> Deserialize<'de> for DictionarySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = DictionarySource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a dictionary name, a path, or a table with base and overlays")
            }

            fn visit_str<E: de::Error>(self, base: &str) -> Result<DictionarySource, E> {
                Ok(base.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DictionarySource, A::Error> {
                // Reads the table with the deserializer of the settings table, which reads only
                // tables.
                let source = DictionarySource::deserialize(MapAccessDeserializer::new(map))?;
                match source.base.as_os_str().is_empty() {
                    true => Err(de::Error::missing_field("base")),
                    false => Ok(source),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}
