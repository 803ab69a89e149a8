//! The sections of all files, merged.
//!
//! Sessions keep the order of the files: first those of a file, then those of the files that it
//! includes. `[defaults]` apply to the sessions of all files. A file overrides the defaults of
//! files that it includes. If two other files have the same default, this is an error.

use std::collections::HashMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::error::{Errors, SettingsError};
use crate::file::merged;
use crate::file::sources::Sources;
use crate::words::nearest;

#[derive(Default)]
pub(super) struct Sections<'t> {
    /// `[engine]`, and its range in the text.
    pub(super) engine: Option<(Range<usize>, DeTable<'t>)>,
    /// `[admin]`, and its range in the text.
    pub(super) admin: Option<(Range<usize>, DeTable<'t>)>,
    /// `[events]`, and its range in the text.
    pub(super) events: Option<(Range<usize>, DeTable<'t>)>,
    /// `[fleet]`, and its range in the text.
    pub(super) fleet: Option<(Range<usize>, DeTable<'t>)>,
    pub(super) defaults: DeTable<'t>,
    pub(super) dictionaries: DeTable<'t>,
    pub(super) sessions: Vec<Spanned<DeValue<'t>>>,
    /// True if each file is valid TOML, so that no section is missing.
    pub(super) is_whole: bool,
}

impl<'t> Sections<'t> {
    pub(super) fn of(sources: &'t Sources, errors: &mut Errors) -> Result<Self, SettingsError> {
        let mut said = HashMap::new();
        let roots = sources.roots(errors)?;
        let mut all = Self { is_whole: roots.iter().all(Option::is_some), ..Self::default() };
        for (n, root) in roots.into_iter().enumerate() {
            for (key, value) in root.into_iter().flatten() {
                all.add((sources, n), &mut said, (key, value), errors)?;
            }
        }
        Ok(all)
    }

    /// Adds a section of the file with index `n`.
    fn add(
        &mut self,
        (sources, n): (&'t Sources, usize),
        said: &mut HashMap<String, Vec<(usize, usize)>>,
        (key, value): (Spanned<std::borrow::Cow<'t, str>>, Spanned<DeValue<'t>>),
        errors: &mut Errors,
    ) -> Result<(), SettingsError> {
        let at = key.span().start;
        let wrong = |what: &str| sources.error(at, what.to_owned());
        let span = value.span();
        match (key.get_ref().as_ref(), value.into_inner()) {
            // Included files were already read, so the key is ignored here.
            ("include", _) => {}
            (name @ ("engine" | "admin" | "events" | "fleet"), DeValue::Table(table)) => {
                let one = match name {
                    "engine" => &mut self.engine,
                    "admin" => &mut self.admin,
                    "fleet" => &mut self.fleet,
                    _ => &mut self.events,
                };
                match one {
                    None => *one = Some((span, table)),
                    Some((first, _)) => {
                        let place = sources.place(first.start);
                        let what = format!("[{name}] appears already at {place}; remove one");
                        errors.found(wrong(&what))?;
                    }
                }
            }
            (name @ ("engine" | "admin" | "events" | "fleet"), _) => {
                let of = match name {
                    "admin" => "administration",
                    "events" => "event log",
                    other => other,
                };
                let what = format!("write all keys of the {of} in one section [{name}]");
                errors.found(wrong(&what))?;
            }
            ("defaults", DeValue::Table(table)) => {
                self.defaults((sources, n), said, table, errors)?;
            }
            ("defaults", _) => {
                errors.found(wrong("write the keys for all sessions in the section [defaults]"))?;
            }
            ("dictionaries", DeValue::Table(table)) => {
                for (name, source) in table {
                    if let Some((first, _)) = self.dictionaries.get_key_value(&**name.get_ref()) {
                        let place = sources.place(first.span().start);
                        let what = format!("`{}` stands at {place} already", name.get_ref());
                        errors.found(sources.error(name.span().start, what))?;
                    } else {
                        self.dictionaries.insert(name, source);
                    }
                }
            }
            ("dictionaries", _) => {
                let found = sources.text.get(span).unwrap_or_default();
                let what = "`dictionaries` must be a table, such as { key = value }, not";
                errors.found(wrong(&format!("{what} {found}")))?;
            }
            ("session", DeValue::Array(array)) => self.sessions.extend(array),
            ("session", _) => {
                errors.found(wrong("write each session as [[session]], with two brackets"))?;
            }
            (other, value) => errors.found(wrong(&unknown_section(other, &value)))?,
        }
        Ok(())
    }

    /// Adds the defaults of the file with index `n`. A file comes before the files that it
    /// includes.
    fn defaults(
        &mut self,
        (sources, n): (&'t Sources, usize),
        said: &mut HashMap<String, Vec<(usize, usize)>>,
        table: DeTable<'t>,
        errors: &mut Errors,
    ) -> Result<(), SettingsError> {
        for (key, value) in &table {
            let before = said.entry(key.get_ref().to_string()).or_default();
            let at = key.span().start;
            let is_over = |(file, _): &&(usize, usize)| sources.includes(*file, n);
            // The including file overrides the value, but of a table only the keys that it has.
            let is_decided =
                before.first().filter(is_over).is_some() && !value.get_ref().is_table();
            if let Some((_, other)) = before.iter().find(|one| !is_decided && !is_over(one)) {
                let what = format!(
                    "[defaults] of {} also sets `{}`, and neither file includes the other; set \
                     the key in one file only, or in the file that includes both",
                    sources.place(*other),
                    key.get_ref()
                );
                errors.found(sources.error(at, what))?;
            }
            before.push((n, at));
        }
        self.defaults = merged(&table, std::mem::take(&mut self.defaults));
        Ok(())
    }
}

/// Returns the error about an unknown heading, or an unknown key before the first section.
fn unknown_section(name: &str, value: &DeValue<'_>) -> String {
    if value.as_table().is_none() && !value.is_array() {
        return format!(
            "`{name}` is above the first section; move this key into [[session]] or [defaults]"
        );
    }
    let known =
        ["include", "engine", "admin", "events", "fleet", "defaults", "dictionaries", "session"];
    format!("unknown section `{name}`{}", nearest(name, known.into_iter()))
}
