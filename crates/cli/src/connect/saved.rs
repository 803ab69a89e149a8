//! Messages that the user saves by name, in a file with one line each: `NAME TYPE TAG=VALUE|…`.
//!
//! Invariants: the file is replaced atomically, so a crash leaves the old or the new file. A change
//! keeps all other lines, including comments and lines that another program has edited meanwhile.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::message::Typed;
use super::vocabulary::Vocabulary;

/// First line of a new file.
const HEAD: &str = "# Messages of `transfix connect`: NAME TYPE TAG=VALUE|…";

/// The saved messages.
pub(super) struct SavedMessages {
    path: PathBuf,
    lines: Vec<Line>,
}

/// A line of the file.
#[derive(Clone)]
struct Line {
    text: String,
    /// Name and content of the saved message; `None` for a comment or an empty line.
    message: Option<(String, Typed)>,
}

impl SavedMessages {
    /// Reads the saved messages from a file; a missing file counts as empty.
    pub(super) fn read(path: &Path, words: &Vocabulary) -> Result<Self, String> {
        let lines = read(path, words)?.unwrap_or_else(|| vec![Line::comment(HEAD)]);
        Ok(Self { path: path.to_owned(), lines })
    }

    fn messages(&self) -> impl Iterator<Item = &(String, Typed)> {
        self.lines.iter().filter_map(|line| line.message.as_ref())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<&str> = self.messages().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names.into_iter()
    }

    pub(super) fn get(&self, name: &str) -> Result<&Typed, String> {
        let found = self.messages().find(|(known, _)| known == name);
        found.map(|(_, typed)| typed).ok_or_else(|| {
            let names: Vec<_> = self.names().collect();
            match names.is_empty() {
                true => {
                    format!("there is no saved message '{name}'; {} is empty", self.path.display())
                }
                false => format!(
                    "there is no saved message '{name}'; the saved messages are {}",
                    names.join(", ")
                ),
            }
        })
    }

    /// Saves a message in the file, and replaces a message with the same name.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read again or written.
    pub(super) fn keep(
        &mut self,
        name: &str,
        typed: Typed,
        words: &Vocabulary,
    ) -> Result<(), String> {
        if name.starts_with('#') {
            return Err(format!(
                "{name} would be a comment in the file; choose a name that does \
                                not begin with #"
            ));
        }
        if let Some((tag, _)) = typed.fields.iter().find(|(_, value)| value.contains(['|', '\n'])) {
            return Err(format!(
                "the value of tag {tag} has a bar or a line break, which the file \
                                uses as a separator; remove it"
            ));
        }
        let text = format!("{name} {} {}", typed.msg_type, typed.line());
        let line = Line { text, message: Some((name.to_owned(), typed)) };
        self.change(words, |lines| match lines.iter_mut().find(|line| line.is_of(name)) {
            Some(old) => *old = line,
            None => lines.push(line),
        })
    }

    pub(super) fn forget(&mut self, name: &str, words: &Vocabulary) -> Result<(), String> {
        self.get(name)?;
        self.change(words, |lines| lines.retain(|line| !line.is_of(name)))
    }

    /// Reads the file again before the change is applied, because other programs may have edited
    /// the file.
    fn change(
        &mut self,
        words: &Vocabulary,
        change: impl FnOnce(&mut Vec<Line>),
    ) -> Result<(), String> {
        let now =
            read(&self.path, words).map_err(|error| format!("nothing is changed: {error}"))?;
        // If the file was deleted meanwhile, the change writes it again with all known lines.
        let mut lines = now.unwrap_or_else(|| self.lines.clone());
        change(&mut lines);
        let text: String = lines.iter().map(|line| format!("{}\n", line.text)).collect();
        write(&self.path, &text).map_err(|error| format!("{}: {error}", self.path.display()))?;
        self.lines = lines;
        Ok(())
    }
}

impl Line {
    fn comment(text: &str) -> Self {
        Self { text: text.to_owned(), message: None }
    }

    fn is_of(&self, name: &str) -> bool {
        self.message.as_ref().is_some_and(|(known, _)| known == name)
    }

    fn parse(text: &str, words: &Vocabulary) -> Result<Self, String> {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            return Ok(Self::comment(text));
        }
        let mut parts = trimmed.splitn(3, ' ');
        let (Some(name), Some(msg_type)) = (parts.next(), parts.next()) else {
            return Err("the line must have the form NAME TYPE TAG=VALUE|…".to_owned());
        };
        let typed = Typed::parse(msg_type, parts.next().unwrap_or_default(), words)?;
        Ok(Self { text: text.to_owned(), message: Some((name.to_owned(), typed)) })
    }
}

/// Reads the lines of the file. Returns `None` if the file is missing.
fn read(path: &Path, words: &Vocabulary) -> Result<Option<Vec<Line>>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let mut lines: Vec<Line> = Vec::new();
    for (n, text) in (1..).zip(text.lines()) {
        let wrong = |why: String| format!("{}, line {n}: {why}", path.display());
        let line = Line::parse(text, words).map_err(wrong)?;
        if let Some((name, _)) = &line.message
            && let Some(first) = lines.iter().position(|line| line.is_of(name))
        {
            return Err(wrong(format!(
                "'{name}' appears twice: line {} has the same name; rename \
                                      one of them",
                first + 1
            )));
        }
        lines.push(line);
    }
    Ok(Some(lines))
}

/// Replaces the file atomically. If the path is a symbolic link, its target is replaced.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut new = path.clone().into_os_string();
    new.push(".new");
    write_new(new.as_ref(), text).and_then(|()| fs::rename(&new, &path))
}

/// Writes a file that only its owner may read, because messages may contain passwords, and syncs
/// the file to disk.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
