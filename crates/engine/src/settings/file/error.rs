//! Why settings were not taken: one error, or all of them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use toml::de::DeTable;

use crate::settings::file::lines::{Lines, line_of};
use crate::settings::words::explain;

/// Why settings were not taken.
pub struct SettingsError {
    pub(super) path: PathBuf,
    /// 1 for the first line; 0 if the file could not be read.
    pub(super) line: usize,
    fault: Fault,
    pub(super) message: String,
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
    pub(super) fn new(path: &Path, text: &str, offset: usize, message: String) -> Self {
        let (path, line) = (path.to_owned(), line_of(text, offset));
        Self { path, line, fault: Fault::Wrong, message }
    }

    pub(super) fn from_toml(path: &Path, text: &str, error: &toml::de::Error) -> Self {
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

/// The errors found so far; `None` if the first one ends the reading.
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

    /// Reads a table. If all errors are wanted, it is read again without the key that was wrong,
    /// for as long as that finds more; `None` if nothing can be read of it.
    pub(super) fn of_table<'t, T>(
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

pub(super) fn is_missing(key: &str) -> String {
    format!("the key `{key}` is missing")
}
