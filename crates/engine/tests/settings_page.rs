//! The book's reference of settings, made from the types that the settings file is read into.
//!
//! A key's meaning is the comment of its field. `cargo xtask docs` writes the page; the test also
//! sees to it that each key of the session layer is shown by a scenario.
#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A part of the page: its title, what introduces it, the type, and where that stands.
struct Part {
    title: &'static str,
    about: &'static str,
    of: &'static str,
    file: &'static str,
    /// The table that the keys stand in, if scenarios are to show them.
    table: Option<&'static str>,
}

const PARTS: &[Part] = &[
    Part {
        title: "`[[session]]`",
        about: "One session. Keys in `[defaults]` hold for all sessions that do not have them.",
        of: "SessionSettings",
        file: "crates/engine/src/settings.rs",
        table: None,
    },
    Part {
        title: "`logon`",
        about: "`logon = { username = \"desk\", password = { env = \"FIX_PASSWORD\" } }`",
        of: "LogonConfig",
        file: "crates/session/src/config/logon.rs",
        table: Some("logon"),
    },
    Part {
        title: "`numbers`",
        about: "`numbers = { next_expected = true }`",
        of: "NumbersConfig",
        file: "crates/session/src/config/numbers.rs",
        table: Some("numbers"),
    },
    Part {
        title: "`resend`",
        about: "`resend = { request_max = 2500 }`",
        of: "ResendConfig",
        file: "crates/session/src/config/resend.rs",
        table: Some("resend"),
    },
    Part {
        title: "`timing`",
        about: "`timing = { margin_percent = 50 }`",
        of: "TimingConfig",
        file: "crates/session/src/config/timing.rs",
        table: Some("timing"),
    },
    Part {
        title: "`reset_on`",
        about: "`reset_on = [\"logon\", \"error\"]`: a list of these words.",
        of: "ResetPolicy",
        file: "crates/session/src/config/reset.rs",
        table: Some("reset_on"),
    },
    Part {
        title: "`throttles`",
        about: "`throttles = [{ msg_type = \"D\", messages_max = 10, interval_ms = 1000, action = \
                \"reject\" }]`",
        of: "Throttle",
        file: "crates/session/src/config/throttle.rs",
        table: Some("throttles"),
    },
    Part {
        title: "`unavailable`",
        about: "`unavailable = { retries = 3, delay_ms = 500, then = \"reject\" }`",
        of: "Unavailable",
        file: "crates/engine/src/settings.rs",
        table: Some("unavailable"),
    },
    Part {
        title: "`retention`",
        about: "`retention = { archive_dir = \"archive\", rotate_every_h = 24, delete_after_days = \
                90 }`. See [Retention](retention.md).",
        of: "RetentionSettings",
        file: "crates/engine/src/retention.rs",
        table: None,
    },
    Part {
        title: "`log`",
        about: "`log = { dir = \"log\" }`. See [Logs](logs.md).",
        of: "LogSettings",
        file: "crates/engine/src/protocol_log/settings.rs",
        table: None,
    },
    Part {
        title: "`schedule`",
        about: "See [Schedules](schedules.md).",
        of: "ScheduleSettings",
        file: "crates/engine/src/schedule/settings.rs",
        table: None,
    },
    Part {
        title: "`schedule.windows`",
        about: "One of several windows.",
        of: "WindowSettings",
        file: "crates/engine/src/schedule/settings.rs",
        table: None,
    },
    Part {
        title: "`dictionary`, `appl_versions`, `[dictionaries]`",
        about: "A name, a path, or a table of these keys.",
        of: "DictionarySource",
        file: "crates/engine/src/dictionary_source.rs",
        table: None,
    },
    Part {
        title: "`[engine]`",
        about: "What all sessions share.",
        of: "EngineSettings",
        file: "crates/engine/src/settings.rs",
        table: None,
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

/// A comment as the book shows it: no links into the API, no bars that end a cell.
fn plain(comment: &str) -> String {
    let text = comment.trim().replace("[`", "`").replace("`]", "`").replace('|', "\\|");
    text.replace("crate::", "").replace("`*`", "`\\*`")
}

/// The scenarios that set this key of this table, by their paths.
fn scenarios(all: &[(String, String)], table: Option<&str>, key: &str) -> Vec<String> {
    let shows = |text: &str| {
        text.lines().filter_map(|line| line.strip_prefix("set:")).any(|line| {
            let (set, rest) = line.split_once('=').unwrap_or_default();
            match table {
                None => set.trim() == key,
                Some(table) => {
                    let words = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let mut words = words.filter(|word| !word.is_empty());
                    set.trim() == table && words.any(|word| word == key)
                        || set.trim() == format!("{table}.{key}")
                }
            }
        })
    };
    all.iter().filter(|(_, text)| shows(text)).map(|(path, _)| path.clone()).collect()
}

fn all_scenarios() -> Vec<(String, String)> {
    let dir = root().join("testdata/scenarios");
    let mut found = Vec::new();
    for folder in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
        if !folder.is_dir() {
            continue;
        }
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let path = file.strip_prefix(&dir).unwrap().with_extension("");
            found.push((path.display().to_string(), fs::read_to_string(&file).unwrap()));
        }
    }
    found.sort();
    found
}

