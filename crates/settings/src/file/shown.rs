//! Shows the values that are in force, each with its origin.
//!
//! Invariant: no password is shown, and no field that may be a password.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use transfix_codec::{Mask, Tag};
use transfix_session::{Key, SessionId};

use super::error::{Errors, SettingsError};
use super::sections::Sections;
use super::sources::Sources;
use super::{merged, parse_or_all};
use crate::reference::{self, SESSION, TABLES, Table};
use crate::text_file;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The default of the key.
    Default,
    /// The value is in the section itself, at this location, such as `venue.toml:7`.
    File(String),
    /// The value is in `[defaults]`, at this location, such as `venue.toml:3`.
    Defaults(String),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownKey {
    /// Table of the key, such as `logon`; empty for direct keys of `[engine]` or a session.
    pub table: &'static str,
    /// Name of the key.
    pub key: &'static str,
    /// The value as a settings file would contain it, with stars in place of passwords; `None` if
    /// there is no value.
    pub value: Option<String>,
    /// The origin of the value.
    pub origin: Origin,
    /// True if the value contains an environment variable (`${NAME}`).
    pub of_environment: bool,
}

/// The settings of `[engine]`, `[admin]`, `[events]` or `[fleet]`, or of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownSettings {
    /// The heading in the file: `[engine]`, `[admin]`, `[events]`, `[fleet]` or `[[session]]`.
    pub heading: &'static str,
    /// The identity of the session; `None` for other sections.
    pub id: Option<SessionId>,
    /// The location of the heading, such as `venue.toml:12`.
    pub place: String,
    /// All keys of the section, with their values.
    pub keys: Vec<ShownKey>,
}

/// Returns the settings of `[engine]`, `[admin]`, `[events]` and `[fleet]`, then of each session,
/// in the order of the file.
pub(crate) fn shown(path: &Path) -> Result<Vec<ShownSettings>, Vec<SettingsError>> {
    let text = text_file::read(path);
    let text = text.map_err(|error| vec![SettingsError::unreadable(path, error)])?;
    let settings = parse_or_all(path, &text)?;
    let (sources, _) = Sources::read(path, &text);
    // An error is not expected, because the file was checked before.
    let sections = Sections::of(&sources, &mut Errors(None)).map_err(|error| vec![error])?;
    let none = DeTable::new();
    let names = &sections.dictionaries;
    let mut all = Vec::new();
    let parts = [
        ("[engine]", &sections.engine),
        ("[admin]", &sections.admin),
        ("[events]", &sections.events),
        (FLEET, &sections.fleet),
    ];
    for (heading, part) in parts {
        let there = part.as_ref().map(|(span, table)| (span.start, table));
        // Skips a section other than `[engine]` that is missing, because it is then off.
        if heading != "[engine]" && there.is_none() {
            continue;
        }
        let (start, own) = there.unwrap_or((0, &none));
        let look = Look { sources: &sources, own, defaults: &none, names, mask: &[] };
        let mut keys = look.keys(|table| table.name == heading);
        if heading == "[admin]" {
            keys.extend(look.fix());
        }
        all.push(ShownSettings { heading, id: None, place: sources.place(start), keys });
    }
    for (session, settings) in sections.sessions.iter().zip(&settings.sessions) {
        let Some(own) = session.get_ref().as_table() else { continue };
        let mask = settings.log.as_ref().map_or(&[][..], |log| &log.mask);
        let look = Look { sources: &sources, own, defaults: &sections.defaults, names, mask };
        let keys = look.keys(|table| !SECTIONS.contains(&table.name));
        let place = sources.place(session.span().start);
        let id = Some(settings.id());
        all.push(ShownSettings { heading: SESSION, id, place, keys });
    }
    Ok(all)
}

/// Sections other than sessions.
const SECTIONS: [&str; 5] = ["[engine]", "[admin]", FIX, "[events]", FLEET];

/// The table of the administration over FIX.
const FIX: &str = "[admin.fix]";
/// The section of the fleet.
const FLEET: &str = "[fleet]";
/// The tables whose keys are shown one by one; any other table is shown as one value.
const SINGLE: [&str; 10] = [
    "fix",
    "logon",
    "numbers",
    "resend",
    "timing",
    "unavailable",
    "application",
    "retention",
    "failover",
    "tls",
];

/// A table of the file, and its inherited values.
struct Look<'l, 't> {
    sources: &'t Sources,
    own: &'l DeTable<'t>,
    defaults: &'l DeTable<'t>,
    /// The names in `[dictionaries]`.
    names: &'l DeTable<'t>,
    /// Tags of `log.mask`, whose values are hidden.
    mask: &'l [u32],
}

