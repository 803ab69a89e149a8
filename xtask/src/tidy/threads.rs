//! The rule for thread names: the table in ARCHITECTURE.md lists exactly the threads that the
//! project's programs start.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;

/// The page that contains the table of thread names.
const PAGE: &str = "ARCHITECTURE.md";
/// The beginning of each table row.
const ROW: &str = "| `";
/// The heading above the table.
const HEADING: &str = "### Names of threads";
/// The code that starts a thread with a name.
const NAMED: &str = "Builder::new().name(";
/// The code that starts a thread without a name.
const UNNAMED: &str = "thread::spawn(";
/// String literals with these prefixes count as thread names wherever they occur.
const PREFIXES: &[&str] = &["tfx-", "store-", "events-", "socket-", "file-"];

/// Checks the thread names in all sources, given by path, against the table of the page.
pub(crate) fn check(
    sources: &BTreeMap<String, String>,
    pages: &BTreeMap<String, String>,
    violations: &mut Vec<Violation>,
) {
    let empty = String::new();
    let page = pages.get(PAGE).unwrap_or(&empty);
    let listed: BTreeMap<String, usize> = listed(page).collect();
    let mut started = BTreeSet::new();
    for (file, text) in sources.iter().filter(|(file, _)| is_of_a_program(file)) {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in unnamed(text).filter(|_| file.starts_with("crates/")) {
            let remedy = "give the thread a name: `thread::Builder`".to_owned();
            violations.push(Violation { file: file.clone(), line, rule: "thread", remedy });
        }
        for (line, name) in names(text) {
            if !listed.contains_key(&name) {
                let remedy = format!("add the thread `{name}` to \"{HEADING}\" of {PAGE}");
                violations.push(Violation { file: file.clone(), line, rule: "thread", remedy });
            }
            started.insert(name);
        }
    }
    for (name, line) in listed.into_iter().filter(|(name, _)| !started.contains(name)) {
        let remedy = format!("no thread `{name}` is started: take the row away");
        violations.push(Violation { file: PAGE.to_owned(), line, rule: "thread", remedy });
    }
}

/// Returns true if the file is part of a program for users, and not of tests, examples, tools or
/// the simulation.
fn is_of_a_program(file: &str) -> bool {
    let of_crates = file.starts_with("crates/") && !file.starts_with("crates/testkit/");
    (of_crates || file.starts_with("bench/src/")) && file.contains("/src/")
}

/// Returns the thread names in the table, with their lines. `…` stands for the part that differs
/// between threads.
fn listed(page: &str) -> impl Iterator<Item = (String, usize)> {
    let lines = (1..).zip(page.lines());
    let below = lines.skip_while(|(_, line)| !line.starts_with(HEADING)).skip(1);
    let table = below.take_while(|(_, line)| !line.starts_with('#'));
    table.filter(|(_, line)| line.starts_with(ROW)).flat_map(|(n, line)| {
        let cell = line.split('|').nth(1).unwrap_or_default();
        let names = cell.split('`').skip(1).step_by(2);
        names.map(|name| (name.to_owned(), n)).collect::<Vec<_>>()
    })
}

/// Returns the lines of a text that contain code, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the lines that start a thread without a name.
fn unnamed(text: &str) -> impl Iterator<Item = usize> {
    lines(text).filter(|(_, line)| line.contains(UNNAMED)).map(|(n, _)| n)
}

/// Returns the thread names in the code, with their lines.
fn names(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (n, line) in lines(text) {
        // After the split at quotes, every second piece is a string literal.
        let pieces: Vec<&str> = line.split('"').collect();
        for pair in pieces.chunks_exact(2) {
            let (before, literal) = (pair[0], pair[1]);
            let is_named = before.contains(NAMED);
            if is_named || PREFIXES.iter().any(|prefix| literal.starts_with(prefix)) {
                names.push((n, shape(literal)));
            }
        }
    }
    names
}

/// Returns the literal with `…` in place of each format argument, which differs between threads.
fn shape(literal: &str) -> String {
    let mut pieces = literal.split('{');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |name, piece| {
        name + "…" + piece.split_once('}').map_or("", |(_, behind)| behind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# Page\n\n### Names of threads\n\n| thread | does |\n|---|---|\n\
                         | `tfx-log` | writes |\n| `tfx-app-…` | calls |\n\n### Other\n| `x` |\n";

    fn broken(file: &str, text: &str) -> Vec<String> {
        let known = "let a = (\"tfx-log\", format!(\"tfx-app-{n}\"));\n";
        let sources = [("crates/a/src/lib.rs", known), (file, text)];
        let sources = sources.map(|(file, text)| (file.to_owned(), text.to_owned()));
        let pages = BTreeMap::from([(PAGE.to_owned(), TABLE.to_owned())]);
        let mut violations = Vec::new();
        check(&sources.into(), &pages, &mut violations);
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn a_thread_that_the_table_lacks_is_named() {
        let other = "crates/b/src/main.rs";
        for (text, said) in [
            ("\nx.spawn(\"tfx-new\")", "main.rs:2: thread: add the thread `tfx-new`"),
            ("Builder::new().name(\"keys\".to_owned())", "add the thread `keys`"),
            ("format!(\"store-{}-{b}\", a)", "add the thread `store-…-…`"),
            ("std::thread::spawn(|| ())", "give the thread a name"),
        ] {
            let found = broken(other, text);
            assert!(found.len() == 1 && found[0].contains(said), "{text}: {found:?}");
        }
        for text in [
            "x.spawn(\"tfx-log\")",
            "// std::thread::spawn(|| ())",
            "let text = \"keys\";",
            "#[cfg(test)]\nmod tests { \"tfx-new\" }",
        ] {
            assert_eq!(broken(other, text), [""; 0], "{text}");
        }
        assert_eq!(broken("crates/b/tests/a.rs", "\"tfx-new\""), [""; 0]);
    }

    #[test]
    fn a_row_without_a_thread_is_named() {
        let mut violations = Vec::new();
        let pages = BTreeMap::from([(PAGE.to_owned(), TABLE.to_owned())]);
        check(&BTreeMap::new(), &pages, &mut violations);
        let found: Vec<_> = violations.iter().map(Violation::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains(":7: thread: no thread `tfx-log` is started"), "{found:?}");
    }
}
