//! Rules for book pages that make promises to users. Each promise names its files, its tests and
//! its limit; each question has an answer; each alert has a table row. The module `claims` checks
//! that the named tests exist.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;

const GUARANTEES: &str = "book/src/guarantees.md";
const QUESTIONS: &str = "book/src/questions.md";
const ALERTS: &str = "book/src/alerts.md";
/// Path of the file that defines the Prometheus alerts.
pub(crate) const RULES: &str = "packaging/prometheus/transfix.rules.yml";

/// Beginnings of the three list items that every promise needs.
const PARTS: [&str; 3] = ["- **How**: ", "- **Shown by**: ", "- **Limit**: "];

/// Maximum number of lines of an answer: two for the text, and a third for links.
const ANSWER_LINES: usize = 3;

/// Checks the pages, given by path, against the list of all files. `rules` is the text of the alert
/// rules.
pub(crate) fn check(
    pages: &BTreeMap<String, String>,
    files: &[String],
    rules: &str,
    violations: &mut Vec<Violation>,
) {
    let mut add = |file: &str, line: usize, rule: &'static str, remedy: String| {
        violations.push(Violation { file: file.to_owned(), line, rule, remedy });
    };
    if let Some(page) = pages.get(GUARANTEES) {
        let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
        for section in sections(page) {
            promise(&section, &files, |remedy| {
                add(GUARANTEES, section.line, "promise", remedy);
            });
        }
    }
    for section in pages.get(QUESTIONS).into_iter().flat_map(|page| sections(page)) {
        let lines = section.text.lines().filter(|line| !line.is_empty()).count();
        if !section.title.ends_with('?') || !section.text.contains(".md") || lines > ANSWER_LINES {
            let remedy = format!("a question, {ANSWER_LINES} lines at most, and a link to a page");
            add(QUESTIONS, section.line, "question", remedy);
        }
    }
    if let Some(page) = pages.get(ALERTS) {
        let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
        for alert in alerts.filter(|alert| !page.contains(&format!("| `{alert}` |"))) {
            add(ALERTS, 1, "alert", format!("add a row for `{alert}` of {RULES}"));
        }
    }
}

/// A section of a page: its heading and its text.
struct Section<'p> {
    title: &'p str,
    text: &'p str,
    line: usize,
}

/// Returns the sections of a page that begin with second-level headings.
fn sections(page: &str) -> impl Iterator<Item = Section<'_>> {
    page.match_indices("\n## ").map(move |(at, mark)| {
        let rest = &page[at + mark.len()..];
        let rest = rest.split_once("\n## ").map_or(rest, |(section, _)| section);
        let (title, text) = rest.split_once('\n').unwrap_or((rest, ""));
        Section { title, text, line: page[..=at].lines().count() + 1 }
    })
}

/// Checks that a promise explains its implementation, names existing files and a test, and states
/// its limit.
fn promise(section: &Section<'_>, files: &BTreeSet<&str>, mut add: impl FnMut(String)) {
    for part in PARTS.iter().filter(|part| !section.text.contains(**part)) {
        add(format!("'{}' does not say '{}'", section.title, part.trim_matches(['-', ' '])));
    }
    for path in spans(section.text).filter(|name| name.starts_with("crates/")) {
        let path = path.split("::").next().unwrap_or(path);
        if !files.contains(path) {
            add(format!("there is no {path}"));
        }
    }
    let shown = section.text.split_once(PARTS[1]).map_or("", |(_, rest)| rest);
    let shown = shown.split_once(PARTS[2]).map_or(shown, |(shown, _)| shown);
    if !spans(shown).any(|name| name.contains(".rs::")) {
        add(format!("'{}' names no test", section.title));
    }
}

/// Returns the texts of code spans, which are between backticks.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = "# Guarantees\n\n## It holds\n\n- **How**: `crates/a/src/b.rs`.\n\
        - **Shown by**: `crates/a/tests/c.rs::it_holds`.\n- **Limit**: `some_key`.\n";

    fn broken(page: &str, text: &str) -> Vec<String> {
        let pages = BTreeMap::from([(page.to_owned(), text.to_owned())]);
        let files = ["crates/a/src/b.rs", "crates/a/tests/c.rs"].map(str::to_owned);
        let mut violations = Vec::new();
        check(&pages, &files, "  - alert: Down\n", &mut violations);
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn what_a_promise_names_is_there() {
        assert_eq!(broken(GUARANTEES, SOUND), [""; 0]);
        let cases = [
            ("tests/c.rs", "tests/none.rs", "there is no crates/a/tests/none.rs"),
            ("src/b.rs", "src/none.rs", "there is no crates/a/src/none.rs"),
            ("- **Limit**: ", "", "'It holds' does not say '**Limit**:'"),
            ("::it_holds", "", "'It holds' names no test"),
        ];
        for (from, to, remedy) in cases {
            let found = broken(GUARANTEES, &SOUND.replace(from, to));
            let wanted = format!("{GUARANTEES}:3: promise: {remedy}");
            assert!(found.contains(&wanted), "{wanted}: {found:?}");
        }
    }

    #[test]
    fn each_question_is_short_and_leads_on() {
        let sound = "# Questions\n\n## Why?\nSo. [A](a.md)\n\n## How?\nThus.\n[A](a.md)\n";
        assert_eq!(broken(QUESTIONS, sound), [""; 0]);
        for (from, to) in [("Why?", "Why"), ("So. [A](a.md)", "So."), ("Thus.", "1\n2\n3\n4")] {
            assert_eq!(broken(QUESTIONS, &sound.replace(from, to)).len(), 1, "{from}");
        }
    }

    #[test]
    fn each_alert_has_a_row() {
        assert_eq!(broken(ALERTS, "| `Down` | no answer |\n"), [""; 0]);
        assert_eq!(
            broken(ALERTS, "# Alerts\n"),
            [format!("{ALERTS}:1: alert: add a row for `Down` of {RULES}")]
        );
    }
}
