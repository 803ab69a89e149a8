//! Tests the documentation: pages name only existing verbs and options, calls to a running engine
//! include a login, and the page "Commands" lists each verb.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::Cli;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns name and text of each documentation page for users.
fn pages() -> Vec<(String, String)> {
    let folders = ["", "book/src", "docs"].map(|folder| fs::read_dir(root().join(folder)));
    let entries = folders.into_iter().flat_map(Result::unwrap).map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(path).unwrap());
    pages.filter(|path| !path.ends_with("CHANGELOG.md")).map(read).collect()
}

/// A call of the program that a documentation page shows.
struct Call {
    line: usize,
    /// True if the call is in a code block, false if it is between backticks in text.
    in_block: bool,
    words: Vec<String>,
}

/// Returns the calls of the program in a page, both in code blocks and between backticks.
fn calls(page: &str) -> Vec<Call> {
    let (mut in_block, mut found) = (false, Vec::new());
    for (number, line) in (1..).zip(page.lines()) {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let line = line.trim_start().trim_start_matches("$ ");
            let line = line.split_once("sudo -u transfix ").map_or(line, |(_, call)| call);
            // A systemd unit calls the program by its full path.
            let of_unit = line.strip_prefix("Exec").and_then(|rest| rest.split_once("=/usr/bin/"));
            let line = of_unit.map_or(line, |(_, call)| call);
            found.push((number, true, line));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|span| (number, false, span)));
        }
    }
    // Two other kinds of text also begin with `transfix `: a dependency in a manifest, and an error
    // of the program.
    let is_call = |text: &str| {
        let verb = text.strip_prefix("transfix ").and_then(|rest| rest.split(' ').next());
        verb.is_some_and(|verb| verb != "=" && !verb.ends_with(':'))
    };
    found.retain(|(_, _, text)| is_call(text));
    let call = |(line, in_block, text)| Call { line, in_block, words: words(text) };
    found.into_iter().map(call).collect()
}

/// Splits a call into words; shell operators and comments end the call.
fn words(call: &str) -> Vec<String> {
    // A call ends at two spaces or a dash, which precede an explanation, or at a shell operator.
    let end = ["  ", " #", " >", " <", " | ", " &", " 2>", "; ", " — "];
    let end = end.iter().filter_map(|mark| call.find(mark)).min().unwrap_or(call.len());
    let (mut words, mut quote) = (vec![String::new()], None);
    for c in call[..end].chars() {
        match quote {
            None if c == ' ' => words.push(String::new()),
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty() && !word.contains(['[', ']', '|', '…', '\\']));
    words
}

/// Returns the error if a call has an unknown option, command or value, otherwise `None`.
fn wrong(words: &[String]) -> Option<String> {
    // A word in capitals is a placeholder for the reader's value.
    let is_placeholder = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || c == '.');
    if words.get(1).is_none_or(|verb| is_placeholder(verb)) {
        return None;
    }
    let error = Cli::try_parse_from(words).err()?;
    match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand | ErrorKind::InvalidValue => {
            let error = error.to_string();
            // Text may use placeholders, or name an option without its value; only an unknown
            // option is then an error.
            let of_reader = words[1..].iter().any(|word| is_placeholder(word))
                || error.contains("none was supplied");
            (!of_reader || error.contains("unexpected argument")).then_some(error)
        }
        _ => None,
    }
}

/// Returns true if an engine would refuse the call because neither the call nor its page shows a
/// token.
fn lacks_login(call: &Call, page: &str) -> bool {
    let has = |option: &str| call.words.iter().any(|word| word == option);
    let mut verbs = call.words[1..].iter().map(String::as_str);
    let (asks, words_of_verb) = match (verbs.next(), verbs.next()) {
        // Health checks need no token, and users and tokens are stored in a local file.
        (Some("admin"), None | Some("ready" | "user" | "token" | "help")) => (false, 3),
        (Some("admin"), _) => (true, 3),
        (Some("top"), _) => (true, 2),
        _ => (false, 2),
    };
    // A verb without options between backticks is only a name, not a call.
    let is_name = !call.in_block && call.words.len() == words_of_verb;
    let shows_who = has("--token-file") || has("--fix") || page.contains("TRANSFIX_ADMIN_TOKEN");
    asks && !is_name && !shows_who
}

