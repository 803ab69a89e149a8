//! Tests and generates pages of the book from the code: the reference of settings and the list of
//! events.
//!
//! The comment of a field is the meaning of its key, and the default comes from the code.
//! `cargo xtask docs` writes the page. The test also checks that each key is shown by a scenario or
//! an existing test.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod engine;
mod events;
mod words;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use toml::de::{DeTable, DeValue};
use transfix::schedule::{ScheduleSettings, WindowSettings};
use transfix::{
    AdminSettings, ApplicationSettings, DictionarySource, EngineSettings, EventSettings,
    FailoverSettings, FixAdminSettings, FleetSettings, Key, LogSettings, LogonConfig,
    NumbersConfig, ProtocolConfig, ProxySettings, QueueSettings, ResendConfig, ResetPolicy,
    RetentionSettings, SessionSettings, SocketSettings, StoreSettings, ThreadSettings, Throttle,
    TimingConfig, TlsSettings, Unavailable, ValidationSettings,
};

/// A part of the page: a title, an introduction, keys, and the section of the file in which they
/// are.
pub(crate) struct Part {
    title: &'static str,
    about: &'static str,
    /// The name of the type whose fields are the keys.
    of: &'static str,
    pub(crate) keys: &'static [Key],
    pub(crate) path: &'static [&'static str],
}

macro_rules! part {
    ($of:ident at [$($path:literal),*]: $title:literal, $about:literal) => {
        Part {
            title: $title,
            about: $about,
            of: stringify!($of),
            keys: $of::KEYS,
            path: &[$($path),*],
        }
    };
}

