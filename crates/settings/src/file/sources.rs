//! The files of the settings: the first file, and its included files.
//!
//! The texts of all files are joined, so that an offset or a line number identifies a place in any
//! file. Invariant: no file is read twice, so that files which include each other cause no endless
//! loop.

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::error::{Errors, SettingsError};
use crate::file::lines::{Lines, line_of};
use crate::file::variables::Expanded;
use crate::file::{QUICKFIX, quickfix_section, variables};
use crate::session::Files;
use crate::text_file;

/// The maximum depth of nested includes.
const DEPTH_MAX: usize = 8;

/// The texts of all files.
pub(super) struct Sources {
    pub(super) text: String,
    pub(super) lines: Lines,
    pub(super) files: Arc<Files>,
    /// The range of each file's text, and the index of the file that includes it.
    parts: Vec<(Range<usize>, Option<usize>)>,
    /// Texts with replaced environment variables, by offset.
    variables: HashMap<usize, Expanded>,
    /// The texts with environment variables that have no value.
    unset: Vec<Unset>,
}

/// A text with an environment variable that has no value.
struct Unset {
    /// The offset of the text's key, or of the text itself if it has no key.
    key: usize,
    text: Range<usize>,
}

impl Sources {
    /// Reads the files that the text includes, directly or indirectly. Line numbers in the errors
    /// refer to the joined texts.
    pub(super) fn read(path: &Path, text: &str) -> (Self, Vec<SettingsError>) {
        let mut reading = Reading {
            text: String::new(),
            files: Files::default(),
            parts: Vec::new(),
            variables: HashMap::new(),
            unset: Vec::new(),
            seen: HashMap::new(),
            errors: Vec::new(),
        };
        reading.seen.insert(real(path), "this file is the first file".to_owned());
        reading.add(path, text, None);
        let Reading { text, files, parts, variables, unset, errors, .. } = reading;
        let lines = Lines::of(&text);
        (Self { text, lines, files: Arc::new(files), parts, variables, unset }, errors)
    }

    /// Returns true if the error only follows from a variable without a value, which was already
    /// reported.
    pub(super) fn is_of_unset(&self, error: &SettingsError) -> bool {
        self.unset.iter().any(|unset| {
            let is_here = match error.at {
                Some(at) => (unset.key..unset.text.end).contains(&at),
                None => error.line == self.lines.line(unset.key),
            };
            // An error about the enclosing table quotes the text, by which it is recognized.
            let text = self.text[unset.text.clone()].trim_matches(['"', '\'']);
            is_here || error.message.contains(text)
        })
    }

    /// Returns an error at this offset of the joined texts.
    pub(super) fn error(&self, at: usize, message: String) -> SettingsError {
        SettingsError::new(Path::new(""), &self.text, at, message)
    }

    pub(super) fn toml_error(&self, error: &toml::de::Error) -> SettingsError {
        SettingsError::value(&self.text, error)
    }

    /// Returns the error with its file, and the line in that file.
    pub(super) fn placed(&self, mut error: SettingsError) -> SettingsError {
        if error.path.as_os_str().is_empty() {
            if let Some(told) = self.environment_at(error.line, &error.message) {
                error.message = format!("{}; {told}", error.message);
            }
            let (path, line) = self.files.place(error.line);
            (error.path, error.line) = (path.to_owned(), line);
        }
        error
    }

