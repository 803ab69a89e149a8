//! Reads settings from TOML: defaults merged into each session, errors with line and nearest key.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
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
use crate::settings::words::nearest;

mod error;
mod lines;

use error::{Errors, is_missing};
use lines::Lines;

pub use error::SettingsError;

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

fn value_of<'de, T: Deserialize<'de>>(value: Spanned<DeValue<'de>>) -> Result<T, toml::de::Error> {
    T::deserialize(toml::de::ValueDeserializer::from(value))
}

#[cfg(test)]
mod tests;
