//! Rules for the dependencies between crates of the workspace.
//!
//! Invariant: the table is complete; a crate that is missing from the table is a violation.

use std::process::Command;

use serde_json::Value;

use super::Violation;
use crate::root;

/// Each crate of the workspace, with the workspace crates that its code may use, except in tests.
const EDGES: &[(&str, &[&str])] = &[
    ("transfix-dictionary", &[]),
    ("transfix-codec", &["transfix-dictionary"]),
    ("transfix-session", &["transfix-codec"]),
    ("transfix-store", &[]),
    ("transfix-transport", &[]),
    ("transfix-text", &["transfix-codec", "transfix-dictionary", "transfix-store"]),
    ("transfix-settings", &["transfix-dictionary", "transfix-codec", "transfix-session"]),
    (
        "transfix-quickfix",
        &["transfix-dictionary", "transfix-codec", "transfix-session", "transfix-settings"],
    ),
    (
        "transfix-observe",
        &["transfix-codec", "transfix-session", "transfix-settings", "transfix-store"],
    ),
    (
        "transfix",
        &[
            "transfix-dictionary",
            "transfix-codec",
            "transfix-observe",
            "transfix-session",
            "transfix-settings",
            "transfix-store",
            "transfix-transport",
        ],
    ),
    ("transfix-admin", &["transfix", "transfix-codec", "transfix-store", "transfix-text"]),
    ("transfix-gateway", &["transfix", "transfix-codec", "transfix-dictionary", "transfix-store"]),
    (
        "transfix-cli",
        &[
            "transfix",
            "transfix-admin",
            "transfix-codec",
            "transfix-dictionary",
            "transfix-gateway",
            "transfix-observe",
            "transfix-quickfix",
            "transfix-store",
            "transfix-text",
        ],
    ),
    ("transfix-bench", &["transfix", "transfix-codec", "transfix-dictionary"]),
    (
        "transfix-testkit",
        &[
            "transfix",
            "transfix-codec",
            "transfix-dictionary",
            "transfix-session",
            "transfix-store",
            "transfix-transport",
        ],
    ),
    ("xtask", &["transfix-dictionary"]),
];

/// Returns cargo's metadata of the workspace.
pub(crate) fn metadata() -> Result<Value, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Checks the dependencies between the crates of the workspace. Dependencies of tests are not
/// restricted.
pub(crate) fn check(metadata: &Value, violations: &mut Vec<Violation>) -> Result<(), String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata: no packages")?;
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let mut add = |remedy: String| {
            let file = format!("Cargo.toml of {name}");
            violations.push(Violation { file, line: 1, rule: "crate edges", remedy });
        };
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            add("not in the table; add it to xtask/src/tidy/edges.rs".to_owned());
            continue;
        };
        let none = Vec::new();
        for dependency in package["dependencies"].as_array().unwrap_or(&none) {
            let used = dependency["name"].as_str().unwrap_or_default();
            let ours = EDGES.iter().any(|(known, _)| *known == used);
            if ours && dependency["kind"] != "dev" && !allowed.contains(&used) {
                add(format!("may not depend on {used}; allowed: [{}]", allowed.join(", ")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations(name: &str, dependency: &str, kind: Option<&str>) -> Vec<String> {
        let dependencies = json!([{ "name": dependency, "kind": kind }]);
        let metadata = json!({ "packages": [{ "name": name, "dependencies": dependencies }] });
        let mut violations = Vec::new();
        check(&metadata, &mut violations).unwrap();
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn only_the_edges_of_the_table() {
        let cases = [
            ("transfix-session", "transfix-codec", None, 0),
            ("transfix-session", "transfix-store", None, 1),
            ("transfix-session", "transfix-store", Some("dev"), 0),
            ("transfix-session", "transfix-store", Some("build"), 1),
            ("transfix-session", "itoa", None, 0),
            ("transfix", "transfix-testkit", None, 1),
            ("transfix", "transfix-testkit", Some("dev"), 0),
            ("transfix-cli", "transfix-session", None, 1),
            ("transfix-macros", "itoa", None, 1),
        ];
        for (name, dependency, kind, expected) in cases {
            let found = violations(name, dependency, kind);
            assert_eq!(found.len(), expected, "{name} -> {dependency} {kind:?}: {found:?}");
        }
        assert!(check(&json!({}), &mut Vec::new()).is_err());
    }
}
