//! Deliberate faults: each is put into a copy of the sources, built, and must be caught.
//!
//! Invariant: the project's own sources are never touched; a text to be replaced that is not found
//! exactly once is an error, so that the list stays true when the sources change.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::build;
use super::list::{FAULTS, Fault};
use crate::{Outcome, root};

/// What the program needs to be built.
const COPIED: &[&str] =
    &[".cargo", "Cargo.lock", "Cargo.toml", "bench", "crates", "dictionaries", "xtask"];
const PROFILE: &str = "faults";

/// Tries the fault of this name, or all.
pub(super) fn run(name: Option<&String>) -> Outcome {
    let faults: Vec<&Fault> =
        FAULTS.iter().filter(|fault| name.is_none_or(|name| fault.name == name)).collect();
    if faults.is_empty() {
        let names: Vec<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        return Err(format!("no such fault; there are: {}", names.join(", ")));
    }
    let place = root().join("target/faults");
    let copy = place.join("copy");
    for part in COPIED {
        let (from, to) = (root().join(part), copy.join(part));
        mirror(&from, &to).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    for fault in FAULTS {
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
        // Told at once: each takes a while to build.
        let _ = writeln!(std::io::stderr(), "{:32} {line}", fault.name);
    }
    if missed.is_empty() {
        Ok(format!("all {} faults are caught", faults.len()))
    } else {
        Err(format!("not caught: {}", missed.join(", ")))
    }
}

/// Builds and runs with the fault; answers after how many worlds it was caught, and by which law.
fn try_one(fault: &Fault, copy: &Path, target: &Path) -> Result<Option<(u64, String)>, String> {
    let texts = fault.applied(copy)?;
    for (file, faulty, _) in &texts {
        write(&copy.join(file), faulty)?;
    }
    let built = build(copy, PROFILE, Some(target));
    for (file, _, sound) in &texts {
        write(&copy.join(file), sound)?;
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

/// As much of a law as fits on a line.
fn first(law: &str) -> String {
    law.chars().take(70).collect()
}

impl Fault {
    /// The files that it changes: path, text with the fault, text without.
    fn applied(&self, copy: &Path) -> Result<Vec<(&'static str, String, String)>, String> {
        let mut texts: Vec<(&'static str, String, String)> = Vec::new();
        for (file, sound, faulty) in self.changes {
            if !texts.iter().any(|(name, ..)| name == file) {
                let text = fs::read_to_string(copy.join(file));
                let text = text.map_err(|error| format!("{}: {file}: {error}", self.name))?;
                texts.push((file, text.clone(), text));
            }
            let Some(entry) = texts.iter_mut().find(|(name, ..)| name == file) else { continue };
            let found = entry.1.matches(sound).count();
            if found != 1 {
                return Err(format!("{}: {file} has {found} times: {sound}", self.name));
            }
            entry.1 = entry.1.replacen(sound, faulty, 1);
        }
        Ok(texts)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes `to` what `from` is; files that are the same stay untouched, so that they are not compiled
/// again.
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

    /// Each fault still fits the sources, and its name is its own.
    #[test]
    fn every_fault_can_be_applied() {
        for (n, fault) in FAULTS.iter().enumerate() {
            let changed = fault.applied(&root()).unwrap();
            assert!(changed.iter().all(|(_, faulty, sound)| faulty != sound), "{}", fault.name);
            assert!(FAULTS[..n].iter().all(|other| other.name != fault.name), "{}", fault.name);
        }
        assert!(FAULTS.len() >= 20);
    }
}
