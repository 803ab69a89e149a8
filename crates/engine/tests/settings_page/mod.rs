//! Pages of the book that are generated from the code: the reference of settings and the list of
//! events.
//!
//! The meaning of a key is the doc comment of its field; the default comes from the code.
//! `cargo xtask docs` writes the page. The test also checks that a scenario or an existing test
//! shows each key.
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
    FailoverSettings, FixAdminSettings, Key, LogSettings, LogonConfig, NumbersConfig,
    ProtocolConfig, ProxySettings, QueueSettings, ResendConfig, ResetPolicy, RetentionSettings,
    SessionSettings, SocketSettings, StoreSettings, ThreadSettings, Throttle, TimingConfig,
    TlsSettings, Unavailable, ValidationSettings,
};

/// A part of the page: its title, its introduction, its keys, and their path. The path starts at
/// `[[session]]` or at a separate section.
pub(crate) struct Part {
    title: &'static str,
    about: &'static str,
    /// The type that defines the keys.
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
    part!(EngineSettings at ["[engine]"]: "`[engine]`", "What all sessions share."),
    part!(AdminSettings at ["[admin]"]: "`[admin]`",
        "The administration over HTTP, if the table is there. See \
         [Administration](administration.md)."),
    part!(FixAdminSettings at ["[admin.fix]"]: "`[admin.fix]`",
        "The administration over sessions of FIX, if the table is there. See \
         [FIX administration](fix-administration.md)."),
    part!(EventSettings at ["[events]"]: "`[events]`",
        "Where the events of `transfix serve` and `transfix connect` go. See \
         [What happened?](what-happened.md)."),
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns the keys of a part with their meanings: the comments of the fields, and the defaults.
fn fields(part: &Part) -> impl Iterator<Item = (&'static str, String)> {
    part.keys.iter().map(|key| {
        // The comment already explains the default.
        let is_told = key.about.contains("y default ");
        let default = key.default.filter(|_| !is_told).and_then(default);
        let default = default.map(|value| format!(" Default {value}."));
        let text = plain(key.about) + &range(key.range) + &default.unwrap_or_default();
        (key.name, text)
    })
}

/// Returns the bounds of a value, if there are any besides 0.
fn range(range: (Option<u64>, Option<u64>)) -> String {
    match range {
        (None, None) => String::new(),
        (Some(least), None) => format!(" At least {}.", grouped(least)),
        (None | Some(0), Some(most)) => format!(" At most {}.", grouped(most)),
        (Some(least), Some(most)) => format!(" {} to {}.", grouped(least), grouped(most)),
    }
}

/// Returns a number with thousands separators.
fn grouped(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        _ => format!("{},{:03}", grouped(number / 1_000), number % 1_000),
    }
}

/// Returns a default in the syntax of a settings file, or `None` if the page shows none.
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

/// Returns a comment as the book shows it. API names are removed, or become links to their
/// description on the page. Bars are removed, because a bar ends a table cell.
fn plain(comment: &str) -> String {
    let mut text = comment.trim().replace('|', "\\|");
    // The first code span of a title is the key of the part.
    let tables = PARTS.iter().filter_map(|part| Some((part, part.title.split('`').nth(1)?)));
    for (part, key) in tables {
        let anchor = key.replace(['[', ']', '.'], "");
        text = text.replace(&format!("[`{}`]", part.of), &format!("\u{1}`{key}`\u{2}(#{anchor})"));
    }
    while let Some(begin) = text.find(" (see [`") {
        let end = begin + text[begin..].find(')').unwrap();
        text.replace_range(begin..=end, "");
    }
    // The links of the page contain brackets too, so they are restored last.
    text.replace("[`", "`").replace("`]", "`").replace('\u{1}', "[").replace('\u{2}', "]")
}

/// A scenario: its path and its settings.
struct Shown {
    path: String,
    keys: DeValue<'static>,
    /// Keys of all other scenarios that this scenario leaves out.
    unset: Vec<String>,
}

/// Returns true if the value at `path` has this key, or is a list with this word.
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

