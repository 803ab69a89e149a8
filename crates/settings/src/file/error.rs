//! Errors of settings: a single error, or the list of all errors.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file::lines::{Lines, line_of};
use crate::words::{explain_syntax, explain_value};

/// The reason why settings cannot be used.
pub struct SettingsError {
    pub(super) path: PathBuf,
    /// The number of the line, counted from 1; 0 if the file could not be read.
    pub(super) line: usize,
    /// The offset of the error in the text of all files, if it is known.
    pub(super) at: Option<usize>,
    fault: Fault,
    pub(super) message: String,
}

/// The kind of an error.
enum Fault {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// The text is not TOML, or a value is invalid for its key.
    Malformed,
    /// Keys or sections that contradict each other, are missing, or belong to another program.
    Wrong,
}

impl SettingsError {
    pub(super) fn new(path: &Path, text: &str, offset: usize, message: String) -> Self {
        let (path, line) = (path.to_owned(), line_of(text, offset));
        Self { path, line, at: Some(offset), fault: Fault::Wrong, message }
    }

    /// Returns an error of a text that is not TOML.
    pub(super) fn syntax(text: &str, error: &toml::de::Error) -> Self {
        Self::malformed(text, error, explain_syntax(text, error))
    }

    /// Returns the error about a value that is not valid for its key.
    pub(super) fn value(text: &str, error: &toml::de::Error) -> Self {
        Self::malformed(text, error, explain_value(text, error))
    }

    fn malformed(text: &str, error: &toml::de::Error, message: String) -> Self {
        let offset = error.span().map_or(0, |span| span.start);
        Self { fault: Fault::Malformed, ..Self::new(Path::new(""), text, offset, message) }
    }

    /// Returns an error of a file without offsets; line 0 = unknown.
    #[must_use]
    pub fn at_line(path: &Path, line: usize, message: String) -> Self {
        Self { path: path.to_owned(), line, at: None, fault: Fault::Wrong, message }
    }

    /// Returns an error about a file that cannot be read.
    #[must_use]
    pub fn unreadable(path: &Path, error: io::Error) -> Self {
        let message = format!("cannot be read: {error}");
        let fault = Fault::Unreadable(error);
        Self { path: path.to_owned(), line: 0, at: None, message, fault }
    }

    /// Returns the text of the error without file and line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the file, or the name of the text.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the line of the error, counted from 1; `None` if the file cannot be read.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        Some(self.line).filter(|line| *line > 0)
    }

    /// Returns the number of this error, for logs and other languages. The number never changes;
    /// the page "Codes" of the book lists all numbers.
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

/// Writes the same text as `Display`, because Rust prints an error returned by `main` with `Debug`.
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

/// The errors found so far; `None` if the first error ends the reading.
pub(super) struct Errors(pub(super) Option<Vec<SettingsError>>);

impl Errors {
    pub(super) fn found(&mut self, error: SettingsError) -> Result<(), SettingsError> {
        match &mut self.0 {
            Some(errors) => errors.push(error),
            None => return Err(error),
        }
        Ok(())
    }

    pub(super) fn count(&self) -> usize {
        self.0.as_ref().map_or(0, Vec::len)
    }

    /// Returns the offset of the last error, if known.
    pub(super) fn last(&self) -> Option<usize> {
        self.0.as_ref()?.last()?.at
    }

    /// Reads a table. If all errors are wanted, removes each wrong key and reads the table again,
    /// until no further error is found. Returns `None` if the table cannot be read.
    pub(super) fn of_table<'t, T>(
        &mut self,
        mut table: DeTable<'t>,
        lines: &Lines,
        read: impl Fn(DeTable<'t>) -> Result<T, SettingsError>,
    ) -> Result<Option<T>, SettingsError> {
        if self.0.is_none() {
            return read(table).map(Some);
        }
        let mut left_out: Vec<Vec<String>> = Vec::new();
        loop {
            let error = match read(table.clone()) {
                Ok(value) => return Ok(Some(value)),
                Err(error) => error,
            };
            // After its removal, a wrong key is reported as missing, which is no error of the file.
            let is_left_out =
                |way: &&Vec<String>| way.last().is_some_and(|key| error.message == is_missing(key));
            if let Some(way) = left_out.iter().rfind(is_left_out) {
                // The inner table is useless without this key, so it is removed as a whole.
                if way.len() < 2 || table.remove(&*way[0]).is_none() {
                    return Ok(None);
                }
                continue;
            }
            let is_here = |range: Range<usize>| match error.at {
                Some(at) => range.contains(&at),
                None => (lines.line(range.start)..=lines.line(range.end)).contains(&error.line),
            };
            let way = remove_at(&mut table, &is_here);
            // An error about a table from which a key was removed is no error of the file.
            let is_told = |way: &Vec<String>| left_out.iter().any(|left| left.starts_with(way));
            if !way.as_ref().is_some_and(is_told) {
                self.found(error)?;
            }
            let Some(way) = way else { return Ok(None) };
            left_out.push(way);
        }
    }
}

/// Removes the innermost key that contains the offset of an error. Returns the path of keys to the
/// removed one.
pub(super) fn remove_at(
    table: &mut DeTable<'_>,
    is_here: &dyn Fn(Range<usize>) -> bool,
) -> Option<Vec<String>> {
    // Searches the inner tables, because the range of a table does not include those with a heading
    // of their own.
    let below = table.iter_mut().find_map(|(key, value)| {
        let mut way = leave_out_below(value, is_here)?;
        way.insert(0, key.get_ref().to_string());
        Some(way)
    });
    if below.is_some() {
        return below;
    }
    let mut keys = table.iter().map(|(key, value)| {
        let (name, one, other) = (key.get_ref().to_string(), key.span(), value.span());
        (name, one.start.min(other.start)..one.end.max(other.end))
    });
    let (key, _) = keys.find(|(_, range)| is_here(range.clone()))?;
    table.remove(&*key);
    Some(vec![key])
}

fn leave_out_below(
    value: &mut Spanned<DeValue<'_>>,
    is_here: &dyn Fn(Range<usize>) -> bool,
) -> Option<Vec<String>> {
    match value.get_mut() {
        DeValue::Table(table) => remove_at(table, is_here),
        DeValue::Array(all) => {
            let below = all.iter_mut().find_map(|one| leave_out_below(one, is_here));
            below.or_else(|| {
                // The error concerns a whole table of the list.
                let is_it =
                    |one: &Spanned<DeValue<'_>>| one.get_ref().is_table() && is_here(one.span());
                let at = all.iter().position(is_it)?;
                let left = std::mem::replace(all, std::iter::empty().collect()).into_iter();
                let others = left.enumerate().filter(|(n, _)| *n != at);
                *all = others.map(|(_, one)| one).collect();
                Some(Vec::new())
            })
        }
        _ => None,
    }
}

pub(super) fn is_missing(key: &str) -> String {
    format!("the key `{key}` is missing")
}
