//! Formats keys and values as a settings file.

use std::path::Path;

use transfix_settings::reference::wrapped;

use crate::Dialect;

/// Returns a quoted text, escaped so that the settings find no environment variable in it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for (at, c) in text.char_indices() {
        match c {
            '$' if text[at..].starts_with("${") => quoted += "$$",
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Returns a list of quoted texts, as a settings file contains it.
pub(crate) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

/// Returns the part of `key = value` before the value.
pub(crate) fn without_value(text: &str) -> &str {
    text.split_once(" = ").map_or(text, |(key, _)| key)
}

/// A line of a settings section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A key with its value.
    Key(String, String),
    /// A key whose value the settings reject: the engine does not start until the operator decides.
    Undecided(String, String),
    /// A comment in place of keys that are not migrated: the keys, and the reason.
    Dropped(String, String),
}

impl Line {
    /// Returns the value of the key `wanted`, unless the operator still has to decide it.
    pub(crate) fn value_of(&self, wanted: &str) -> Option<&String> {
        match self {
            Self::Key(key, value) if key == wanted => Some(value),
            _ => None,
        }
    }

    /// Returns true if the value contains this environment variable.
    pub(crate) fn has_variable(&self, name: &str) -> bool {
        let marked = |open: char| format!("{open}{name}{CLOSE}");
        match self {
            Self::Key(_, value) | Self::Undecided(_, value) => {
                [OPEN, OPEN_NUMBER].iter().any(|open| value.contains(&marked(*open)))
            }
            Self::Dropped(..) => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Key(key, value) | Self::Undecided(key, value) => format!("{key} = {value}\n"),
            Self::Dropped(keys, says) => {
                let lines = wrapped(&format!("not carried over: {keys}: {says}"), COMMENT_CHARS);
                lines.iter().map(|line| format!("# {}\n", visible(line))).collect()
            }
        }
    }
}

/// The maximum length of a comment line, in characters.
const COMMENT_CHARS: usize = 96;

/// Returns the text without control characters, which TOML forbids in comments.
fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A section of the file: heading and lines.
pub(crate) type Section = (&'static str, Vec<Line>);

/// Returns the whole file. Keys that all sessions share are in `[defaults]`. A `[SESSION]` that is
/// not carried over becomes a comment without a heading.
pub(crate) fn file(
    (path, dialect): (&Path, Dialect),
    sections: &[Section],
    sessions: &[Section],
    variables: Variables,
) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().escape_debug().to_string());
    let mut text = format!("# From {}, a file of {dialect}.\n", name.unwrap_or_default());
    let mut whole = sessions.iter().filter(|(heading, _)| !heading.is_empty());
    let first = whole.next().map_or(&[][..], |(_, first)| first);
    // Determines the common keys once, because a file may have thousands of sessions.
    let mut common: Vec<_> = first.iter().filter(|_| whole.clone().next().is_some()).collect();
    for (_, session) in whole {
        common.retain(|key| session.contains(key));
    }
    let mut section = |heading: &str, lines: &mut dyn Iterator<Item = &Line>| {
        text += "\n";
        if !heading.is_empty() {
            text += &format!("{heading}\n");
        }
        text.extend(lines.map(Line::text));
    };
    for (heading, lines) in sections {
        section(heading, &mut lines.iter());
    }
    if !common.is_empty() {
        section("[defaults]", &mut common.iter().copied());
    }
    for (heading, session) in sessions {
        section(heading, &mut session.iter().filter(|key| !common.contains(key)));
    }
    variables.put(&text)
}

/// Private characters that enclose the name of an environment variable in migrated values.
const OPEN: char = '\u{e000}';
const OPEN_NUMBER: char = '\u{e001}';
const CLOSE: char = '\u{e002}';

/// The form of environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variables {
    /// As `${NAME}`.
    Named,
    /// The form with a default value, so that the settings can be parsed without the variables.
    WithDefault,
}

