//! Reads a `.cfg` file as the dialect does. Lines that the dialect ignores are ignored and
//! reported.
//!
//! Invariant: each line of the file is an entry, a heading, empty, a comment, or a finding.

use std::collections::{BTreeSet, HashMap};

use transfix_dictionary::nearest;

use crate::keys::with_variables;
use crate::table::find;
use crate::{Dialect, Fate, Finding};

/// A line `key=value`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    /// The value, with [variables](crate::keys::with_variables) instead of Java properties.
    pub(crate) value: String,
    /// The value as written in the file.
    pub(crate) shown: String,
    /// The names of the variables.
    pub(crate) variables: Vec<String>,
    pub(crate) line: usize,
}

/// A `[SESSION]`.
#[derive(Debug)]
pub(crate) struct Section {
    /// The number of the line with the section's heading.
    pub(crate) line: usize,
    pub(crate) entries: Vec<Entry>,
}

/// The contents of a `.cfg` file: defaults and sessions.
#[derive(Debug, Default)]
pub(crate) struct Cfg {
    pub(crate) defaults: Vec<Entry>,
    pub(crate) sessions: Vec<Section>,
}

/// Decodes the text of a file without its byte order mark; any bytes are accepted.
pub(crate) fn text_of(bytes: &[u8], findings: &mut Vec<Finding>) -> String {
    let mark = b"\xef\xbb\xbf";
    let rest = bytes.strip_prefix(mark);
    if rest.is_some() {
        let says = "the file begins with a byte order mark; every QuickFIX except QuickFIX/n \
                    misses the first line because of the mark";
        findings.push(Finding::of_line(1, Fate::Mapped, says));
    }
    let bytes = rest.unwrap_or(bytes);
    String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| {
        let before = &bytes[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let says = "from this line on the text is not UTF-8; the file is read as ISO-8859-1";
        findings.push(Finding::of_line(line, Fate::Mapped, says));
        bytes.iter().map(|byte| char::from(*byte)).collect()
    })
}

/// Returns the dialect that recognizes most sessions and keys of the text, and those keys that only
/// few dialects have.
pub(crate) fn guess(text: &str) -> (Dialect, Vec<&'static str>) {
    // If several dialects recognize equally many, chooses the first of them.
    let best = Dialect::ALL.into_iter().rev().max_by_key(|dialect| sees(text, *dialect));
    let best = best.unwrap_or(Dialect::Cpp);
    let keys = keys(text);
    let seen = keys.iter().filter_map(|key| find(as_seen(key, best), best));
    let telling = seen.filter(|row| row.is_known_to(best) && row.dialects().count() < 3);
    let telling: BTreeSet<_> = telling.map(|row| row.name).collect();
    (best, telling.into_iter().collect())
}

/// Returns the number of sessions and keys that the dialect recognizes.
pub(crate) fn sees(text: &str, dialect: Dialect) -> (usize, usize) {
    // A file without headings has no session.
    let headings = text.lines().filter_map(heading_of);
    let sessions = headings.filter(|name| section_of(name, dialect) == Some("SESSION")).count();
    let is_seen = |key: &&&str| {
        let row = find(as_seen(key, dialect), dialect);
        row.is_some_and(|row| row.is_known_to(dialect))
    };
    (sessions, keys(text).iter().filter(is_seen).count())
}

/// Returns each key only once, because a file may have thousands of sessions.
fn keys(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter_map(|line| Some(line.split_once('=')?.0)).collect()
}

/// Returns the key in the form in which the dialect compares it.
fn as_seen(key: &str, dialect: Dialect) -> &str {
    match dialect {
        Dialect::Cpp | Dialect::Net => key.trim(),
        // For these dialects, a blank before `=` belongs to the key.
        Dialect::Java | Dialect::Go => key.trim_start(),
    }
}

/// Returns the name in brackets, if the line is a heading.
fn heading_of(line: &str) -> Option<&str> {
    line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(str::trim)
}

/// Returns `DEFAULT` or `SESSION`, if the dialect recognizes the heading.
fn section_of(name: &str, dialect: Dialect) -> Option<&'static str> {
    let is_it = |known: &&&str| match dialect {
        Dialect::Cpp => **known == name,
        _ => known.eq_ignore_ascii_case(name),
    };
    ["DEFAULT", "SESSION"].iter().find(is_it).copied()
}

/// The section to which the next lines belong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The lines before the first heading.
    Nowhere,
    Defaults,
    /// A second `[DEFAULT]`, which the dialect ignores.
    PassedOver,
    Session,
    /// Another heading.
    Unused,
}

/// Parses the text of a file in the same way as the dialect.
pub(crate) fn read(text: &str, dialect: Dialect, findings: &mut Vec<Finding>) -> Cfg {
    let mut reader = Reader { dialect, place: Place::Nowhere, has_defaults: false, findings };
    let mut cfg = Cfg::default();
    for (n, line) in text.lines().enumerate() {
        reader.line(n + 1, line, &mut cfg);
    }
    once(&mut cfg.defaults, findings);
    cfg.sessions.iter_mut().for_each(|session| once(&mut session.entries, findings));
    cfg
}