impl Look<'_, '_> {
    fn keys(&self, is_wanted: impl Fn(&Table) -> bool) -> Vec<ShownKey> {
        let mut shown = Vec::new();
        for table in TABLES.iter().filter(|table| is_wanted(table)) {
            if table.name == SESSION || SECTIONS.contains(&table.name) {
                // `tls` of `[fleet]` is a switch.
                let is_table = |key: &Key| SINGLE.contains(&key.name) && table.name != FLEET;
                let keys = table.keys.iter().filter(|key| !is_table(key));
                shown.extend(keys.map(|key| self.one("", key, (self.own, self.defaults))));
            } else if SINGLE.contains(&table.name) {
                self.table(table, &mut shown);
            }
        }
        shown
    }

    /// Returns the keys of `[admin.fix]`, if the table is present.
    fn fix(&self) -> Vec<ShownKey> {
        let of_fix = TABLES.iter().filter(|table| table.name == FIX);
        let keys = of_fix.flat_map(|table| table.keys);
        let own = inner(self.own, "fix");
        let is_there = self.own.contains_key("fix");
        keys.filter(|_| is_there).map(|key| self.one("fix", key, (&own, self.defaults))).collect()
    }

    /// Adds the keys of one table of a session.
    fn table(&self, table: &'static Table, shown: &mut Vec<ShownKey>) {
        let is_there = [self.own, self.defaults].iter().any(|of| of.contains_key(table.name));
        // Without the table TLS is off, so the defaults of its keys are not shown.
        if table.name == "tls" && !is_there {
            let (key, value, origin) = (table.name, None, Origin::Default);
            return shown.push(ShownKey { table: "", key, value, origin, of_environment: false });
        }
        let (own, defaults) = (inner(self.own, table.name), inner(self.defaults, table.name));
        shown.extend(table.keys.iter().map(|key| self.one(table.name, key, (&own, &defaults))));
    }

    fn one(
        &self,
        table: &'static str,
        key: &'static Key,
        (own, defaults): (&DeTable<'_>, &DeTable<'_>),
    ) -> ShownKey {
        let found = match (own.get_key_value(key.name), defaults.get_key_value(key.name)) {
            (Some((name, _)), _) => Some((name, false)),
            (None, Some((name, _))) => Some((name, true)),
            (None, None) => None,
        };
        let value = match table {
            "" => in_force(key.name, own, defaults),
            _ => own.get(key.name).or_else(|| defaults.get(key.name)).cloned(),
        };
        let (Some((name, is_of_all)), Some(value)) = (found, value) else {
            let (value, origin) = (reference::default_in_file(key), Origin::Default);
            return ShownKey { table, key: key.name, value, origin, of_environment: false };
        };
        let place = self.sources.place(name.span().start);
        let origin = if is_of_all { Origin::Defaults(place) } else { Origin::File(place) };
        let of_environment = self.is_of_environment(&value);
        let value = self.without_names(table, key.name, self.text(&value));
        let value = Some(self.masked(key.name, &value));
        ShownKey { table, key: key.name, value, origin, of_environment }
    }

    /// Returns the value with the dictionaries in place of their names in `[dictionaries]`.
    fn without_names(&self, table: &str, key: &str, value: toml::Value) -> toml::Value {
        match (table, key, value) {
            ("", "dictionary" | "session_dictionary", source) => self.without_name(source),
            ("", "appl_versions", toml::Value::Table(all)) => {
                let all = all.into_iter();
                let all = all.map(|(version, source)| (version, self.without_name(source)));
                toml::Value::Table(all.collect())
            }
            (_, _, value) => value,
        }
    }

    fn without_name(&self, source: toml::Value) -> toml::Value {
        let name = source.as_str().or_else(|| source.get("base")?.as_str());
        let Some(named) = name.and_then(|name| self.names.get(name)) else { return source };
        let named = self.text(named);
        let Some(own) = source.get("overlays").and_then(toml::Value::as_array) else {
            return named;
        };
        let mut whole = match named {
            toml::Value::Table(whole) => whole,
            base => [("base".to_owned(), base)].into_iter().collect(),
        };
        let no_overlays = toml::Value::Array(Vec::new());
        let overlays = whole.entry("overlays").or_insert(no_overlays);
        if let toml::Value::Array(all) = overlays {
            all.extend(own.iter().cloned());
        }
        toml::Value::Table(whole)
    }

