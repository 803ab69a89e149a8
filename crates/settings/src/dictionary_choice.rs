//! The choice of a session's dictionaries.

use transfix_dictionary::{Dictionary, standard};
use transfix_session::{ApplVerId, BeginString};

use crate::{DictionarySource, ValidationSettings};

/// The dictionaries for the messages of one version: the standard ones, or others from the
/// settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DictionaryChoice {
    /// The version of the session layer, which selects its standard dictionary.
    pub begin_string: BeginString,
    /// The application version of a FIXT session; `None` if it is not known or not FIXT.
    pub appl_ver_id: Option<ApplVerId>,
    /// Replaces the standard dictionary of the application.
    pub application: Option<DictionarySource>,
    /// Replaces the dictionary FIXT 1.1 of the session layer.
    pub session: Option<DictionarySource>,
}

impl DictionaryChoice {
    /// Returns the choice for a session with these settings. `appl_ver_id` is its application
    /// version on FIXT.
    #[must_use]
    pub fn of_session(
        begin_string: BeginString,
        appl_ver_id: Option<ApplVerId>,
        settings: &ValidationSettings,
    ) -> Self {
        Self {
            begin_string,
            appl_ver_id,
            application: settings.dictionary.clone(),
            session: settings.session_dictionary.clone(),
        }
    }

    /// Returns the choice for messages of another version than the session's, with `source` as the
    /// dictionary of the application.
    #[must_use]
    pub fn listed(&self, source: &DictionarySource) -> Self {
        Self { appl_ver_id: None, application: Some(source.clone()), ..self.clone() }
    }

    /// Reads the dictionary of the application.
    ///
    /// # Errors
    /// If a file cannot be read, or the version has no dictionary.
    pub fn dictionary(&self) -> Result<Dictionary, String> {
        match (&self.application, self.begin_string, self.appl_ver_id) {
            (Some(source), ..) => source.load(),
            (None, BeginString::Fixt11, version) => {
                // Uses the latest version of FIX 5.0 if the version is unknown, as for an acceptor
                // before the Logon(A).
                let name = version.map_or(Some("FIX50SP2"), ApplVerId::dictionary);
                let name = name.ok_or(
                    "no built-in dictionary exists for this \
                                       DefaultApplVerID(1137)",
                )?;
                standard(name).map_err(|error| error.to_string())
            }
            (None, begin_string, _) => {
                standard(begin_string.as_str()).map_err(|error| error.to_string())
            }
        }
    }

    /// Reads the dictionary of the session layer. Returns `None` if the application's dictionary
    /// also contains the session layer.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn session_layer(&self) -> Result<Option<Dictionary>, String> {
        match (&self.session, self.begin_string) {
            (Some(source), BeginString::Fixt11) => source.load().map(Some),
            (None, BeginString::Fixt11) => {
                standard("FIXT11").map(Some).map_err(|error| error.to_string())
            }
            _ => Ok(None),
        }
    }

    /// Returns the choice for messages of another standard version.
    #[must_use]
    pub fn standard(&self, version: ApplVerId) -> Self {
        Self { appl_ver_id: Some(version), application: None, ..self.clone() }
    }
}