    /// Returns a note about the environment variables in this line, from which the wrong value
    /// comes.
    fn environment_at(&self, line: usize, message: &str) -> Option<String> {
        // Adds no note about an unknown key, because its value does not matter.
        if message.starts_with("unknown key") {
            return None;
        }
        let is_here = |at: &&usize| self.lines.line(**at) == line;
        let mut here: Vec<_> = self.variables.keys().filter(is_here).collect();
        here.sort();
        let told: Vec<_> = here.into_iter().filter_map(|at| self.variables[at].told()).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Returns a location such as `a.toml:7`.
    pub(super) fn place(&self, at: usize) -> String {
        let (path, line) = self.files.place(self.lines.line(at));
        format!("{}:{line}", path.display())
    }

    pub(super) fn path(&self, at: usize) -> &Path {
        self.files.place(self.lines.line(at)).0
    }

    /// Returns the sections of each file. A file that is not TOML is an error.
    pub(super) fn roots<'t>(
        &'t self,
        errors: &mut Errors,
    ) -> Result<Vec<Option<DeTable<'t>>>, SettingsError> {
        let mut roots = Vec::new();
        for (range, _) in &self.parts {
            match DeTable::parse(&self.text[range.clone()]) {
                Ok(root) => roots.push(Some(self.moved(root.into_inner(), range.start))),
                Err(error) => {
                    let text = &self.text[range.clone()];
                    let mut error = SettingsError::syntax(text, &error);
                    error.line += self.lines.line(range.start) - 1;
                    error.at = error.at.map(|at| at + range.start);
                    errors.found(error)?;
                    roots.push(None);
                }
            }
        }
        Ok(roots)
    }

    /// Returns true if the file with index `outer` includes the file with index `inner`, directly
    /// or indirectly.
    pub(super) fn includes(&self, outer: usize, inner: usize) -> bool {
        let mut above = std::iter::successors(self.parts[inner].1, |n| self.parts[*n].1);
        above.any(|n| n == outer)
    }

    /// Returns true if the value at this offset contains an environment variable.
    pub(super) fn is_variable(&self, at: usize) -> bool {
        self.variables.contains_key(&at)
    }

    /// Returns the number or switch for which the variable at this offset stands, or `None` if it
    /// stands for neither.
    pub(super) fn number_or_switch<'t>(&'t self, at: usize) -> Option<DeValue<'t>> {
        let text = &self.variables.get(&at)?.text;
        let source = self.text.get(at + 1..)?;
        let is_alone = source.find('}').is_some_and(|end| variables::is_alone(&source[..=end]))
            && source[source.find('}')? + 1..].starts_with(['"', '\'']);
        let value = DeValue::parse(text).ok().filter(|_| is_alone)?.into_inner();
        matches!(value, DeValue::Integer(_) | DeValue::Boolean(_)).then_some(value)
    }

    /// Returns true if no file contains an environment variable.
    pub(super) fn is_constant(&self) -> bool {
        self.variables.is_empty()
    }

    fn moved<'t>(&'t self, table: DeTable<'t>, by: usize) -> DeTable<'t> {
        if by == 0 && self.is_constant() {
            return table;
        }
        let key = |key: Spanned<_>| Spanned::new(shifted(key.span(), by), key.into_inner());
        table.into_iter().map(|(name, value)| (key(name), self.moved_value(value, by))).collect()
    }

    fn moved_value<'t>(&'t self, value: Spanned<DeValue<'t>>, by: usize) -> Spanned<DeValue<'t>> {
        let span = shifted(value.span(), by);
        let value = match value.into_inner() {
            DeValue::String(text) => DeValue::String(match self.variables.get(&span.start) {
                Some(value) => value.text.as_str().into(),
                None => text,
            }),
            DeValue::Table(table) => DeValue::Table(self.moved(table, by)),
            DeValue::Array(all) => {
                DeValue::Array(all.into_iter().map(|one| self.moved_value(one, by)).collect())
            }
            other => other,
        };
        Spanned::new(span, value)
    }
}

