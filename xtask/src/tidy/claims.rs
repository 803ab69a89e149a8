//! Rules for claims in pages: each test named in a page exists, and each feature in COMPARE.md
//! names the test or scenario that demonstrates the feature.
//!
//! A page names a test by a code span, `crates/a/tests/b.rs::name`. A row of COMPARE.md may use a
//! link whose text is the test's name instead: `[name](crates/a/tests/b.rs)`.

use std::collections::BTreeMap;

use super::Violation;

/// The beginning of the header of tables whose rows are claims.
const CLAIMS: &str = "| feature | Transfix | by; the test";

/// Checks that all claims in the pages agree with the sources; pages and sources are given by path.
pub(crate) fn check(
    pages: &BTreeMap<String, String>,
    sources: &BTreeMap<String, String>,
    violations: &mut Vec<Violation>,
) {
    for (page, text) in pages {
        let mut is_claim = false;
        for (line, text) in (1..).zip(text.lines()) {
            let mut add = |rule: &'static str, remedy: String| {
                violations.push(Violation { file: page.clone(), line, rule, remedy });
            };
            is_claim = text.starts_with(CLAIMS) || (is_claim && text.starts_with('|'));
            let links = linked(text).filter(|_| is_claim);
            let named: Vec<_> = links.chain(spelled(text)).collect();
            for (name, file) in &named {
                let source = sources.get(*file).map_or("", String::as_str);
                if !has_test(source, name) {
                    add("named test", format!("{file} has no test {name}"));
                }
            }
            let cell = text.split('|').nth(2).filter(|_| is_claim);
            let is_claimed =
                cell.is_some_and(|cell| cell.contains("yes") || cell.contains("partly"));
            if is_claimed && named.is_empty() && !text.contains("](testdata/scenarios/") {
                add("claim", "name the test or the scenario that shows it".to_owned());
            }
        }
    }
}

/// Returns true if the source contains a test with this name. A file that is a test program as a
/// whole has the test `main`.
fn has_test(source: &str, name: &str) -> bool {
    let head = format!("fn {name}(");
    source.match_indices(&head).any(|(at, _)| {
        // The text before `fn` on the same line is skipped, so that only the lines above are
        // examined.
        let above = source[..at].rsplit('\n').skip(1).map(str::trim);
        let mut attributes =
            above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        name == "main" || attributes.any(|line| line == "#[test]")
    })
}

/// Returns the name and file of each link to a Rust file whose text is a name.
fn linked(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let pieces = line.match_indices("](").filter_map(|(at, found)| {
        let (_, name) = line[..at].rsplit_once('[')?;
        let (file, _) = line[at + found.len()..].split_once(')')?;
        Some((name, file))
    });
    pieces.filter(|(name, file)| is_name(name) && is_rust(file))
}

/// Returns the name and file of each code span that contains both.
fn spelled(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let spans = line.split('`').skip(1).step_by(2);
    let pairs = spans.filter_map(|span| span.split_once(".rs::").map(|(_, name)| (name, span)));
    let pairs = pairs.map(|(name, span)| (name, &span[..span.len() - name.len() - 2]));
    pairs.filter(|(name, file)| is_name(name) && file.contains('/'))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_rust(file: &str) -> bool {
    file.ends_with(".rs") && !file.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(page: &str, text: &str) -> Vec<String> {
        let source = "#[test]\nfn holds() {}\n\nfn helper() {}\n\nfn main() {}\n";
        let one = |path: &str, text: &str| [(path.to_owned(), text.to_owned())].into();
        let mut violations = Vec::new();
        check(&one(page, text), &one("a/b.rs", source), &mut violations);
        violations.iter().map(Violation::to_string).collect()
    }

    fn row(row: &str) -> Vec<String> {
        broken("p.md", &format!("{CLAIMS} that shows it |\n|---|---|---|\n{row}\n\nyes\n"))
    }

    #[test]
    fn a_named_test_exists() {
        assert_eq!(broken("p.md", "`a/b.rs::holds`, [example](a/b.rs), `a/b.rs`"), [""; 0]);
        assert_eq!(row("| a | yes | [holds](a/b.rs) [main](a/b.rs) |"), [""; 0]);
        let expected = "named test: a/b.rs has no test helper";
        assert_eq!(broken("p.md", "x `a/b.rs::helper`"), [format!("p.md:1: {expected}")]);
        assert_eq!(row("| a | yes | [helper](a/b.rs) |"), [format!("p.md:3: {expected}")]);
        let expected = "p.md:1: named test: a/none.rs has no test holds";
        assert_eq!(broken("p.md", "`a/none.rs::holds`"), [expected]);
    }

    #[test]
    fn a_claim_names_what_shows_it() {
        for good in [
            "| a | yes | [holds](a/b.rs) |",
            "| a | partly | [x.fix](testdata/scenarios/x.fix) |",
            "| a | not yet | |",
            "| a | no: not planned | |",
        ] {
            assert_eq!(row(good), [""; 0], "{good}");
        }
        for bad in ["| a | yes | `key` |", "| a | `x`: yes | |", "| a | partly: b | |"] {
            let expected = "p.md:3: claim: name the test or the scenario that shows it";
            assert_eq!(row(bad), [expected], "{bad}");
        }
    }
}
