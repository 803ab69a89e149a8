//! Pages of the book that are made from the code: the reference of settings, from the types that
//! the settings file is read into, and the list of events.
//!
//! A key's meaning is the comment of its field. `cargo xtask docs` writes the page; the test also
//! sees to it that each key is shown by a scenario, or by tests that exist.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

mod engine;
mod events;
mod words;

use std::fmt::Write;
use std::fs;
use std::path::Path;

use toml::de::{DeTable, DeValue};

/// A part of the page: its title, what introduces it, the type, and where that stands.
struct Part {
    title: &'static str,
    about: &'static str,
    of: &'static str,
    file: &'static str,
    /// The way to its keys: from `[[session]]` on, or else from a section of its own.
    path: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part {
        title: "`[[session]]`",
        about: "One session. Keys in `[defaults]` hold for all sessions that do not have them.",
        of: "SessionSettings",
        file: "crates/engine/src/settings.rs",
        path: &[],
    },
    Part {
        title: "`logon`",
        about: "`logon = { username = \"desk\", password = { env = \"FIX_PASSWORD\" } }`",
        of: "LogonConfig",
        file: "crates/session/src/config/logon.rs",
        path: &["logon"],
    },
    Part {
        title: "`numbers`",
        about: "`numbers = { next_expected = true }`",
        of: "NumbersConfig",
        file: "crates/session/src/config/numbers.rs",
        path: &["numbers"],
    },
    Part {
        title: "`resend`",
        about: "`resend = { request_max = 2500 }`",
        of: "ResendConfig",
        file: "crates/session/src/config/resend.rs",
        path: &["resend"],
    },
    Part {
        title: "`timing`",
        about: "`timing = { margin_percent = 50 }`",
        of: "TimingConfig",
        file: "crates/session/src/config/timing.rs",
        path: &["timing"],
    },
    Part {
        title: "`reset_on`",
        about: "`reset_on = [\"logon\", \"error\"]`: a list of these words.",
        of: "ResetPolicy",
        file: "crates/session/src/config/reset.rs",
        path: &["reset_on"],
    },
    Part {
        title: "`throttles`",
        about: "`throttles = [{ msg_type = \"D\", messages_max = 10, interval_ms = 1000, action = \
                \"reject\" }]`",
        of: "Throttle",
        file: "crates/session/src/config/throttle.rs",
        path: &["throttles"],
    },
    Part {
        title: "`unavailable`",
        about: "`unavailable = { retries = 3, delay_ms = 500, then = \"reject\" }`",
        of: "Unavailable",
        file: "crates/engine/src/settings.rs",
        path: &["unavailable"],
    },
    Part {
        title: "`retention`",
        about: "`retention = { archive_dir = \"archive\", rotate_every_h = 24, delete_after_days = \
                90 }`. See [Retention](retention.md).",
        of: "RetentionSettings",
        file: "crates/engine/src/settings/retention.rs",
        path: &["retention"],
    },
    Part {
        title: "`log`",
        about: "`log = { dir = \"log\" }`. See [Logs](logs.md).",
        of: "LogSettings",
        file: "crates/engine/src/settings/log.rs",
        path: &["log"],
    },
    Part {
        title: "`schedule`",
        about: "See [Schedules](schedules.md).",
        of: "ScheduleSettings",
        file: "crates/engine/src/schedule/settings.rs",
        path: &["schedule"],
    },
    Part {
        title: "`schedule.windows`",
        about: "One of several windows.",
        of: "WindowSettings",
        file: "crates/engine/src/schedule/settings.rs",
        path: &["schedule", "windows"],
    },
    Part {
        title: "`dictionary`, `appl_versions`, `[dictionaries]`",
        about: "A name, a path, or a table of these keys.",
        of: "DictionarySource",
        file: "crates/engine/src/settings/dictionary_source.rs",
        path: &["dictionary"],
    },
    Part {
        title: "`[engine]`",
        about: "What all sessions share.",
        of: "EngineSettings",
        file: "crates/engine/src/settings.rs",
        path: &["[engine]"],
    },
];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The fields of a type with their comments.
fn fields(part: &Part) -> Vec<(String, String)> {
    let text = fs::read_to_string(root().join(part.file)).unwrap();
    let head = format!("pub struct {} {{\n", part.of);
    let begin = text.find(&head).unwrap_or_else(|| panic!("{} is gone", part.of)) + head.len();
    let (mut fields, mut comment) = (Vec::new(), String::new());
    for line in text[begin..].lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(more) = line.strip_prefix("///") {
            comment.push_str(more);
        } else if let Some((name, _)) =
            line.strip_prefix("pub ").and_then(|field| field.split_once(':'))
        {
            fields.push((name.to_owned(), plain(&comment)));
            comment.clear();
        }
    }
    assert!(!fields.is_empty(), "{} has no fields", part.of);
    fields
}

/// A comment as the book shows it: names of the API are left out, or links to what the page says of
/// them; no bars that end a cell.
fn plain(comment: &str) -> String {
    let mut text = comment.trim().replace('|', "\\|");
    for part in PARTS {
        // The part's own key is the last word of its title's first pair of backticks.
        let key = part.title.split('`').nth(1).unwrap();
        let anchor = key.replace(['[', ']', '.'], "");
        text = text.replace(&format!("[`{}`]", part.of), &format!("\u{1}`{key}`\u{2}(#{anchor})"));
    }
    while let Some(begin) = text.find(" (see [`") {
        let end = begin + text[begin..].find(')').unwrap();
        text.replace_range(begin..=end, "");
    }
    // Only then the links of the page, which have brackets too.
    text.replace("[`", "`").replace("`]", "`").replace('\u{1}', "[").replace('\u{2}', "]")
}

/// A scenario: its path, and the settings that it has.
struct Shown {
    path: String,
    keys: DeValue<'static>,
    /// Keys that it leaves out although all others have them.
    unset: Vec<String>,
}

/// Whether the value at the end of the way has this key, or is a list with this word.
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
    // For as long as the test runs, like all that is parsed out of it.
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

/// What shows a key: scenarios first, and the tests of what these cannot play.
fn cell(part: &Part, key: &str, all: &[Shown]) -> String {
    let in_session = part.path.is_empty();
    if in_session && ALWAYS.contains(&key) {
        return "each scenario".to_owned();
    }
    let shows = |one: &&Shown| {
        has(&one.keys, part.path, key) || (in_session && one.unset.iter().any(|k| k == key))
    };
    let mut scenarios: Vec<_> = all.iter().filter(shows).collect();
    // Those first that are named after it.
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

/// The page of keys and meanings, and that of what shows each key.
const PAGE: &str = "book/src/settings.md";
const SHOWN_PAGE: &str = "book/src/settings-shown.md";

fn pages() -> ([(&'static str, String); 2], Vec<String>) {
    let all = all_scenarios();
    let mut missing = Vec::new();
    let mut shown = String::from(
        "# What shows each setting\n\nEach key of the [settings](settings.md) is shown by \
         scenarios, files of `testdata/scenarios` in\nwhich it is set: what it does, message by \
         message; or by tests of `crates`, on and off. This page is made\nby `cargo xtask docs`.\n",
    );
    let mut page = String::from(
        "# Settings\n\nThis page is made from the types that a settings file is read into \
         (`cargo xtask docs`). Unknown keys\nand values are errors with the line and the nearest \
         right word. What a key does, message by message, is in\n[scenarios and tests]\
         (settings-shown.md).\n\n| part | is about |\n|---|---|\n",
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
            let cell = cell(part, &key, &all);
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
