//! The dictionaries in which the messages, fields and values of one session have names.
//!
//! Invariant: the names of a message are from the same dictionary by which the session validates
//! it.

use std::sync::Arc;

use transfix_codec::{FieldIndex, Message, Tag, data, tag, value};
use transfix_dictionary::{Dictionary, standard};
use transfix_session::{ApplVerId, BeginString};

use crate::{DictionaryChoice, SessionSettings};

/// The dictionaries of one session, for programs that show its messages.
///
/// ```
/// use transfix_session::{BeginString, Role, SessionId};
/// use transfix_settings::SessionSettings;
///
/// let id = SessionId::new(BeginString::Fix44, "VENUE", "CLIENT");
/// let mut session = SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0");
/// // As `dictionary = "FIX50SP2"` in a settings file; an overlay is as good.
/// session.validation.dictionary = Some("FIX50SP2".into());
/// let dictionaries = session.dictionaries()?;
/// assert_eq!(dictionaries.application().name(), "FIX.5.0SP2");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionDictionaries {
    session: Arc<Dictionary>,
    application: Arc<Dictionary>,
    is_fixt: bool,
    /// The application version from the settings, or else from the last Logon(A).
    version: Option<ApplVerId>,
    /// True if the settings name no dictionary for the application, so that its version determines
    /// the dictionary.
    follows_logon: bool,
    /// The dictionaries of `appl_versions`, each with the value by which a message names it.
    listed: Vec<(String, Arc<Dictionary>)>,
    /// The standard dictionaries that messages have named so far.
    standard: Vec<(ApplVerId, Arc<Dictionary>)>,
}

impl SessionSettings {
    /// Reads the dictionaries of this session.
    ///
    /// # Errors
    /// Names the key whose dictionary cannot be read, and the reason.
    pub fn dictionaries(&self) -> Result<SessionDictionaries, String> {
        let (version, validation) = (self.protocol.default_appl_ver_id, &self.validation);
        let chosen = DictionaryChoice::of_session(self.begin_string, version, validation);
        let wrong = |key: &'static str| {
            let id = self.id();
            move |error: String| format!("{id}: {key}: {error}")
        };
        let application = Arc::new(chosen.dictionary().map_err(wrong("dictionary"))?);
        let own = chosen.session_layer().map_err(wrong("session_dictionary"))?;
        let listed = validation.appl_versions.iter().map(|(version, source)| {
            let dictionary = source.load().map_err(wrong("appl_versions"))?;
            Ok((version.clone(), Arc::new(dictionary)))
        });
        Ok(SessionDictionaries {
            session: own.map_or_else(|| Arc::clone(&application), Arc::new),
            is_fixt: self.begin_string == BeginString::Fixt11,
            version,
            follows_logon: version.is_none() && validation.dictionary.is_none(),
            listed: listed.collect::<Result<_, String>>()?,
            standard: Vec::new(),
            application,
        })
    }
}

impl SessionDictionaries {
    /// Returns the dictionary of the session layer.
    #[must_use]
    pub const fn session(&self) -> &Arc<Dictionary> {
        &self.session
    }

    /// Returns the dictionary of application messages that name no version.
    #[must_use]
    pub const fn application(&self) -> &Arc<Dictionary> {
        &self.application
    }

    /// Returns the dictionaries for this message: the session layer's, and the application's.
    ///
    /// On a FIXT session, the message may name another version. A Logon(A) determines the version
    /// of later messages, if the settings name neither a version nor a dictionary.
    pub fn of_message(&mut self, message: &Message<'_>) -> [Arc<Dictionary>; 2] {
        let application = if self.is_fixt { self.named_by(message) } else { None };
        let application = application.unwrap_or_else(|| Arc::clone(&self.application));
        [Arc::clone(&self.session), application]
    }

    /// Returns a field index that knows the data fields of these dictionaries.
    #[must_use]
    pub fn index(&self) -> FieldIndex {
        let all = [&self.session, &self.application].into_iter();
        let all = all.chain(self.listed.iter().map(|(_, dictionary)| dictionary));
        let pairs = all.flat_map(|dictionary| dictionary.length_tags());
        let pairs = pairs.map(|&(data, length)| (Tag(length), Tag(data)));
        let mut index = FieldIndex::default();
        index.set_data_fields(pairs.filter(|pair| data::length_of(pair.1) != Some(pair.0)));
        index
    }

    /// Returns the dictionary of the version that the message names. On FIXT 1.1,
    /// CstmApplVerID(1129) has priority, then ApplExtID(1156), then ApplVerID(1128).
    fn named_by(&mut self, message: &Message<'_>) -> Option<Arc<Dictionary>> {
        let version = |tag| {
            let number = message.raw(tag).and_then(value::uint)?;
            number.try_into().ok().map(ApplVerId)
        };
        if let Some(default) = version(tag::DEFAULT_APPL_VER_ID).filter(|_| self.follows_logon)
            && let Some(dictionary) = self.standard(default)
        {
            (self.version, self.application) = (Some(default), dictionary);
        }
        if let Some(custom) = message.raw(tag::CSTM_APPL_VER_ID) {
            return self.listed(|name| name.as_bytes() == custom);
        }
        let named = version(tag::APPL_VER_ID);
        let pack = message.raw(tag::APPL_EXT_ID);
        if let (Some(pack), Some(version)) = (pack, named.or(self.version)) {
            let extended = self.listed(|name| {
                let split = name.split_once('+');
                split.is_some_and(|(of, one)| of.parse() == Ok(version.0) && one.as_bytes() == pack)
            });
            if extended.is_some() {
                return extended;
            }
        }
        let value = message.raw(tag::APPL_VER_ID)?;
        let listed = self.listed(|name| name.as_bytes() == value);
        listed.or_else(|| self.standard(named.filter(|named| Some(*named) != self.version)?))
    }

