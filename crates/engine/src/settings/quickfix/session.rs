//! A session of a `.cfg` file, with what it inherits, and what is written and said of it.
//!
//! Invariant: each entry of a session gets a finding, whatever becomes of the session.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use transfix_dictionary::nearest;

use super::read::{Cfg, Entry, Section};
use super::table::{find, find_in_any_case, rows};
use super::{Dialect, Fate, Finding, Migration, Overlay};

/// A session with what it inherits.
pub(super) struct Session<'c> {
    pub(super) dialect: Dialect,
    /// The file, beside which dictionaries are looked for too.
    pub(super) path: PathBuf,
    pub(super) overlays_in: Option<&'c Path>,
    pub(super) overlays: Vec<Overlay>,
    pub(super) line: usize,
    pub(super) entries: Vec<&'c Entry>,
    pub(super) toml: Vec<(String, String)>,
    pub(super) store: Option<(PathBuf, String)>,
    pub(super) findings: &'c mut Vec<Finding>,
}

/// The lines and keys of which something is said.
#[derive(Default)]
pub(super) struct Told {
    keys: HashSet<(usize, String)>,
    /// So many findings are in it.
    findings: usize,
}

impl Told {
    /// Adds those that have come since the last call.
    pub(super) fn add(&mut self, findings: &[Finding]) {
        let new = findings[self.findings..].iter().map(|one| (one.line, one.key.clone()));
        self.keys.extend(new);
        self.findings = findings.len();
    }

    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.keys.contains(&(entry.line, entry.key.clone()))
    }
}

impl<'c> Session<'c> {
    pub(super) fn new(
        cfg: &'c Cfg,
        section: &'c Section,
        all: &'c mut Migration,
        overlays_in: Option<&'c Path>,
    ) -> Self {
        let own = |key: &str| section.entries.iter().any(|entry| entry.key == key);
        let inherited = cfg.defaults.iter().filter(|entry| !own(&entry.key));
        Self {
            dialect: all.dialect,
            path: all.path.clone(),
            overlays_in,
            overlays: Vec::new(),
            line: section.line,
            entries: inherited.chain(&section.entries).collect(),
            toml: Vec::new(),
            store: None,
            findings: &mut all.findings,
        }
    }

    /// What is written, the overlays, and the store that it had.
    #[allow(clippy::type_complexity, reason = "taken apart at once by the only caller")]
    pub(super) fn into_parts(
        self,
    ) -> (Vec<(String, String)>, Vec<Overlay>, Option<(PathBuf, String)>) {
        (self.toml, self.overlays, self.store)
    }