pub(crate) const PARTS: &[Part] = &[
    part!(SessionSettings at []: "`[[session]]`",
        "One session. Keys in `[defaults]` hold for all sessions that do not have them."),
    part!(ProtocolConfig at []: "Times, limits, resets",
        "Further keys of `[[session]]`; in Rust in its field `protocol`."),
    part!(ValidationSettings at []: "Checks of messages",
        "Further keys of `[[session]]`; in Rust in its field `validation`."),
    part!(StoreSettings at []: "The store",
        "Further keys of `[[session]]`; in Rust in its field `store`."),
    part!(QueueSettings at []: "Messages that wait to be sent",
        "Further keys of `[[session]]`; in Rust in its field `queue`."),
    part!(ThreadSettings at []: "Threads",
        "Further keys of `[[session]]`; in Rust in its field `threads`."),
    part!(SocketSettings at []: "The connection",
        "Further keys of `[[session]]`; in Rust in its field `socket`."),
    part!(LogonConfig at ["logon"]: "`logon`",
        "`logon = { username = \"desk\", password = { env = \"FIX_PASSWORD\" } }`"),
    part!(NumbersConfig at ["numbers"]: "`numbers`", "`numbers = { next_expected = true }`"),
    part!(ResendConfig at ["resend"]: "`resend`", "`resend = { request_max = 2500 }`"),
    part!(TimingConfig at ["timing"]: "`timing`", "`timing = { margin_percent = 50 }`"),
    part!(ResetPolicy at ["reset_on"]: "`reset_on`",
        "`reset_on = [\"logon\", \"error\"]`: a list of these words."),
    part!(Throttle at ["throttles"]: "`throttles`",
        "`throttles = [{ msg_type = \"D\", messages_max = 10, interval_ms = 1000, action = \
         \"reject\" }]`"),
    part!(Unavailable at ["unavailable"]: "`unavailable`",
        "`unavailable = { retries = 3, delay_ms = 500, then = \"reject\" }`"),
    part!(ApplicationSettings at ["application"]: "`application`",
        "`application = { messages_max = 1000, when_full = \"disconnect\" }`. See \
         [Threads](threads.md)."),
    part!(RetentionSettings at ["retention"]: "`retention`",
        "`retention = { archive_dir = \"archive\", rotate_every_h = 24, delete_after_days = 90 }`. \
         See [Retention](retention.md)."),
    part!(LogSettings at ["log"]: "`log`", "`log = { dir = \"log\" }`. See [Logs](logs.md)."),
    part!(TlsSettings at ["tls"]: "`tls`",
        "`tls = { certificate = \"own.pem\", key = \"own.key\" }`. See [TLS](tls.md)."),
    part!(FailoverSettings at ["failover"]: "`failover`",
        "`failover = { addresses = [\"b.example:9880\"], order = \"first\" }`. See \
         [Connecting](connecting.md)."),
    part!(ProxySettings at ["proxy"]: "`proxy`",
        "`proxy = { kind = \"socks5\", address = \"proxy.example:1080\" }`. See \
         [Connecting](connecting.md)."),
    part!(ScheduleSettings at ["schedule"]: "`schedule`", "See [Schedules](schedules.md)."),
    part!(WindowSettings at ["schedule", "windows"]: "`schedule.windows`",
        "One of several windows."),
    part!(DictionarySource at ["dictionary"]: "`dictionary`, `appl_versions`, `[dictionaries]`",
        "A name, a path, or a table of these keys."),
    part!(EngineSettings at ["[engine]"]: "`[engine]`", "Settings that all sessions share."),
    part!(AdminSettings at ["[admin]"]: "`[admin]`",
        "The administration over HTTP, if the table is there. See \
         [Administration](administration.md)."),
    part!(FixAdminSettings at ["[admin.fix]"]: "`[admin.fix]`",
        "The administration over sessions of FIX, if the table is there. See \
         [FIX administration](fix-administration.md)."),
    part!(EventSettings at ["[events]"]: "`[events]`",
        "Where the events of `transfix serve` and `transfix connect` go. See \
         [What happened?](what-happened.md)."),
    part!(FleetSettings at ["[fleet]"]: "`[fleet]`",
        "The fleet of which this process is a gateway, if the table is there."),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the keys of a part, each with its meaning, made from the comment and the default of its
/// field.
fn fields(part: &Part) -> impl Iterator<Item = (&'static str, String)> {
    part.keys.iter().map(|key| {
        // Omits the default if the comment already explains it.
        let is_told = key.about.contains("y default ");
        let default = key.default.filter(|_| !is_told).and_then(default);
        let default = default.map(|value| format!(" Default {value}."));
        let text = plain(key.about) + &range(key.range) + &default.unwrap_or_default();
        (key.name, text)
    })
}

/// Returns the bounds of a value as text; empty if the only bound is a minimum of 0.
fn range(range: (Option<u64>, Option<u64>)) -> String {
    match range {
        (None, None) => String::new(),
        (Some(least), None) => format!(" At least {}.", grouped(least)),
        (None | Some(0), Some(most)) => format!(" At most {}.", grouped(most)),
        (Some(least), Some(most)) => format!(" {} to {}.", grouped(least), grouped(most)),
    }
}

/// Formats a number with a comma before each three digits.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// Returns a default as a settings file would contain it, or `None` if the page does not show it.
fn default(code: &str) -> Option<String> {
    if let Some((n, bits)) = code.split_once(" << ") {
        let unit = ["B", "KiB", "MiB", "GiB"][bits.parse::<usize>().unwrap() / 10];
        return Some(format!("{n} {unit}"));
    }
    if code.starts_with(|c: char| c.is_ascii_digit()) {
        return Some(code.replace('_', ","));
    }
    if let Some((_, variant)) = code.split_once("::").filter(|(_, end)| !end.contains("()")) {
        return Some(format!("`{}`", variant.to_lowercase()));
    }
    match code {
        "None" => Some("none".to_owned()),
        _ if code.ends_with("::new()") => Some("none".to_owned()),
        "true" | "false" => Some(code.to_owned()),
        _ if code.ends_with("::default()") || code.is_empty() => None,
        _ => {
            let text = code.strip_prefix('"').and_then(|code| code.strip_suffix("\".into()"));
            Some(format!("`{}`", text.unwrap_or_else(|| panic!("{code} is no value of a file"))))
        }
    }
}

/// Converts a comment for the book: replaces API links by plain names or links within the page, and
/// escapes bars.
fn plain(comment: &str) -> String {
    let mut text = comment.trim().replace('|', "\\|");
    // The first text in backticks in the title of a part is the key of its table.
    let tables = PARTS.iter().filter_map(|part| Some((part, part.title.split('`').nth(1)?)));
    for (part, key) in tables {
        let anchor = key.replace(['[', ']', '.'], "");
        text = text.replace(&format!("[`{}`]", part.of), &format!("\u{1}`{key}`\u{2}(#{anchor})"));
    }
    while let Some(begin) = text.find(" (see [`") {
        let end = begin + text[begin..].find(')').unwrap();
        text.replace_range(begin..=end, "");
    }
    // Removes the brackets of API links first, then inserts those of the page's own links.
    text.replace("[`", "`").replace("`]", "`").replace('\u{1}', "[").replace('\u{2}', "]")
}

/// The settings of a scenario.
struct Scenario {
    keys: DeValue<'static>,
    /// The keys that the scenario sets to their defaults by omitting them.
    unset: Vec<String>,
}

/// Returns true if the value at `path` is a table with this key, or a list with this word.
fn has(value: &DeValue<'_>, path: &[&str], key: &str) -> bool {
    match (value, path) {
        (DeValue::Table(table), []) => table.contains_key(key),
        (DeValue::Table(table), [next, path @ ..]) => {
            table.get(*next).is_some_and(|value| has(value.get_ref(), path, key))
        }
        (DeValue::Array(all), path) => all.iter().any(|value| has(value.get_ref(), path, key)),
        (DeValue::String(word), []) => word == key,
        _ => false,
    }
}

fn scenario(path: &Path, text: &str) -> Scenario {
    let lines = |word: &'static str| text.lines().filter_map(move |line| line.strip_prefix(word));
    let engine = lines("engine:").map(|line| format!("\"[engine]\".{}\n", line.trim()));
    let keys: String = lines("set:").map(|line| format!("{line}\n")).chain(engine).collect();
    // The test leaks the text, because the parsed table borrows from it.
    let table = DeTable::parse(keys.leak()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let keys = DeValue::Table(table.into_inner());
    Scenario { keys, unset: lines("unset:").map(|line| line.trim().to_owned()).collect() }
}

fn all_scenarios() -> Vec<Scenario> {
    let dir = root().join("testdata/scenarios");
    let mut found = Vec::new();
    for folder in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&file).unwrap();
            found.push(scenario(file.strip_prefix(&dir).unwrap(), &text));
        }
    }
    found
}

