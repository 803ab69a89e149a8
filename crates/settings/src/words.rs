//! Texts of errors in a settings file, in which keys and values appear as in the file, not as Rust
//! types.

use std::collections::HashSet;
use std::ops::Range;

use transfix_session::{Key, LogonConfig, NumbersConfig, ResendConfig, TimingConfig};

/// Returns the text for a value that does not fit its key.
///
/// The texts that are recognized here are those of serde's trait `de::Error`, except for the last
/// one.
pub(crate) fn explain_value(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let span = error.span().unwrap_or(0..0);
    let mut quoted = message.split('`').skip(1).step_by(2);
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    if message.starts_with("unknown field")
        && let Some(wrong) = quoted.next()
    {
        return unknown_key(wrong, quoted);
    }
    if message.starts_with("unknown variant")
        && let Some(wrong) = quoted.next()
    {
        return format!("unknown value `{wrong}`{}", nearest(wrong, quoted));
    }
    let of_type = message.strip_prefix("invalid type: ");
    if let Some(found) = of_type.or_else(|| message.strip_prefix("invalid value: ")) {
        let expected = found.rsplit_once(", expected ").map_or("", |(_, expected)| expected);
        return Value::at(text, span).is_not(&form(expected));
    }
    // The toml crate uses this text for an enum.
    if message == "wanted string or table" {
        return Value::at(text, span).is_not(WORD);
    }
    message.to_owned()
}

/// Returns the text for an unknown key.
pub(crate) fn unknown_key<'a>(wrong: &str, right: impl Iterator<Item = &'a str>) -> String {
    if wrong == "include" {
        return "`include` must be at the top of the file, before the first section".to_owned();
    }
    format!("unknown key `{wrong}`{}", nearest(wrong, right))
}

/// Returns the error text for a file that is not valid TOML. The contents of the line often show
/// more than the parser's error.
pub(crate) fn explain_syntax(text: &str, error: &toml::de::Error) -> String {
    let span = error.span().unwrap_or(0..0);
    let start = text.get(..span.start).unwrap_or_default().rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default().trim();
    let is_key = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    // The parser rejects a valid key in a valid place only if the key occurs twice.
    let found = text.get(span.clone()).unwrap_or_default().trim();
    if !found.is_empty() && is_key(found) {
        match text.get(span.end..).unwrap_or_default().trim_start().chars().next() {
            Some('=') => return format!("the key `{found}` appears twice; remove one"),
            Some(']') if is_heading(line) => {
                return format!("the section `{found}` appears twice; combine both");
            }
            _ => {}
        }
    }
    if line.starts_with('[') && !is_heading(line) {
        return "the name of a section needs as many closing as opening brackets: [[session]], \
                [defaults]"
            .to_owned();
    }
    let of_toml = || error.message().to_owned();
    if line.is_empty() || is_heading(line) {
        return of_toml();
    }
    let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['[', '{'])) else {
        return "this line is neither `key = value` nor the name of a section such as [[session]]"
            .to_owned();
    };
    match value.trim_start().chars().next() {
        None | Some('#') => format!("the key `{}` has no value", key.trim()),
        Some('"' | '\'' | '[' | '{') => of_toml(),
        Some(_) if key.trim().is_empty() => of_toml(),
        Some(_) => {
            "the value after `=` is neither a number, nor true or false, nor a text in quotes"
                .to_owned()
        }
    }
}

/// Returns true if the line is a heading, `[name]` or `[[name]]`, perhaps with a comment.
fn is_heading(line: &str) -> bool {
    let line = line.split('#').next().unwrap_or_default().trim();
    let before = line.len() - line.trim_start_matches('[').len();
    let behind = line.len() - line.trim_end_matches(']').len();
    matches!(before, 1 | 2) && before == behind && before + behind < line.len()
}

/// A value of the file that is rejected.
struct Value<'t> {
    /// The key of the value; empty if the value has no key.
    key: &'t str,
    /// The value as written in the file.
    source: &'t str,
}

impl<'t> Value<'t> {
    fn at(text: &'t str, span: Range<usize>) -> Self {
        let before = text.get(..span.start).unwrap_or_default();
        // For the first entry of a list, the key of the list is found.
        let before = before.trim_end_matches([' ', '\t', '[']);
        let key = before.strip_suffix('=').unwrap_or_default().trim_end();
        let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        let key = key.rsplit(|c| !is_key(c)).next().unwrap_or_default();
        Self { key, source: text.get(span).unwrap_or_default().trim() }
    }

