//! A session of a `.cfg` file with its inherited keys, its written settings and its findings.
//!
//! Invariant: each entry of a session has a finding, also if the session is not carried over.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use transfix_dictionary::nearest;

use crate::keys::{Line, Section as Written};
use crate::read::{Cfg, Entry, Section};
use crate::table::{find, find_in_any_case, rows};
use crate::{Dialect, Fate, Finding, Migration, OF_LOST_SESSION, Overlay};

/// A session that is being migrated, with its inherited keys.
pub(crate) struct Session<'c> {
    pub(crate) dialect: Dialect,
    /// The path of the `.cfg` file, in whose directory dictionaries are searched too.
    pub(crate) path: PathBuf,
    pub(crate) overlays_in: Option<&'c Path>,
    /// Overlays of earlier sessions.
    pub(crate) overlays_known: &'c [Overlay],
    pub(crate) overlays: Vec<Overlay>,
    /// Sections that earlier sessions have written.
    sections_known: &'c [Written],
    pub(crate) line: usize,
    pub(crate) entries: Vec<&'c Entry>,
    /// The lines of `[DEFAULT]`, which apply to several sessions.
    default_lines: HashSet<usize>,
    /// Name of the session in findings.
    name: String,
    pub(crate) toml: Vec<Line>,
    /// Settings sections that apply to all sessions.
    pub(crate) sections: Vec<Written>,
    pub(crate) store: Option<(PathBuf, String)>,
    findings: &'c mut Vec<Finding>,
    /// Number of findings of earlier sessions.
    findings_known: usize,
}

/// The results of a session's migration.
pub(crate) struct Parts {
    pub(crate) toml: Vec<Line>,
    pub(crate) sections: Vec<Written>,
    pub(crate) overlays: Vec<Overlay>,
    pub(crate) store: Option<(PathBuf, String)>,
}

/// The keys, with their lines, about which there is a finding.
#[derive(Default)]
pub(crate) struct Told {
    keys: HashSet<(usize, String)>,
    /// The number of findings that were already added.
    findings: usize,
}

impl Told {
    /// Adds the keys of findings that were reported since the last call.
    pub(crate) fn add(&mut self, findings: &[Finding]) {
        let new = findings[self.findings..].iter().map(|one| (one.line, one.key.clone()));
        self.keys.extend(new);
        self.findings = findings.len();
    }

    pub(crate) fn has(&self, entry: &Entry) -> bool {
        self.keys.contains(&(entry.line, entry.key.clone()))
    }
}

impl<'c> Session<'c> {
    pub(crate) fn new(
        cfg: &'c Cfg,
        section: &'c Section,
        all: &'c mut Migration,
        overlays_in: Option<&'c Path>,
    ) -> Self {
        let own = |key: &str| section.entries.iter().any(|entry| entry.key == key);
        let inherited = cfg.defaults.iter().filter(|entry| !own(&entry.key));
        let mut session = Self {
            dialect: all.dialect,
            path: all.path.clone(),
            overlays_in,
            overlays_known: &all.overlays,
            overlays: Vec::new(),
            sections_known: &all.sections,
            line: section.line,
            entries: inherited.chain(&section.entries).collect(),
            default_lines: cfg.defaults.iter().map(|entry| entry.line).collect(),
            name: String::new(),
            toml: Vec::new(),
            sections: Vec::new(),
            store: None,
            findings_known: all.findings.len(),
            findings: &mut all.findings,
        };
        session.name = session.named();
        session
    }

    /// Returns the name of the session, such as `FIX.4.4:DESK->VENUE`. If its identity is
    /// incomplete, returns the line of its heading.
    fn named(&self) -> String {
        let value = |key| self.value(key).filter(|value| !value.is_empty());
        match (value("BeginString"), value("SenderCompID"), value("TargetCompID")) {
            (Some(version), Some(sender), Some(target)) => {
                let qualifier = value("SessionQualifier").map(|name| format!("/{name}"));
                format!("{version}:{sender}->{target}{}", qualifier.unwrap_or_default())
            }
            _ => format!("[SESSION] in line {}", self.line),
        }
    }

    pub(crate) fn into_parts(self) -> Parts {
        let Self { toml, sections, overlays, store, .. } = self;
        Parts { toml, sections, overlays, store }
    }

    /// Reports a finding about a line. If the key is dropped, also writes a comment in its place.
    pub(crate) fn find(&mut self, finding: Finding) {
        let is_dropped = finding.becomes.is_empty()
            && matches!(finding.fate, Fate::NotCarriedOver | Fate::Dangerous);
        if is_dropped {
            self.drop_key(&finding);
        }
        self.note(finding);
    }

    /// Reports a finding about a line.
    pub(crate) fn note(&mut self, mut finding: Finding) {
        // Names the session only if the line may apply to several ones.
        if finding.key.is_empty() || self.default_lines.contains(&finding.line) {
            finding.sessions.push(self.name.clone());
        }
        self.findings.push(finding);
    }