    pub(super) fn entry(&self, key: &str) -> Option<&'c Entry> {
        self.entries.iter().find(|entry| entry.key == key).copied()
    }

    /// The entries whose keys begin so.
    pub(super) fn beginning_with(&self, stem: &str) -> Vec<&'c Entry> {
        self.entries.iter().filter(|entry| entry.key.starts_with(stem)).copied().collect()
    }

    /// Whether the dialect knows the key and the file has it.
    pub(super) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// The value of a key that the dialect knows, if the file says it.
    pub(super) fn value(&self, key: &str) -> Option<&'c str> {
        let is_known = find(key, self.dialect).is_some_and(|row| row.is_known_to(self.dialect));
        let entry = self.entry(key).filter(|_| is_known);
        entry.filter(|entry| !self.is_elsewhere(entry)).map(|entry| &*entry.value)
    }

    /// Whether the value is a property of the Java process.
    pub(super) fn is_elsewhere(&self, entry: &Entry) -> bool {
        self.dialect == Dialect::Java && entry.value.contains("${")
    }

    pub(super) fn is_yes(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.eq_ignore_ascii_case("Y"))
    }

    pub(super) fn is_no(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.eq_ignore_ascii_case("N"))
    }

    /// Writes a key; of a switch that several keys turn, off counts.
    pub(super) fn set(&mut self, key: &str, value: String) {
        match self.toml.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) if *known == "false" => {}
            Some((_, known)) => *known = value,
            None => self.toml.push((key.to_owned(), value)),
        }
    }

    pub(super) fn written(&self, key: &str) -> Option<&str> {
        self.toml.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// Says what became of a key, if the file has it.
    pub(super) fn tell(&mut self, key: &str, fate: Fate, becomes: &str, says: &str) {
        let entry = self.entry(key);
        self.findings.extend(entry.map(|entry| Finding::of(entry, fate, becomes, says)));
    }

    /// Says something of what the file does not say.
    pub(super) fn tell_of_session(&mut self, fate: Fate, becomes: &str, says: &str) {
        let mut finding = Finding::of_line(self.line, fate, says);
        becomes.clone_into(&mut finding.becomes);
        self.findings.push(finding);
    }

    /// Writes a key and says so.
    pub(super) fn becomes(&mut self, from: &str, key: &str, value: String) {
        let becomes = format!("{key} = {value}");
        self.set(key, value);
        self.tell(from, Fate::Honoured, &becomes, "");
    }

    /// Keys that the dialect passes over.
    pub(super) fn tell_of_unknown(&mut self) {
        let dialect = self.dialect;
        for entry in &self.entries {
            let found = find(&entry.key, dialect);
            if found.is_some_and(|row| row.is_known_to(dialect)) {
                if self.is_elsewhere(entry) {
                    let says = "a property of the Java process: write its value";
                    self.findings.push(Finding::of(entry, Fate::NotCarriedOver, "", says));
                }
                if dialect == Dialect::Cpp && entry.value.contains('$') {
                    let says = "QuickFIX C++ puts variables of the environment there only for a \
                                program that asks for it; here it is text";
                    self.findings.push(Finding::of(entry, Fate::Dangerous, "", says));
                }
                continue;
            }
            let (fate, says) = match (found, find_in_any_case(entry.key.trim())) {
                (Some(row), _) => {
                    let others: Vec<_> = row.dialects().map(|other| other.to_string()).collect();
                    let others = others.join(" and ");
                    (Fate::Ignored, format!("a key of {others}, which {dialect} passes over"))
                }
                // `Username` is looked at below.
                _ if is_credential(&entry.key) => continue,
                (None, Some(row)) if row.is_known_to(dialect) => {
                    let name = row.name;
                    (
                        Fate::Dangerous,
                        format!(
                            "{dialect} sees it only if it is written `{name}=`, letter by letter, \
                         so that it has never counted"
                        ),
                    )
                }
                _ => {
                    let known = rows().filter(|row| row.is_known_to(dialect)).map(|row| row.name);
                    match nearest(&entry.key, known) {
                        Some(near) => (
                            Fate::Dangerous,
                            format!(
                                "no QuickFIX knows it; if `{near}` is meant, it has never counted"
                            ),
                        ),
                        None => (Fate::Ignored, NOBODYS.to_owned()),
                    }
                }
            };
            self.findings.push(Finding::of(entry, fate, "", &says));
        }
    }

    /// Keys of a session that was given up before they were looked at.
    pub(super) fn tell_of_the_rest(&mut self, told: &mut Told) {
        told.add(self.findings);
        for entry in self.entries.clone() {
            if !told.has(entry) {
                let says = "its session is not carried over";
                self.findings.push(Finding::of(entry, Fate::NotCarriedOver, "", says));
            }
        }
    }

    pub(super) fn required(&self, key: &str) -> Result<&'c str, String> {
        match (self.value(key), self.entry(key)) {
            (Some(value), _) if !value.is_empty() => Ok(value),
            (_, Some(entry)) if self.is_elsewhere(entry) => {
                let value = &entry.value;
                Err(format!("{key} is a property of the Java process, {value}: write its value"))
            }
            _ => Err(format!("{key} is missing")),
        }
    }

    pub(super) fn is_acceptor(&self) -> bool {
        self.written("role") == Some("\"acceptor\"")
    }
}

/// What is said of a key that nobody knows.
const NOBODYS: &str = "no QuickFIX knows it; if the program reads it, it needs a file of its own: \
                       our settings have no keys of others";

/// Keys that users expect to work, and that programs read themselves.
pub(super) fn is_credential(key: &str) -> bool {
    ["Username", "Password"].iter().any(|known| known.eq_ignore_ascii_case(key))
}
