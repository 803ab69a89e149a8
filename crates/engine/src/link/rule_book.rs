//! The validation rules of each version, compiled once and shared by all sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use transfix_codec::Switches;
use transfix_codec::validate::Rules;
use transfix_dictionary::STANDARD;
use transfix_session::{ApplVerId, BeginString, Checks, Session, StandardRules};

use transfix_settings::{DictionaryChoice, ValidationSettings};

/// The compiled rules, each with the name of its application dictionary.
#[derive(Default)]
pub(crate) struct RuleBook {
    compiled: Mutex<HashMap<DictionaryChoice, (Arc<Rules>, String)>>,
}

impl RuleBook {
    /// Returns the rules for `wanted`, and compiles them at the first use, which takes about 10 ms.
    pub(crate) fn rules(&self, wanted: &DictionaryChoice) -> Result<Arc<Rules>, String> {
        self.compiled(wanted).map(|(rules, _)| rules)
    }

    /// Returns a warning if the dictionary is of another version than the messages.
    pub(crate) fn doubt(
        &self,
        wanted: &DictionaryChoice,
        version: Option<ApplVerId>,
    ) -> Option<String> {
        let (_, name) = self.compiled(wanted).ok()?;
        doubt(wanted.begin_string, version, &name)
    }

    fn compiled(&self, wanted: &DictionaryChoice) -> Result<(Arc<Rules>, String), String> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(wanted) {
            return Ok(known.clone());
        }
        let (rules, name) = compile(wanted)?;
        let known = (Arc::new(rules), name);
        compiled.insert(wanted.clone(), known.clone());
        Ok(known)
    }
}

/// The validation rules for the messages of one session.
pub(crate) struct SessionRules {
    pub(crate) book: Arc<RuleBook>,
    pub(crate) validation: ValidationSettings,
}

impl SessionRules {
    /// Makes the session use the rules of the application version `version`. A message that names
    /// another version is validated by that version's rules.
    pub(crate) fn apply(
        &self,
        session: &mut Session,
        version: Option<ApplVerId>,
    ) -> Result<(), String> {
        let begin_string = session.config().id.begin_string;
        let wanted = DictionaryChoice::of_session(begin_string, version, &self.validation);
        let own = self.book.rules(&wanted)?;
        let others = self.validation.appl_versions.iter().map(|(version, source)| {
            let rules = self.book.rules(&wanted.listed(source))?;
            Ok((version.as_bytes().into(), rules))
        });
        let others = others.collect::<Result<Vec<_>, String>>()?;
        let switches = self.validation.checks;
        let checks = match self.validation.validate {
            true => Checks::all(switches),
            false => Checks { session: Switches::default(), ..Checks::all(Switches::NONE) },
        };
        session.set_rules(Some(own), checks);
        session.set_version_rules(others);
        session.set_standard_rules((begin_string == BeginString::Fixt11).then(|| {
            let book = Arc::clone(&self.book);
            // The closure returns no rules for a number outside of the standard, which has no
            // dictionary.
            StandardRules::new(move |version| book.rules(&wanted.standard(version)).ok())
        }));
        Ok(())
    }
}

/// Returns a warning if the dictionary has the name of another version. A dictionary with a custom
/// name causes no warning.
fn doubt(
    begin_string: BeginString,
    appl_ver_id: Option<ApplVerId>,
    dictionary: &str,
) -> Option<String> {
    let plain = |name: &str| name.replace('.', "");
    let meant = match begin_string {
        BeginString::Fixt11 => appl_ver_id.and_then(ApplVerId::dictionary)?.to_owned(),
        version => plain(version.as_str()),
    };
    let named = plain(dictionary);
    let is_other = named != meant && STANDARD.contains(&&*named);
    is_other.then(|| {
        format!(
            "the messages are of {meant}, but the dictionary is of {named}: messages and fields \
             that exist only in {meant} are rejected; use an overlay with base = \"{meant}\", \
             or rename the dictionary"
        )
    })
}

fn compile(wanted: &DictionaryChoice) -> Result<(Rules, String), String> {
    let application = wanted.dictionary()?;
    // Takes the fields of administrative messages from FIXT 1.1 only. The session layer in the file
    // of FIX Latest would allow all application fields there.
    let name = application.name().to_owned();
    let session = wanted.session_layer()?;
    Ok((Rules::new(session.as_ref().unwrap_or(&application), &application), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dictionary_of_another_version_is_doubted() {
        use BeginString::{Fix42, Fix44, Fixt11};
        let cases = [
            (Fix44, None, "FIX.4.2", true),
            (Fix44, None, "FIX.4.4", false),
            (Fix42, None, "FIX.4.4", true),
            (Fix44, None, "VENUE", false),
            (Fix44, None, "FIXT.1.1", true),
            (Fixt11, Some(9), "FIX.5.0SP2", false),
            (Fixt11, Some(9), "FIX.5.0SP1", true),
            (Fixt11, Some(4), "FIX.4.2", false),
            (Fixt11, Some(10), "FIX.Latest", false),
            // Without a configured version, the Logon(A) names the version, so there is no warning.
            (Fixt11, None, "FIX.5.0", false),
        ];
        for (begin_string, version, name, expected) in cases {
            let doubt = doubt(begin_string, version.map(ApplVerId), name);
            assert_eq!(doubt.is_some(), expected, "{begin_string} {version:?} {name}: {doubt:?}");
        }
    }
}
