//! Messages that the user keeps under names, in a file of one line each: `NAME TYPE TAG=VALUE|…`.
//!
//! Invariant: the file is replaced as a whole, so that a crash leaves the old one or the new one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::message::Typed;
use super::vocabulary::Vocabulary;

/// The messages, by name.
pub(super) struct Kept {
    path: PathBuf,
    messages: BTreeMap<String, Typed>,
}

impl Kept {
    /// Those of this file; none if there is no file yet.
    pub(super) fn read(path: &Path, words: &Vocabulary) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut messages = BTreeMap::new();
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut parts = line.splitn(3, ' ');
            let (Some(name), Some(msg_type)) = (parts.next(), parts.next()) else {
                let path = path.display();
                return Err(format!("{path}, line {}: not NAME TYPE TAG=VALUE|…", n + 1));
            };
            let typed = Typed::parse(msg_type, parts.next().unwrap_or_default(), words);
            let typed =
                typed.map_err(|error| format!("{}, line {}: {error}", path.display(), n + 1))?;
            messages.insert(name.to_owned(), typed);
        }
        Ok(Self { path: path.to_owned(), messages })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.messages.keys().map(|name| &**name)
    }

    pub(super) fn get(&self, name: &str) -> Result<&Typed, String> {
        self.messages.get(name).ok_or_else(|| match self.messages.is_empty() {
            true => format!("no message '{name}' was saved; {} is empty", self.path.display()),
            false => {
                let names: Vec<_> = self.names().collect();
                format!("no message '{name}' was saved; there are {}", names.join(", "))
            }
        })
    }

    /// Keeps it, also over the end of the program.
    ///
    /// # Errors
    /// It could not be read again, or not be written.
    pub(super) fn keep(&mut self, name: &str, typed: Typed) -> Result<(), String> {
        if name.starts_with('#') {
            return Err(format!("{name} would be a comment in the file: choose another name"));
        }
        if let Some((tag, _)) = typed.fields.iter().find(|(_, value)| value.contains(['|', '\n'])) {
            return Err(format!("the value of ({tag}) has a bar, which parts fields in the file"));
        }
        let before = self.messages.insert(name.to_owned(), typed);
        self.write().inspect_err(|_| {
            match before {
                Some(typed) => self.messages.insert(name.to_owned(), typed),
                None => self.messages.remove(name),
            };
        })
    }

    pub(super) fn forget(&mut self, name: &str) -> Result<(), String> {
        self.get(name)?;
        let typed = self.messages.remove(name);
        self.write().inspect_err(|_| {
            self.messages.extend(typed.map(|typed| (name.to_owned(), typed)));
        })
    }

    fn write(&self) -> Result<(), String> {
        let mut text = "# Messages of `transfix connect`: NAME TYPE TAG=VALUE|…\n".to_owned();
        for (name, typed) in &self.messages {
            text += &format!("{name} {} {}\n", typed.msg_type, typed.line());
        }
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        let written = write_new(new.as_ref(), &text).and_then(|()| fs::rename(&new, &self.path));
        written.map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// For the owner alone: it may have passwords. It is on the disk when this returns.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