    /// Returns an error text such as
    /// `heart_bt_int_s is a whole number, not "30"; write it without quotes`.
    fn is_not(&self, form: &str) -> String {
        let key = if self.key.is_empty() { "this".to_owned() } else { format!("`{}`", self.key) };
        let is_secret = SECRET.iter().any(|key| self.key.rsplit('.').next() == Some(key));
        let found = match self.source.chars().next() {
            Some('[') => "a list",
            Some('{') => "a table",
            // Does not quote a secret, or a whole section that does not fit in a line.
            _ if is_secret => "what stands here",
            _ if self.source.is_empty() || self.source.contains('\n') => "what stands here",
            _ => self.source,
        };
        let text = self.source.trim_matches(['"', '\'']);
        let is_text = text.len() < self.source.len();
        let form = match form {
            TEXT if WORDS.contains(&self.key) => WORD,
            form => form,
        };
        let remedy = match form {
            _ if is_text && form.starts_with("a whole number") && text.parse::<u64>().is_ok() => {
                "; write the number without quotes".to_owned()
            }
            TRUE_OR_FALSE if is_text && matches!(text, "true" | "false") => {
                "; write the word without quotes".to_owned()
            }
            TEXT if found == self.source => format!("; write \"{found}\""),
            LIST if found == self.source => format!("; write [{found}]"),
            _ => String::new(),
        };
        format!("{key} must be {form}, not {found}{remedy}")
    }
}

/// The keys whose values may contain a password, and the tables with such keys.
const SECRET: [&str; 7] = [
    "fields",
    "password",
    "new_password",
    "expected_password",
    "expected_password_hash",
    "logon",
    "proxy",
];

/// Keys that accept certain words, although serde reads a text.
const WORDS: [&str; 2] = ["begin_string", "precision"];

/// The tables whose keys the error lists if the value is no table.
const TABLES: [(&str, &[Key]); 4] = [
    ("struct LogonConfig", LogonConfig::KEYS),
    ("struct NumbersConfig", NumbersConfig::KEYS),
    ("struct ResendConfig", ResendConfig::KEYS),
    ("struct TimingConfig", TimingConfig::KEYS),
];

const WORD: &str = "a word in quotes";
const TRUE_OR_FALSE: &str = "true or false";
const TEXT: &str = "a text in quotes";
const LIST: &str = "a list";

/// Returns the term of the settings for a form that serde names.
fn form(expected: &str) -> String {
    if let Some((_, keys)) = TABLES.iter().find(|(name, _)| expected == *name) {
        let keys: Vec<_> = keys.iter().map(|key| key.name).collect();
        return format!("a table of {}", keys.join(", "));
    }
    let form = match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of 0 or more",
        "a boolean" => TRUE_OR_FALSE,
        "a string" => TEXT,
        "path string" => "a path in quotes",
        "a sequence" => LIST,
        "a map" => "a table, such as { key = value }",
        "struct TlsSettings" => "a table, such as { certificate = \"own.pem\", key = \"own.key\" }",
        "struct FailoverSettings" => "a table, such as { addresses = [\"b.example:9880\"] }",
        "struct ProxySettings" => {
            "a table, such as { kind = \"http\", address = \"proxy.example:3128\" }"
        }
        "struct LogSettings" => "a table, such as { dir = \"log\" }",
        "struct ScheduleSettings" => {
            "a table, such as { days = \"mon-fri\", from = \"08:00\", to = \"16:30\" }"
        }
        "struct Throttle" => {
            "a table, such as { msg_type = \"D\", messages_max = 10, interval_ms = 1000, action = \
             \"reject\" }"
        }
        other if other.starts_with("struct ") => "a table, such as { key = value }",
        other => other,
    };
    form.to_owned()
}

