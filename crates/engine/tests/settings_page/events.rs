//! The book's list of the engine's events, made from the places in the code that write them.
//!
//! Invariant: each event of the engine's crate is a row, so that none can be added without a word
//! in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use transfix::EventCode;

use crate::settings_page::root;

const PAGE: &str = "book/src/what-happened.md";
const BEGIN: &str = "<!-- events: written by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of events -->\n";

/// The levels, the gravest first.
const LEVELS: [&str; 3] = ["error", "warn", "info"];

/// An event: its place among the levels, its text, its fields.
type Event = (usize, String, String);

fn rust_files(dir: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            rust_files(&entry, all);
        } else if entry.extension().is_some_and(|end| end == "rs") {
            all.push(fs::read_to_string(entry).unwrap());
        }
    }
}

/// The text up to the parenthesis that closes it; those in literals don't count.
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

/// The last literal, on one line.
fn literal(text: &str) -> Option<String> {
    let (mut found, mut open, mut chars) = (None, None::<String>, text.chars().peekable());
    while let Some(c) = chars.next() {
        match (c, &mut open) {
            ('"', None) => open = Some(String::new()),
            ('"', Some(_)) => found = open.take(),
            ('\\', Some(literal)) => match chars.next() {
                Some('\n') => while chars.next_if(|c| *c == ' ').is_some() {},
                escaped => literal.extend(escaped),
            },
            (c, Some(literal)) => literal.push(c),
            (_, None) => {}
        }
    }
    found
}

/// The names of the fields: `session = %id`, `%error`, `why`.
fn names(arguments: &str) -> Vec<&str> {
    let fields = arguments.split(',').map(str::trim);
    let fields = fields.filter(|field| !field.is_empty() && !field.contains('"'));
    fields
        .map(|field| field.split('=').next().unwrap().trim().trim_start_matches(['%', '?']))
        .collect()
}

/// Begins an event that can repeat itself: after the source of the repetition, the time or address,
/// the cause and the level stand the fields and the text.
const TELL: &str = "tell!(";
/// The same about a session, which the macro names as the first field.
const LINE: &str = "line!(";

/// Where the fields of such an event begin, if it has this level.
fn told(file: &str, at: usize, level: &str) -> Option<(usize, usize)> {
    let begin = at + TELL.len().max(LINE.len());
    let commas = file[begin..].match_indices(',').map(|(comma, _)| begin + comma);
    let ends: Vec<usize> = commas.take(4).collect();
    let [_, _, third, fourth] = ends[..] else { return None };
    (file[third + 1..fourth].trim() == level).then_some((at, fourth + 1))
}

fn events() -> BTreeSet<Event> {
    let mut files = Vec::new();
    rust_files(&root().join("crates/engine/src"), &mut files);
    let mut events = BTreeSet::new();
    for (n, level) in LEVELS.iter().enumerate() {
        let call = format!("tracing::{level}!(");
        for file in &files {
            let direct = file.match_indices(&call).map(|(at, _)| (at, at + call.len()));
            let repeated = file.match_indices(TELL).chain(file.match_indices(LINE));
            let told = repeated.filter_map(|(at, _)| told(file, at, level));
            for (at, begin) in direct.chain(told) {
                let arguments = arguments(&file[begin..]);
                let mut names = names(arguments);
                if file[at..].starts_with(TELL) {
                    // What the macro adds behind the name of the source.
                    names.insert(1, "left_out");
                } else if file[at..].starts_with(LINE) {
                    names.splice(0..0, ["session", "left_out"]);
                }
                let text = literal(arguments).unwrap_or_else(|| {
                    // The text has a name, and was given it just before.
                    names.retain(|name| *name != "why");
                    let line = file[..at].trim_end().rfind('\n').unwrap();
                    literal(&file[line..at]).unwrap()
                });
                let text = match &*text {
                    "{remark}" => "what is odd about the counterparty's message, in words",
                    "{rejected}" => "which message of ours the counterparty has rejected, and why",
                    "{undone}" => "what comes again and what never left, in words",
                    text => text,
                };
                events.insert((n, text.to_owned(), names.join(", ")));
            }
        }
    }
    events
}

fn table() -> String {
    let mut table =
        "| code | level | text | says more in | what to do |\n|---|---|---|---|---|\n".to_owned();
    let mut rows = Vec::new();
    for (n, text, fields) in events() {
        let level = LEVELS[n].to_uppercase();
        let EventCode { code, remedy, .. } =
            EventCode::of(&text).unwrap_or_else(|| panic!("`{text}` has no code"));
        let row = format!("| {code} | {level} | {text} | {fields} | {remedy} |\n");
        rows.push((*code, row));
    }
    rows.sort();
    rows.iter().for_each(|(_, row)| table.push_str(row));
    table
}

#[test]
fn each_event_has_a_code_of_its_own_and_no_code_is_left_over() {
    let texts: BTreeSet<_> = events().into_iter().map(|(_, text, _)| text).collect();
    let known = EventCode::ALL;
    assert!(known.is_sorted_by(|a, b| a.code < b.code), "in order, and no code twice");
    for event in known {
        assert!(texts.contains(event.text), "{}: no event says `{}`", event.code, event.text);
        assert!(event.remedy.ends_with(['.', '"']), "{}", event.code);
    }
    assert_eq!(texts.len(), known.len());
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
    let events = events();
    let (_, troubles) = before.split_once("## Usual troubles\n").unwrap();
    for row in troubles.lines().filter(|line| line.starts_with("| ")).skip(1) {
        // What is seen is named by the event's text, if there is one.
        let seen = row.split('|').nth(1).unwrap();
        if let Some(named) = seen.split('`').nth(1) {
            assert!(events.iter().any(|(_, text, _)| text == named), "there is no event {named}");
        }
    }
    let found = fs::read_to_string(&path).unwrap();
    assert!(found == wanted, "{PAGE} is old; run `cargo xtask docs` and look at it");
}

#[test]
fn events_are_read_out_of_code() {
    for (code, text, fields) in [
        (
            r#"session = %self.id(), why, "refused (again)")"#,
            Some("refused (again)"),
            "session, why",
        ),
        (
            r#"%error, "a \
            b")"#,
            Some("a b"),
            "error",
        ),
        (r#"let why = "a \"b\"";)"#, Some("a \"b\""), ""),
        ("session = %id, why)", None, "session, why"),
    ] {
        let arguments = arguments(code);
        assert_eq!(literal(arguments).as_deref(), text, "{code}");
        assert_eq!(names(arguments).join(", "), fields, "{code}");
    }
}
