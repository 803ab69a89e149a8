//! Reads settings from TOML: defaults merged into each session, errors with line and nearest key.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use transfix_codec::{Precision, Switches};
use transfix_session::{BeginString, ResetPolicy, Role};

use crate::settings::check::{Step, find_wrong};
use crate::settings::dictionary_source::DictionarySource;
use crate::settings::tables;
use crate::settings::words::{explain, nearest};
use crate::settings::{EngineSettings, Places, SessionSettings, Settings};

/// Why settings were not taken.
pub struct SettingsError {
    path: PathBuf,
    /// 1 for the first line; 0 if the file could not be read.
    line: usize,
    fault: Fault,
    message: String,
}

/// What is wrong with settings.
enum Fault {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The text is no TOML, or a value is none that its key can have.
    Malformed,
    /// Keys or sections that contradict each other, are missing, or are of another program.
    Wrong,
}

impl SettingsError {
    fn new(path: &Path, text: &str, offset: usize, message: String) -> Self {
        let (path, line) = (path.to_owned(), line_of(text, offset));
        Self { path, line, fault: Fault::Wrong, message }
    }

    fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        Self { fault: Fault::Malformed, ..Self::new(path, text, offset, explain(text, error)) }
    }

    /// The file, or the name that the text was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line at fault, 1 for the first; `None` if the file cannot be read.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        Some(self.line).filter(|line| *line > 0)
    }

    /// The number of this error, for logs and for other languages. It never changes; the page
    /// "Codes" of the book lists all.
    #[must_use]
    pub const fn as_u16(&self) -> u16 {
        match self.fault {
            Fault::Unreadable(_) => 801,
            Fault::Malformed => 802,
            Fault::Wrong => 803,
        }
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.message),
        }
    }
}

/// The text: what `main` returns is printed so.
impl fmt::Debug for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SettingsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Unreadable(error) => Some(error),
            Fault::Malformed | Fault::Wrong => None,
        }
    }
}

