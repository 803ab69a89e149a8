//! The table of all keys of the QuickFIX family: `keys.txt`, read line by line.
//!
//! Invariant: a wrong line of the table causes a panic when it is used; a test uses every line.

use crate::{Dialect, Fate};

/// The conversion of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The key is not converted.
    Nothing,
    /// The key is not converted, and matters only if the session uses TLS.
    Tls,
    /// Code evaluates the key together with other keys.
    With,
    /// Its text.
    Text(&'static str),
    /// The Transfix key is true if the value is Y.
    Flag(&'static str),
    /// The Transfix key is false if the value is Y.
    Unflag(&'static str),
    /// The value is a number, which is multiplied by this factor.
    Number(&'static str, u32),
    /// The value Y adds this word to `reset_on`.
    Reset(&'static str),
    /// The value is a word, which is translated by this list of pairs `from=to`.
    Word(&'static str, &'static str),
}

impl Rule {
    /// Returns the Transfix key that the rule alone can write, if there is one.
    pub(crate) const fn key(self) -> Option<&'static str> {
        match self {
            Self::Nothing | Self::Tls | Self::With => None,
            Self::Text(key)
            | Self::Flag(key)
            | Self::Unflag(key)
            | Self::Number(key, _)
            | Self::Word(key, _) => Some(key),
            Self::Reset(_) => Some("reset_on"),
        }
    }
}

/// A row of the table, about one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The name of the key; a final `<n>` or `<v>` stands for a number or a version.
    pub(crate) name: &'static str,
    dialects: &'static str,
    pub(crate) rule: Rule,
    fate: Fate,
    /// The value to which `fate` applies; `None` for any value. All other values are honoured.
    only: Option<&'static str>,
    pub(crate) says: &'static str,
}

impl Row {
    pub(crate) fn is_known_to(&self, dialect: Dialect) -> bool {
        self.dialects.contains(dialect.letter())
    }

    /// Returns the dialects that know the key.
    pub(crate) fn dialects(&self) -> impl Iterator<Item = Dialect> {
        Dialect::ALL.into_iter().filter(|dialect| self.is_known_to(*dialect))
    }

    /// Returns true if the key is about a store in any database.
    pub(crate) fn is_of_database(&self) -> bool {
        ["Jdbc", "Jndi", "SQLStore"].iter().any(|stem| self.name.starts_with(stem))
            && !self.name.contains("Log")
    }

    /// Returns what becomes of the key with this value, and the explanation.
    pub(crate) fn fate(&self, value: &str) -> (Fate, &'static str) {
        match self.only {
            Some(only) if !only.eq_ignore_ascii_case(value) => match self.rule {
                Rule::Nothing | Rule::Tls => {
                    (Fate::Ignored, "this value needs no setting in Transfix")
                }
                _ => (Fate::Honoured, ""),
            },
            _ => (self.fate, self.says),
        }
    }
}

/// Returns true if `name` fits `known`, a key of the table. If `any_case` is true, upper and lower
/// case are equal.
fn is(known: &str, name: &str, any_case: bool) -> bool {
    let same = |a: &str, b: &str| if any_case { a.eq_ignore_ascii_case(b) } else { a == b };
    let head = |n: usize| name.get(..n).unwrap_or_default();
    match (known.strip_suffix("<n>"), known.strip_suffix("<v>")) {
        (Some(stem), _) => {
            let rest = name.get(stem.len()..).unwrap_or_default();
            let is_number = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
            is_number && same(stem, head(stem.len()))
        }
        (_, Some(stem)) => name.len() > stem.len() && same(stem, head(stem.len())),
        _ => same(known, name),
    }
}

/// Returns the lines of the table.
fn lines() -> impl Iterator<Item = &'static str> + Clone {
    let lines = include_str!("keys.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns the whole table.
pub(crate) fn rows() -> impl Iterator<Item = Row> + Clone {
    lines().map(row)
}

/// Returns the row of this key, whose name is compared in the same way as in the dialect.
pub(crate) fn find(name: &str, dialect: Dialect) -> Option<Row> {
    found(name, dialect.is_case_free())
}

/// Returns the row of this key, in upper or lower case.
pub(crate) fn find_in_any_case(name: &str) -> Option<Row> {
    found(name, true)
}

/// Returns the row of this key. For speed, only its own line is parsed.
fn found(name: &str, any_case: bool) -> Option<Row> {
    let known = |line: &'static str| line.split_once(" |").map_or(line, |(known, _)| known);
    lines().find(|line| is(known(line), name, any_case)).map(row)
}

fn row(line: &'static str) -> Row {
    let mut cells = line.splitn(5, '|').map(str::trim);
    let mut cell = || {
        cells.next().unwrap_or_else(|| {
            panic!(
                "keys.txt: `{line}` must have five \
        cells"
            )
        })
    };
    let (name, dialects, rule, fate, says) = (cell(), cell(), cell(), cell(), cell());
    let (fate, only) = match fate.split_once(" if ") {
        Some((fate, only)) => (fate, Some(only)),
        None => (fate, None),
    };
    let fate = match fate {
        "honoured" => Fate::Honoured,
        "mapped" => Fate::Mapped,
        "ignored" => Fate::Ignored,
        "dangerous" => Fate::Dangerous,
        "lost" => Fate::NotCarriedOver,
        _ => panic!("keys.txt: `{fate}` in `{line}`"),
    };
    Row { name, dialects, rule: self::rule(rule), fate, only, says }
}

fn rule(text: &'static str) -> Rule {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "-" => Rule::Nothing,
        "tls" => Rule::Tls,
        "with" => Rule::With,
        "text" => Rule::Text(rest),
        "flag" => Rule::Flag(rest),
        "unflag" => Rule::Unflag(rest),
        "reset" => Rule::Reset(rest),
        "number" => match rest.split_once(" x") {
            Some((key, times)) => {
                Rule::Number(key, times.parse().unwrap_or_else(|_| panic!("{text}")))
            }
            None => Rule::Number(rest, 1),
        },
        "word" => {
            let (key, words) = rest.split_once(' ').unwrap_or_else(|| panic!("keys.txt: `{text}`"));
            Rule::Word(key, words)
        }
        _ => panic!("keys.txt: `{text}`"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_line_is_read_and_no_key_is_there_twice() {
        let mut names = HashSet::new();
        for row in rows() {
            assert!(names.insert(row.name), "{} appears twice", row.name);
            assert!(row.dialects().count() > 0, "{}", row.name);
            let is_known = row.dialects.chars().all(|letter| "CJNG".contains(letter));
            assert!(is_known, "{}: {}", row.name, row.dialects);
            let says_why = row.fate == Fate::Honoured || !row.says.is_empty();
            assert!(says_why && !row.says.ends_with('.'), "{}", row.name);
        }
        // The number of names in the sources of the four engines, including seven with a number or
        // version.
        assert_eq!(names.len(), 280);
        let of = |dialect| rows().filter(|row| row.is_known_to(dialect)).count();
        assert_eq!(Dialect::ALL.map(of), [118, 157, 76, 84]);
    }

    #[test]
    fn names_are_compared_as_the_dialect_does() {
        let found = |name, dialect| find(name, dialect).map(|row| row.name);
        assert_eq!(found("heartbtint", Dialect::Cpp), Some("HeartBtInt"));
        assert_eq!(found("HEARTBTINT", Dialect::Net), Some("HeartBtInt"));
        assert_eq!(found("heartbtint", Dialect::Java), None);
        assert_eq!(found("heartbtint", Dialect::Go), None);
        assert_eq!(found("SocketConnectHost12", Dialect::Java), Some("SocketConnectHost<n>"));
        assert_eq!(found("SocketConnectHostX", Dialect::Java), None);
        let version = found("AppDataDictionary.FIX.4.4", Dialect::Go);
        assert_eq!(version, Some("AppDataDictionary.<v>"));
        // These two keys differ only in one letter's case, and belong to different engines.
        assert_eq!(found("TimeStampPrecision", Dialect::Java), Some("TimeStampPrecision"));
        assert_eq!(found("TimestampPrecision", Dialect::Net), Some("TimestampPrecision"));
    }
}
