//! Finds hard-to-read sentences: very long sentences, and sentences that begin with a word such as
//! `What` before the subject.
//!
//! Invariant: `xtask/prose.txt` records the number of hard-to-read sentences of each page and each
//! source folder, and a number never rises.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::Violation;

/// Path of the file that records the counts.
const RECORD: &str = "xtask/prose.txt";
/// Maximum number of words in a sentence.
const WORDS_MAX: usize = 30;
/// Words that must not begin a sentence, because they delay its subject.
const OPENERS: &[&str] = &["What", "Who", "Whoever", "Whether", "Of"];

/// Number of hard-to-read sentences by page or source folder.
type Counts = BTreeMap<String, usize>;

/// Compares the counts of all texts with the record. If the environment variable
/// `TRANSFIX_WRITE_DOCS` is set, lower counts are first written to the record. The record of a
/// renamed page or folder must be renamed manually.
///
/// # Errors
/// If the record cannot be read or written.
pub(super) fn check(
    root: &Path,
    (pages, sources): (&BTreeMap<String, String>, &BTreeMap<String, String>),
    violations: &mut Vec<Violation>,
) -> Result<(), String> {
    let counts = counts(pages, sources);
    let path = root.join(RECORD);
    let mut recorded =
        read(&fs::read_to_string(&path).map_err(|error| format!("{RECORD}: {error}"))?);
    if std::env::var_os("TRANSFIX_WRITE_DOCS").is_some() {
        recorded = lowered(&counts, &recorded);
        fs::write(&path, written(&recorded)).map_err(|error| format!("{RECORD}: {error}"))?;
    }
    compare(&counts, &recorded, violations);
    Ok(())
}

fn counts(pages: &BTreeMap<String, String>, sources: &BTreeMap<String, String>) -> Counts {
    let mut counts = Counts::new();
    for (file, text) in pages {
        counts.insert(file.clone(), hard(&paragraphs_of_page(text)));
    }
    for (file, text) in sources {
        *counts.entry(folder(file).to_owned()).or_default() += hard(&paragraphs_of_source(text));
    }
    counts.retain(|_, count| *count > 0);
    counts
}

/// Returns the folder whose sources are counted together, such as `src` or `tests` of a crate.
fn folder(file: &str) -> &str {
    let mut slashes = file.match_indices('/').map(|(at, _)| at);
    let is_root = |at: &usize| {
        let roots = ["src", "tests", "benches", "examples", "fuzz_targets"];
        roots.iter().any(|name| file[..*at].ends_with(name))
    };
    slashes.find(is_root).map_or(file, |at| &file[..at])
}

/// Returns the record, with each count lowered that has fallen.
fn lowered(counts: &Counts, recorded: &Counts) -> Counts {
    let both = recorded.iter().filter_map(|(place, known)| {
        let now = counts.get(place)?;
        Some((place.clone(), *now.min(known)))
    });
    both.collect()
}

fn compare(counts: &Counts, recorded: &Counts, violations: &mut Vec<Violation>) {
    let mut add = |file: &str, remedy: String| {
        let file = file.to_owned();
        violations.push(Violation { file, line: 1, rule: "prose", remedy });
    };
    for (place, now) in counts {
        let known = recorded.get(place).copied().unwrap_or(0);
        if *now > known {
            add(
                place,
                format!(
                    "{now} sentences with over {WORDS_MAX} words, or that open with {}; {known} \
                     are allowed. `cargo xtask tidy --prose {place}` lists them",
                    OPENERS.join(", ")
                ),
            );
        }
    }
    let has_fallen = |(place, known): &(&String, &usize)| counts.get(*place) < Some(*known);
    if recorded.iter().any(|entry| has_fallen(&entry)) {
        let remedy = "fewer hard sentences than before: TRANSFIX_WRITE_DOCS=1 cargo xtask tidy";
        add(RECORD, remedy.to_owned());
    }
}