pub(crate) fn load(path: &Path) -> Result<Settings, SettingsError> {
    let text = std::fs::read_to_string(path).map_err(|error| SettingsError {
        path: path.to_owned(),
        line: 0,
        message: format!("cannot be read: {error}"),
        fault: Fault::Unreadable(error),
    })?;
    parse(path, &text)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, SettingsError> {
    match quickfix_section(text) {
        Some(at) => Err(SettingsError::new(path, text, at, QUICKFIX.to_owned())),
        None => parse_ours(path, text),
    }
}

fn parse_ours(path: &Path, text: &str) -> Result<Settings, SettingsError> {
    let toml_error = |error: toml::de::Error| SettingsError::from_toml(path, text, &error);
    let root = DeTable::parse(text).map_err(toml_error)?;
    let mut settings = Settings::default();
    let mut defaults = DeTable::new();
    let mut aliases = Aliases::new();
    let mut sessions = Vec::new();
    let mut engine_keys = Arc::default();
    let lines = Lines::of(text);
    let mut ids = HashSet::new();
    for (key, value) in root.into_inner() {
        let at = key.span().start;
        let wrong = |what: &str| SettingsError::new(path, text, at, what.to_owned());
        match key.get_ref().as_ref() {
            "engine" => {
                if value.get_ref().as_table().is_none() {
                    return Err(wrong("write the keys of the engine below [engine], once"));
                }
                engine_keys = Arc::new(lines.of_value(value.get_ref()));
                settings.engine = value_of::<EngineSettings>(value).map_err(toml_error)?;
                if settings.engine.workers == 0 {
                    return Err(wrong("workers is at least 1"));
                }
            }
            "defaults" => match value.into_inner() {
                DeValue::Table(table) => defaults = table,
                _ => return Err(wrong("write the keys that hold for all sessions as [defaults]")),
            },
            "dictionaries" => aliases = value_of(value).map_err(toml_error)?,
            "session" => match value.into_inner() {
                DeValue::Array(array) => sessions.extend(array),
                _ => return Err(wrong("write each session as [[session]], with two brackets")),
            },
            other => return Err(wrong(&unknown_section(other, value.get_ref()))),
        }
    }
    if sessions.is_empty() {
        return Err(SettingsError::new(path, text, 0, "no [[session]] in the file".to_owned()));
    }
    let (path_of, default_keys): (Arc<Path>, _) = (path.into(), Arc::new(lines.of_keys(&defaults)));
    for (n, session) in sessions.into_iter().enumerate() {
        let span = session.span();
        let DeValue::Table(own) = session.into_inner() else {
            let message = "write each session as [[session]], with two brackets".to_owned();
            return Err(SettingsError::new(path, text, span.start, message));
        };
        let own_keys = lines.of_keys(&own);
        let value = Spanned::new(span.clone(), DeValue::Table(merged(&defaults, own)));
        let mut session: SessionSettings = value_of(value).map_err(toml_error)?;
        session.places = Some(Arc::new(Places {
            path: Arc::clone(&path_of),
            session: own_keys,
            defaults: Arc::clone(&default_keys),
            engine: Arc::clone(&engine_keys),
        }));
        let at = |place: &[Step], what| {
            let offset = offset_in(text, n, place).unwrap_or(span.start);
            SettingsError::new(path, text, offset, what)
        };
        resolve(&mut session, &aliases);
        names(&session).map_err(|(key, what)| at(&[Step::Key(key)], what))?;
        find_wrong(&session).map_err(|wrong| at(&wrong.path, wrong.what))?;
        if !ids.insert(session.id()) {
            let message = twice(&session);
            return Err(SettingsError::new(path, text, span.start, message));
        }
        settings.sessions.push(session);
    }
    Ok(settings)
}

/// What is said of a heading, or a key before the first heading, that is none of ours.
fn unknown_section(name: &str, value: &DeValue<'_>) -> String {
    if value.as_table().is_none() && !value.is_array() {
        return format!(
            "`{name}` stands before any heading; write it below [[session]] or [defaults]"
        );
    }
    let known = ["engine", "defaults", "dictionaries", "session"];
    format!("unknown section `{name}`{}", nearest(name, known.into_iter()))
}

/// What is said of a file that another engine reads.
const QUICKFIX: &str = "these are settings of QuickFIX; ours are TOML with a [[session]] for each \
                        session, and book/src/settings.md describes each key";

/// Where a file of QuickFIX begins its sections: no name of ours has capitals.
fn quickfix_section(text: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let begin = at;
        at += line.len();
        let word = line.trim();
        let is_section = ["[DEFAULT]", "[SESSION]"].iter().any(|s| word.eq_ignore_ascii_case(s));
        let is_key = word.split_once('=').is_some_and(|(key, _)| key.trim() == "ConnectionType");
        // A [session] with one bracket is told as what it is, and so is [default].
        let may_be_ours = ["[session]", "[default]"].contains(&word);
        ((is_section && !may_be_ours) || is_key).then_some(begin)
    })
}

/// What to do about a session that is there twice.
fn twice(session: &SessionSettings) -> String {
    let id = session.id();
    match session.role {
        Role::Initiator => format!("session {id} is there twice; give one a qualifier"),
        Role::Acceptor => format!(
            "session {id} is there twice: no Logon(A) could say which one it means; leave one out, \
             or give it other CompIDs"
        ),
    }
}

/// The keys of a session with those of `[defaults]` that it does not say itself.
fn merged<'a>(defaults: &DeTable<'a>, own: DeTable<'a>) -> DeTable<'a> {
    let mut merged = defaults.clone();
    for (key, value) in own {
        merge(&mut merged, key, value);
    }
    merged
}

/// Where a key of the n-th session stands that is there. The text is read once more: it is for an
/// error, which ends the reading.
fn offset_in(text: &str, n: usize, path: &[Step]) -> Option<usize> {
    let mut root = DeTable::parse(text).ok()?.into_inner();
    let defaults = root.remove("defaults").map(Spanned::into_inner);
    let defaults = match defaults {
        Some(DeValue::Table(table)) => table,
        _ => DeTable::new(),
    };
    let DeValue::Array(sessions) = root.remove("session")?.into_inner() else { return None };
    let DeValue::Table(own) = sessions.into_iter().nth(n)?.into_inner() else { return None };
    offset_of(&merged(&defaults, own), path)
}

