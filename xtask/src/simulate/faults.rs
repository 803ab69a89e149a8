//! Tests the laws with deliberate faults: each fault is applied to a copy of the sources, and the
//! simulation must catch the fault.
//!
//! Invariants: the project's own sources are never changed. If the original text of a fault does
//! not occur exactly once, the test fails, so the list stays correct when the sources change.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build;
use super::list::{FAULTS, Fault};
use super::threads;
use crate::{Outcome, root};

/// Paths that are copied, because the simulation program needs them to build.
const COPIED: &[&str] =
    &[".cargo", "Cargo.lock", "Cargo.toml", "bench", "crates", "dictionaries", "xtask"];
const PROFILE: &str = "faults";

fn all() -> impl Iterator<Item = &'static Fault> {
    FAULTS.iter().chain(threads::FAULTS)
}

/// Tests the fault with this name, or all faults.
pub(super) fn run(name: Option<&String>) -> Outcome {
    let faults: Vec<&Fault> =
        all().filter(|fault| name.is_none_or(|name| fault.name == name)).collect();
    if faults.is_empty() {
        let names: Vec<&str> = all().map(|fault| fault.name).collect();
        return Err(format!("no such fault; there are: {}", names.join(", ")));
    }
    let place = root().join("target/faults");
    let copy = place.join("copy");
    for part in COPIED {
        let (from, to) = (root().join(part), copy.join(part));
        mirror(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    for fault in all() {
        fault.applied(&copy)?;
    }
    let mut missed = Vec::new();
    for fault in &faults {
        let line = match try_one(fault, &copy, &place.join("build"))? {
            Some(caught) => {
                format!("caught after {} of {} worlds: {}", caught.0, fault.worlds, caught.1)
            }
            None => {
                missed.push(fault.name);
                format!("NOT CAUGHT in {} worlds", fault.worlds)
            }
        };
        // Each result is printed immediately, because each fault takes a while to build.
        let _ = writeln!(std::io::stderr(), "{:32} {line}", fault.name);
    }
    if missed.is_empty() {
        Ok(format!("all {} faults are caught", faults.len()))
    } else {
        Err(format!("not caught: {}", missed.join(", ")))
    }
}

/// Builds and runs the simulation with the fault. Returns the number of worlds until the fault was
/// caught, and the violated law; `None` if the fault was not caught.
fn try_one(fault: &Fault, copy: &Path, target: &Path) -> Result<Option<(u64, String)>, String> {
    let texts = fault.applied(copy)?;
    for (file, faulty, _) in &texts {
        write(file, faulty)?;
    }
    let built = build(copy, PROFILE, Some(target));
    for (file, _, sound) in &texts {
        write(file, sound)?;
    }
    let program = built.map_err(|error| format!("{}: {error}", fault.name))?;
    let mut command = Command::new(&program);
    command.args(["--worlds", &fault.worlds.to_string(), "--lines", "0"]);
    if !fault.kind.is_empty() {
        command.args(["--kind", fault.kind]);
    }
    let output = command.output().map_err(|error| format!("{}: {error}", program.display()))?;
    if output.status.success() {
        return Ok(None);
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let told = stdout.lines().find_map(|line| line.split_once(", after ")).map(|line| line.1);
    let told = told.and_then(|line| line.split_once(" worlds: "));
    let caught = told.and_then(|(worlds, law)| Some((worlds.parse().ok()?, first(law))));
    caught.map(Some).ok_or_else(|| {
        format!(
            "{}: the simulation failed otherwise: {}",
            fault.name,
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Returns the beginning of the law's text, shortened to fit on a line.
fn first(law: &str) -> String {
    law.chars().take(70).collect()
}

impl Fault {
    /// Returns the files that the fault changes.
    fn applied(&self, copy: &Path) -> Result<Vec<Changed>, String> {
        let mut changed: Vec<Changed> = Vec::new();
        for (of_crate, sound, faulty) in self.changes {
            let mut found = Vec::new();
            let sources = copy.join("crates").join(of_crate).join("src");
            for file in sources_below(&sources)? {
                let earlier = changed.iter().find(|(path, ..)| *path == file);
                let text = match earlier {
                    Some((_, text, _)) => text.clone(),
                    None => read(&file)?,
                };
                let places = places(&text, sound);
                found.extend(places.into_iter().map(|place| (file.clone(), text.clone(), place)));
            }
            let count = found.len();
            let Some((file, text, place)) = found.pop().filter(|_| count == 1) else {
                return Err(format!("{}: {of_crate} has {count} times: {sound}", self.name));
            };
            let with_fault = format!("{}{faulty}{}", &text[..place.start], &text[place.end..]);
            match changed.iter_mut().find(|(path, ..)| *path == file) {
                Some((_, text, _)) => *text = with_fault,
                None => changed.push((file, with_fault, text)),
            }
        }
        Ok(changed)
    }
}

/// Path of a changed file, its text with the fault, and its original text.
type Changed = (PathBuf, String, String);

/// Returns all source files in a folder and its subfolders, except tests.
fn sources_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error| format!("{}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            files.extend(sources_below(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns all positions of `sought` in `text`, ignoring differences in white space.
fn places(text: &str, sought: &str) -> Vec<Range<usize>> {
    let sought: Vec<&str> = sought.split_whitespace().collect();
    let Some((first, rest)) = sought.split_first() else { return Vec::new() };
    let ends = |start: usize| {
        let mut at = start + first.len();
        for word in rest {
            let behind = text[at..].trim_start();
            at = text.len() - behind.strip_prefix(word)?.len();
        }
        Some(start..at)
    };
    text.match_indices(first).filter_map(|(start, _)| ends(start)).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes `to` a copy of `from`. Files that are already equal are not rewritten, so that cargo does
/// not recompile them.
fn mirror(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(to)? {
            let path = entry?.path();
            let gone = path.file_name().is_some_and(|name| !from.join(name).exists());
            if gone && path.is_dir() {
                fs::remove_dir_all(&path)?;
            } else if gone {
                fs::remove_file(&path)?;
            }
        }
        for entry in fs::read_dir(from)? {
            let path = entry?.path();
            let built = path.file_name().is_some_and(|name| name == "target");
            if let (Some(name), false) = (path.file_name(), built) {
                mirror(&path, &to.join(name))?;
            }
        }
        return Ok(());
    }
    let text = fs::read(from)?;
    let same = fs::read(to).is_ok_and(|old| old == text);
    if same { Ok(()) } else { fs::write(to, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_however_its_lines_are_broken() {
        let text = "a(b, c);  a(\n    b,\n c);";
        assert_eq!(places(text, "a(b,   c);"), std::iter::once(0..8).collect::<Vec<_>>());
        assert_eq!(
            places("x a(\n    b,\n c);", "a( b, c);"),
            std::iter::once(2..16).collect::<Vec<_>>()
        );
        assert_eq!(places("a b a c a b", "a b"), [0..3, 8..11]);
        assert!(places("a b", "").is_empty());
    }

    /// Each fault can be applied to the present sources, and has a unique name.
    #[test]
    fn every_fault_can_be_applied() {
        for (n, fault) in all().enumerate() {
            let changed = fault.applied(&root()).unwrap();
            assert!(changed.iter().all(|(_, faulty, sound)| faulty != sound), "{}", fault.name);
            assert!(all().take(n).all(|other| other.name != fault.name), "{}", fault.name);
        }
        assert!(FAULTS.len() >= 20 && threads::FAULTS.len() >= 12);
    }
}
