//! `cargo xtask tidy`: checks the style rules that a program can check.
//!
//! `cargo test` runs the same checks. Invariants: each violation names its file, line, rule and
//! remedy. Each rule has a test that violates the rule.

mod book;
mod circles;
mod claims;
mod code;
mod edges;
mod links;
mod locks;
mod prose;
mod source;
mod threads;
mod tracked;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::{Outcome, root};

/// A violation of a style rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    /// Path relative to the project's root.
    file: String,
    /// The line, counted from 1.
    line: usize,
    /// The rule's name.
    rule: &'static str,
    /// The remedy.
    remedy: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.line, self.rule, self.remedy)
    }
}

/// Checks the whole project.
///
/// # Errors
/// Returns all violations, one per line.
pub fn run() -> Outcome {
    let root = root();
    let files = all_files(&root)?;
    let (mut violations, mut pages) = (Vec::new(), BTreeMap::new());
    let (mut sources, mut locks) = (BTreeMap::new(), BTreeMap::new());
    let mut alerts = String::new();
    for file in &files {
        let bytes = fs::read(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        // A file that is not UTF-8 is binary, so it is not checked.
        if let Ok(text) = String::from_utf8(bytes) {
            source::check(file, &text, &mut violations);
            if file.ends_with(".md") {
                pages.insert(file.clone(), text);
            } else if file.ends_with(".rs") {
                sources.insert(file.clone(), text);
            } else if file.ends_with("/Cargo.lock") {
                locks.insert(file.clone(), text);
            } else if file == book::RULES {
                alerts = text;
            }
        }
    }
    links::check(&pages, &files, &mut violations);
    book::check(&pages, &files, &alerts, &mut violations);
    claims::check(&pages, &sources, &mut violations);
    tracked::check(&tracked::files(&root), &mut violations);
    let metadata = edges::metadata()?;
    edges::check(&metadata, &mut violations)?;
    locks::check(&locks, &metadata, &mut violations);
    threads::check(&sources, &pages, &mut violations);
    prose::check(&root, (&pages, &sources), &mut violations)?;
    let circles = circles::check(&sources, &mut violations);
    if violations.is_empty() {
        let told: Vec<String> =
            circles.iter().map(|(name, files)| format!("{name} {files}")).collect();
        let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
        return Ok(format!("{} files are tidy; largest circle of files: {told}", files.len()));
    }
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    Err(lines.join("\n"))
}

/// Lists the hard-to-read sentences in files whose paths begin with one of the arguments.
///
/// # Errors
/// If a file cannot be read, or an argument is wrong.
pub fn run_with(args: &[String]) -> Outcome {
    let beginning = match args {
        [] => return run(),
        [flag] if flag == "--prose" => "",
        [flag, path] if flag == "--prose" => path,
        _ => return Err("usage: cargo xtask tidy [--prose [PATH]]".to_owned()),
    };
    let root = root();
    let mut lines = Vec::new();
    for file in all_files(&root)?.iter().filter(|file| file.starts_with(beginning)) {
        if file.ends_with(".md") || file.ends_with(".rs") {
            let text = fs::read_to_string(root.join(file));
            let text = text.map_err(|error| format!("{file}: {error}"))?;
            let hard = prose::list(file, &text);
            lines.extend(hard.into_iter().map(|sentence| format!("{file}: {sentence}")));
        }
    }
    lines.push(format!("{} sentences are hard to read", lines.len()));
    Ok(lines.join("\n"))
}

/// Returns all files that git does not ignore, in order.
fn all_files(root: &Path) -> Result<Vec<String>, String> {
    let ignored = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let mut files = Vec::new();
    list(root, "", &Ignored::of(&ignored), &mut files)?;
    files.sort();
    Ok(files)
}

/// The patterns of `.gitignore`: paths from the root, and names of directories at any depth.
struct Ignored<'t> {
    paths: Vec<&'t str>,
    names: Vec<&'t str>,
}

impl<'t> Ignored<'t> {
    fn of(text: &'t str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let (paths, names) = lines.partition::<Vec<_>, _>(|line| line.starts_with('/'));
        let bare = |line: &'t str| line.trim_matches('/');
        Self {
            paths: paths.into_iter().map(bare).collect(),
            names: names.into_iter().map(bare).chain([".git", "target"]).collect(),
        }
    }

    fn has(&self, path: &str, name: &str) -> bool {
        self.paths.contains(&path) || self.names.contains(&name)
    }
}

/// Lists all files below `dir` that are not ignored, as `/`-separated paths from the root.
fn list(
    root: &Path,
    dir: &str,
    ignored: &Ignored<'_>,
    files: &mut Vec<String>,
) -> Result<(), String> {
    let entries = fs::read_dir(root.join(dir)).map_err(|error| format!("{dir}: {error}"))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("{dir}: {error}"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
        let kind = entry.file_type().map_err(|error| format!("{path}: {error}"))?;
        if ignored.has(&path, &name) {
            continue;
        }
        if kind.is_dir() {
            list(root, &path, ignored, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_ignores_is_passed_over() {
        let ignored = Ignored::of("/bench-out\n\nnode_modules/\n");
        assert!(ignored.has("bench-out", "bench-out") && !ignored.has("a/bench-out", "bench-out"));
        assert!(ignored.has("a/node_modules", "node_modules") && ignored.has(".git", ".git"));
        assert!(!ignored.has("crates", "crates"));
    }
}