/// Puts a session's own value in place of the default; in a table of switches, key by key.
fn merge<'a>(
    merged: &mut DeTable<'a>,
    key: Spanned<DeString<'a>>,
    mut value: Spanned<DeValue<'a>>,
) {
    let is_table = tables::NAMES.contains(&key.get_ref().as_ref());
    let default = merged.remove(&key).map(Spanned::into_inner);
    if let (true, Some(DeValue::Table(default)), DeValue::Table(own)) =
        (is_table, default, value.get_mut())
    {
        for (key, value) in default {
            if !own.contains_key(&key) {
                own.insert(key, value);
            }
        }
    }
    merged.insert(key, value);
}

/// `[dictionaries]`: names for dictionaries, to be used in the sessions.
type Aliases = BTreeMap<String, DictionarySource>;

/// Puts what an alias stands for in its place.
fn resolve(session: &mut SessionSettings, aliases: &Aliases) {
    for source in session.dictionary.iter_mut().chain(session.appl_versions.values_mut()) {
        if let Some(alias) = source.base.to_str().and_then(|name| aliases.get(name)) {
            let own = std::mem::replace(source, alias.clone());
            source.overlays.extend(own.overlays);
        }
    }
}

/// Looks for dictionaries that do not exist, which only the name of can be told wrong here: what a
/// file holds is an error of the engine's start.
fn names(session: &SessionSettings) -> Result<(), (&'static str, String)> {
    let all = |source: &DictionarySource| {
        source.check_name().map_err(|what| format!("{}: {what}", session.id()))
    };
    session.dictionary.iter().try_for_each(all).map_err(|what| ("dictionary", what))?;
    session.appl_versions.values().try_for_each(all).map_err(|what| ("appl_versions", what))
}

/// Where the last key of the way stands that is there.
fn offset_of(table: &DeTable<'_>, path: &[Step]) -> Option<usize> {
    let (Step::Key(wanted), rest) = path.split_first()? else { return None };
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == wanted)?;
    let further = match (value.get_ref(), rest) {
        (DeValue::Table(inner), rest) => offset_of(inner, rest),
        (DeValue::Array(all), [Step::Entry(n), rest @ ..]) => all.get(*n).map(|entry| {
            let inner = entry.get_ref().as_table();
            inner.and_then(|inner| offset_of(inner, rest)).unwrap_or(entry.span().start)
        }),
        _ => None,
    };
    Some(further.unwrap_or(key.span().start))
}

/// Where the lines of a text end: a look at the whole text for each key would add up.
struct Lines {
    ends: Vec<usize>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let bytes = text.bytes().enumerate();
        Self { ends: bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect() }
    }

    fn of_value(&self, value: &DeValue<'_>) -> BTreeMap<String, usize> {
        value.as_table().map_or_else(BTreeMap::new, |table| self.of_keys(table))
    }

    /// The keys of a table with their lines, counted from 1.
    fn of_keys(&self, table: &DeTable<'_>) -> BTreeMap<String, usize> {
        let line = |at| self.ends.partition_point(|end| *end < at) + 1;
        table.keys().map(|key| (key.get_ref().to_string(), line(key.span().start))).collect()
    }
}

/// The line of a byte, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.bytes().filter(|&b| b == b'\n').count() + 1
}

fn value_of<'de, T: Deserialize<'de>>(value: Spanned<DeValue<'de>>) -> Result<T, toml::de::Error> {
    T::deserialize(toml::de::ValueDeserializer::from(value))
}

/// A text value that stands for one of a few.
fn one_of<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    words: &'static [&'static str],
    values: &[T],
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    let found = words.iter().position(|word| *word == text);
    found.map(|i| values[i]).ok_or_else(|| de::Error::unknown_variant(&text, words))
}

pub(crate) fn role<'de, D: Deserializer<'de>>(d: D) -> Result<Role, D::Error> {
    one_of(d, &["initiator", "acceptor"], &[Role::Initiator, Role::Acceptor])
}

pub(crate) fn begin_string<'de, D: Deserializer<'de>>(d: D) -> Result<BeginString, D::Error> {
    const WORDS: &[&str] = &["FIX.4.0", "FIX.4.1", "FIX.4.2", "FIX.4.3", "FIX.4.4", "FIXT.1.1"];
    let text = String::deserialize(d)?;
    if text.starts_with("FIX.5") {
        return Err(de::Error::custom(
            "FIX 5.0 is begin_string = \"FIXT.1.1\" with default_appl_ver_id = 7 (5.0), 8 (SP1) or \
             9 (SP2)",
        ));
    }
    let found = BeginString::parse(text.as_bytes());
    found.ok_or_else(|| de::Error::unknown_variant(&text, WORDS))
}

