//! The reference of settings files: all tables and keys, with the form, default and bounds of each
//! key.

use std::fmt::Write as _;
use std::iter;

use serde::Deserialize;
use transfix_session::{
    Key, LogonConfig, NumbersConfig, ProtocolConfig, ResendConfig, Throttle, TimingConfig,
};

use crate::form::{self, Form};
use crate::retention::RetentionSettings;
use crate::schedule::{ScheduleSettings, WindowSettings};
use crate::{
    AdminSettings, ApplicationSettings, EngineSettings, EventSettings, FailoverSettings,
    FixAdminSettings, FleetSettings, ProxySettings, QueueSettings, SessionSettings, SocketSettings,
    StoreSettings, ThreadSettings, TlsSettings, Unavailable, ValidationSettings,
};
use crate::{dictionary_source::DictionarySource, log::LogSettings};

/// A table of the file, or a group of keys that are direct keys of a session.
pub(crate) struct Table {
    /// The name of the type that reads the table.
    #[cfg_attr(not(feature = "schema"), allow(dead_code, reason = "only the schema looks it up"))]
    pub(crate) of: &'static str,
    /// The name in the file, such as `[engine]` or `logon`; `[[session]]` also for the groups of a
    /// session.
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [Key],
    pub(crate) form: fn(&'static str) -> Form,
}

macro_rules! table {
    ($of:ident, $name:literal) => {
        Table { of: stringify!($of), name: $name, keys: $of::KEYS, form: form_of::<$of> }
    };
}

fn form_of<T: for<'de> Deserialize<'de>>(key: &'static str) -> Form {
    form::of_key::<T>(key)
}

/// The name of the table for keys that belong directly to a session.
pub(crate) const SESSION: &str = "[[session]]";

/// All tables, in the order of the book.
pub(crate) const TABLES: &[Table] = &[
    table!(EngineSettings, "[engine]"),
    table!(AdminSettings, "[admin]"),
    table!(EventSettings, "[events]"),
    table!(FixAdminSettings, "[admin.fix]"),
    table!(FleetSettings, "[fleet]"),
    table!(SessionSettings, "[[session]]"),
    table!(ProtocolConfig, "[[session]]"),
    table!(ValidationSettings, "[[session]]"),
    table!(StoreSettings, "[[session]]"),
    table!(QueueSettings, "[[session]]"),
    table!(ThreadSettings, "[[session]]"),
    table!(SocketSettings, "[[session]]"),
    table!(LogonConfig, "logon"),
    table!(NumbersConfig, "numbers"),
    table!(ResendConfig, "resend"),
    table!(TimingConfig, "timing"),
    table!(Throttle, "throttles"),
    table!(Unavailable, "unavailable"),
    table!(ApplicationSettings, "application"),
    table!(RetentionSettings, "retention"),
    table!(TlsSettings, "tls"),
    table!(FailoverSettings, "failover"),
    table!(ProxySettings, "proxy"),
    table!(ScheduleSettings, "schedule"),
    table!(WindowSettings, "windows"),
    table!(LogSettings, "log"),
    table!(DictionarySource, "dictionary"),
];

/// Returns the table that the type with this name reads.
#[cfg(feature = "schema")]
pub(crate) fn table_of(of: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.of == of)
}

/// The reference of the key outside of all tables.
const INCLUDE: &str = "Before the first section

  include (list of: text)
      Files that are read too, relative to the file that it stands in, such as `[\"common.toml\",
      \"counterparties/*.toml\"]`; the last part may have one `*`.
";

/// Returns the reference of a key, of all keys of a table, or with `None` of all tables.
pub(crate) fn text(of: Option<&str>) -> Result<String, String> {
    let Some(of) = of else {
        let mut text = INCLUDE.to_owned();
        for table in TABLES {
            heading(&mut text, table);
            table.keys.iter().for_each(|key| one(&mut text, table, key));
        }
        return Ok(text);
    };
    if of == "include" {
        return Ok(INCLUDE.to_owned());
    }
    let text = of_tables(of, TABLES.iter());
    if !text.is_empty() {
        return Ok(text);
    }
    Err(unknown(of, iter::empty()))
}

