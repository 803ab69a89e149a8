//! The dictionaries for messages of different versions, chosen by the version fields of each
//! message.

use std::collections::BTreeSet;
use std::sync::Arc;

use transfix_codec::{FieldIndex, Message, MsgType, Tag, data, tag};
use transfix_dictionary::{Dictionary, Field, STANDARD, standard};

/// The dictionaries for a message: one for the session layer, one for the application.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The dictionary of the session layer.
    pub session: Arc<Dictionary>,
    /// The dictionary of the application.
    pub application: Arc<Dictionary>,
}

impl Pair {
    /// Returns the definition of the message with this type from either dictionary.
    #[must_use]
    pub fn message(&self, msg_type: MsgType<'_>) -> Option<&transfix_dictionary::Message> {
        self.session.message(msg_type).or_else(|| self.application.message(msg_type))
    }

    /// Returns the definition of the field with this tag from either dictionary.
    #[must_use]
    pub fn field(&self, tag: u32) -> Option<&Field> {
        self.application.field(tag).or_else(|| self.session.field(tag))
    }
}

/// The dictionaries for all messages of the input. Each dictionary is loaded once, when first
/// needed.
#[derive(Debug, Default)]
pub struct Dictionaries {
    /// The dictionary that the user has chosen; `None` for the standard dictionaries.
    chosen: Option<Arc<Dictionary>>,
    loaded: Vec<(&'static str, Arc<Dictionary>)>,
    /// The loaded pairs, each with the names of its session and application dictionaries.
    pairs: Vec<([&'static str; 2], Pair)>,
    /// The application version in the last Logon(A), from DefaultApplVerID(1137).
    default: Option<&'static str>,
}

impl Dictionaries {
    /// Creates the collection with the user's dictionary, or with the standard dictionaries for
    /// `None`.
    #[must_use]
    pub fn new(chosen: Option<Arc<Dictionary>>) -> Self {
        Self { chosen, ..Self::default() }
    }

    /// Returns the custom data fields of the chosen dictionary, as pairs of the Length field's tag
    /// and the data field's tag.
    #[must_use]
    pub fn data_fields(&self) -> Vec<(Tag, Tag)> {
        let pairs = self.chosen.iter().flat_map(|chosen| chosen.length_tags());
        let pairs = pairs.map(|&(data, length)| (Tag(length), Tag(data)));
        pairs.filter(|pair| data::length_of(pair.1) != Some(pair.0)).collect()
    }

    /// Returns an empty field index that recognizes the custom data fields.
    #[must_use]
    pub fn index(&self) -> FieldIndex {
        let mut index = FieldIndex::default();
        index.set_data_fields(self.data_fields());
        index
    }

    /// Returns the number of the dictionary pair for the message. All messages of one version have
    /// the same number.
    ///
    /// # Errors
    /// If a standard dictionary cannot be read.
    pub fn find(&mut self, message: &Message<'_>) -> Result<usize, String> {
        let version = |tag| message.raw(tag).and_then(by_appl_ver_id);
        self.default = version(tag::DEFAULT_APPL_VER_ID).or(self.default);
        let names = match by_begin_string(message.begin_string()) {
            Some(name) => [name, name],
            None => {
                let named = version(tag::APPL_VER_ID).or(self.default);
                ["FIXT11", named.unwrap_or("FIX50SP2")]
            }
        };
        if let Some(known) = self.pairs.iter().position(|(known, _)| *known == names) {
            return Ok(known);
        }
        let application = match &self.chosen {
            Some(chosen) => chosen.clone(),
            None => self.load(names[1])?,
        };
        let session = match &self.chosen {
            Some(chosen) if !chosen.header().is_empty() => chosen.clone(),
            _ => self.load(names[0])?,
        };
        self.pairs.push((names, Pair { session, application }));
        Ok(self.pairs.len() - 1)
    }

    /// Returns the pair with this number, which [`Dictionaries::find`] has returned.
    #[must_use]
    pub fn pair(&self, number: usize) -> &Pair {
        &self.pairs[number].1
    }

    /// Returns the tag of the field with this name in any version.
    ///
    /// The result is unique: no name denotes different fields in two versions.
    pub fn tag_named(&mut self, name: &str) -> Option<u32> {
        let named = |dictionary: &Dictionary| dictionary.field_named(name).map(|field| field.tag);
        if let Some(tag) = self.chosen.as_deref().and_then(named) {
            return Some(tag);
        }
        let found = self.loaded.iter().find_map(|(_, loaded)| named(loaded));
        // The search begins with the newest version, which defines nearly all fields. Older
        // versions also define fields that were dropped later.
        let mut others = STANDARD.iter().rev();
        found.or_else(|| others.find_map(|other| self.load(other).ok().and_then(|d| named(&d))))
    }

    /// Returns the MsgType(35) for a word, which is a message type or the name of a message in any
    /// version. Names ignore case.
    ///
    /// The result is unique: no name denotes different messages in two versions.
    pub(super) fn type_named(&mut self, word: &str) -> Option<String> {
        self.find_map(|known| known.message(word).map(|message| message.msg_type.clone())).or_else(
            || {
                let is_it = |message: &&transfix_dictionary::Message| {
                    message.name.eq_ignore_ascii_case(word)
                };
                let found = |known: &Dictionary| known.messages().iter().find(is_it).cloned();
                self.find_map(found).map(|message| message.msg_type)
            },
        )
    }

    /// Returns the definition of the field with this tag, from the chosen dictionary or from the
    /// newest version that defines the tag.
    pub fn field(&mut self, tag: u32) -> Option<Field> {
        self.find_map(|known| known.field(tag).cloned())
    }

    /// Returns the values of this field whose code has the name in any version. The comparison
    /// ignores case.
    pub fn codes_named(&mut self, tag: u32, name: &str) -> Vec<Vec<u8>> {
        let mut values = BTreeSet::new();
        let _ = self.find_map(|known| {
            let codes = known.field(tag).into_iter().flat_map(|field| &field.codes);
            let named = codes.filter(|code| code.name.eq_ignore_ascii_case(name));
            values.extend(named.map(|code| code.value.clone().into_bytes()));
            None::<()>
        });
        values.into_iter().collect()
    }

    /// Returns the names of all fields in all versions.
    pub fn field_names(&mut self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let _ = self.find_map(|known| {
            names.extend(known.fields().iter().map(|field| field.name.clone()));
            None::<()>
        });
        names
    }

    /// Returns the names of all messages in all versions.
    pub(super) fn message_names(&mut self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let _ = self.find_map(|known| {
            names.extend(known.messages().iter().map(|message| message.name.clone()));
            None::<()>
        });
        names
    }

    /// Returns the first result of `found`. The chosen dictionary is tried first, then the standard
    /// dictionaries from the newest to the oldest version.
    fn find_map<T>(&mut self, mut found: impl FnMut(&Dictionary) -> Option<T>) -> Option<T> {
        if let Some(first) = self.chosen.as_deref().and_then(&mut found) {
            return Some(first);
        }
        STANDARD.iter().rev().find_map(|name| self.load(name).ok().and_then(|known| found(&known)))
    }

    fn load(&mut self, name: &'static str) -> Result<Arc<Dictionary>, String> {
        if let Some((_, loaded)) = self.loaded.iter().find(|(loaded, _)| *loaded == name) {
            return Ok(loaded.clone());
        }
        let dictionary = Arc::new(standard(name).map_err(|error| error.to_string())?);
        self.loaded.push((name, dictionary.clone()));
        Ok(dictionary)
    }
}

/// Returns the dictionary for a BeginString(8) that has its own session layer, and `None` for
/// FIXT.1.1.
fn by_begin_string(begin_string: &[u8]) -> Option<&'static str> {
    match begin_string {
        b"FIX.4.0" => Some("FIX40"),
        b"FIX.4.1" => Some("FIX41"),
        b"FIX.4.2" => Some("FIX42"),
        b"FIX.4.3" => Some("FIX43"),
        b"FIX.4.4" => Some("FIX44"),
        _ => None,
    }
}

/// Returns the name of the application dictionary for a value of ApplVerID(1128).
fn by_appl_ver_id(value: &[u8]) -> Option<&'static str> {
    match value {
        b"2" => Some("FIX40"),
        b"3" => Some("FIX41"),
        b"4" => Some("FIX42"),
        b"5" => Some("FIX43"),
        b"6" => Some("FIX44"),
        b"7" => Some("FIX50"),
        b"8" => Some("FIX50SP1"),
        b"9" => Some("FIX50SP2"),
        b"10" => Some("FIXLatest"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::CheckSumPolicy;

    #[test]
    fn the_version_is_found() {
        let cases = [
            (None, &["8=FIX.4.2|9=10|35=E|54=1|10=000|"][..], ["FIX.4.2", "FIX.4.2"]),
            (None, &["8=FIXT.1.1|9=12|35=AE|1128=7|10=000|"], ["FIXT.1.1", "FIX.5.0"]),
            (
                None,
                &["8=FIXT.1.1|9=12|35=A|1137=8|10=000|", "8=FIXT.1.1|9=5|35=D|10=000|"],
                ["FIXT.1.1", "FIX.5.0SP1"],
            ),
            (None, &["8=FIXT.1.1|9=5|35=D|10=000|"], ["FIXT.1.1", "FIX.5.0SP2"]),
            (Some("FIX43"), &["8=FIX.4.4|9=5|35=D|10=000|"], ["FIX.4.3", "FIX.4.3"]),
            (Some("FIX50"), &["8=FIX.4.4|9=5|35=D|10=000|"], ["FIX.4.4", "FIX.5.0"]),
        ];
        for (chosen, log, expected) in cases {
            let mut dictionaries =
                Dictionaries::new(chosen.map(|name| Arc::new(standard(name).unwrap())));
            let mut last = None;
            for text in log {
                let bytes = text.replace('|', "\x01").into_bytes();
                let mut index = FieldIndex::default();
                let message = Message::parse(&bytes, &mut index, CheckSumPolicy::Ignore).unwrap();
                last = dictionaries.find(&message).ok();
                assert_eq!(dictionaries.find(&message).ok(), last);
            }
            let pair = dictionaries.pair(last.unwrap());
            assert_eq!([pair.session.name(), pair.application.name()], expected, "{log:?}");
        }
    }

    #[test]
    fn a_name_means_one_field_in_all_versions() {
        let mut dictionaries = Dictionaries::default();
        for name in STANDARD {
            for field in standard(name).unwrap().fields() {
                let tag = dictionaries.tag_named(&field.name);
                assert_eq!(tag, Some(field.tag), "{name}: {}", field.name);
            }
        }
        assert_eq!(dictionaries.tag_named("NoSuchField"), None);
    }

    #[test]
    fn a_name_means_one_message_in_all_versions() {
        let mut dictionaries = Dictionaries::default();
        for name in STANDARD {
            for message in standard(name).unwrap().messages() {
                let found = dictionaries.type_named(&message.name);
                assert_eq!(found.as_ref(), Some(&message.msg_type), "{name}: {}", message.name);
            }
        }
    }
}