    fn drop_key(&mut self, finding: &Finding) {
        let Finding { key, value, says, line, .. } = finding;
        let key = match key.is_empty() {
            true => format!("line {line}"),
            false => format!("{key}={value} (line {line})"),
        };
        match self.toml.last_mut() {
            // Keys that are dropped for the same reason share a comment.
            Some(Line::Dropped(keys, known)) if known == says => *keys += &format!(", {key}"),
            _ => self.toml.push(Line::Dropped(key, says.clone())),
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&'c Entry> {
        self.entries.iter().find(|entry| entry.key == key).copied()
    }

    /// Returns the entries whose keys begin with `stem`.
    pub(crate) fn beginning_with(&self, stem: &str) -> Vec<&'c Entry> {
        self.entries.iter().filter(|entry| entry.key.starts_with(stem)).copied().collect()
    }

    /// Returns true if the session has the key and the dialect knows it.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Returns the value of a key, if the session has the key and the dialect knows it.
    pub(crate) fn value(&self, key: &str) -> Option<&'c str> {
        let is_known = find(key, self.dialect).is_some_and(|row| row.is_known_to(self.dialect));
        self.entry(key).filter(|_| is_known).map(|entry| &*entry.value)
    }

    pub(crate) fn is_yes(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.eq_ignore_ascii_case("Y"))
    }

    pub(crate) fn is_no(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.eq_ignore_ascii_case("N"))
    }

    /// Writes a key. If several keys of the file turn the same switch on and off, off is written.
    pub(crate) fn set(&mut self, key: &str, value: String) {
        let known = self.toml.iter_mut().find_map(|line| match line {
            Line::Key(known, value) if known == key => Some(value),
            _ => None,
        });
        match known {
            Some(known) if *known == "false" => {}
            Some(known) => *known = value,
            None => self.toml.push(Line::Key(key.to_owned(), value)),
        }
    }

    /// Writes a key whose value the operator must decide.
    pub(crate) fn set_undecided(&mut self, key: &str, value: String) {
        self.toml.push(Line::Undecided(key.to_owned(), value));
    }

    /// Writes a key of a section that applies to all sessions.
    ///
    /// # Errors
    /// If an earlier session has written another value, which has priority. The text names it.
    pub(crate) fn set_in(
        &mut self,
        heading: &'static str,
        key: &str,
        value: String,
    ) -> Result<(), String> {
        let known = self.sections_known.iter().find(|(known, _)| *known == heading);
        if let Some((_, lines)) = known {
            return match lines.iter().find_map(|line| line.value_of(key)) {
                Some(first) if *first != value => Err(format!(
                    "an earlier session sets {heading} {key} = {first}, and that \
                                 value applies"
                )),
                _ => Ok(()),
            };
        }
        let line = Line::Key(key.to_owned(), value);
        match self.sections.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, lines)) => lines.push(line),
            None => self.sections.push((heading, vec![line])),
        }
        Ok(())
    }

    pub(crate) fn written(&self, key: &str) -> Option<&str> {
        self.toml.iter().find_map(|line| line.value_of(key)).map(String::as_str)
    }

    /// Reports a finding about a key, if the file has the key.
    pub(crate) fn tell(&mut self, key: &str, fate: Fate, becomes: &str, says: &str) {
        if let Some(entry) = self.entry(key) {
            self.find(Finding::of(entry, fate, becomes, says));
        }
    }

    /// Reports a finding about something that the file lacks.
    pub(crate) fn tell_of_session(&mut self, fate: Fate, becomes: &str, says: &str) {
        let mut finding = Finding::of_line(self.line, fate, says);
        becomes.clone_into(&mut finding.becomes);
        self.find(finding);
    }

    /// Returns the findings about lines of this session for which the setting `becomes` was
    /// written.
    pub(crate) fn findings_of(&mut self, becomes: &str) -> impl Iterator<Item = &mut Finding> {
        let lines: HashSet<usize> = self.entries.iter().map(|entry| entry.line).collect();
        let is_it = move |finding: &&mut Finding| {
            finding.becomes == becomes && lines.contains(&finding.line)
        };
        self.findings.iter_mut().filter(is_it)
    }

    /// Writes a key, and reports it for the key `from` of the file.
    pub(crate) fn becomes(&mut self, from: &str, key: &str, value: String) {
        let becomes = format!("{key} = {value}");
        self.set(key, value);
        self.tell(from, Fate::Honoured, &becomes, "");
    }

    /// Reports keys that the dialect ignores, and values that have no effect at their location.
    pub(crate) fn tell_of_unknown(&mut self) {
        let dialect = self.dialect;
        for entry in self.entries.clone() {
            let found = find(&entry.key, dialect);
            if found.is_some_and(|row| row.is_known_to(dialect)) {
                continue;
            }
            let (fate, says) = match (found, find_in_any_case(entry.key.trim())) {
                (Some(row), _) => {
                    let others: Vec<_> = row.dialects().map(|other| other.to_string()).collect();
                    let others = others.join(" and ");
                    (Fate::Ignored, format!("a key of {others}; {dialect} ignores this key"))
                }
                // Keys such as `Username` are reported elsewhere.
                _ if is_credential(&entry.key) => continue,
                (None, Some(row)) if row.is_known_to(dialect) => {
                    let name = row.name;
                    (
                        Fate::Dangerous,
                        format!(
                            "{dialect} compares keys letter by letter and expects `{name}=`, so \
                             this key has never had an effect"
                        ),
                    )
                }
                _ => {
                    let known = rows().filter(|row| row.is_known_to(dialect)).map(|row| row.name);
                    match nearest(&entry.key, known) {
                        Some(near) => (
                            Fate::Dangerous,
                            format!(
                                "no QuickFIX knows this key; if `{near}` is meant, the setting \
                                 has never had an effect"
                            ),
                        ),
                        None => (Fate::Ignored, NOBODYS.to_owned()),
                    }
                }
            };
            self.find(Finding::of(entry, fate, "", &says));
        }
    }

    /// Returns true if it was reported that the value cannot be parsed.
    fn is_lost(&self, entry: &Entry) -> bool {
        let mut own = self.findings[self.findings_known..].iter();
        own.any(|one| {
            one.fate == Fate::NotCarriedOver && (one.line, &one.key) == (entry.line, &entry.key)
        })
    }

    /// Reports Java properties with the environment variables that replace them, and environment
    /// variables of QuickFIX C++.
    pub(crate) fn tell_of_variables(&mut self) {
        for entry in self.entries.clone() {
            if self.dialect == Dialect::Cpp && entry.value.contains('$') {
                let says = "QuickFIX C++ inserts environment variables only if the program asks \
                            for them; Transfix reads the value as plain text";
                let is_known =
                    find(&entry.key, self.dialect).is_some_and(|row| row.is_known_to(Dialect::Cpp));
                if is_known && !self.is_lost(entry) {
                    self.note(Finding::of(entry, Fate::Dangerous, "", says));
                }
                continue;
            }
            if entry.variables.is_empty() {
                continue;
            }
            let is_written = |name: &String| self.toml.iter().any(|line| line.has_variable(name));
            let finding = if entry.variables.iter().all(is_written) {
                let becomes = entry.variables.iter().map(|name| format!("${{{name}}}"));
                let becomes = becomes.collect::<Vec<_>>().join(", ");
                let says = "QuickFIX/J reads a Java property here, Transfix an environment \
                            variable: set the variable before the start";
                Finding::of(entry, Fate::Mapped, &becomes, says)
            } else {
                let says = "the value is a property of the Java process: write the value itself";
                Finding::of(entry, Fate::NotCarriedOver, "", says)
            };
            self.find(finding);
        }
    }

    /// Reports the keys of a session that is not migrated, unless they were already reported.
    pub(crate) fn tell_of_the_rest(&mut self, told: &mut Told) {
        told.add(self.findings);
        for entry in self.entries.clone() {
            if !told.has(entry) {
                self.note(Finding::of(entry, Fate::NotCarriedOver, "", OF_LOST_SESSION));
            }
        }
    }

    pub(crate) fn required(&self, key: &str) -> Result<&'c str, String> {
        match self.value(key) {
            Some(value) if !value.is_empty() => Ok(value),
            _ => Err(self.missing(key)),
        }
    }

    /// Returns why a required key is missing, for instance because the file has a similar key.
    pub(crate) fn missing(&self, key: &str) -> String {
        let is_it = |entry: &&&Entry| entry.key.trim().eq_ignore_ascii_case(key);
        let dialect = self.dialect;
        match self.entries.iter().find(is_it) {
            Some(entry) if entry.key == key => format!("{key} in line {} is empty", entry.line),
            Some(Entry { key: written, line, .. }) => format!(
                "{key} is missing: {dialect} compares keys letter by letter and ignores \
                 `{written}=` in line {line}"
            ),
            None => format!("{key} is missing"),
        }
    }

    pub(crate) fn is_acceptor(&self) -> bool {
        self.written("role") == Some("\"acceptor\"")
    }
}

/// The finding about a key that no QuickFIX engine knows.
const NOBODYS: &str = "no QuickFIX knows this key; if the program reads the key, move it to a \
                       separate file, because Transfix settings allow no foreign keys";

/// Returns true for keys of credentials. Programs read these keys themselves, and users expect them
/// to be migrated.
pub(crate) fn is_credential(key: &str) -> bool {
    ["Username", "Password"].iter().any(|known| known.eq_ignore_ascii_case(key))
}
