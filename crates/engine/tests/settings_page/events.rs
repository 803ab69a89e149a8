//! The book's list of engine events, generated from the code that writes the events.
//!
//! Invariant: each event of the engine has a row in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use transfix::{EventCode, Settings};

use crate::settings_page::root;

const PAGE: &str = "book/src/what-happened.md";
const BEGIN: &str = "<!-- events: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of events -->\n";

/// A location in the code that writes an event.
#[derive(Debug)]
struct Site {
    file: String,
    level: String,
    /// The name of the event code.
    code: String,
    fields: String,
}

fn rust_files(dir: &Path, all: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            rust_files(&entry, all);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            all.push((entry.display().to_string(), fs::read_to_string(entry).unwrap()));
        }
    }
}

/// Returns the text up to its closing parenthesis, ignoring parentheses in string literals.
fn arguments(text: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (1, false, false);
    let end = text.find(|c| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    &text[..end.unwrap()]
}

/// Returns the field names of arguments such as `session = %id`, `%error` and `why`.
fn names(arguments: &str) -> Vec<&str> {
    let fields = arguments.split(',').map(str::trim);
    let fields = fields.filter(|field| !field.is_empty() && !field.contains('"'));
    fields
        .map(|field| field.split('=').next().unwrap().trim().trim_start_matches(['%', '?']))
        .collect()
}

/// The macros that write events: the number of arguments before the level, and the fields that the
/// macro adds.
const MACROS: [(&str, usize, &str); 3] =
    [("event!(", 0, ""), ("tell!(", 3, "left_out"), ("line!(", 2, "session, left_out")];

/// Returns the source files that may write events.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for dir in ["crates/engine/src", "crates/observe/src", "stores/src"] {
        rust_files(&root().join(dir), &mut files);
    }
    files
}

fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for (file, text) in &sources() {
        for (name, before, added) in MACROS {
            for (at, _) in text.match_indices(name) {
                sites.extend(site(file, arguments(&text[at + name.len()..]), before, added));
            }
        }
    }
    sites
}

/// Parses one call of a macro. Returns `None` for the call inside another macro that forwards its
/// arguments.
fn site(file: &str, arguments: &str, before: usize, added: &str) -> Option<Site> {
    if arguments.contains('$') {
        return None;
    }
    let mut parts = arguments.splitn(before + 3, ',').skip(before);
    let level = parts.next()?.trim().to_owned();
    let code = parts.next()?;
    // A text of the event itself may follow after a semicolon.
    let code = code.split(';').next()?.trim().to_owned();
    let rest = parts.next().unwrap_or_default();
    let mut fields = names(rest.split(';').next()?);
    match added {
        // The macro puts the field after the name of the source.
        "left_out" => fields.insert(1, added),
        "" => {}
        _ => fields.insert(0, added),
    }
    Some(Site { file: file.to_owned(), level, code, fields: fields.join(", ") })
}

fn table() -> String {
    let mut table =
        "| code | level | text | says more in | what to do |\n|---|---|---|---|---|\n".to_owned();
    let known = |name: &str| EventCode::ALL.iter().find(|code| code.name() == name).copied();
    let rows = sites().into_iter().map(|Site { level, code, fields, .. }| {
        let code = known(&code).unwrap_or_else(|| panic!("there is no event {code}"));
        let (number, level) = (code.as_u16(), level.to_uppercase());
        let (text, remedy) = (code.text(), code.remedy());
        (number, format!("| {number} | {level} | {text} | {fields} | {remedy} |\n"))
    });
    let rows: BTreeSet<_> = rows.collect();
    rows.iter().for_each(|(_, row)| table.push_str(row));
    table
}

/// Each code has one meaning, and is logged at one place. An event with two severities is logged at
/// two adjacent places.
#[test]
fn no_two_places_write_the_same_code_and_no_code_is_left_over() {
    let sites = sites();
    for code in EventCode::ALL {
        let places: Vec<_> = sites.iter().filter(|site| site.code == code.name()).collect();
        let levels: BTreeSet<_> = places.iter().map(|site| &*site.level).collect();
        let listed: BTreeSet<_> = code.levels().iter().map(|level| level.as_str()).collect();
        let files: BTreeSet<_> = places.iter().map(|site| &site.file).collect();
        assert!(!places.is_empty(), "{code:?}: nothing writes it");
        assert!(files.len() == 1 && levels.len() == places.len(), "{code:?}: {places:#?}");
        assert_eq!(listed, levels, "{code:?}: the table of codes has other levels");
    }
}