/// Keys of a session that are not the session layer's: who it is, where it connects, which thread
/// drives it, where it is stored. The engine's own tests show them.
const OF_THE_ENGINE: &[&str] = &[
    "role",
    "begin_string",
    "sender_comp_id",
    "target_comp_id",
    "qualifier",
    "address",
    "default_appl_ver_id",
    "dictionary",
    "reconnect_interval_ms",
    "mode",
    "cpu",
    "schedule",
    "send",
    "unsent",
    "route_third_party",
    "durability",
    "store_dir",
    "keep_inbound",
    "refresh_on_logon",
    "segment_bytes",
    "retention",
    "log",
    "queued_bytes_max",
    "tcp_nodelay",
    "tcp_send_buffer_bytes",
    "tcp_receive_buffer_bytes",
];

fn page() -> (String, Vec<String>) {
    let all = all_scenarios();
    let mut missing = Vec::new();
    let mut page = String::from(
        "# Settings\n\nThis page is made from the types that a settings file is read into \
         (`cargo xtask docs`). Unknown keys\nand values are errors with the line and the nearest \
         right word. The scenarios are files of\n`testdata/scenarios` in which a key is set: what \
         it does, message by message.\n\n| part | is about |\n|---|---|\n",
    );
    for part in PARTS {
        let about = part.about.split(". ").next().unwrap();
        writeln!(page, "| {} | {} |", part.title, about.trim_end_matches('.')).unwrap();
    }
    for part in PARTS {
        write!(page, "\n## {}\n\n{}\n\n", part.title, part.about).unwrap();
        page.push_str("| key | meaning | scenarios |\n|---|---|---|\n");
        for (key, meaning) in fields(part) {
            let shown = scenarios(&all, part.table, &key);
            let of_session = part.table.is_some()
                || (part.of == "SessionSettings" && !OF_THE_ENGINE.contains(&key.as_str()));
            if of_session && shown.is_empty() {
                missing.push(format!("{}.{key}", part.of));
            }
            let mut cell: Vec<_> = shown.iter().take(3).map(|path| format!("`{path}`")).collect();
            if shown.len() > 3 {
                cell.push(format!("and {} more", shown.len() - 3));
            }
            writeln!(page, "| `{key}` | {meaning} | {} |", cell.join(", ")).unwrap();
        }
    }
    (page, missing)
}

#[test]
fn the_page_of_settings_is_up_to_date_and_each_switch_is_shown() {
    let (text, missing) = page();
    let path = root().join("book/src/settings.md");
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text, "book/src/settings.md is old; run `cargo xtask docs` and look at it");
    assert!(missing.is_empty(), "no scenario shows {missing:?}");
}
