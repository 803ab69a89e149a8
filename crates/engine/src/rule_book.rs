//! The validation rules of each version, compiled once and shared by all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use transfix_codec::validate::Rules;
use transfix_dictionary::standard;
use transfix_session::{ApplVerId, BeginString};

use crate::dictionary_source::DictionarySource;

/// Session layer, application version, dictionary in place of the version's own.
type Key = (BeginString, Option<ApplVerId>, Option<DictionarySource>);

/// Rules compiled so far.
#[derive(Default)]
pub(crate) struct RuleBook {
    compiled: Mutex<HashMap<Key, Arc<Rules>>>,
}

impl RuleBook {
    /// The rules of a version; `source` stands in for the standard application dictionary.
    /// Compiling a version for the first time takes some ten milliseconds.
    pub(crate) fn rules(
        &self,
        begin_string: BeginString,
        appl_ver_id: Option<ApplVerId>,
        source: Option<&DictionarySource>,
    ) -> Result<Arc<Rules>, String> {
        let key = (begin_string, appl_ver_id, source.cloned());
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = compiled.get(&key) {
            return Ok(Arc::clone(rules));
        }
        let rules = Arc::new(compile(begin_string, appl_ver_id, source)?);
        compiled.insert(key, Arc::clone(&rules));
        Ok(rules)
    }
}

fn compile(
    begin_string: BeginString,
    appl_ver_id: Option<ApplVerId>,
    source: Option<&DictionarySource>,
) -> Result<Rules, String> {
    let application = match (source, begin_string, appl_ver_id) {
        (Some(source), ..) => source.load()?,
        (None, BeginString::Fixt11, version) => {
            // Before the Logon(A) names the version, an acceptor may not know it.
            let name = version.map_or(Some("FIX50SP2"), ApplVerId::dictionary);
            let name = name.ok_or("no dictionary belongs to this DefaultApplVerID(1137)")?;
            standard(name).map_err(|error| error.to_string())?
        }
        (None, begin_string, _) => {
            standard(begin_string.as_str()).map_err(|error| error.to_string())?
        }
    };
    // FIXT 1.1 alone says what an administrative message may hold. FIX Latest has a session layer
    // in its file too, but with it each field of the application would count as defined there.
    if begin_string == BeginString::Fixt11 {
        let session = standard("FIXT11").map_err(|error| error.to_string())?;
        return Ok(Rules::new(&session, &application));
    }
    Ok(Rules::new(&application, &application))
}