impl Variables {
    /// Returns the text with its environment variables in this form.
    pub(crate) fn put(self, text: &str) -> String {
        if !text.contains(CLOSE) {
            return text.to_owned();
        }
        let (mut all, mut name, mut is_number) = (String::new(), None, false);
        for c in text.chars() {
            match (c, &mut name) {
                (OPEN | OPEN_NUMBER, _) => (name, is_number) = (Some(String::new()), c != OPEN),
                (CLOSE, Some(found)) => {
                    let default = if is_number { "1" } else { &**found };
                    all += &match self {
                        Self::Named => format!("${{{found}}}"),
                        Self::WithDefault => format!("${{{found}:-{default}}}"),
                    };
                    name = None;
                }
                (c, Some(found)) => found.push(c),
                (c, None) => all.push(c),
            }
        }
        all
    }
}

/// Returns the value with environment variables in place of Java properties such as `${desk.id}`,
/// and the names of these variables.
pub(crate) fn with_variables(value: &str) -> (String, Vec<String>) {
    let (mut all, mut rest, mut names) = (String::new(), value, Vec::new());
    while let Some((before, (property, after))) = rest
        .split_once("${")
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        .filter(|(_, (property, _))| !property.is_empty())
    {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let mut name: String = property.chars().map(plain).collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        all += &format!("{before}{OPEN}{name}{CLOSE}");
        names.push(name);
        rest = after;
    }
    (all + rest, names)
}

/// Returns the value for a numeric key if it consists of exactly one variable, or `None` otherwise.
pub(crate) fn variable_number(value: &str) -> Option<String> {
    let name = value.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    (!name.contains(OPEN)).then(|| format!("{OPEN_NUMBER}{name}{CLOSE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with many sessions is written quickly; searching each key in all sessions would take
    /// hours.
    #[test]
    fn a_file_of_many_sessions_is_written_at_once() {
        let key = |key: &str, value: &str| Line::Key(key.to_owned(), value.to_owned());
        let session = |n: usize| vec![key("role", "1"), key("port", &n.to_string()), key("x", "2")];
        let sessions: Vec<_> = (0..30_000).map(|n| ("[[session]]", session(n))).collect();
        let from = (Path::new("a.cfg"), Dialect::Cpp);
        let text = file(from, &[], &sessions, Variables::Named);
        assert!(text.contains("\n[defaults]\nrole = 1\nx = 2\n\n[[session]]\nport = 0\n"));
        assert_eq!(text.matches("[[session]]").count(), 30_000);
        assert_eq!(text.matches("role").count(), 1);
    }

    #[test]
    fn properties_of_java_become_variables_of_the_environment() {
        for (value, count, named, with_default) in [
            ("a", 0, "a", "a"),
            ("${desk.id}", 1, "${DESK_ID}", "${DESK_ID:-DESK_ID}"),
            ("<${a}|${9-b}>", 2, "<${A}|${_9_B}>", "<${A:-A}|${_9_B:-_9_B}>"),
            ("${}", 0, "${}", "${}"),
            ("${a", 0, "${a", "${a"),
        ] {
            let (text, names) = with_variables(value);
            assert_eq!((&*Variables::Named.put(&text), names.len()), (named, count));
            assert_eq!(Variables::WithDefault.put(&text), with_default);
        }
        let number = |value| variable_number(&with_variables(value).0);
        let port = number("${p}").map(|port| Variables::WithDefault.put(&port));
        assert_eq!(port.as_deref(), Some("${P:-1}"));
        assert_eq!((number("1${p}"), number("${p}${q}")), (None, None));
    }

    #[test]
    fn a_comment_is_one_whatever_is_in_it() {
        let line = Line::Dropped("a\u{7}=b".to_owned(), "x ".repeat(200));
        let text = line.text();
        assert!(text.lines().count() > 3 && text.lines().all(|line| line.starts_with("# ")));
        assert!(text.starts_with("# not carried over: a\u{fffd}=b: x"), "{text}");
        assert!(text.parse::<toml::Table>().is_ok());
    }

    #[test]
    fn any_text_is_read_back() {
        let texts =
            ["a", "a\"b\\c", "# [x] = 'y'", "\u{7}\t\u{85}", "\u{e9}\u{20ac}", "$a${b}$${c}"];
        for text in texts {
            let settings = transfix_settings::Settings::parse(
                "a.toml",
                &format!(
                    "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
                     sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"b:1\"\n\
                     log = {{ dir = {} }}\n",
                    quoted(text)
                ),
            );
            let settings = settings.unwrap();
            assert_eq!(settings.sessions[0].log.as_ref().unwrap().dir, Path::new(text));
        }
    }
}
