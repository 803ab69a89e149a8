//! `cargo xtask dictionaries`: writes the files dictionaries/*.xml from the published
//! specifications.
//!
//! Invariants: the same sources always give the same bytes, and each written file can be loaded. If
//! two sources of a version disagree, the difference is printed, and `VERSIONS` states which source
//! applies. If a version seems to have forgotten a requirement, the command fails (`forgotten.rs`).

mod amend;
mod compare;
mod conditions;
mod forgotten;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use transfix_dictionary::{Dictionary, Draft};

use crate::{Outcome, root, shown};

/// A standard dictionary, with the published files from which it is made.
struct Version {
    /// The name of the written file, without `.xml`.
    name: &'static str,
    /// The path of the authoritative file, relative to the source directory.
    source: &'static str,
    /// The path of a second file to compare with the authoritative file.
    other: Option<&'static str>,
    /// The path of the file that lists the fields whose values may also lie outside their codes.
    unions: Option<&'static str>,
}

const VERSIONS: &[Version] = &[
    Version { name: "FIX40", source: "quickfix/FIX40.xml", other: None, unions: None },
    Version { name: "FIX41", source: "quickfix/FIX41.xml", other: None, unions: None },
    Version {
        name: "FIX42",
        source: "quickfix/FIX42.xml",
        other: Some("orchestra/OrchestraFIX42.xml"),
        unions: None,
    },
    Version { name: "FIX43", source: "quickfix/FIX43.xml", other: None, unions: None },
    Version {
        name: "FIX44",
        source: "quickfix/FIX44.xml",
        other: Some("orchestra/OrchestraFIX44.xml"),
        unions: None,
    },
    Version { name: "FIX50", source: "quickfix/FIX50.xml", other: None, unions: None },
    Version { name: "FIX50SP1", source: "quickfix/FIX50SP1.xml", other: None, unions: None },
    Version {
        name: "FIX50SP2",
        source: "quickfix/FIX50SP2.xml",
        other: None,
        unions: Some(LATEST),
    },
    Version {
        name: "FIXT11",
        source: "orchestra/FIXTSession.xml",
        other: Some("quickfix/FIXT11.xml"),
        unions: None,
    },
    Version { name: "FIXLatest", source: LATEST, other: None, unions: None },
];

const LATEST: &str = "orchestra/OrchestraFIXLatest.xml";

/// Writes the dictionary files. With `--check`, compares the existing files with the generated text
/// instead.
///
/// # Errors
/// If an argument is unknown, a source is missing or wrong, or, with `--check`, a committed file
/// differs.
pub fn run(args: &[String]) -> Outcome {
    let mut source = root().join("../shared/dictionaries");
    let mut check = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.as_slice().first()) {
            ("--check", _) => check = true,
            ("--source", Some(dir)) => {
                source = PathBuf::from(dir);
                args.next();
            }
            _ => return Err(format!("unknown argument '{arg}'; known: --check, --source DIR")),
        }
    }
    if !source.is_dir() {
        let missing = format!("no source data in {}; name its directory", source.display());
        return if check { Err(missing) } else { Ok(format!("{missing}; nothing written")) };
    }
    let mut report = String::new();
    let mut stale = Vec::new();
    let mut converted = Vec::new();
    for version in VERSIONS {
        let (text, dictionary) = convert(version, &source, &mut report)?;
        converted.push((version.name, text, dictionary));
    }
    let dictionaries: Vec<_> = converted.iter().map(|(name, _, known)| (*name, known)).collect();
    forgotten::check(&dictionaries)?;
    for (name, text, _) in converted {
        let path = root().join("dictionaries").join(format!("{name}.xml"));
        if !check {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", shown(&path)))?;
        } else if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            stale.push(shown(&path));
        }
    }
    if stale.is_empty() {
        return Ok(report);
    }
    Err(format!("not what would be written (run cargo xtask dictionaries): {}", stale.join(", ")))
}

/// Returns the dictionary of a version and its text. Differences between the sources are added to
/// the report.
fn convert(
    version: &Version,
    source: &Path,
    report: &mut String,
) -> Result<(String, Dictionary), String> {
    let mut draft = read(&source.join(version.source))?;
    let mut summary = format!("{}: {}", version.name, version.source);
    if let Some(other) = version.other {
        let believed = resolve(draft.clone())?;
        let differences = compare::differences(&believed, &resolve(read(&source.join(other))?)?);
        for difference in &differences {
            let _ = writeln!(report, "{}: {difference}", version.name);
        }
        let _ =
            write!(summary, " is believed, {other} differs in {}", compare::count(&differences));
    }
    if let Some(unions) = version.unions {
        amend::open_as(&mut draft, &read(&source.join(unions))?);
    }
    amend::amend(&mut draft, version.name)?;
    conditions::add(&mut draft, version.name)?;
    let text = draft.to_quickfix_xml();
    let written = Dictionary::from_quickfix_xml(&text, version.name).map_err(|e| e.to_string())?;
    let _ = writeln!(
        report,
        "{summary}; {} messages, {} fields, {} components, {} KiB",
        written.messages().len(),
        written.fields().len(),
        written.components().len(),
        text.len() / 1024
    );
    Ok((text, written))
}

fn read(path: &Path) -> Result<Draft, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Draft::from_xml(&text, &path.display().to_string()).map_err(|error| error.to_string())
}

fn resolve(draft: Draft) -> Result<Dictionary, String> {
    draft.resolve().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_standard_dictionary_has_its_source() {
        let names: Vec<&str> = VERSIONS.iter().map(|version| version.name).collect();
        assert_eq!(names, transfix_dictionary::STANDARD);
    }

    #[test]
    fn without_the_sources_only_a_check_fails() {
        let args = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
        let missing = run(&args(&["--source", "no/such/directory"])).unwrap();
        assert!(missing.contains("nothing written"), "{missing}");
        assert!(run(&args(&["--check", "--source", "no/such/directory"])).is_err());
        assert!(run(&args(&["--sauce"])).is_err());
        assert!(run(&args(&["--source"])).is_err());
    }
}