    fn is_of_environment(&self, value: &Spanned<DeValue<'_>>) -> bool {
        self.sources.is_variable(value.span().start)
            || match value.get_ref() {
                DeValue::Array(all) => all.iter().any(|one| self.is_of_environment(one)),
                DeValue::Table(table) => table.values().any(|one| self.is_of_environment(one)),
                _ => false,
            }
    }

    /// Returns the value that is in force, with environment variables replaced.
    fn text(&self, value: &Spanned<DeValue<'_>>) -> toml::Value {
        let number_or_switch = self.sources.number_or_switch(value.span().start);
        match number_or_switch.as_ref().unwrap_or_else(|| value.get_ref()) {
            DeValue::String(text) => toml::Value::String(text.to_string()),
            DeValue::Integer(n) => {
                let digits = n.as_str().replace('_', "");
                let read = i64::from_str_radix(&digits, n.radix());
                read.map_or_else(|_| toml::Value::String(digits), toml::Value::Integer)
            }
            DeValue::Float(n) => toml::Value::String(n.as_str().to_owned()),
            DeValue::Boolean(is_on) => toml::Value::Boolean(*is_on),
            DeValue::Datetime(time) => toml::Value::Datetime(*time),
            DeValue::Array(all) => {
                toml::Value::Array(all.iter().map(|one| self.text(one)).collect())
            }
            DeValue::Table(table) => {
                let all = table.iter();
                let all = all.map(|(key, one)| (key.get_ref().to_string(), self.text(one)));
                toml::Value::Table(all.collect())
            }
        }
    }

    /// Returns the text of a value, with stars in place of anything that may be a password.
    fn masked(&self, key: &str, value: &toml::Value) -> String {
        let stars = || toml::Value::String(STARS.to_owned());
        // RawData(96) of a Logon(A), or of a UserRequest(BE), is a password.
        let hides = |tag: &str| {
            tag.parse().is_ok_and(|n| Mask::default().hides("A", Tag(n)) || self.mask.contains(&n))
        };
        let shown = match value {
            toml::Value::Table(of) if reference::is_secret(key) => {
                // Names of variables and files may be shown, but the arguments of a program may
                // contain a secret.
                let shown = |(name, value): (&String, &toml::Value)| match value {
                    toml::Value::Array(words) => {
                        let program = words.iter().take(1).cloned();
                        let rest = words.iter().skip(1).map(|_| stars());
                        (name.clone(), toml::Value::Array(program.chain(rest).collect()))
                    }
                    value => (name.clone(), value.clone()),
                };
                toml::Value::Table(of.iter().map(shown).collect())
            }
            _ if reference::is_secret(key) => stars(),
            toml::Value::Array(all) if FIELDS.contains(&key) => {
                let field = |one: &toml::Value| {
                    let field = one.as_str().and_then(|text| text.split_once('='));
                    let hidden = field.filter(|(tag, _)| hides(tag));
                    hidden.map_or_else(
                        || one.clone(),
                        |(tag, _)| toml::Value::String(format!("{tag}={STARS}")),
                    )
                };
                toml::Value::Array(all.iter().map(field).collect())
            }
            toml::Value::Table(of) if of.contains_key("password") => {
                let shown = |(name, value): (&String, &toml::Value)| {
                    let value = match reference::is_secret(name) {
                        true => stars(),
                        false => value.clone(),
                    };
                    (name.clone(), value)
                };
                toml::Value::Table(of.iter().map(shown).collect())
            }
            value => value.clone(),
        };
        shown.to_string()
    }
}

/// Returns the table of this name in a session; empty if there is none.
fn inner<'t>(of: &DeTable<'t>, name: &str) -> DeTable<'t> {
    of.get(name).and_then(|value| value.get_ref().as_table()).cloned().unwrap_or_default()
}

/// Returns the value of a session's key that is in force. A table inherits missing keys from
/// `[defaults]`.
fn in_force<'t>(
    key: &str,
    own: &DeTable<'t>,
    defaults: &DeTable<'t>,
) -> Option<Spanned<DeValue<'t>>> {
    let only = |of: &DeTable<'t>| -> DeTable<'t> {
        let one = of.get_key_value(key).into_iter();
        one.map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    merged(&only(defaults), only(own)).remove(key)
}

const STARS: &str = "***";
/// Keys whose values are lists of texts `TAG=VALUE`.
const FIELDS: [&str; 3] = ["fields", "header_fields", "body_fields"];
