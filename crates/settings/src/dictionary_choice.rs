//! Which dictionaries a session has.

use transfix_dictionary::{Dictionary, standard};
use transfix_session::{ApplVerId, BeginString};

use crate::{DictionarySource, ValidationSettings};

/// The choice of the dictionaries for a version: those of the standard, or those of the settings in
/// their place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DictionaryChoice {
    /// The version of the session layer.
    pub begin_string: BeginString,
    /// The version of the application on FIXT.
    pub appl_ver_id: Option<ApplVerId>,
    /// Stands in for the standard dictionary of the application.
    pub application: Option<DictionarySource>,
    /// Stands in for FIXT 1.1.
    pub session: Option<DictionarySource>,
}

impl DictionaryChoice {
    /// The dictionaries of a session with these settings, and this version on FIXT.
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

    /// The dictionaries of messages of another version than the session's, with this one for the
    /// application.
    #[must_use]
    pub fn listed(&self, source: &DictionarySource) -> Self {
        Self { appl_ver_id: None, application: Some(source.clone()), ..self.clone() }
    }

    /// The dictionary of the application.
    ///
    /// # Errors
    /// If a file of it cannot be read, or no dictionary belongs to the version.
    pub fn dictionary(&self) -> Result<Dictionary, String> {
        match (&self.application, self.begin_string, self.appl_ver_id) {
            (Some(source), ..) => source.load(),
            (None, BeginString::Fixt11, version) => {
                // Before the Logon(A) names the version, an acceptor may not know it.
                let name = version.map_or(Some("FIX50SP2"), ApplVerId::dictionary);
                let name = name.ok_or("no dictionary belongs to this DefaultApplVerID(1137)")?;
                standard(name).map_err(|error| error.to_string())
            }
            (None, begin_string, _) => {
                standard(begin_string.as_str()).map_err(|error| error.to_string())
            }
        }
    }

    /// The dictionary of the session layer; `None` if that of the application says all.
    ///
    /// # Errors
    /// If a file of it cannot be read.
    pub fn session_layer(&self) -> Result<Option<Dictionary>, String> {
        match (&self.session, self.begin_string) {
            (Some(source), BeginString::Fixt11) => source.load().map(Some),
            (None, BeginString::Fixt11) => {
                standard("FIXT11").map(Some).map_err(|error| error.to_string())
            }
            _ => Ok(None),
        }
    }

    /// The dictionaries of messages of another standard version.
    #[must_use]
    pub fn standard(&self, version: ApplVerId) -> Self {
        Self { appl_ver_id: Some(version), application: None, ..self.clone() }
    }
}