fn shown(path: &Path, text: &str) -> Shown {
    let lines = |word: &'static str| text.lines().filter_map(move |line| line.strip_prefix(word));
    let engine = lines("engine:").map(|line| format!("\"[engine]\".{}\n", line.trim()));
    let keys: String = lines("set:").map(|line| format!("{line}\n")).chain(engine).collect();
    // Leaked: the parsed table borrows the text for the whole test.
    let table = DeTable::parse(keys.leak()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let keys = DeValue::Table(table.into_inner());
    Shown {
        path: path.with_extension("").display().to_string(),
        keys,
        unset: lines("unset:").map(|line| line.trim().to_owned()).collect(),
    }
}

fn all_scenarios() -> Vec<Shown> {
    let dir = root().join("testdata/scenarios");
    let mut found = Vec::new();
    for folder in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&file).unwrap();
            found.push(shown(file.strip_prefix(&dir).unwrap(), &text));
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Keys that each session of each scenario has.
const ALWAYS: &[&str] = &["role", "begin_string", "sender_comp_id", "address"];

/// Returns the evidence for a key: scenarios first, then tests for keys that scenarios cannot play.
fn cell(part: &Part, key: &str, all: &[Shown]) -> String {
    let in_session = part.path.is_empty();
    if in_session && ALWAYS.contains(&key) {
        return "each scenario".to_owned();
    }
    let shows = |one: &&Shown| {
        has(&one.keys, part.path, key) || (in_session && one.unset.iter().any(|k| k == key))
    };
    let mut scenarios: Vec<_> = all.iter().filter(shows).collect();
    // Scenarios named after the key come first.
    let named = key.replace('_', "-");
    scenarios.sort_by_key(|one| !one.path.contains(&named));
    let mut cell: Vec<_> = scenarios.iter().take(3).map(|one| format!("`{}`", one.path)).collect();
    if scenarios.len() > 3 {
        cell.push(format!("and {} more", scenarios.len() - 3));
    }
    let name = part.path.iter().chain([&key]).copied().collect::<Vec<_>>().join(".");
    for (_, file, test) in engine::OF_THE_ENGINE.iter().filter(|(of, ..)| *of == name) {
        let text = fs::read_to_string(root().join("crates").join(file)).unwrap_or_default();
        assert!(text.contains(&format!("fn {test}()")), "there is no test {test} in crates/{file}");
        cell.push(format!("`{file}`: `{test}`"));
    }
    cell.join(", ")
}

/// The page of keys and meanings; the second page lists the evidence for each key.
const PAGE: &str = "book/src/settings.md";
const SHOWN_PAGE: &str = "docs/settings-shown.md";

fn pages() -> ([(&'static str, String); 2], Vec<String>) {
    let all = all_scenarios();
    let mut missing = Vec::new();
    let mut shown = String::from(
        "# What shows each setting\n\nWhich scenario or test shows a key of the \
         [settings](../book/src/settings.md)? A scenario is a file of `testdata/scenarios`\nthat \
         sets the key; it shows message by message what the key does. A test of `crates` shows \
         the key on and off.\n`cargo xtask docs` writes this page.\n",
    );
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
        write!(shown, "\n## {}\n\n| key | shown by |\n|---|---|\n", part.title).unwrap();
        for (key, meaning) in fields(part) {
            let cell = cell(part, key, &all);
            if cell.is_empty() {
                missing.push(format!("{}.{key}", part.of));
            }
            writeln!(page, "| `{key}` | {meaning} |").unwrap();
            writeln!(shown, "| `{key}` | {cell} |").unwrap();
        }
    }
    ([(PAGE, page), (SHOWN_PAGE, shown)], missing)
}

#[test]
fn the_pages_of_settings_are_up_to_date_and_each_switch_is_shown() {
    let (pages, missing) = pages();
    for (page, text) in pages {
        let path = root().join(page);
        if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == text, "{page} is old; run `cargo xtask docs` and look at it");
    }
    assert!(missing.is_empty(), "no scenario and no test shows {missing:?}");
}
