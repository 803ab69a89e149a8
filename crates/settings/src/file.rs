//! Reads settings from TOML. Sessions inherit keys from `[defaults]`, and errors name the line and
//! the nearest key.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use transfix_session::{Key, Role, Throttle};

use crate::check::{Step, find_wrong};
use crate::dictionary_source::DictionarySource;
use crate::engine::EngineSettings;
use crate::events::EventSettings;
use crate::log::LogSettings;
use crate::other_engines;
use crate::proxy::ProxySettings;
use crate::schedule::ScheduleSettings;
use crate::secret;
use crate::session::{GROUPS, KeyLines, Places, SessionSettings};
use crate::text_file;
use crate::validation::ValidationSettings;
use crate::words::unknown_key;
use crate::{AdminSettings, FleetSettings, Settings};

mod error;
mod lines;
mod sections;
pub(crate) mod shown;
mod sources;
mod variables;

use error::{Errors, is_missing};
use sections::Sections;
use sources::Sources;

pub use error::SettingsError;

pub(crate) fn load(path: &Path) -> Result<Settings, SettingsError> {
    let text = text_file::read(path);
    parse(path, &text.map_err(|error| SettingsError::unreadable(path, error))?)
}

pub(crate) fn parse(path: &Path, text: &str) -> Result<Settings, SettingsError> {
    if let Some(error) = of_another(path, text) {
        return Err(error);
    }
    let (sources, errors) = Sources::read(path, text);
    let settings = match errors.into_iter().next() {
        Some(error) => Err(error),
        None => parse_ours(&sources, &mut Errors(None)),
    };
    settings.map_err(|error| sources.placed(error))
}

/// Reads `[fleet]` alone. The other sections are not read, and sessions may be missing.
pub(crate) fn load_fleet(path: &Path) -> Result<Option<FleetSettings>, SettingsError> {
    let text = text_file::read(path);
    let text = text.map_err(|error| SettingsError::unreadable(path, error))?;
    if let Some(error) = of_another(path, &text) {
        return Err(error);
    }
    let (sources, errors) = Sources::read(path, &text);
    let fleet = match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Sections::of(&sources, &mut Errors(None))
            .and_then(|sections| fleet(&sources, &mut Errors(None), sections.fleet)),
    };
    fleet.map_err(|error| sources.placed(error))
}

/// Reads the files like [`load`], and returns either the settings or all errors in the order of
/// their lines.
pub(crate) fn load_or_all(path: &Path) -> Result<Settings, Vec<SettingsError>> {
    let text = text_file::read(path);
    parse_or_all(path, &text.map_err(|error| vec![SettingsError::unreadable(path, error)])?)
}

fn parse_or_all(path: &Path, text: &str) -> Result<Settings, Vec<SettingsError>> {
    if let Some(error) = of_another(path, text) {
        return Err(vec![error]);
    }
    let (sources, mut errors) = Sources::read(path, text);
    let mut found = Errors(Some(Vec::new()));
    let settings = parse_ours(&sources, &mut found);
    let mut found = found.0.unwrap_or_default();
    match settings {
        Ok(settings) if errors.is_empty() && found.is_empty() => return Ok(settings),
        Ok(_) => {}
        Err(last) => found.push(last),
    }
    // Removes errors that only follow from an unset variable, which was already reported.
    found.retain(|error| !sources.is_of_unset(error));
    errors.append(&mut found);
    // A wrong default is reported by each session that inherits it, so equal errors are merged.
    errors.sort_by_key(|error| (error.line, error.at));
    errors.dedup_by_key(|error| (error.line, error.at));
    Err(errors.into_iter().map(|error| sources.placed(error)).collect())
}