/// Removes repeated keys, of which the last value applies, and reports them.
fn once(entries: &mut Vec<Entry>, findings: &mut Vec<Finding>) {
    // The line in which each key is repeated.
    let mut later = HashMap::new();
    let mut last = Vec::with_capacity(entries.len());
    for entry in entries.drain(..).rev() {
        match later.insert(entry.key.clone(), entry.line) {
            None => last.push(entry),
            Some(line) => {
                let says = format!(
                    "line {line} sets the same key again, and the last value \
                                    applies"
                );
                findings.push(Finding::of(&entry, Fate::Ignored, "", &says));
            }
        }
    }
    entries.extend(last.into_iter().rev());
}

struct Reader<'f> {
    dialect: Dialect,
    place: Place,
    has_defaults: bool,
    findings: &'f mut Vec<Finding>,
}

impl Reader<'_> {
    fn tell(&mut self, line: usize, fate: Fate, says: &str) {
        self.findings.push(Finding::of_line(line, fate, says));
    }

    fn line(&mut self, n: usize, line: &str, cfg: &mut Cfg) {
        let trimmed = line.trim();
        if trimmed.is_empty() || line.starts_with('#') {
            return;
        }
        if trimmed.starts_with('#') {
            if self.dialect == Dialect::Go {
                self.tell(n, Fate::Ignored, "QuickFIX/Go stops at a comment that follows blanks");
            }
            return;
        }
        if let Some(name) = heading_of(line) {
            return self.heading(n, name, cfg);
        }
        let Some((key, value)) = line.split_once('=') else {
            return self.tell(n, Fate::Ignored, "neither `key=value` nor the name of a section");
        };
        let shown = value.trim().to_owned();
        let (value, variables) = match self.dialect {
            Dialect::Java => with_variables(&shown),
            _ => (shown.clone(), Vec::new()),
        };
        let entry = Entry { key: self.key(key), value, shown, variables, line: n };
        if entry.value.contains(" #") {
            let says = "comments cannot follow a value: the text from # on is part of the value";
            self.findings.push(Finding::of(&entry, Fate::Dangerous, "", says));
        }
        match self.place {
            Place::Defaults => cfg.defaults.push(entry),
            Place::Session => {
                cfg.sessions.last_mut().into_iter().for_each(|s| s.entries.push(entry.clone()));
            }
            Place::Nowhere => {
                let says = "the key is above the first section, where no QuickFIX reads it";
                self.findings.push(Finding::of(&entry, Fate::Dangerous, "", says));
            }
            Place::PassedOver => {
                let says = format!("{} reads only the first [DEFAULT]", self.dialect);
                self.findings.push(Finding::of(&entry, Fate::Dangerous, "", &says));
            }
            Place::Unused => {
                let says = "the key is in a section that no QuickFIX uses";
                let is_known = find(&entry.key, self.dialect).is_some();
                let fate = if is_known { Fate::Dangerous } else { Fate::Ignored };
                self.findings.push(Finding::of(&entry, fate, "", says));
            }
        }
    }

    /// Returns the key in the form in which the dialect compares it. If the table has the key, the
    /// result has the table's spelling.
    fn key(&self, key: &str) -> String {
        let key = as_seen(key, self.dialect);
        let Some(row) = find(key, self.dialect) else { return key.to_owned() };
        // The number or version at the end of a key stays as it is.
        let stem = row.name.split('<').next().unwrap_or_default();
        let rest = if stem.len() < row.name.len() { &key[stem.len()..] } else { "" };
        format!("{stem}{rest}")
    }

    fn heading(&mut self, n: usize, name: &str, cfg: &mut Cfg) {
        let merges = matches!(self.dialect, Dialect::Java | Dialect::Go);
        self.place = match section_of(name, self.dialect) {
            Some("DEFAULT") if self.has_defaults && !merges => Place::PassedOver,
            Some("DEFAULT") => Place::Defaults,
            Some(_) => Place::Session,
            // All dialects except C++ accept headings in lower case.
            None if section_of(name, Dialect::Net).is_some() => {
                let says = format!(
                    "[{name}]: QuickFIX C++ recognises section names in capital letters \
                                    only"
                );
                self.tell(n, Fate::Dangerous, &says);
                Place::Unused
            }
            _ => {
                let meant = nearest(name, ["SESSION", "DEFAULT"]);
                let (fate, meant) = meant.map_or((Fate::Ignored, String::new()), |meant| {
                    (Fate::Dangerous, format!("; did you mean [{meant}]?"))
                });
                self.tell(n, fate, &format!("[{name}]: no QuickFIX uses this section{meant}"));
                Place::Unused
            }
        };
        self.has_defaults |= self.place == Place::Defaults;
        if self.place == Place::Session {
            cfg.sessions.push(Section { line: n, entries: Vec::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last of many lines with the same key applies. The test would take hours if each key were
    /// searched linearly.
    #[test]
    fn of_many_lines_of_one_key_the_last_counts() {
        let line = |n: usize| format!("HeartBtInt={n}\nOther{n}=x\n");
        let text = "[SESSION]\n".to_owned() + &(0..10_000).map(line).collect::<String>();
        let mut findings = Vec::new();
        let cfg = read(&text, Dialect::Cpp, &mut findings);
        let [session] = &cfg.sessions[..] else { panic!("{cfg:?}") };
        assert_eq!(session.entries.len(), 10_001);
        let found = session.entries.iter().find(|entry| entry.key == "HeartBtInt").unwrap();
        assert_eq!((&*found.value, findings.len()), ("9999", 9_999));
        let first = findings.iter().find(|finding| finding.line == 2).unwrap();
        assert_eq!(first.says, "line 4 sets the same key again, and the last value applies");
    }
}