fn shifted(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

/// The files read so far.
struct Reading {
    text: String,
    files: Files,
    parts: Vec<(Range<usize>, Option<usize>)>,
    variables: HashMap<usize, Expanded>,
    unset: Vec<Unset>,
    /// The path of each file, with the location of the line that includes it.
    seen: HashMap<PathBuf, String>,
    errors: Vec<SettingsError>,
}

impl Reading {
    fn add(&mut self, path: &Path, text: &str, parent: Option<usize>) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let (n, start) = (self.parts.len(), self.text.len());
        self.files.add(path, line_of(&self.text, start) - 1);
        self.text.push_str(text);
        self.parts.push((start..self.text.len(), parent));
        // A text that is not TOML is reported when the sections are read.
        let Ok(mut root) = DeTable::parse(text) else { return };
        for (key, value) in root.get_mut().iter() {
            self.expand((key.span().start, value), start, false);
        }
        let Some(include) = root.get_mut().remove("include") else { return };
        let span = include.span();
        let DeValue::Array(all) = include.into_inner() else {
            let what = "include must be a list of files: include = [\"common.toml\"]";
            return self.wrong(start + span.start, what.to_owned());
        };
        let dir = path.parent().unwrap_or(Path::new(""));
        for one in all {
            let at = start + one.span().start;
            let name = self.variables.get(&at).map(|name| name.text.clone());
            let name = name.or_else(|| one.get_ref().as_str().map(str::to_owned));
            match name.as_deref().map(|name| named(dir, name, path)) {
                Some(Ok(files)) => files.iter().for_each(|file| self.include(file, at, n)),
                Some(Err(what)) => self.wrong(at, what),
                None => self.wrong(at, "include must be a list of texts in quotes".to_owned()),
            }
        }
    }

    /// Reads a file that the n-th file includes at this offset.
    fn include(&mut self, file: &Path, at: usize, n: usize) {
        let depth = std::iter::successors(Some(n), |n| self.parts[*n].1).count();
        if depth >= DEPTH_MAX {
            let what = format!(
                "include: files may include each other at most {DEPTH_MAX} levels \
                                deep"
            );
            return self.wrong(at, what);
        }
        let shown = file.display();
        let (path, line) = self.files.place(line_of(&self.text, at));
        let place = format!("the file is included at {}:{line}", path.display());
        if let Some(before) = self.seen.insert(real(file), place) {
            let what = format!("include: {shown} was already read: {before}; remove this entry");
            return self.wrong(at, what);
        }
        match text_file::read_plain(file) {
            Ok(text) if quickfix_section(&text).is_some() => {
                self.wrong(at, format!("include: {shown}: {QUICKFIX}"));
            }
            Ok(text) => self.add(file, &text, Some(n)),
            Err(error) => self.wrong(at, format!("include: {shown} cannot be read: {error}")),
        }
    }

    /// Replaces the variables in the texts of a value, whose key begins at this offset.
    fn expand(
        &mut self,
        (key, value): (usize, &Spanned<DeValue<'_>>),
        start: usize,
        is_secret: bool,
    ) {
        let at = start + value.span().start;
        match value.get_ref() {
            DeValue::String(text) => match variables::expanded(text) {
                Ok(Some(text)) => _ = self.variables.insert(at, Expanded { is_secret, ..text }),
                Ok(None) => {}
                Err(what) => {
                    let (key, text) = (start + key, shifted(value.span(), start));
                    self.unset.push(Unset { key, text });
                    self.wrong(at, what);
                }
            },
            DeValue::Table(table) => table.iter().for_each(|(key, one)| {
                let is_secret = is_secret || may_be_secret(key.get_ref(), one.get_ref());
                self.expand((key.span().start, one), start, is_secret);
            }),
            DeValue::Array(all) => {
                all.iter().for_each(|one| self.expand((key, one), start, is_secret));
            }
            _ => {}
        }
    }

    fn wrong(&mut self, at: usize, what: String) {
        self.errors.push(SettingsError::new(Path::new(""), &self.text, at, what));
    }
}

/// Returns true if the value of this key may be or contain a password.
fn may_be_secret(key: &str, value: &DeValue<'_>) -> bool {
    // A user may by mistake write a password in place of one of these tables.
    let stands_alone = ["logon", "proxy"].contains(&key) && !value.is_table();
    stands_alone || key.ends_with("fields") || key.contains("password")
}

/// Returns the canonical path, by which a file is recognized that has several paths.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the files with this name, relative to `dir`, sorted by name. The last part of `name` may
/// be a pattern with one `*`, to which no file needs to fit. Patterns do not fit names that begin
/// with a dot, or the including file.
fn named(dir: &Path, name: &str, own: &Path) -> Result<Vec<PathBuf>, String> {
    let path = dir.join(name);
    if !name.contains('*') {
        return Ok(vec![path]);
    }
    let last = path.file_name().and_then(|last| last.to_str()).unwrap_or_default();
    let parts = last.split_once('*').filter(|(_, end)| !end.contains('*'));
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_plain = !folder.to_string_lossy().contains('*') || !name.contains('/');
    let Some((begin, end)) = parts.filter(|_| is_plain) else {
        return Err(format!(
            "include: `{name}`: only the last part of a path may contain `*`, and \
                            only once"
        ));
    };
    let unreadable =
        |error| format!("include: the folder {} cannot be read: {error}", folder.display());
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut files = Vec::new();
    for entry in fs::read_dir(here).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.file_name();
        let Some(file) = file.to_str() else { continue };
        let is_like = file.len() >= begin.len() + end.len()
            && file.starts_with(begin)
            && file.ends_with(end)
            && !file.starts_with('.');
        let file = folder.join(file);
        if is_like && real(&file) != real(own) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