/// Returns the error about an unknown name. The error names the nearest key, table, or name of
/// `others`.
pub fn unknown<'a>(of: &str, others: impl Iterator<Item = &'a str>) -> String {
    let keys = TABLES.iter().flat_map(|table| table.keys).map(|key| key.name);
    let names = TABLES.iter().map(|table| bare(table.name));
    // Keys come first, so that they are preferred among equally near names. Names of two letters
    // are excluded, because they are near to every short name.
    let all = keys.chain(names).chain(others).filter(|name| name.len() > 2);
    let near = transfix_dictionary::nearest(of, all);
    let near = near.map_or_else(
        || "`transfix settings reference` lists all".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    format!("no key or table is named `{}`; {near}", of.escape_debug())
}

/// Returns the reference of all keys with this name, those of sessions first. Returns an empty text
/// if there is none.
#[must_use]
pub fn of_key(name: &str) -> String {
    let of_program = |table: &&Table| table.name.starts_with('[') && table.name != SESSION;
    let (of_program, of_session): (Vec<_>, Vec<_>) = TABLES.iter().partition(of_program);
    of_tables(name, of_session.into_iter().chain(of_program))
}

/// Returns a name of a table without its brackets.
fn bare(name: &str) -> &str {
    name.trim_matches(['[', ']'])
}

/// Returns the reference of the key or table with this name among `tables`. Returns an empty text
/// if there is none.
fn of_tables(of: &str, tables: impl Iterator<Item = &'static Table>) -> String {
    let mut text = String::new();
    for table in tables {
        let is_table = bare(table.name) == bare(of);
        let is_key = |key: &Key| {
            key.name == of
                || of.split_once('.') == Some((bare(table.name), key.name))
                || of.split_once('.').is_some_and(|(key_name, inner)| {
                    key.name == key_name && has_inner(&(table.form)(key.name), inner)
                })
        };
        let keys: Vec<_> = table.keys.iter().filter(|key| is_table || is_key(key)).collect();
        if !keys.is_empty() {
            heading(&mut text, table);
        }
        keys.iter().for_each(|key| one(&mut text, table, key));
    }
    text
}

/// Returns true if a value of this form is a table that may contain the key `inner`.
fn has_inner(form: &Form, inner: &str) -> bool {
    matches!(form, Form::Map(Some(names), _) if names.contains(&inner))
}

fn heading(text: &mut String, table: &Table) {
    let more = match table.name {
        SESSION if table.of == "SessionSettings" => ", or [defaults] for all sessions",
        SESSION => ", further keys",
        "[engine]" => ", for all sessions together",
        "[admin]" => ", the administration over HTTP",
        "[events]" => ", the targets of the program's events",
        "[fleet]" => ", the gateways with the same sessions",
        "[admin.fix]" => ", the administration over FIX",
        "throttles" | "windows" => ", a list of tables",
        "dictionary" => ", as a table, or as a text with a name or a path",
        _ => ", a table of a session",
    };
    // Errors are ignored, because writing to a `String` cannot fail.
    let blank = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{blank}{}{more}; in Rust {}", table.name, table.of);
}

fn one(text: &mut String, table: &Table, key: &Key) {
    let form = shown(&(table.form)(key.name), key.name);
    let default = match key.default {
        None => "must be there".to_owned(),
        Some(_) => default_in_file(key).map_or_else(String::new, |of| format!("default {of}")),
    };
    let range = match key.range {
        (None, None) => String::new(),
        (least, most) => format!(
            ", {}{}",
            least.map(|least| format!("at least {least}")).unwrap_or_default(),
            most.map(|most| format!(" at most {most}")).unwrap_or_default(),
        ),
    };
    let facts = [format!("{form}{}", range.replace(",  ", ", ")), default];
    let facts: Vec<_> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
    let _ = writeln!(text, "\n  {} ({})", key.name, facts.join("; "));
    for line in wrapped(&about(key), LINE_CHARS) {
        let _ = writeln!(text, "      {line}");
    }
}

/// The maximum length of a line in the reference, in characters without the indent.
pub const LINE_CHARS: usize = 90;

/// Splits the text between words into lines of less than `max` characters.
#[must_use]
pub fn wrapped(text: &str, max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.chars().count() + word.len() < max);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the meaning of a key, without links to types of the library.
pub(crate) fn about(key: &Key) -> String {
    let mut text = key.about.trim().to_owned();
    for (begin, end) in [(" (see [`", ")"), (" See [`", "].")] {
        while let Some(at) = text.find(begin) {
            let Some(len) = text[at..].find(end) else { break };
            text.replace_range(at..at + len + end.len(), "");
        }
    }
    text.replace("[`", "`").replace("`]", "`")
}

/// Returns a form in words, as the reference shows it.
fn shown(form: &Form, key: &str) -> String {
    let quoted = |words: &[&str]| {
        words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ")
    };
    match form {
        Form::Number => "whole number".to_owned(),
        Form::Switch => "true | false".to_owned(),
        Form::Text if is_secret(key) => {
            "text, or a table that names the source of the text".to_owned()
        }
        Form::Text => "text".to_owned(),
        Form::Words(words) => quoted(words),
        Form::List(one) => format!("list of: {}", shown(one, "")),
        Form::Map(None, of) => format!("table; each value: {}", shown(of, "")),
        Form::Map(Some(names), of) => {
            format!("table of {}; each value: {}", names.join(", "), shown(of, ""))
        }
        Form::Table(_) => "table".to_owned(),
        Form::Any => "text or table".to_owned(),
    }
}

/// Returns true if the value of the key is a password or names the source of one.
pub(crate) fn is_secret(key: &str) -> bool {
    ["password", "new_password", "expected_password", "expected_password_hash"].contains(&key)
}

/// Returns the default as a settings file would contain it, or `None` if a file cannot express it.
pub(crate) fn default_in_file(key: &Key) -> Option<String> {
    let code = key.default?;
    if let Some((n, bits)) = code.split_once(" << ") {
        let (n, bits): (u64, u32) = (n.parse().ok()?, bits.parse().ok()?);
        return Some((n << bits).to_string());
    }
    if code.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(code.replace('_', ""));
    }
    let text = code.strip_prefix('"').and_then(|code| code.strip_suffix("\".into()"));
    if let Some(text) = text {
        return Some(format!("\"{text}\""));
    }
    match code {
        "true" | "false" => return Some(code.to_owned()),
        "Vec::new()" => return Some("[]".to_owned()),
        "BTreeMap::new()" => return Some("{}".to_owned()),
        _ => {}
    }
    let (of, variant) = code.split_once("::")?;
    // Excludes constants and constructors, which look like variants of an enum.
    let is_variant = variant.chars().all(char::is_alphanumeric) && !variant.contains("()");
    let is_constant = variant.chars().all(|c| c.is_uppercase() || c == '_');
    if !is_variant || is_constant || of == "usize" {
        return None;
    }
    let words = TABLES.iter().filter(|table| table.keys.iter().any(|one| one.name == key.name));
    let plain = |word: &str| word.replace(['_', '-', '.'], "").to_lowercase();
    let wanted = plain(variant);
    let mut words = words.filter_map(|table| match (table.form)(key.name) {
        Form::Words(words) => Some(words),
        _ => None,
    });
    let words = words.find(|words| words.iter().any(|word| wanted.ends_with(&plain(word))))?;
    let word = words.iter().find(|word| wanted.ends_with(&plain(word)))?;
    Some(format!("\"{word}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_form_and_its_default_can_be_read_back() {
        for table in TABLES {
            for key in table.keys {
                let form = (table.form)(key.name);
                let name = format!("{} {}", table.name, key.name);
                let may_be_any = ["dictionary", "session_dictionary", "outside"];
                let is_any = form == Form::Any;
                assert!(!is_any || may_be_any.contains(&key.name), "{name} has no form");
                let Some(default) = default_in_file(key) else {
                    let is_known = key.default.is_none_or(|code| {
                        let ends = ["None", "default()", "::new()", "NEVER", "STANDARD", "MAX"];
                        ends.iter().any(|end| code.ends_with(end)) || code.is_empty()
                    });
                    assert!(is_known, "{name}: {:?} is no value of a file", key.default);
                    continue;
                };
                let is_right = match form {
                    Form::Number => default.parse::<u64>().is_ok(),
                    Form::Switch => ["true", "false"].contains(&&*default),
                    Form::Words(words) => words.contains(&default.trim_matches('"')),
                    Form::List(_) => default == "[]",
                    Form::Map(..) => default == "{}",
                    Form::Text => default.starts_with('"'),
                    Form::Table(_) | Form::Any => true,
                };
                assert!(is_right, "{name}: {default}, but {form:?}");
            }
        }
    }

    #[test]
    fn a_word_finds_its_keys_or_the_nearest() {
        let one = text(Some("heart_bt_int_s")).unwrap();
        assert!(one.contains("heart_bt_int_s (whole number; default 30)"), "{one}");
        let one = text(Some("tls.min_version")).unwrap_or_else(|error| panic!("{error}"));
        assert!(one.contains("\"1.2\" | \"1.3\""), "{one}");
        let table = text(Some("logon")).unwrap();
        assert!(table.contains("  username (text") && table.contains("  quiet ("), "{table}");
        let wrong = text(Some("heartbeat_int_s")).unwrap_err();
        assert!(wrong.contains("did you mean `heart_bt_int_s`"), "{wrong}");
        let all = text(None).unwrap();
        for table in TABLES {
            for key in table.keys {
                assert!(all.contains(&format!("\n  {} (", key.name)), "{}", key.name);
            }
        }
    }
}
