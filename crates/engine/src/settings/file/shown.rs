//! The settings in force, each with the place that it comes from.
//!
//! Invariant: no password is shown, and no field that may be one.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use transfix_session::{Key, SessionId};

use super::error::{Errors, SettingsError};
use super::parse_or_all;
use super::sections::Sections;
use super::sources::Sources;
use crate::settings::reference::{self, SESSION, TABLES, Table};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// No file says it.
    Default,
    /// The table or session itself says it, at this place: `venue.toml:7`.
    File(String),
    /// `[defaults]` say it, at this place.
    Defaults(String),
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownKey {
    /// Its table, such as `logon`; empty for those that stand directly in `[engine]` or a session.
    pub table: &'static str,
    /// Its name.
    pub key: &'static str,
    /// Its value as a settings file has it, with stars for passwords; `None` where nothing is set.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether a part of it is of the environment (`${NAME}`).
    pub of_environment: bool,
}

/// The settings of `[engine]`, or of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownSettings {
    /// The session; `None` for `[engine]`.
    pub id: Option<SessionId>,
    /// Where it begins: `venue.toml:12`.
    pub place: String,
    /// All keys that it may have.
    pub keys: Vec<ShownKey>,
}

/// The settings of `[engine]`, then those of each session, in the order of the file.
pub(crate) fn shown(path: &Path) -> Result<Vec<ShownSettings>, Vec<SettingsError>> {
    let text = std::fs::read_to_string(path);
    let text = text.map_err(|error| vec![SettingsError::unreadable(path, error)])?;
    let settings = parse_or_all(path, &text)?;
    let (sources, _) = Sources::read(path, &text);
    // It is sound.
    let sections = Sections::of(&sources, &mut Errors(None)).map_err(|error| vec![error])?;
    let none = DeTable::new();
    let (span, engine) = sections.engine.as_ref().map_or((&(0..0), &none), |(span, t)| (span, t));
    let look = Look { sources: &sources, own: engine, defaults: &none };
    let keys = look.keys(|table| table.name == "[engine]");
    let mut all = vec![ShownSettings { id: None, place: sources.place(span.start), keys }];
    for (session, settings) in sections.sessions.iter().zip(&settings.sessions) {
        let Some(own) = session.get_ref().as_table() else { continue };
        let look = Look { sources: &sources, own, defaults: &sections.defaults };
        let keys = look.keys(|table| table.name != "[engine]");
        let place = sources.place(session.span().start);
        all.push(ShownSettings { id: Some(settings.id()), place, keys });
    }
    Ok(all)
}

/// Tables whose keys are shown each; those of others are a part of one value.
const SINGLE: [&str; 9] = [
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

/// A table of the file, and what it takes over.
struct Look<'l, 't> {
    sources: &'t Sources,
    own: &'l DeTable<'t>,
    defaults: &'l DeTable<'t>,
}

impl Look<'_, '_> {
    fn keys(&self, is_wanted: impl Fn(&Table) -> bool) -> Vec<ShownKey> {
        let mut shown = Vec::new();
        for table in TABLES.iter().filter(|table| is_wanted(table)) {
            if table.name == SESSION || table.name == "[engine]" {
                let keys = table.keys.iter().filter(|key| !SINGLE.contains(&key.name));
                shown.extend(keys.map(|key| self.one("", key, (self.own, self.defaults))));
            } else if SINGLE.contains(&table.name) {
                self.table(table, &mut shown);
            }
        }
        shown
    }

    /// The keys of a table in a session.
    fn table(&self, table: &'static Table, shown: &mut Vec<ShownKey>) {
        let is_there = [self.own, self.defaults].iter().any(|of| of.contains_key(table.name));
        // Without the table there is no TLS, whatever the defaults of its keys are.
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
            (Some(own), _) => Some((own, false)),
            (None, Some(of_all)) => Some((of_all, true)),
            (None, None) => None,
        };
        let Some(((name, value), is_of_all)) = found else {
            let value = reference::default_in_file(key);
            let of_environment = false;
            return ShownKey {
                table,
                key: key.name,
                value,
                origin: Origin::Default,
                of_environment,
            };
        };
        let place = self.sources.place(name.span().start);
        let origin = if is_of_all { Origin::Defaults(place) } else { Origin::File(place) };
        let of_environment = self.is_of_environment(value);
        let value = Some(masked(table, key.name, &self.text(value)));
        ShownKey { table, key: key.name, value, origin, of_environment }
    }

    fn is_of_environment(&self, value: &Spanned<DeValue<'_>>) -> bool {
        self.sources.is_variable(value.span().start)
            || match value.get_ref() {
                DeValue::Array(all) => all.iter().any(|one| self.is_of_environment(one)),
                DeValue::Table(table) => table.values().any(|one| self.is_of_environment(one)),
                _ => false,
            }
    }

    /// The value as it counts.
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
}

/// The table of this name in a session; empty if there is none.
fn inner<'t>(of: &DeTable<'t>, name: &str) -> DeTable<'t> {
    of.get(name).and_then(|value| value.get_ref().as_table()).cloned().unwrap_or_default()
}

const STARS: &str = "***";

/// The text of a value, with stars for what may be a password.
fn masked(table: &str, key: &str, value: &toml::Value) -> String {
    let stars = || toml::Value::String(STARS.to_owned());
    let shown = match value {
        toml::Value::Table(of) if reference::is_secret(key) => {
            // Which variable or file has it is no secret; arguments of a program may be one.
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
        toml::Value::Array(all) if (table, key) == ("logon", "fields") => {
            let field = |one: &toml::Value| {
                let tag = one.as_str().and_then(|text| text.split_once('=')).map_or("", |f| f.0);
                toml::Value::String(format!("{tag}={STARS}"))
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