fn read(text: &str) -> Counts {
    let entry = |line: &str| {
        let (place, count) = line.rsplit_once(' ')?;
        Some((place.to_owned(), count.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

fn written(counts: &Counts) -> String {
    let mut text = String::new();
    for (place, count) in counts {
        let _ = writeln!(text, "{place} {count}");
    }
    text
}

/// Returns the hard-to-read sentences of a page or a source file.
pub(super) fn list(file: &str, text: &str) -> Vec<String> {
    let paragraphs =
        if file.ends_with(".md") { paragraphs_of_page(text) } else { paragraphs_of_source(text) };
    let sentences = paragraphs.iter().flat_map(|paragraph| sentences(paragraph));
    sentences.filter(|sentence| is_hard(sentence)).map(str::to_owned).collect()
}

fn hard(paragraphs: &[String]) -> usize {
    let sentences = paragraphs.iter().flat_map(|paragraph| sentences(paragraph));
    sentences.filter(|sentence| is_hard(sentence)).count()
}

fn is_hard(sentence: &str) -> bool {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let first = sentence.split_whitespace().next().unwrap_or_default();
    let is_question = sentence.ends_with('?');
    (OPENERS.contains(&first) && !is_question)
        || sentence.split_whitespace().filter(is_word).count() > WORDS_MAX
}

/// Splits a paragraph into sentences. A sentence ends with a punctuation mark before a space, or
/// with the paragraph.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = paragraph;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let ends = |(at, mark): (usize, &str)| {
            let end = at + mark.trim_end().len();
            let next = rest[at + mark.len()..].chars().next()?;
            (next.is_uppercase() || "`[*(\"".contains(next)).then_some(end)
        };
        let marks = [". ", "? ", "! ", ".) "];
        let all = marks.iter().flat_map(|mark| rest.match_indices(mark));
        let end = all.filter_map(ends).min().unwrap_or(rest.len());
        let (sentence, left) = rest.split_at(end);
        rest = left.trim_start();
        Some(sentence.trim())
    })
}

/// Returns the paragraphs, list items and table cells of a page, without code and headings.
fn paragraphs_of_page(text: &str) -> Vec<String> {
    let mut paragraphs = Paragraphs::default();
    let mut fence = None;
    for line in text.lines() {
        let line = line.trim_start_matches(['>', ' ']);
        let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        if mark.is_some() && (fence.is_none() || fence == mark) {
            fence = if fence.is_none() { mark } else { None };
            paragraphs.end();
        } else if fence.is_some() {
        } else if line.starts_with('|') {
            paragraphs.end();
            let cells = line.split('|').flat_map(|cell| cell.split("<br>"));
            cells.for_each(|cell| paragraphs.add_whole(cell));
        } else if line.is_empty() || line.starts_with(['#', '<']) {
            paragraphs.end();
        } else {
            paragraphs.add(line);
        }
    }
    paragraphs.end();
    paragraphs.all
}

/// Returns the paragraphs in the comments of a source file, without code examples.
fn paragraphs_of_source(text: &str) -> Vec<String> {
    let mut comments = String::new();
    for line in text.lines() {
        let line = line.trim_start();
        match ["///", "//!", "//"].iter().find_map(|mark| line.strip_prefix(mark)) {
            Some(comment) => comments.push_str(comment.trim_start()),
            None if comments.ends_with("\n\n") => continue,
            None => {}
        }
        comments.push('\n');
    }
    paragraphs_of_page(&comments)
}

#[derive(Default)]
struct Paragraphs {
    all: Vec<String>,
    open: String,
}

impl Paragraphs {
    fn add(&mut self, line: &str) {
        let item = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(mark)).or_else(|| {
            let (number, item) = line.split_once(". ")?;
            number.bytes().all(|byte| byte.is_ascii_digit()).then_some(item)
        });
        if item.is_some() {
            self.end();
        }
        if !self.open.is_empty() {
            self.open.push(' ');
        }
        self.open.push_str(item.unwrap_or(line).trim());
    }

    fn add_whole(&mut self, text: &str) {
        self.add(text);
        self.end();
    }

    fn end(&mut self) {
        if !self.open.is_empty() {
            self.all.push(std::mem::take(&mut self.open));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e";

    #[test]
    fn hard_sentences_are_found() {
        let page = format!(
            "# What a title\n\nShort. What comes is hard. What is asked is not?\n\n- Of this.\n- \
             {LONG}\n\n```text\nWhat is code is not prose.\n```\n\n| Who it is | fine |\n"
        );
        assert_eq!(list("a.md", &page), ["What comes is hard.", "Of this.", LONG, "Who it is"]);
    }

    #[test]
    fn comments_are_read_across_lines() {
        let source =
            format!("//! {LONG}\nfn f() {{}}\n/// Fine.\n///\n/// Whether it\n/// is so.\n");
        assert_eq!(list("a.rs", &source), [LONG, "Whether it is so."]);
    }

    #[test]
    fn a_number_never_rises() {
        let of = |count| Counts::from([("a.md".to_owned(), count)]);
        let broken = |now: &Counts, recorded: &Counts| {
            let mut violations = Vec::new();
            compare(now, recorded, &mut violations);
            violations.len()
        };
        assert_eq!((broken(&of(2), &of(2)), broken(&of(3), &of(2))), (0, 1));
        assert_eq!((broken(&of(1), &of(2)), broken(&Counts::new(), &of(2))), (1, 1));
        assert_eq!(broken(&of(1), &Counts::new()), 1, "a new page has none");
        assert_eq!((lowered(&of(3), &of(2)), lowered(&of(1), &of(2))), (of(2), of(1)));
        assert_eq!(read(&written(&of(2))), of(2));
        assert_eq!(folder("crates/store/src/file/device.rs"), "crates/store/src");
    }
}