fn parse_ours(sources: &Sources, errors: &mut Errors) -> Result<Settings, SettingsError> {
    let sections = Sections::of(sources, errors)?;
    let Sections { engine, admin, events, fleet, defaults, dictionaries, sessions, is_whole } =
        sections;
    let mut settings = Settings::default();
    let mut engine_keys = Arc::default();
    if let Some((span, table)) = engine {
        engine_keys = Arc::new(sources.lines.of_keys(&table, EngineSettings::KEYS));
        let engine = errors.of_table(table, &sources.lines, |table| {
            let table = Spanned::new(span.clone(), DeValue::Table(table));
            let engine: EngineSettings = value_of(sources, table)?;
            check_engine(&engine, &engine_keys)
                .map_err(|(line, what)| SettingsError::at_line(Path::new(""), line, what))?;
            Ok(engine)
        })?;
        settings.engine = engine.unwrap_or_default();
    }
    settings.admin = section(sources, errors, admin, AdminSettings::KEYS, AdminSettings::check)?;
    settings.events = section(sources, errors, events, EventSettings::KEYS, EventSettings::check)?;
    settings.fleet = self::fleet(sources, errors, fleet)?;
    let mut aliases = Aliases::new();
    for (name, source) in dictionaries {
        match value_of(sources, source) {
            Ok(source) => _ = aliases.insert(name.into_inner().into_owned(), source),
            Err(error) => errors.found(error)?,
        }
    }
    if sessions.is_empty() && is_whole {
        return Err(sources.error(0, "the file has no [[session]]".to_owned()));
    }
    let mut ids = HashSet::new();
    let mut file = File::new(sources, aliases);
    let found = errors.of_table(defaults, &sources.lines, |defaults| file.defaults(defaults))?;
    (file.base, file.defaults) = found.unwrap_or_default();
    for (n, session) in sessions.into_iter().enumerate() {
        let span = session.span();
        let DeValue::Table(own) = session.into_inner() else {
            let message = "write each session as [[session]], with two brackets".to_owned();
            errors.found(sources.error(span.start, message))?;
            continue;
        };
        let before = errors.count();
        let session = loop {
            let read = |own| file.session((n, own, &span), &engine_keys);
            match errors.of_table(own.clone(), &sources.lines, read)? {
                // An error in a default is reported only once, because the wrong key is removed
                // from the defaults.
                None if errors.last().is_some_and(|at| file.leave_out_default(at)) => {}
                session => break session,
            }
        };
        // Skips a session with errors, because without its wrong keys it may look like another
        // session.
        let Some(session) = session.filter(|_| errors.count() == before) else { continue };
        if !ids.insert(session.id()) {
            errors.found(sources.error(span.start, twice(&session)))?;
        }
        settings.sessions.push(session);
    }
    Ok(settings)
}

