//! Reads settings from TOML: defaults merged into each session, errors with line and nearest key.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use transfix_session::{Key, Role, Throttle};

use crate::schedule::ScheduleSettings;
use crate::settings::Settings;
use crate::settings::check::{Step, find_wrong};
use crate::settings::dictionary_source::DictionarySource;
use crate::settings::engine::EngineSettings;
use crate::settings::log::LogSettings;
use crate::settings::proxy::ProxySettings;
use crate::settings::secret;
use crate::settings::session::{GROUPS, KeyLines, Places, SessionSettings};
use crate::settings::words::{explain, nearest};

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

    /// An error of a file that has no offsets; line 0 if no line tells.
    pub(crate) fn at_line(path: &Path, line: usize, message: String) -> Self {
        Self { path: path.to_owned(), line, fault: Fault::Wrong, message }
    }

    /// A file that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: io::Error) -> Self {
        let message = format!("cannot be read: {error}");
        Self { path: path.to_owned(), line: 0, message, fault: Fault::Unreadable(error) }
    }

    /// What is wrong, without its place.
    pub(crate) fn message(&self) -> &str {
        &self.message
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
    let text = std::fs::read_to_string(path);
    parse(path, &text.map_err(|error| SettingsError::unreadable(path, error))?)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, SettingsError> {
    match quickfix_section(text) {
        Some(at) => Err(SettingsError::new(path, text, at, QUICKFIX.to_owned())),
        None => parse_ours(path, text, &mut Errors(None)),
    }
}

/// As [`load`], with all errors of the file in the order of their lines.
pub(crate) fn load_or_all(path: &Path) -> Result<Settings, Vec<SettingsError>> {
    let text = std::fs::read_to_string(path);
    parse_or_all(path, &text.map_err(|error| vec![SettingsError::unreadable(path, error)])?)
}

fn parse_or_all(path: &Path, text: &str) -> Result<Settings, Vec<SettingsError>> {
    let mut errors = Errors(Some(Vec::new()));
    let settings = match quickfix_section(text) {
        Some(at) => Err(SettingsError::new(path, text, at, QUICKFIX.to_owned())),
        None => parse_ours(path, text, &mut errors),
    };
    let mut errors = errors.0.unwrap_or_default();
    match settings {
        Ok(settings) if errors.is_empty() => return Ok(settings),
        Ok(_) => {}
        Err(last) => errors.push(last),
    }
    // A wrong default is found by each session that takes it over.
    errors.sort_by_key(|error| error.line);
    errors.dedup_by_key(|error| error.line);
    Err(errors)
}

/// The errors found so far; `None` if the first one ends the reading.
struct Errors(Option<Vec<SettingsError>>);

impl Errors {
    fn found(&mut self, error: SettingsError) -> Result<(), SettingsError> {
        match &mut self.0 {
            Some(errors) => errors.push(error),
            None => return Err(error),
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Reads a table. If all errors are wanted, it is read again without the key that was wrong,
    /// for as long as that finds more; `None` if nothing can be read of it.
    fn of_table<'t, T>(
        &mut self,
        mut table: DeTable<'t>,
        lines: &Lines,
        read: impl Fn(DeTable<'t>) -> Result<T, SettingsError>,
    ) -> Result<Option<T>, SettingsError> {
        if self.0.is_none() {
            return read(table).map(Some);
        }
        let mut left_out: Vec<String> = Vec::new();
        loop {
            let error = match read(table.clone()) {
                Ok(value) => return Ok(Some(value)),
                Err(error) => error,
            };
            if left_out.iter().any(|key| error.message == is_missing(key)) {
                return Ok(None);
            }
            let mut keys = table.iter().map(|(key, value)| {
                let lines = lines.line(key.span().start)..=lines.line(value.span().end);
                (key.get_ref().to_string(), lines)
            });
            let key = keys.find(|(_, lines)| lines.contains(&error.line)).map(|(key, _)| key);
            self.found(error)?;
            let Some(key) = key else { return Ok(None) };
            table.remove(&*key);
            left_out.push(key);
        }
    }
}

fn is_missing(key: &str) -> String {
    format!("the key `{key}` is missing")
}

fn parse_ours(path: &Path, text: &str, errors: &mut Errors) -> Result<Settings, SettingsError> {
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
        let span = value.span();
        match (key.get_ref().as_ref(), value.into_inner()) {
            ("engine", DeValue::Table(table)) => {
                engine_keys = Arc::new(lines.of_keys(&table, EngineSettings::KEYS));
                let engine = errors.of_table(table, &lines, |table| {
                    let engine = value_of(Spanned::new(span.clone(), DeValue::Table(table)));
                    let engine: EngineSettings = engine.map_err(toml_error)?;
                    check_engine(&engine, &engine_keys)
                        .map_err(|(line, what)| SettingsError::at_line(path, line, what))?;
                    Ok(engine)
                })?;
                settings.engine = engine.unwrap_or_default();
            }
            ("engine", _) => {
                errors.found(wrong("write the keys of the engine below [engine], once"))?;
            }
            ("defaults", DeValue::Table(table)) => defaults = table,
            ("defaults", _) => {
                errors.found(wrong("write the keys that hold for all sessions as [defaults]"))?;
            }
            ("dictionaries", value) => {
                match value_of(Spanned::new(span, value)).map_err(toml_error) {
                    Ok(found) => aliases = found,
                    Err(error) => errors.found(error)?,
                }
            }
            ("session", DeValue::Array(array)) => sessions.extend(array),
            ("session", _) => {
                errors.found(wrong("write each session as [[session]], with two brackets"))?;
            }
            (other, value) => errors.found(wrong(&unknown_section(other, &value)))?,
        }
    }
    if sessions.is_empty() {
        return Err(SettingsError::new(path, text, 0, "no [[session]] in the file".to_owned()));
    }
    let mut file = File::new((path, text), lines, aliases);
    let found = errors.of_table(defaults, &file.lines, |defaults| file.defaults(defaults))?;
    (file.base, file.defaults) = found.unwrap_or_default();
    for (n, session) in sessions.into_iter().enumerate() {
        let span = session.span();
        let DeValue::Table(own) = session.into_inner() else {
            let message = "write each session as [[session]], with two brackets".to_owned();
            errors.found(file.error(span.start, message))?;
            continue;
        };
        let before = errors.count();
        let session =
            errors.of_table(own, &file.lines, |own| file.session((n, own, &span), &engine_keys))?;
        // Without the keys that are wrong, a session may look like another one.
        let Some(session) = session.filter(|_| errors.count() == before) else { continue };
        if !ids.insert(session.id()) {
            errors.found(file.error(span.start, twice(&session)))?;
        }
        settings.sessions.push(session);
    }
    Ok(settings)
}

/// The error has the line of the key.
fn check_engine(engine: &EngineSettings, lines: &KeyLines) -> Result<(), (usize, String)> {
    let wrong = |key: &str, what: &str| {
        let line = lines.iter().find(|(name, _)| *name == key).map_or(0, |(_, line)| *line);
        Err((line, format!("{key} {what}")))
    };
    if engine.workers == 0 {
        return wrong("workers", "is at least 1");
    }
    if engine.hot_worker_percent > 100 {
        return wrong("hot_worker_percent", "is 100 at most");
    }
    Ok(())
}

/// What is needed of a file to read its sessions.
struct File<'t> {
    path: Arc<Path>,
    text: &'t str,
    lines: Lines,
    aliases: Aliases,
    /// For each key of a session the number of its group; `None` for a field of its own.
    groups: HashMap<&'static str, Option<usize>>,
    defaults: Keys<'t>,
    /// The groups as a session has them that has no keys of its own, if they are sound.
    base: Option<SessionSettings>,
}

/// The keys of a session, or of `[defaults]`: its own, and those of each group.
#[derive(Default)]
struct Keys<'t> {
    /// The line of each.
    lines: Arc<KeyLines>,
    own: DeTable<'t>,
    groups: [DeTable<'t>; GROUPS.len()],
}

/// All keys that a session may have, with the number of the group.
fn keys() -> impl Iterator<Item = (&'static str, Option<usize>)> {
    let own = SessionSettings::KEYS.iter().map(|key| (key.name, None));
    let groups = GROUPS.iter().enumerate();
    own.chain(groups.flat_map(|(n, keys)| keys.iter().map(move |key| (key.name, Some(n)))))
}

impl<'t> File<'t> {
    fn new((path, text): (&Path, &'t str), lines: Lines, aliases: Aliases) -> Self {
        Self {
            path: path.into(),
            text,
            lines,
            aliases,
            groups: keys().collect(),
            defaults: Keys::default(),
            base: None,
        }
    }

    /// The groups, if they are sound, and all keys of `[defaults]`.
    fn defaults(
        &self,
        defaults: DeTable<'t>,
    ) -> Result<(Option<SessionSettings>, Keys<'t>), SettingsError> {
        let defaults = self.sorted(defaults)?;
        // A wrong default is told of the first session that has no value of its own.
        let base = self.with_groups(SessionSettings::default(), defaults.groups.clone());
        Ok((base.ok(), defaults))
    }

    fn error(&self, at: usize, message: String) -> SettingsError {
        SettingsError::new(&self.path, self.text, at, message)
    }

    /// Reads a table and sees to it that no key is missing that it must have.
    fn read<T: Deserialize<'t>>(
        &self,
        keys: DeTable<'t>,
        span: &Range<usize>,
        known: &[Key],
    ) -> Result<T, SettingsError> {
        let missing = missing(&keys, span, known);
        let value = value_of(Spanned::new(span.clone(), DeValue::Table(keys)));
        let value = value.map_err(|e| SettingsError::from_toml(&self.path, self.text, &e))?;
        match missing {
            Some((at, key)) => Err(self.error(at, is_missing(key))),
            None => Ok(value),
        }
    }

    /// The n-th session, with the keys of `[defaults]` that it does not have itself.
    fn session(
        &self,
        (n, own, span): (usize, DeTable<'t>, &Range<usize>),
        engine_keys: &Arc<KeyLines>,
    ) -> Result<SessionSettings, SettingsError> {
        let Keys { lines, own, groups } = self.sorted(own)?;
        let mut own = merged(&self.defaults.own, own);
        let mut secrets = Vec::new();
        for with_secrets in ["logon", "proxy"] {
            if let Some(DeValue::Table(table)) = own.get_mut(with_secrets).map(Spanned::get_mut) {
                let read = secret::read(table, &self.path);
                secrets.extend(read.map_err(|(at, what)| self.error(at, what))?);
            }
        }
        let session = self.read(own, span, SessionSettings::KEYS)?;
        let mut session = self.with_groups(session, groups)?;
        let at = |place: &[Step], what| {
            self.error(offset_in(self.text, n, place).unwrap_or(span.start), what)
        };
        resolve(&mut session, &self.aliases);
        names(&session).map_err(|(key, what)| at(&[Step::Key(key)], what))?;
        find_wrong(&session).map_err(|wrong| at(&wrong.path, wrong.what))?;
        session.places = Some(Arc::new(Places {
            path: Arc::clone(&self.path),
            session: lines,
            defaults: Arc::clone(&self.defaults.lines),
            engine: Arc::clone(engine_keys),
            secrets,
        }));
        Ok(session)
    }

    /// Sorts keys by their groups.
    fn sorted(&self, table: DeTable<'t>) -> Result<Keys<'t>, SettingsError> {
        let mut keys = Keys::default();
        let mut lines = Vec::with_capacity(table.len());
        for (key, value) in table {
            let at = key.span().start;
            let Some((name, group)) = self.groups.get_key_value(&**key.get_ref()) else {
                let nearest = nearest(key.get_ref(), self::keys().map(|(name, _)| name));
                return Err(self.error(at, format!("unknown key `{}`{nearest}", key.get_ref())));
            };
            lines.push((*name, self.lines.line(at)));
            let table = group.map_or(&mut keys.own, |group| &mut keys.groups[group]);
            table.insert(key, value);
        }
        keys.lines = Arc::new(lines);
        Ok(keys)
    }

    /// Gives a session its groups: the base's where it has no key of its own.
    fn with_groups(
        &self,
        session: SessionSettings,
        groups: [DeTable<'t>; GROUPS.len()],
    ) -> Result<SessionSettings, SettingsError> {
        let base = self.base.as_ref();
        let mut defaults = self.defaults.groups.iter();
        let [protocol, validation, store, queue, threads, socket] =
            groups.map(|own| (own, defaults.next()));
        Ok(SessionSettings {
            protocol: self.group(protocol, base.map(|base| &base.protocol))?,
            validation: self.group(validation, base.map(|base| &base.validation))?,
            store: self.group(store, base.map(|base| &base.store))?,
            queue: self.group(queue, base.map(|base| &base.queue))?,
            threads: self.group(threads, base.map(|base| &base.threads))?,
            socket: self.group(socket, base.map(|base| &base.socket))?,
            ..session
        })
    }

    fn group<T: Deserialize<'t> + Clone>(
        &self,
        (own, defaults): (DeTable<'t>, Option<&DeTable<'t>>),
        base: Option<&T>,
    ) -> Result<T, SettingsError> {
        if let Some(base) = base.filter(|_| own.is_empty()) {
            return Ok(base.clone());
        }
        let keys = merged(defaults.unwrap_or(&DeTable::new()), own);
        self.read(keys, &(0..0), &[])
    }
}

/// The first of the known keys, and of those of tables below, that must be there and is not, with
/// the offset of its table.
fn missing(
    table: &DeTable<'_>,
    span: &Range<usize>,
    known: &[Key],
) -> Option<(usize, &'static str)> {
    let first = |table: &DeTable<'_>, known: &[Key]| {
        let mut required = known.iter().filter(|key| key.default.is_none());
        required.find(|key| !table.contains_key(key.name)).map(|key| key.name)
    };
    let below = |value: &Spanned<DeValue<'_>>, known| {
        Some((value.span().start, first(value.get_ref().as_table()?, known)?))
    };
    let throttles = table.get("throttles").and_then(|value| value.get_ref().as_array());
    first(table, known)
        .map(|key| (span.start, key))
        .or_else(|| below(table.get("log")?, LogSettings::KEYS))
        .or_else(|| below(table.get("proxy")?, ProxySettings::KEYS))
        .or_else(|| below(table.get("schedule")?, ScheduleSettings::KEYS))
        .or_else(|| throttles?.iter().find_map(|throttle| below(throttle, Throttle::KEYS)))
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
const QUICKFIX: &str = "these are settings of QuickFIX; `transfix migrate FILE` writes ours from \
                        them, and Settings::from_quickfix reads them as they are";

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

/// Tables that a session takes over as a whole or not at all; the others key by key.
const WHOLE: [&str; 3] = ["appl_versions", "dictionary", "schedule"];

/// The keys of a session with those of `[defaults]` that it does not say itself.
fn merged<'a>(defaults: &DeTable<'a>, mut own: DeTable<'a>) -> DeTable<'a> {
    for (key, default) in defaults {
        let is_whole = WHOLE.contains(&key.get_ref().as_ref());
        match (own.get_mut(key).map(Spanned::get_mut), default.get_ref()) {
            (None, _) => _ = own.insert(key.clone(), default.clone()),
            // One level deep: what is a table in there, such as a password, is one value.
            (Some(DeValue::Table(table)), DeValue::Table(default)) if !is_whole => {
                for (key, value) in default {
                    if !table.contains_key(key) {
                        table.insert(key.clone(), value.clone());
                    }
                }
            }
            (Some(_), _) => {}
        }
    }
    own
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

/// `[dictionaries]`: names for dictionaries, to be used in the sessions.
type Aliases = BTreeMap<String, DictionarySource>;

/// Puts what an alias stands for in its place.
fn resolve(session: &mut SessionSettings, aliases: &Aliases) {
    for source in session
        .validation
        .dictionary
        .iter_mut()
        .chain(session.validation.appl_versions.values_mut())
    {
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
    session.validation.dictionary.iter().try_for_each(all).map_err(|what| ("dictionary", what))?;
    session
        .validation
        .appl_versions
        .values()
        .try_for_each(all)
        .map_err(|what| ("appl_versions", what))
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

    /// The line of a byte, counted from 1.
    fn line(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end < at) + 1
    }

    fn of_keys(&self, table: &DeTable<'_>, known: &[Key]) -> KeyLines {
        let of = |known: &Key| {
            let (key, _) = table.get_key_value(known.name)?;
            Some((known.name, self.line(key.span().start)))
        };
        known.iter().filter_map(of).collect()
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

#[cfg(test)]
mod tests;