#[test]
fn codes_are_in_order_and_each_has_a_text_and_a_remedy_of_its_own() {
    let known = EventCode::ALL;
    assert!(known.is_sorted_by(|a, b| a.as_u16() < b.as_u16()), "in order, and no code twice");
    let texts: BTreeSet<_> = known.iter().map(|code| code.text()).collect();
    assert_eq!(texts.len(), known.len(), "two codes have the same text");
    for code in known {
        assert!(code.remedy().ends_with(['.', '"']), "{code:?}");
        // A remedy must not refer to another one, because it is also shown alone.
        assert!(!code.remedy().to_lowercase().contains("as above"), "{code:?}");
        assert_eq!(EventCode::from_u16(code.as_u16()), Some(*code));
    }
    assert_eq!(EventCode::from_u16(2000), None);
}

/// An event text states what has happened; a question would not help an operator.
#[test]
fn a_text_is_a_statement() {
    let questions = ["how", "what", "when", "where", "whether", "which", "who", "whose", "why"];
    for code in EventCode::ALL {
        let text = code.text();
        let first = text.split(' ').next().unwrap();
        assert!(!questions.contains(&first), "{code:?}: \"{text}\" says no event");
        assert!(!text.ends_with("in words"), "{code:?}: \"{text}\" describes, and says no event");
    }
}

/// The words with which a remedy may begin, all of them verbs.
const VERBS: [&str; 28] = [
    "Add", "Ask", "Call", "Check", "Compare", "Correct", "Do", "Enable", "Find", "Follow", "Free",
    "Handle", "Have", "Look", "Make", "Raise", "Read", "Reload", "Remove", "Repair", "Report",
    "Run", "Send", "Set", "Stop", "Tell", "Use", "Wait",
];

#[test]
fn a_remedy_says_what_to_do() {
    for code in EventCode::ALL {
        let first = code.remedy().split([' ', ':']).next().unwrap();
        assert!(VERBS.contains(&first), "{code:?}: \"{}\" begins with no verb", code.remedy());
    }
}

/// Names that remedies may contain besides settings keys and event fields.
const OTHER_NAMES: [&str; 14] = [
    "LimitNOFILE",
    "SessionNotice::RolledBack",
    "SessionNotice::Unsent",
    "asked",
    "audit_hash",
    "callback",
    "committed",
    "garbled",
    "judge_logon",
    "log_on",
    "perf",
    "test_request",
    "tracing",
    "written",
];

/// A remedy names only settings keys and event fields that exist.
#[test]
fn a_remedy_names_keys_and_fields_that_exist() {
    let sites = sites();
    let mut unknown = Vec::new();
    for code in EventCode::ALL {
        let fields: Vec<_> = sites.iter().filter(|site| site.code == code.name()).collect();
        let is_field =
            |name: &str| fields.iter().any(|site| site.fields.split(", ").any(|it| it == name));
        for quoted in code.remedy().split('`').skip(1).step_by(2) {
            let name = quoted.split(" = ").next().unwrap();
            let is_known = quoted.starts_with("transfix ")
                || is_field(name)
                || OTHER_NAMES.contains(&name)
                || Settings::reference(Some(name)).is_ok();
            if !is_known {
                unknown.push(format!("{code:?}: {name}"));
            }
        }
    }
    assert_eq!(unknown, [""; 0]);
}

/// Every event is logged with a code, because an operator looks the code up in the book.
#[test]
fn events_are_written_with_their_codes() {
    for (file, text) in &sources() {
        for level in ["error", "warn", "info"] {
            let call = format!("tracing::{level}!(");
            assert!(!text.contains(&call), "{file}: write `event!({level}, …)` in place of {call}");
        }
    }
}

#[test]
fn the_book_lists_all_events_of_the_engine() {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let wanted = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let (_, troubles) = before.split_once("## Common problems\n").unwrap();
    for row in troubles.lines().filter(|line| line.starts_with("| ")).skip(1) {
        // The first column contains the text of the event, if it has one.
        let seen = row.split('|').nth(1).unwrap();
        if let Some(named) = seen.split('`').nth(1) {
            assert!(EventCode::ALL.iter().any(|code| code.text() == named), "no event {named}");
        }
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "{PAGE} is old; run `cargo xtask docs` and look at it");
}

#[test]
fn events_are_read_out_of_code() {
    for (code, before, added, expected) in [
        ("warn, Skipped, session = %self.id(), why)", 0, "", ("Skipped", "session, why")),
        ("info, LogThreadPanicked)", 0, "", ("LogThreadPanicked", "")),
        ("a.b(), at, Held, warn, X, peer = peer, %c)", 3, "left_out", ("X", "peer, left_out, c")),
        ("self, now, Held, info, Y; words)", 3, "session, left_out", ("Y", "session, left_out")),
    ] {
        let site = site("a.rs", arguments(code), before, added).unwrap();
        assert_eq!((&*site.code, &*site.fields), expected, "{code}");
    }
}