/// Reads an optional section. Returns `None` if the section is missing or wrong. `check` returns
/// the key to which an error belongs.
fn section<'t, T: Deserialize<'t>>(
    sources: &'t Sources,
    errors: &mut Errors,
    section: Option<(Range<usize>, DeTable<'t>)>,
    keys: &[Key],
    check: impl Fn(&T) -> Result<(), (&'static str, String)>,
) -> Result<Option<T>, SettingsError> {
    let Some((span, table)) = section else { return Ok(None) };
    let lines = sources.lines.of_keys(&table, keys);
    errors.of_table(table, &sources.lines, |table| {
        let table = Spanned::new(span.clone(), DeValue::Table(table));
        let section: T = value_of(sources, table)?;
        check(&section).map_err(|(key, what)| {
            let line = lines.iter().find(|(name, _)| *name == key).map_or(0, |(_, line)| *line);
            SettingsError::at_line(Path::new(""), line, what)
        })?;
        Ok(section)
    })
}

/// Reads `[fleet]`, and the passwords to which it refers.
fn fleet<'t>(
    sources: &'t Sources,
    errors: &mut Errors,
    fleet: Option<(Range<usize>, DeTable<'t>)>,
) -> Result<Option<FleetSettings>, SettingsError> {
    let Some((span, mut table)) = fleet else { return Ok(None) };
    let secret_files = match secrets(sources, &mut table) {
        Ok(files) => files,
        Err(error) => {
            errors.found(error)?;
            return Ok(None);
        }
    };
    let keys = FleetSettings::KEYS;
    let fleet = section(sources, errors, Some((span, table)), keys, FleetSettings::check)?;
    Ok(fleet.map(|fleet| FleetSettings { secret_files, ..fleet }))
}

/// Reads the passwords to which the keys refer, and puts them in place. Returns the files that
/// contain passwords.
fn secrets(sources: &Sources, table: &mut DeTable<'_>) -> Result<Vec<PathBuf>, SettingsError> {
    // A text is the password itself, which is in this file unless it comes from an environment
    // variable.
    let texts = table
        .iter()
        .filter(|(key, value)| key.get_ref().ends_with("password") && value.get_ref().is_str());
    let here = texts.map(|(_, value)| value.span().start);
    let here = here.filter(|at| !sources.is_variable(*at));
    let here: Vec<_> = here.map(|at| sources.path(at).to_owned()).collect();
    let files = secret::read(table, Path::new(""));
    let files = files.map_err(|(at, what)| sources.error(at, what))?;
    let named = files.into_iter().filter(|file| !file.as_os_str().is_empty());
    Ok(here.into_iter().chain(named).collect())
}

/// Checks `[engine]`. The error has the line of the key.
fn check_engine(engine: &EngineSettings, lines: &KeyLines) -> Result<(), (usize, String)> {
    engine.check_ranges().map_err(|wrong| {
        let line = lines.iter().find(|(name, _)| *name == wrong.key).map_or(0, |(_, line)| *line);
        (line, wrong.to_string())
    })
}

/// The parts of a file that its sessions need.
struct File<'t> {
    sources: &'t Sources,
    aliases: Aliases,
    /// The group to which each key of a session belongs; `None` for a field of the session itself.
    groups: HashMap<&'static str, Option<usize>>,
    defaults: Keys<'t>,
    /// The settings of a session that has only the defaults, if these are valid.
    base: Option<SessionSettings>,
}

/// The keys of a session, or of `[defaults]`: direct keys, and keys of each group.
#[derive(Default)]
struct Keys<'t> {
    /// The line of each key.
    lines: Arc<KeyLines>,
    own: DeTable<'t>,
    groups: [DeTable<'t>; GROUPS.len()],
}

/// Returns all keys that a session may have, each with the group to which it belongs.
fn keys() -> impl Iterator<Item = (&'static str, Option<usize>)> {
    let own = SessionSettings::KEYS.iter().map(|key| (key.name, None));
    let groups = GROUPS.iter().enumerate();
    own.chain(groups.flat_map(|(n, keys)| keys.iter().map(move |key| (key.name, Some(n)))))
}

impl<'t> File<'t> {
    fn new(sources: &'t Sources, aliases: Aliases) -> Self {
        let (defaults, groups) = (Keys::default(), keys().collect());
        Self { sources, aliases, groups, defaults, base: None }
    }

    /// Reads all keys of `[defaults]`, and the groups among them if they are valid.
    fn defaults(
        &self,
        defaults: DeTable<'t>,
    ) -> Result<(Option<SessionSettings>, Keys<'t>), SettingsError> {
        let defaults = self.sorted(defaults)?;
        // An error here is ignored: a wrong default is reported for the first session that inherits
        // it.
        let base = self.with_groups(SessionSettings::default(), defaults.groups.clone());
        Ok((base.ok(), defaults))
    }

    /// Removes the key of `[defaults]` at this offset, if there is one.
    fn leave_out_default(&mut self, at: usize) -> bool {
        let is_here = |range: Range<usize>| range.contains(&at);
        let Keys { own, groups, .. } = &mut self.defaults;
        let mut all = iter::once(own).chain(groups);
        all.any(|keys| error::remove_at(keys, &is_here).is_some())
    }

    fn error(&self, at: usize, message: String) -> SettingsError {
        self.sources.error(at, message)
    }

    /// Reads a table, after checking that no required key is missing.
    fn read<T: Deserialize<'t>>(
        &self,
        keys: DeTable<'t>,
        span: &Range<usize>,
        known: &[Key],
    ) -> Result<T, SettingsError> {
        let missing = missing(&keys, span, known);
        let value = value_of(self.sources, Spanned::new(span.clone(), DeValue::Table(keys)))?;
        match missing {
            Some((at, key)) => Err(self.error(at, is_missing(key))),
            None => Ok(value),
        }
    }

    /// Reads the session with index `n`, and adds those keys of `[defaults]` that the session does
    /// not have.
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
                secrets.extend(self::secrets(self.sources, table)?);
            }
        }
        let session = self.read(own, span, SessionSettings::KEYS)?;
        let mut session = self.with_groups(session, groups)?;
        let at = |place: &[Step], what| {
            self.error(offset_in(self.sources, n, place).unwrap_or(span.start), what)
        };
        resolve(&mut session, &self.aliases);
        names(&session, &self.aliases).map_err(|(key, what)| at(&[Step::Key(key)], what))?;
        find_wrong(&session).map_err(|wrong| at(&wrong.path, wrong.what))?;
        session.places = Some(Arc::new(Places {
            files: Arc::clone(&self.sources.files),
            line: self.sources.lines.line(span.start),
            session: lines,
            defaults: Arc::clone(&self.defaults.lines),
            engine: Arc::clone(engine_keys),
            secrets,
        }));
        Ok(session)
    }

    /// Divides the keys of a table by their groups.
    fn sorted(&self, table: DeTable<'t>) -> Result<Keys<'t>, SettingsError> {
        let mut keys = Keys::default();
        let mut lines = Vec::with_capacity(table.len());
        for (key, value) in table {
            let at = key.span().start;
            let Some((name, group)) = self.groups.get_key_value(&**key.get_ref()) else {
                let known = self::keys().map(|(name, _)| name);
                return Err(self.error(at, unknown_key(key.get_ref(), known)));
            };
            lines.push((*name, self.sources.lines.line(at)));
            let table = group.map_or(&mut keys.own, |group| &mut keys.groups[group]);
            table.insert(key, value);
        }
        keys.lines = Arc::new(lines);
        Ok(keys)
    }

    /// Sets the groups of a session. A group in which the session has no keys is taken from `base`.
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

/// Returns the first required key that is missing in the table or in a table below it, and the
/// offset of that table.
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

/// Returns the error for a settings file of another engine.
fn of_another(path: &Path, text: &str) -> Option<SettingsError> {
    let quickfix = quickfix_section(text).map(|at| (at, QUICKFIX));
    let found = quickfix.or_else(|| Some((0, other_engines::settings_of_another(text)?)));
    found.map(|(at, what)| SettingsError::new(path, text, at, what.to_owned()))
}

/// The error about a settings file of QuickFIX.
const QUICKFIX: &str = "the file has settings of QuickFIX; convert them with `transfix migrate \
                        FILE`, or read them directly with the crate transfix-quickfix";

/// Returns the offset of the first section heading of QuickFIX, which has capital letters unlike
/// those of Transfix.
fn quickfix_section(text: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let begin = at;
        at += line.len();
        let word = line.trim();
        let is_section = ["[DEFAULT]", "[SESSION]"].iter().any(|s| word.eq_ignore_ascii_case(s));
        let is_key = word.split_once('=').is_some_and(|(key, _)| key.trim() == "ConnectionType");
        // `[session]` and `[default]` are not taken for QuickFIX, because the brackets of a
        // Transfix heading may be wrong.
        let may_be_ours = ["[session]", "[default]"].contains(&word);
        ((is_section && !may_be_ours) || is_key).then_some(begin)
    })
}