/// The keys that every scenario sets for every session.
const ALWAYS: &[&str] = &["role", "begin_string", "sender_comp_id", "address"];

/// Returns true if a scenario sets the key, or a test shows the key on and off.
fn is_shown(part: &Part, key: &str, all: &[Scenario]) -> bool {
    let in_session = part.path.is_empty();
    let shows = |one: &Scenario| {
        has(&one.keys, part.path, key) || (in_session && one.unset.iter().any(|k| k == key))
    };
    let name = part.path.iter().chain([&key]).copied().collect::<Vec<_>>().join(".");
    let mut tests = engine::OF_THE_ENGINE.iter().filter(|(of, ..)| *of == name).peekable();
    let has_test = tests.peek().is_some();
    for (_, file, test) in tests {
        let text = fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}()")), "there is no test {test} in crates/{file}");
    }
    has_test || (in_session && ALWAYS.contains(&key)) || all.iter().any(shows)
}

/// The page of the book that explains the settings keys.
const PAGE: &str = "book/src/settings.md";

fn page() -> String {
    let mut page = String::from(
        "# Settings\n\nWhich keys may a settings file have, and what does each one do? All of \
         them are below. An unknown key or value is an\nerror with its line and the nearest right \
         word. \
         `transfix settings check FILE` reports all errors at once, and settings\nthat are \
         dangerous; `transfix settings reference KEY` explains a key in a terminal. How files are \
         put together is on the\npage [Settings files](settings-files.md). `cargo xtask docs` \
         makes this page from the code.\n\n| part | is about |\n|---|---|\n",
    );
    for part in PARTS {
        let about = part.about.split(". ").next().unwrap();
        writeln!(page, "| {} | {} |", part.title, about.trim_end_matches('.')).unwrap();
    }
    for part in PARTS {
        write!(page, "\n## {}\n\n{}\n\n", part.title, part.about).unwrap();
        page.push_str("| key | meaning |\n|---|---|\n");
        for (key, meaning) in fields(part) {
            writeln!(page, "| `{key}` | {meaning} |").unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_settings_is_up_to_date() {
    let (path, page) = (root().join(PAGE), page());
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "{PAGE} is old; run `cargo xtask docs` and look at it");
}

#[test]
fn a_scenario_or_a_test_shows_each_setting() {
    let all = all_scenarios();
    let keys = PARTS.iter().flat_map(|part| fields(part).map(move |(key, _)| (part, key)));
    let missing: Vec<String> = keys
        .filter(|(part, key)| !is_shown(part, key, &all))
        .map(|(part, key)| format!("{}.{key}", part.of))
        .collect();
    assert!(missing.is_empty(), "no scenario and no test shows {missing:?}");
}