pub(crate) fn reset_on<'de, D: Deserializer<'de>>(d: D) -> Result<ResetPolicy, D::Error> {
    let mut policy = ResetPolicy::NEVER;
    for name in Vec::<String>::deserialize(d)? {
        match policy.named(&name) {
            Some(switch) => *switch = true,
            None => return Err(de::Error::unknown_variant(&name, ResetPolicy::NAMES)),
        }
    }
    Ok(policy)
}

pub(crate) fn second_of_day<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(d)?;
    let parts: Vec<u32> = text.split(':').map_while(|part| part.parse().ok()).collect();
    match parts[..] {
        [h @ 0..24, m @ 0..60, s @ 0..60] if text.len() == 8 => Ok(Some((h * 60 + m) * 60 + s)),
        _ => Err(de::Error::custom(format!("`{text}` is no time of day, such as 17:00:00"))),
    }
}

pub(crate) fn precision<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Precision>, D::Error> {
    const VALUES: [Precision; 4] =
        [Precision::Seconds, Precision::Millis, Precision::Micros, Precision::Nanos];
    one_of(d, &["seconds", "millis", "micros", "nanos"], &VALUES).map(Some)
}

pub(crate) fn checks<'de, D: Deserializer<'de>>(d: D) -> Result<Switches, D::Error> {
    let mut checks = Switches::default();
    for (name, on) in BTreeMap::<String, bool>::deserialize(d)? {
        match checks.named(&name) {
            Some(switch) => *switch = on,
            None => return Err(de::Error::unknown_field(&name, Switches::NAMES)),
        }
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfix_codec::Tag;
    use transfix_session::{ResendConfig, Secret, TimingConfig, TooLow, TooLowAtLogon};

    const GOOD: &str = "[[session]]\nrole = \"acceptor\"\nbegin_string = \"FIX.4.4\"\n\
        sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:0\"\n";

    const INITIATOR: &str = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
        sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:9880\"\n";

    fn check(text: &str, expected: &str) {
        let error = Settings::parse("my.toml", text).unwrap_err().to_string();
        assert_eq!(error, expected, "{text}");
    }

    #[test]
    fn defaults_are_overridden_by_the_session() {
        let text = format!("[defaults]\nheart_bt_int_s = 7\ncheck_comp_ids = false\n{GOOD}");
        let text = format!("{text}heart_bt_int_s = 9\n");
        let settings = Settings::parse("my.toml", &text).unwrap();
        assert_eq!(settings.sessions[0].heart_bt_int_s, 9);
        assert!(!settings.sessions[0].check_comp_ids);
    }

    #[test]
    fn single_checks_are_switched() {
        let text = format!("{GOOD}checks = {{ codes = false, empty_groups = true }}\n");
        let settings = Settings::parse("my.toml", &text).unwrap();
        assert_eq!(
            settings.sessions[0].checks,
            Switches { codes: false, empty_groups: true, ..Switches::default() }
        );
        check(
            &format!("{GOOD}checks = {{ code = false }}\n"),
            "my.toml:7: unknown key `code`; did you mean `codes`?",
        );
    }

    #[test]
    fn dictionaries_by_name_path_alias_and_table() {
        let text = format!(
            "[dictionaries]\nVENUE = {{ base = \"FIX50SP2\", overlays = [\"a.xml\"] }}\n{}\
             dictionary = {{ base = \"VENUE\", overlays = [\"b.xml\"] }}\n\
             appl_versions = {{ 4 = \"FIX42\", X = \"VENUE\", Y = \"y.xml\" }}\n",
            GOOD.replace("FIX.4.4", "FIXT.1.1")
        );
        let settings = Settings::parse("my.toml", &text).unwrap();
        let source = |base: &str, overlays: &[&str]| DictionarySource {
            base: base.into(),
            scenario: None,
            overlays: overlays.iter().map(Into::into).collect(),
        };
        let session = &settings.sessions[0];
        assert_eq!(session.dictionary, Some(source("FIX50SP2", &["a.xml", "b.xml"])));
        let versions: Vec<_> = session.appl_versions.iter().collect();
        let expected = [
            (&"4".to_owned(), &source("FIX42", &[])),
            (&"X".to_owned(), &source("FIX50SP2", &["a.xml"])),
            (&"Y".to_owned(), &source("y.xml", &[])),
        ];
        assert_eq!(versions, expected);
        check(
            &format!("{GOOD}dictionary = 5\n"),
            "my.toml:7: `dictionary` is a name, a path, or a table with base and overlays, not 5",
        );
        check(
            &format!("{GOOD}appl_versions = {{ 4 = \"FIX42\" }}\n"),
            "my.toml:1: FIX.4.4:A->B: only FIXT.1.1 has appl_versions",
        );
    }

    #[test]
    fn tables_are_taken_over_key_by_key() {
        let text = format!(
            "[defaults]\nresend = {{ request_max = 5, closed_ranges = true }}\n\
             reset_on = [\"logout\"]\n{GOOD}resend.request_max = 7\n\
             numbers = {{ too_low = \"reject\", too_low_at_logon = \"accept\" }}\n\
             reset_on = [\"disconnect\", \"error\"]\nreset_at = \"17:00:01\"\n\
             [session.logon]\nexpected_username = \"us\"\n\
             expected_password = \"hush\"\nfields = [\"1603=A=B\"]\n\
             test_message_indicator = true\n[session.timing]\nmargin_ms = 200\n"
        );
        let session = &Settings::parse("my.toml", &text).unwrap().sessions[0];
        let resend = ResendConfig { request_max: 7, closed_ranges: true, ..Default::default() };
        assert_eq!(session.resend, resend);
        assert_eq!(session.numbers.too_low, TooLow::Reject);
        assert_eq!(session.numbers.too_low_at_logon, TooLowAtLogon::Accept);
        let reset_on = ResetPolicy { disconnect: true, error: true, ..ResetPolicy::NEVER };
        assert_eq!(session.reset_on, reset_on);
        assert_eq!(session.reset_at, Some(61_201));
        assert_eq!(session.logon.fields, [(Tag(1603), "A=B".to_owned())]);
        assert_eq!(session.logon.expected_password.as_ref().map(Secret::reveal), Some("hush"));
        assert!(!format!("{session:?}").contains("hush"));
        assert_eq!(session.timing, TimingConfig { margin_ms: 200, ..Default::default() });
    }

    #[test]
    fn tables_are_read_strictly() {
        check(
            &format!("{GOOD}resend.request_maxx = 5\n"),
            "my.toml:7: unknown key `request_maxx`; did you mean `request_max`?",
        );
        check(
            &format!("{GOOD}numbers.too_low = \"rejected\"\n"),
            "my.toml:7: unknown value `rejected`; did you mean `reject`?",
        );
        check(
            &format!("{GOOD}reset_on = [\"logonn\"]\n"),
            "my.toml:7: unknown value `logonn`; did you mean `logon`?",
        );
        check(
            &format!("{GOOD}reset_at = \"24:00:00\"\n"),
            "my.toml:7: `24:00:00` is no time of day, such as 17:00:00",
        );
        check(
            &format!("{GOOD}logon.password = {{ env = \"NO_SUCH_VARIABLE\" }}\n"),
            "my.toml:7: the environment variable NO_SUCH_VARIABLE is not set",
        );
        check(
            &format!("{GOOD}logon.password = {{ var = \"X\" }}\n"),
            "my.toml:7: write the text, { env = \"NAME\" } or { file = \"PATH\" }",
        );
        check(
            &format!("{GOOD}logon.fields = [\"96\"]\n"),
            "my.toml:7: `96` is no field; write it as tag=value",
        );
        check(
            &format!("{GOOD}logon.fields = [\"108=5\"]\n"),
            "my.toml:7: FIX.4.4:A->B: logon.fields: tag 108 has a setting of its own",
        );
        let of_session = |keys: &str, expected: &str| {
            check(&format!("{GOOD}{keys}\n"), &format!("my.toml:1: FIX.4.4:A->B: {expected}"));
        };
        check(
            &format!("{INITIATOR}logon.new_password = \"x\"\n"),
            "my.toml:7: FIX.4.4:A->B: only FIXT.1.1 has logon.new_password",
        );
        of_session("timing.test_requests_max = 0", "timing.test_requests_max is at least 1, not 0");
        of_session(
            "timing = { heart_bt_int_s_min = 9, heart_bt_int_s_max = 5 }",
            "timing.heart_bt_int_s_min 9 is above heart_bt_int_s_max 5",
        );
        check(
            &format!("{}logon.username = \"x\"\n", INITIATOR.replace("4.4", "4.2")),
            "my.toml:7: FIX.4.2:A->B: FIX.4.2 has no Username(553) and no Password(554); if the \
             counterparty wants them all the same, write logon.fields = [\"553=...\"]",
        );
        check(
            &format!("{GOOD}logon.password = \"x\"\n"),
            "my.toml:7: FIX.4.4:A->B: logon.username, password and new_password are what an \
             initiator sends; what an acceptor wants to see is expected_username and \
             expected_password",
        );
        check(
            &format!("{INITIATOR}logon.expected_password = \"x\"\n"),
            "my.toml:7: FIX.4.4:A->B: logon.expected_username and expected_password are what an \
             acceptor wants to see; what an initiator sends is username and password",
        );
        check(
            &format!("{}logon.expected_username = \"x\"\n", GOOD.replace("4.4", "4.2")),
            "my.toml:7: FIX.4.2:A->B: FIX.4.2 has no Username(553) and Password(554); \
             expected_username and expected_password need FIX.4.3 or later",
        );
        check(
            &format!("{}sender_location_id = \"x\"\n", GOOD.replace("4.4", "4.0")),
            "my.toml:1: FIX.4.0:A(,x)->B: FIX.4.0 has no location ids; leave them out",
        );
    }

    #[test]
    fn a_version_without_username_takes_one_as_a_field() {
        let advised =
            format!("{}logon.fields = [\"553=x\", \"554=y\"]\n", GOOD.replace("4.4", "4.2"));
        assert!(Settings::parse("my.toml", &advised).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_schedule_stands_in_a_line_of_its_own() {
        let zone = "[session.schedule]\nzone = \"Europe/London\"\n";
        let windows = "[[session.schedule.windows]]\ndays = \"mon\"\nfrom = \"08:00\"\n\
            to = \"17:00\"\n[[session.schedule.windows]]\ndays = \"tue\"\nfrom = \"08:00\"\n";
        for (keys, expected) in [
            (
                "schedule.zone = \"Europe/Londn\"".to_owned(),
                "7: FIX.4.4:A->B: schedule: unknown time zone `Europe/Londn`; did you mean \
                 `Europe/London`?",
            ),
            (
                format!("{zone}from = \"08:00\"\nto = \"25:00\""),
                "10: FIX.4.4:A->B: schedule: `25:00` is no time; write 17:00, 17:00:30, or \
                 fri 17:00",
            ),
            (
                format!("{zone}{windows}to = \"x\""),
                "16: FIX.4.4:A->B: schedule: `x` is no time; write 17:00, 17:00:30, or fri 17:00",
            ),
            (
                format!("{zone}{windows}"),
                "13: FIX.4.4:A->B: schedule: a window needs both from and to",
            ),
            (
                format!("{zone}from = \"08:00\"\nto = \"17:00\"\nholidays = [\"2026-13-01\"]"),
                "11: FIX.4.4:A->B: schedule: holidays: `2026-13-01` is no date such as 2026-12-25, \
                 and no file that can be read (No such file or directory (os error 2))",
            ),
            (
                format!("{zone}from = \"08:00\"\nto = \"17:00\"\noutside = {{ reject = \"no\" }}"),
                "11: FIX.4.4:A->B: schedule: outside = { reject = ... } keeps the session \
                 connected, where numbers cannot restart; write numbers = \"keep\"",
            ),
            (zone.to_owned(), "7: FIX.4.4:A->B: schedule: write from and to, or windows"),
        ] {
            check(&format!("{GOOD}{keys}\n"), &format!("my.toml:{expected}"));
        }
        // That of all sessions, in their place.
        let text = format!("[defaults]\nheart_bt_int_s = 5\nschedule = {{ zone = \"X\" }}\n{GOOD}");
        let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
        assert!(
            error.starts_with("my.toml:3: FIX.4.4:A->B: schedule: unknown time zone"),
            "{error}"
        );
    }

    #[test]
    fn dictionaries_that_do_not_exist_name_the_line() {
        let text = format!("{GOOD}dictionary = \"FIX45\"\n");
        let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:7: FIX.4.4:A->B: "), "{error}");
        assert!(error.contains("'FIX45'") && error.contains("did you mean 'FIX4"), "{error}");
        let fixt = GOOD.replace("FIX.4.4", "FIXT.1.1");
        let text = format!("{fixt}[session.appl_versions]\n4 = \"FIX42\"\n9 = \"FIX5SP2\"\n");
        let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:7: FIXT.1.1:A->B: "), "{error}");
    }

    #[test]
    fn settings_of_quickfix_are_told_as_such() {
        for (text, line) in [
            ("# ours\n[DEFAULT]\nConnectionType=initiator\n[SESSION]\n", 2),
            ("[Session]\nBeginString=FIX.4.4\n", 1),
            ("\n\nConnectionType = acceptor\n", 3),
        ] {
            check(text, &format!("my.toml:{line}: {QUICKFIX}"));
        }
        check("[session]\n", "my.toml:1: write each session as [[session]], with two brackets");
    }

    #[test]
    fn a_key_like_no_other_lists_them_all() {
        let text = format!("[defaults]\nzzz = 2\n{GOOD}");
        let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:2: unknown key `zzz`; known are role, "), "{error}");
    }

    #[test]
    fn errors_name_line_and_nearest_key() {
        check(
            &format!("{GOOD}hartbeat_int_s = 3\n"),
            "my.toml:7: unknown key `hartbeat_int_s`; did you mean `heart_bt_int_s`?",
        );
        check(
            &format!("{GOOD}mode = \"spinn\"\n"),
            "my.toml:7: unknown value `spinn`; did you mean `spin`?",
        );
        check(
            &format!("[engin]\nworkers = 2\n{GOOD}"),
            "my.toml:1: unknown section `engin`; did you mean `engine`?",
        );
        check(
            &format!("[engine]\nwokers = 2\n{GOOD}"),
            "my.toml:2: unknown key `wokers`; did you mean `workers`?",
        );
        check(
            &GOOD.replace("4.4", "4.9"),
            "my.toml:3: unknown value `FIX.4.9`; did you mean `FIX.4.4`?",
        );
        check(
            &format!("{GOOD}heart_bt_int_s = \"x\"\n"),
            "my.toml:7: `heart_bt_int_s` is a whole number from 0 to 4294967295, not \"x\"",
        );
        check(
            &format!("{GOOD}{GOOD}"),
            "my.toml:7: session FIX.4.4:A->B is there twice: no Logon(A) could say which one it \
             means; leave one out, or give it other CompIDs",
        );
        // What an error advises is taken.
        let initiator = GOOD.replace("acceptor", "initiator");
        check(
            &format!("{initiator}{initiator}"),
            "my.toml:7: session FIX.4.4:A->B is there twice; give one a qualifier",
        );
        let advised = format!("{initiator}{initiator}qualifier = \"2\"\n");
        assert!(Settings::parse("my.toml", &advised).is_ok());
        check(
            &format!("{GOOD}message_bytes_max = 10\n"),
            "my.toml:1: FIX.4.4:A->B: message_bytes_max is at least 1024, not 10",
        );
        check(
            &GOOD.replace("FIX.4.4", "FIX.5.0SP2"),
            "my.toml:3: FIX 5.0 is begin_string = \"FIXT.1.1\" with default_appl_ver_id = 7 (5.0), \
             8 (SP1) or 9 (SP2)",
        );
        check(&GOOD.replace("address", "#"), "my.toml:1: the key `address` is missing");
        check("", "my.toml:1: no [[session]] in the file");
        let cpu = "cpu = 2 needs a thread of the session's own, mode = \"dedicated\" or \"spin\", \
            not \"pool\"; `cpus` of [engine] pins the threads of the pool";
        check(&format!("{GOOD}cpu = 2\n"), &format!("my.toml:7: FIX.4.4:A->B: {cpu}"));
        check(&format!("[defaults]\ncpu = 2\n{GOOD}"), &format!("my.toml:2: FIX.4.4:A->B: {cpu}"));
        assert!(Settings::parse("my.toml", &format!("{GOOD}cpu = 2\nmode = \"spin\"\n")).is_ok());
        check(
            &GOOD.replace("FIX.4.4", "FIXT.1.1").replace("acceptor", "initiator"),
            "my.toml:1: FIXT.1.1:A->B: a FIXT.1.1 initiator needs default_appl_ver_id, such as 9",
        );
    }
}
