//! The validation rules of each version, compiled once and shared by all sessions.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use transfix_codec::validate::Rules;
use transfix_dictionary::{Dictionary, standard};
use transfix_session::{ApplVerId, BeginString};

/// Session layer, application version, dictionary file.
type Key = (BeginString, Option<ApplVerId>, Option<PathBuf>);

/// Rules compiled so far.
#[derive(Default)]
pub(crate) struct RuleBook {
    compiled: Mutex<HashMap<Key, Arc<Rules>>>,
}

impl RuleBook {
    /// The rules of a version; `file` stands in for the standard application dictionary. Compiling
    /// a version for the first time takes some ten milliseconds.
    pub(crate) fn rules(
        &self,
        begin_string: BeginString,
        appl_ver_id: Option<ApplVerId>,
        file: Option<&Path>,
    ) -> Result<Arc<Rules>, String> {
        let key = (begin_string, appl_ver_id, file.map(Path::to_path_buf));
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = compiled.get(&key) {
            return Ok(Arc::clone(rules));
        }
        let rules = Arc::new(compile(begin_string, appl_ver_id, file)?);
        compiled.insert(key, Arc::clone(&rules));
        Ok(rules)
    }
}

fn compile(
    begin_string: BeginString,
    appl_ver_id: Option<ApplVerId>,
    file: Option<&Path>,
) -> Result<Rules, String> {
    let application = match (file, begin_string, appl_ver_id) {
        (Some(path), ..) => load(path)?,
        (None, BeginString::Fixt11, version) => {
            let name = version.and_then(ApplVerId::dictionary).unwrap_or("FIX50SP2");
            standard(name).map_err(|error| error.to_string())?
        }
        (None, begin_string, _) => {
            standard(begin_string.as_str()).map_err(|error| error.to_string())?
        }
    };
    // FIX Latest brings its own session layer, which knows its DefaultApplVerID(1137).
    let latest = appl_ver_id == Some(ApplVerId(10));
    if begin_string == BeginString::Fixt11 && !latest {
        let session = standard("FIXT11").map_err(|error| error.to_string())?;
        return Ok(Rules::new(&session, &application));
    }
    Ok(Rules::new(&application, &application))
}

fn load(path: &Path) -> Result<Dictionary, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("dictionary {}: {error}", path.display()))?;
    let name = path.display().to_string();
    Dictionary::from_xml(&text, &name).map_err(|error| error.to_string())
}