    fn listed(&self, is_it: impl Fn(&str) -> bool) -> Option<Arc<Dictionary>> {
        let found = self.listed.iter().find(|(name, _)| is_it(name));
        found.map(|(_, dictionary)| Arc::clone(dictionary))
    }

    fn standard(&mut self, version: ApplVerId) -> Option<Arc<Dictionary>> {
        if let Some((_, known)) = self.standard.iter().find(|(known, _)| *known == version) {
            return Some(Arc::clone(known));
        }
        let dictionary = Arc::new(standard(version.dictionary()?).ok()?);
        self.standard.push((version, Arc::clone(&dictionary)));
        Some(dictionary)
    }
}

#[cfg(test)]
mod tests {
    use transfix_codec::CheckSumPolicy;
    use transfix_session::{Role, SessionId};

    use super::*;

    fn settings(begin_string: BeginString) -> SessionSettings {
        let id = SessionId::new(begin_string, "VENUE", "CLIENT");
        SessionSettings::new(Role::Acceptor, &id, "127.0.0.1:0")
    }

    fn fixt(version: Option<u8>) -> SessionSettings {
        let mut session = settings(BeginString::Fixt11);
        session.protocol.default_appl_ver_id = version.map(ApplVerId);
        session.validation.appl_versions =
            [("4", "FIX43"), ("VENUE2", "FIX44"), ("9+240", "FIXLatest")]
                .map(|(version, name)| (version.to_owned(), name.into()))
                .into();
        session
    }

    /// Returns the names of the two dictionaries for the last of these messages.
    fn names(session: &SessionSettings, bodies: &[&str]) -> [String; 2] {
        let mut dictionaries = session.dictionaries().unwrap();
        let (mut index, version) = (dictionaries.index(), session.begin_string);
        let mut last = [String::new(), String::new()];
        for body in bodies {
            let frame = format!("8={version}|9={}|{body}10=000|", body.len());
            let bytes = frame.replace('|', "\x01").into_bytes();
            let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
            last = dictionaries.of_message(&message).map(|one| one.name().to_owned());
        }
        last
    }

    #[test]
    fn a_message_has_the_dictionary_it_is_validated_by() {
        let (logon, order) = ("35=A|1137=8|", "35=D|");
        let mut own = fixt(Some(9));
        own.validation.dictionary = Some("FIX50".into());
        own.validation.session_dictionary = Some("FIXLatest".into());
        let mut fix44 = settings(BeginString::Fix44);
        fix44.validation.dictionary = Some("FIX42".into());
        let (nine, open) = (fixt(Some(9)), fixt(None));
        let cases = [
            (&fix44, &[order][..], ["FIX.4.2", "FIX.4.2"]),
            (&fix44, &["35=D|1128=9|"], ["FIX.4.2", "FIX.4.2"]),
            (&own, &[order], ["FIX.Latest", "FIX.5.0"]),
            (&own, &[logon, order], ["FIX.Latest", "FIX.5.0"]),
            (&own, &["35=D|1128=9|"], ["FIX.Latest", "FIX.5.0"]),
            (&nine, &[logon, order], ["FIXT.1.1", "FIX.5.0SP2"]),
            (&nine, &["35=D|1128=6|"], ["FIXT.1.1", "FIX.4.4"]),
            (&nine, &["35=D|1128=4|"], ["FIXT.1.1", "FIX.4.3"]),
            (&nine, &["35=D|1128=04|"], ["FIXT.1.1", "FIX.4.2"]),
            (&nine, &["35=D|1128=4|1129=VENUE2|"], ["FIXT.1.1", "FIX.4.4"]),
            (&nine, &["35=D|1129=NONE|"], ["FIXT.1.1", "FIX.5.0SP2"]),
            (&nine, &["35=D|1156=240|"], ["FIXT.1.1", "FIX.Latest"]),
            (&nine, &["35=D|1128=6|1156=240|"], ["FIXT.1.1", "FIX.4.4"]),
            (&nine, &["35=D|1128=77|"], ["FIXT.1.1", "FIX.5.0SP2"]),
            (&open, &[order], ["FIXT.1.1", "FIX.5.0SP2"]),
            (&open, &[logon, order], ["FIXT.1.1", "FIX.5.0SP1"]),
        ];
        for (session, bodies, expected) in cases {
            assert_eq!(names(session, bodies), expected, "{bodies:?}");
        }
    }

    #[test]
    fn a_dictionary_that_cannot_be_read_names_its_key() {
        let mut session = settings(BeginString::Fix44);
        session.validation.dictionary = Some("no/such.xml".into());
        let error = session.dictionaries().unwrap_err();
        assert!(error.contains("VENUE") && error.contains("dictionary: no/such.xml"), "{error}");
    }
}