/// Returns the text of the error about a session that occurs twice, with its remedy.
fn twice(session: &SessionSettings) -> String {
    let id = session.id();
    match session.role {
        Role::Initiator => format!("session {id} appears twice; give one of them a qualifier"),
        Role::Acceptor => format!(
            "session {id} appears twice, and a Logon(A) could not tell the two apart; remove one, \
             or give it other CompIDs"
        ),
    }
}

/// The tables that a session inherits as a whole. From all other tables, it inherits single keys.
const WHOLE: [&str; 4] = ["appl_versions", "dictionary", "session_dictionary", "schedule"];

/// Returns the keys of a session, and those keys of `[defaults]` that the session does not have.
fn merged<'a>(defaults: &DeTable<'a>, mut own: DeTable<'a>) -> DeTable<'a> {
    for (key, default) in defaults {
        let is_whole = WHOLE.contains(&key.get_ref().as_ref());
        match (own.get_mut(key).map(Spanned::get_mut), default.get_ref()) {
            (None, _) => _ = own.insert(key.clone(), default.clone()),
            // Tables are merged only one level deep; a table within a table, such as a password, is
            // one value.
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

/// Returns the offset of the last key on the path that exists in the session with index `n`. Parses
/// the texts again, because errors are rare.
fn offset_in(sources: &Sources, n: usize, path: &[Step]) -> Option<usize> {
    let sections = Sections::of(sources, &mut Errors(Some(Vec::new()))).ok()?;
    let DeValue::Table(own) = sections.sessions.into_iter().nth(n)?.into_inner() else {
        return None;
    };
    offset_of(&merged(&sections.defaults, own), path)
}

/// `[dictionaries]`: names for dictionaries, for use in the sessions.
type Aliases = BTreeMap<String, DictionarySource>;

/// Replaces names from `[dictionaries]` by the dictionaries.
fn resolve(session: &mut SessionSettings, aliases: &Aliases) {
    let ValidationSettings { dictionary, session_dictionary, appl_versions, .. } =
        &mut session.validation;
    let own = dictionary.iter_mut().chain(session_dictionary);
    for source in own.chain(appl_versions.values_mut()) {
        if let Some(alias) = source.base.to_str().and_then(|name| aliases.get(name)) {
            let own = std::mem::replace(source, alias.clone());
            source.overlays.extend(own.overlays);
        }
    }
}

/// Checks the names of standard dictionaries. Errors in dictionary files are found when the engine
/// starts.
fn names(session: &SessionSettings, aliases: &Aliases) -> Result<(), (&'static str, String)> {
    let listed: Vec<_> = aliases.keys().map(String::as_str).collect();
    let listed = match &*listed {
        [] => String::new(),
        listed => format!("; [dictionaries] has {}", listed.join(", ")),
    };
    let all = |source: &DictionarySource| {
        source.check_name().map_err(|what| format!("{}: {what}{listed}", session.id()))
    };
    let ValidationSettings { dictionary, session_dictionary, appl_versions, .. } =
        &session.validation;
    let wrong = |key| move |what| (key, what);
    dictionary.iter().try_for_each(all).map_err(wrong("dictionary"))?;
    session_dictionary.iter().try_for_each(all).map_err(wrong("session_dictionary"))?;
    appl_versions.values().try_for_each(all).map_err(wrong("appl_versions"))
}

/// Returns the offset of the last key on the path that exists in the table.
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

/// Reads a value. A number or a switch may be given as a text that consists of one environment
/// variable.
fn value_of<'t, T: Deserialize<'t>>(
    sources: &'t Sources,
    mut value: Spanned<DeValue<'t>>,
) -> Result<T, SettingsError> {
    let read = |value| T::deserialize(toml::de::ValueDeserializer::from(value));
    if sources.is_constant() {
        return read(value).map_err(|error| sources.toml_error(&error));
    }
    loop {
        let error = match read(value.clone()) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let at = error.span().filter(|_| error.message().starts_with("invalid type: string"));
        let is_mended = at.is_some_and(|span| match sources.number_or_switch(span.start) {
            Some(number) => put(&mut value, span.start, &number),
            None => false,
        });
        if !is_mended {
            return Err(sources.toml_error(&error));
        }
    }
}

/// Replaces the text at this offset by `new`. Returns false if there is no such text.
fn put<'t>(value: &mut Spanned<DeValue<'t>>, at: usize, new: &DeValue<'t>) -> bool {
    let is_here = value.span().start == at;
    match value.get_mut() {
        text @ DeValue::String(_) if is_here => {
            *text = new.clone();
            true
        }
        DeValue::Table(table) => table.iter_mut().any(|(_, one)| put(one, at, new)),
        DeValue::Array(all) => all.iter_mut().any(|one| put(one, at, new)),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
