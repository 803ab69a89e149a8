//! Rules for the lock files of packages outside the workspace.
//!
//! Invariant: each lock file contains every dependency of the workspace crates that the package
//! uses, so that `--locked` builds succeed.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Violation;

/// Checks the lock files, given by path, against cargo's metadata of the workspace.
pub(crate) fn check(
    locks: &BTreeMap<String, String>,
    metadata: &Value,
    violations: &mut Vec<Violation>,
) {
    for (file, text) in locks {
        for entry in text.split("[[package]]") {
            let of = |key: &str| {
                let line = entry.lines().find_map(|line| line.strip_prefix(key))?;
                Some(line.trim_start_matches(" = ").trim_matches('"'))
            };
            // A package with a `source` comes from a registry, so only packages without a source
            // are workspace crates.
            let Some(name) = of("name").filter(|_| of("source").is_none()) else { continue };
            for dependency in needed(metadata, name) {
                let listed = |line: &str| {
                    line.strip_prefix(" \"")
                        .is_some_and(|line| line.split(['"', ' ']).next() == Some(&*dependency))
                };
                if !entry.lines().any(listed) {
                    let folder = file.trim_end_matches("Cargo.lock");
                    let remedy = format!(
                        "{name} needs {dependency}; `cargo metadata --manifest-path \
                         {folder}Cargo.toml` brings it up to date"
                    );
                    let violation = Violation { file: file.clone(), line: 1, rule: "lock", remedy };
                    violations.push(violation);
                }
            }
        }
    }
}

/// Returns the dependencies of a workspace crate with all its features; empty for other crates.
fn needed(metadata: &Value, name: &str) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let packages = list(&metadata["packages"]);
    let package = packages.iter().find(|package| package["name"] == name);
    let dependencies = package.map_or_else(Vec::new, |package| list(&package["dependencies"]));
    let always =
        |dependency: &&Value| dependency["kind"] != "dev" && dependency["optional"] == false;
    let name = |dependency: &Value| dependency["name"].as_str().unwrap_or_default().to_owned();
    dependencies.iter().filter(always).map(name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dependency_that_a_lock_file_lacks_is_named() {
        let dependencies = [
            json!({ "name": "rustix", "kind": null, "optional": false }),
            json!({ "name": "zstd", "kind": null, "optional": true }),
            json!({ "name": "syn", "kind": "dev", "optional": false }),
        ];
        let ours = json!({ "name": "ours", "dependencies": dependencies });
        let metadata = json!({ "packages": [ours] });
        let broken = |listed: &str| {
            let entry = |source: &str| {
                format!("[[package]]\nname = \"ours\"\n{source}dependencies = [\n \"{listed}\",\n]")
            };
            let locks = [("a", ""), ("b", "source = \"registry\"\n")]
                .map(|(folder, source)| (format!("{folder}/Cargo.lock"), entry(source)));
            let mut violations = Vec::new();
            check(&locks.into(), &metadata, &mut violations);
            violations.iter().map(Violation::to_string).collect::<Vec<_>>()
        };
        assert_eq!(broken("rustix"), [""; 0]);
        assert_eq!(broken("rustix 1.1.6"), [""; 0]);
        let found = broken("rustix-core");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a/Cargo.lock:1: lock: ours needs rustix; "), "{found:?}");
    }
}
