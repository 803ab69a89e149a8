//! Rules for files in git: no build output, and no very large files.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Violation;

/// Maximum size of a file in git, in bytes.
const BYTES_MAX: u64 = 2 << 20;

/// Larger files that are allowed, because the project needs these published files unchanged.
const LARGE: &[&str] = &["dictionaries/FIXLatest.xml"];

/// Returns the files in git with their sizes in bytes; empty outside a git repository.
pub(crate) fn files(root: &Path) -> Vec<(String, u64)> {
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output();
    let Ok(listed) = listed else { return Vec::new() };
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    let length = |name: &str| fs::metadata(root.join(name)).map_or(0, |file| file.len());
    names.map(|name| (name.to_owned(), length(name))).collect()
}

/// Checks the size and kind of each file in git.
pub(crate) fn check(files: &[(String, u64)], violations: &mut Vec<Violation>) {
    let mut add = |file: &str, rule, remedy| {
        violations.push(Violation { file: file.to_owned(), line: 1, rule, remedy });
    };
    for (file, bytes) in files {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        if folder.split('/').any(|part| ["target", "bench-out"].contains(&part)) {
            let remedy = "a build or a benchmark has made it; `git rm --cached` it";
            add(file, "built file", remedy.to_owned());
        }
        if *bytes > BYTES_MAX && !LARGE.contains(&&**file) {
            let remedy = format!("{bytes} bytes in git, {BYTES_MAX} are allowed; make it at need");
            add(file, "file size", remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(file: &str, bytes: u64) -> Vec<&'static str> {
        let mut violations = Vec::new();
        check(&[(file.to_owned(), bytes)], &mut violations);
        violations.iter().map(|violation| violation.rule).collect()
    }

    #[test]
    fn what_builds_leave_and_what_is_huge_is_refused() {
        assert_eq!(broken("bench/peers/target/x/classes/A.class", 9), ["built file"]);
        assert_eq!(broken("crates/cli/bench-out/codec.json", 9), ["built file"]);
        assert_eq!(broken("target/debug/a", BYTES_MAX + 1), ["built file", "file size"]);
        assert_eq!(broken("testdata/big.bin", BYTES_MAX + 1), ["file size"]);
        assert_eq!(broken("testdata/target", BYTES_MAX), [""; 0]);
        assert_eq!(broken("dictionaries/FIXLatest.xml", BYTES_MAX + 1), [""; 0]);
    }

    #[test]
    fn the_files_of_this_repository_are_found() {
        let files = files(&crate::root());
        // Outside a git repository the list is empty, which is also allowed.
        assert!(
            files.is_empty() || files.iter().any(|(name, len)| name == "Cargo.toml" && *len > 0)
        );
    }
}