/// Returns a text that suggests the nearest correct word, or else lists all words.
pub(crate) fn nearest<'a>(wrong: &str, right: impl Iterator<Item = &'a str>) -> String {
    let similar = |word: &&str| (strsim::jaro_winkler(wrong, word) * 1000.0) as u32;
    let mut right: Vec<&str> = right.collect();
    let mut seen = HashSet::new();
    right.retain(|word| seen.insert(*word));
    match right.iter().max_by_key(|word| similar(word)) {
        Some(word) if similar(word) > 700 => format!("; did you mean `{word}`?"),
        _ => format!("; known are {}", right.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::Settings;

    const SESSION: &str = "[[session]]\nrole = \"initiator\"\nbegin_string = \"FIX.4.4\"\n\
        sender_comp_id = \"A\"\ntarget_comp_id = \"B\"\naddress = \"127.0.0.1:1\"\n";

    /// Checks that `line` causes the expected error in line 7 of a file.
    fn check(line: &str, expected: &str) {
        let text = format!("{SESSION}{line}\n");
        let error = Settings::parse("my.toml", &text).unwrap_err().to_string();
        assert_eq!(error, format!("my.toml:7: {expected}"), "{line}");
    }

    #[test]
    fn numbers_and_switches() {
        let whole = "must be a whole number from 0 to 4294967295, not";
        for (value, found) in [
            ("\"30\"", "\"30\"; write the number without quotes"),
            ("\"30 s\"", "\"30 s\""),
            ("-1", "-1"),
            ("30.5", "30.5"),
            ("99999999999", "99999999999"),
            ("99999999999999999999999", "99999999999999999999999"),
            ("true", "true"),
            ("[30]", "a list"),
        ] {
            check(
                &format!("heart_bt_int_s = {value}"),
                &format!("`heart_bt_int_s` {whole} {found}"),
            );
        }
        check("cpu = -1", "`cpu` must be a whole number of 0 or more, not -1");
        check(
            "default_appl_ver_id = 300",
            "`default_appl_ver_id` must be a whole number from 0 to 255, not 300",
        );
        check(
            "timing.margin_percent = \"20%\"",
            &format!("`timing.margin_percent` {whole} \"20%\""),
        );
        check("log = { dir = \"log\", mask = [-1] }", &format!("`mask` {whole} -1"));
        check(
            "validate = \"true\"",
            "`validate` must be true or false, not \"true\"; write the word without quotes",
        );
        check("validate = 1", "`validate` must be true or false, not 1");
        check("checks = { codes = 1 }", "`codes` must be true or false, not 1");
        let behind =
            "the value after `=` is neither a number, nor true or false, nor a text in quotes";
        check("validate = yes", behind);
        check("mode = initiator", behind);
        check("port = 30 s", behind);
        check("mode =", "the key `mode` has no value");
        check("log = { dir = \"a\", dir = \"b\" }", "the key `dir` appears twice; remove one");
    }

    #[test]
    fn texts_lists_and_tables() {
        check("qualifier = 5", "`qualifier` must be a text in quotes, not 5; write \"5\"");
        check(
            "reset_at = 17:00:00",
            "`reset_at` must be a text in quotes, not 17:00:00; write \"17:00:00\"",
        );
        check("store_dir = [\"a\"]", "`store_dir` must be a path in quotes, not a list");
        check("precision = 3", "`precision` must be a word in quotes, not 3");
        check("mode = 3", "`mode` must be a word in quotes, not 3");
        check(
            "reset_on = \"logon\"",
            "`reset_on` must be a list, not \"logon\"; write [\"logon\"]",
        );
        check("log = \"log\"", "`log` must be a table, such as { dir = \"log\" }, not \"log\"");
        check(
            "checks = [\"codes\"]",
            "`checks` must be a table, such as { key = value }, not a list",
        );
        check(
            "schedule = \"08:00\"",
            "`schedule` must be a table, such as { days = \"mon-fri\", from = \"08:00\", to = \
             \"16:30\" }, not \"08:00\"",
        );
        check("logon.fields = \"554=hush\"", "`logon.fields` must be a list, not what stands here");
        check("logon = { fields = \"554=x\" }", "`fields` must be a list, not what stands here");
        check("log = { mask = [1] }", "the key `dir` is missing");
        check("role = \"acceptor\"", "the key `role` appears twice; remove one");
        check("mode = \"fast\"", "unknown value `fast`; known are pool, dedicated, spin, polled");
        check("HeartBtInt = 3", "unknown key `HeartBtInt`; did you mean `heart_bt_int_s`?");
        check(
            "logon = { password = { env = \"NO_SUCH_VARIABLE\" } }",
            "the environment variable NO_SUCH_VARIABLE is not set",
        );
        for (place, whence) in [
            ("file = \"/dev/null\"", "the file /dev/null"),
            ("command = [\"true\"]", "output of the program true"),
        ] {
            check(
                &format!("logon = {{ password = {{ {place} }} }}"),
                &format!("the first line of {whence} is empty, but a password must not be empty"),
            );
        }
    }

    #[test]
    fn a_word_is_listed_once() {
        let right = ["session", "engine", "session"].into_iter();
        assert_eq!(super::nearest("zzz", right), "; known are session, engine");
    }

    #[test]
    fn sections() {
        for (text, expected) in [
            (
                "[[engine]]\nworkers = 2",
                "1: write all keys of the engine in one section \
                                         [engine]",
            ),
            ("engine = 5", "1: write all keys of the engine in one section [engine]"),
            (
                "dictionaries = 5",
                "1: `dictionaries` must be a table, such as { key = value }, \
                                  not 5",
            ),
            (
                "[engine]\nworkers = \"2\"",
                "2: `workers` must be a whole number of 0 or more, not \"2\"; write the number \
                 without quotes",
            ),
            ("[engine]\ncpus = 2", "2: `cpus` must be a list, not 2; write [2]"),
            (
                "[engine]\nworkers = 1\n[engine]",
                "3: the section `engine` appears twice; combine both",
            ),
            (
                "role = \"initiator\"",
                "1: `role` is above the first section; move this key into [[session]] or \
                 [defaults]",
            ),
            (
                "[default]\nrole = \"initiator\"",
                "1: unknown section `default`; did you mean `defaults`?",
            ),
            (
                "[[session]\nrole = \"initiator\"",
                "1: the name of a section needs as many closing as opening brackets: [[session]], \
                 [defaults]",
            ),
            (
                "{\"session\": []}",
                "1: this line is neither `key = value` nor the name of a section such as \
                 [[session]]",
            ),
        ] {
            let error = Settings::parse("my.toml", text).unwrap_err().to_string();
            assert_eq!(error, format!("my.toml:{expected}"), "{text}");
        }
    }
}