#[test]
fn each_call_of_a_running_engine_shows_who_asks() {
    let mut found = String::new();
    for (page, text) in pages() {
        for call in calls(&text).iter().filter(|call| lacks_login(call, &text)) {
            let (line, words) = (call.line, call.words.join(" "));
            found +=
                &format!("{page}:{line}: {words}: add --token-file, or TRANSFIX_ADMIN_TOKEN\n");
        }
    }
    assert!(found.is_empty(), "{found}");
}

#[test]
fn a_call_without_a_login_is_found() {
    for (page, expected) in [
        ("`transfix admin sessions --problems`", true),
        ("`transfix admin sessions`", false),
        ("```\ntransfix admin sessions\n```", true),
        ("```\ntransfix admin sessions --token-file me.token\n```", false),
        ("```\ntransfix admin --fix HOST:9891 --user anna sessions\n```", false),
        ("```\nexport TRANSFIX_ADMIN_TOKEN=$(cat me.token)\ntransfix top\n```", false),
        ("```\ntransfix top\n```", true),
        ("`transfix top`", false),
        ("```\ntransfix admin ready\ntransfix admin user add anna\n```", false),
        ("```\ntransfix logs store\n```", false),
    ] {
        let found = calls(page).iter().any(|call| lacks_login(call, page));
        assert_eq!(found, expected, "{page}");
    }
}

#[test]
fn each_call_in_the_pages_is_one_that_the_program_knows() {
    let (mut count, mut found) = (0, String::new());
    for (page, text) in pages() {
        for Call { line, words, .. } in calls(&text) {
            count += 1;
            if let Some(error) = wrong(&words) {
                found += &format!("{page}:{line}: {}: {error}", words.join(" "));
            }
        }
    }
    assert!(count > 100, "{count} calls");
    assert!(found.is_empty(), "{found}");
}

#[test]
fn a_call_is_found_and_judged() {
    let page = "Do `transfix store list DIR`, not `transfix stare`:\n```text\n\
        $ transfix top --quick   fast\ntransfix logs --type 'D 8' store > out\n\
        ExecStart=/usr/bin/transfix run --fast a.toml\n```\n";
    let found = calls(page);
    let lines: Vec<_> = found.iter().map(|call| (call.line, call.words.len())).collect();
    assert_eq!(lines, [(1, 4), (1, 2), (3, 3), (4, 5), (5, 4)]);
    let judged: Vec<_> = found.iter().map(|call| wrong(&call.words).is_some()).collect();
    assert_eq!(judged, [false, true, true, false, true]);
}

/// A unit has one `ExecStart` and runs every `ExecStartPre`, so a drop-in file must clear the
/// unit's commands before it sets its own.
#[test]
fn a_drop_in_clears_the_commands_that_it_replaces() {
    let mut drop_ins = 0;
    for (name, page) in pages() {
        for block in page.split("```ini\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            let lines = block.lines().filter_map(|line| line.split_once('='));
            let mut keys = std::collections::HashSet::new();
            for (key, value) in lines.filter(|(key, _)| key.starts_with("Exec")) {
                let is_first = keys.insert(key);
                assert_eq!(is_first, value.is_empty(), "{name}: {key}={value}");
                drop_ins += usize::from(!is_first);
            }
        }
    }
    assert!(drop_ins > 0, "no page has a drop-in");
}

/// Only the command `peer`, a counterparty for tests, and the gateways of a demo are hidden from
/// the help texts.
#[test]
fn only_the_counterparty_of_tests_is_hidden() {
    fn hidden(command: &clap::Command, path: &str) -> Vec<String> {
        let below = command.get_subcommands().flat_map(|one| {
            let path = format!("{path}{} ", one.get_name());
            let own = one.is_hide_set().then(|| path.trim_end().to_owned());
            own.into_iter().chain(hidden(one, &path)).collect::<Vec<_>>()
        });
        below.collect()
    }
    let mut hidden = hidden(&Cli::command(), "");
    hidden.retain(|name| name != "demo fleet-gateway");
    assert_eq!(hidden, ["peer"]);
}

#[test]
fn the_page_of_commands_has_each_verb() {
    let page = fs::read_to_string(root().join("book/src/commands.md")).unwrap();
    let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = verb.get_name();
        let first = |row: &str| row.split(" | ").next().unwrap_or_default().to_owned();
        let is_named = |row: &&&str| {
            first(row).contains(&format!("`{name}`")) || first(row).contains(&format!("`{name} "))
        };
        assert!(rows.iter().find(is_named).is_some(), "add a row for `{name}` to commands.md");
    }
}
