//! Rules for links in pages: each link leads to an existing file and heading. Links in the book
//! stay within the book, and the book's summary lists all its pages.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;

/// The folder of the book's pages.
const BOOK: &str = "book/src/";
const SUMMARY: &str = "book/src/SUMMARY.md";

/// Checks the links of all pages. `pages` is given by path, and `files` lists all files of the
/// project.
pub(crate) fn check(
    pages: &BTreeMap<String, String>,
    files: &[String],
    violations: &mut Vec<Violation>,
) {
    let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
    let mut listed = BTreeSet::new();
    for (page, text) in pages {
        for (line, link) in links(text) {
            let mut add = |rule: &'static str, remedy: String| {
                violations.push(Violation { file: page.clone(), line, rule, remedy });
            };
            let (path, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { resolve(page, path) };
            let is_folder = files.iter().any(|file| file.starts_with(&format!("{target}/")));
            if !files.contains(&*target) && !is_folder {
                add("link", format!("there is no {target}"));
                continue;
            }
            if page.starts_with(BOOK) && !target.starts_with(BOOK) {
                add("link", format!("{target} is not built with the book; name it as `{target}`"));
            }
            if let Some(text) = pages.get(&target).filter(|_| !heading.is_empty())
                && !headings(text).any(|known| known == heading)
            {
                add("link", format!("{target} has no heading #{heading}"));
            }
            if page == SUMMARY {
                listed.insert(target);
            }
        }
    }
    for page in pages.keys().filter(|page| page.starts_with(BOOK) && *page != SUMMARY) {
        if !listed.contains(page) {
            let remedy = format!("add it to {SUMMARY}");
            violations.push(Violation { file: page.clone(), line: 1, rule: "link", remedy });
        }
    }
}

/// Returns the lines of a page with their numbers from 1, without code blocks and code spans.
fn text_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter_map(move |(n, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then(|| (n, line.to_owned()))
    })
}

/// Returns the links to files and headings, with their lines.
fn links(text: &str) -> impl Iterator<Item = (usize, String)> {
    text_lines(text).flat_map(|(n, line)| {
        // The link text may be a code span, which has been removed, so only the target is examined.
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let targets = targets.map(|(target, _)| target.trim().to_owned());
        let is_ours = |target: &String| !target.contains("://") && !target.starts_with("mailto:");
        let found: Vec<_> = targets.filter(is_ours).map(|target| (n, target)).collect();
        found
    })
}

/// Returns the anchors of the headings as links name them: lower case, `-` for blanks, without
/// punctuation.
fn headings(text: &str) -> impl Iterator<Item = String> {
    text_lines(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        let is_heading = line.starts_with('#') && title.starts_with(' ');
        is_heading.then(|| {
            let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
            title.trim().chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
        })
    })
}

/// Resolves a link of a page to a path relative to the project's root.
fn resolve(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(pages: &[(&str, &str)]) -> Vec<String> {
        let pages: BTreeMap<_, _> =
            pages.iter().map(|(page, text)| ((*page).to_owned(), (*text).to_owned())).collect();
        let mut files: Vec<String> = pages.keys().cloned().collect();
        files.push("crates/engine/examples/venue.rs".to_owned());
        let mut violations = Vec::new();
        check(&pages, &files, &mut violations);
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let page = "# A `title`: of two\n[x](docs/b.md#more-of-it) [y](crates/engine/examples) \
            [`z`](#a-title-of-two) [w](https://example.org/none)\n```\n[no](none.md)\n```\n";
        assert_eq!(
            broken(&[("a.md", page), ("docs/b.md", "## More of it\n[a](../a.md)\n")]),
            [""; 0]
        );
        let page = "one\n[x](none.md)\n[y](a.md#none)\n";
        assert_eq!(
            broken(&[("a.md", page)]),
            ["a.md:2: link: there is no none.md", "a.md:3: link: a.md has no heading #none"]
        );
    }

    #[test]
    fn the_book_is_whole_and_stands_alone() {
        let summary = ("book/src/SUMMARY.md", "# Summary\n- [A](a.md)\n");
        assert_eq!(broken(&[summary, ("book/src/a.md", "[s](a.md)")]), [""; 0]);
        let outside = ("docs/x.md", "");
        let found = broken(&[summary, ("book/src/a.md", "[x](../../docs/x.md)"), outside]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("docs/x.md is not built with the book"), "{found:?}");
        let found = broken(&[summary, ("book/src/a.md", ""), ("book/src/b.md", "")]);
        assert_eq!(found, ["book/src/b.md:1: link: add it to book/src/SUMMARY.md"]);
    }
}
