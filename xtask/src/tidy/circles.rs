//! Rules for dependency cycles: at most two files of a crate may depend on each other. In layered
//! crates, no file or folder may depend on a higher layer.
//!
//! A file depends on another file if it names an item of that file: by a path from `crate` or
//! `super`, or by a name that `lib.rs` re-exports. Comments, tests, and references to parent
//! modules do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;

/// Maximum number of files in a dependency cycle.
const FILES_MAX: usize = 2;

/// Layered crates with their layers, highest first. Each layer is a file or folder in `src`.
const LAYERS: &[(&str, &[&str])] = &[(
    "engine",
    &[
        "simulated",
        "api",
        "tls",
        "engine",
        "review",
        "assemble",
        "drive",
        "link",
        "admin",
        "error",
        "io",
    ],
)];

/// A crate that makes decisions without side effects, and the names that its files must not use:
/// names for waiting and for input or output. `Arc` is allowed, because shared memory does not
/// wait.
const DECIDES: (&str, &[&str]) = (
    "session",
    &[
        "std::env",
        "std::fs",
        "std::io",
        "std::net",
        "std::process",
        "std::sync",
        "std::thread",
        "std::time::Instant",
        "std::time::SystemTime",
        "tracing::",
        "transfix_dictionary",
        "transfix_store",
        "transfix_transport",
    ],
);

/// The sources of a crate: the text of each module by module path, such as `file::tail`.
type Modules = BTreeMap<String, String>;
/// The modules on which each module depends.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// Checks the crates whose sources are given by path. Returns, for each crate with a dependency
/// cycle, the number of files in its largest cycle.
pub(super) fn check(
    sources: &BTreeMap<String, String>,
    violations: &mut Vec<Violation>,
) -> Vec<(String, usize)> {
    let mut crates: BTreeMap<&str, Modules> = BTreeMap::new();
    for (file, text) in sources {
        let Some((name, path)) = place(file) else { continue };
        crates.entry(name).or_default().insert(path, code(text));
    }
    let mut largest = Vec::new();
    for (name, modules) in crates {
        violations.extend(beside_decisions(name, &modules));
        let needs = needs(&modules);
        if let Some((_, layers)) = LAYERS.iter().find(|(layered, _)| *layered == name) {
            violations.extend(arrows_up(name, &needs, layers));
        }
        let Some(circle) = circles(&needs).into_iter().max_by_key(Vec::len) else {
            continue;
        };
        if circle.len() > FILES_MAX {
            violations.push(Violation {
                file: format!("crates/{name}/src/lib.rs"),
                line: 1,
                rule: "circle",
                remedy: format!(
                    "{} files need each other, {FILES_MAX} may: {}",
                    circle.len(),
                    circle.join(", ")
                ),
            });
        }
        if circle.len() > 1 {
            largest.push((name.to_owned(), circle.len()));
        }
    }
    largest
}

/// Returns a violation for each use of waiting, input or output in a crate that must only decide.
fn beside_decisions(name: &str, modules: &Modules) -> Vec<Violation> {
    let (decides, others) = DECIDES;
    let mut violations = Vec::new();
    for (module, text) in modules.iter().filter(|_| name == decides) {
        let text = text.replace("std::sync::Arc", "");
        for other in others.iter().filter(|other| text.contains(**other)) {
            let file = format!("crates/{name}/src/{}.rs", module.replace("::", "/"));
            let remedy = format!("names {other}, and this crate only decides");
            violations.push(Violation { file, line: 1, rule: "decision", remedy });
        }
    }
    violations
}

/// Returns a violation for each module that depends on a higher layer or belongs to no layer.
fn arrows_up(name: &str, needs: &Needs, layers: &[&str]) -> Vec<Violation> {
    let layer = |module: &str| {
        let folder = module.split("::").next().unwrap_or_default();
        layers.iter().position(|layer| *layer == folder)
    };
    let mut violations = Vec::new();
    let mut blame = |module: &str, remedy: String| {
        let file = format!("crates/{name}/src/{}.rs", module.replace("::", "/"));
        violations.push(Violation { file, line: 1, rule: "layer", remedy });
    };
    for (module, needed) in needs {
        let Some(own) = layer(module) else {
            blame(module, "lies in no layer; give it a place in xtask/src/tidy/circles.rs".into());
            continue;
        };
        for above in needed.iter().filter(|other| layer(other).is_some_and(|at| at < own)) {
            blame(module, format!("needs {above}, which lies in a layer above"));
        }
    }
    violations
}

/// Returns the crate and the module of a source file; `None` for a file of tests.
fn place(file: &str) -> Option<(&str, String)> {
    let (name, path) = file.strip_prefix("crates/")?.split_once("/src/")?;
    let path = path.strip_suffix(".rs")?;
    let is_test = path.split('/').any(|part| part == "tests");
    (!is_test).then(|| (name, path.replace('/', "::")))
}

/// Returns the text without comments, and without the tests at the end.
fn code(text: &str) -> String {
    let end = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..end].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

fn needs(modules: &Modules) -> Needs {
    let root = modules.get("lib").map(String::as_str).unwrap_or_default();
    let given_on: BTreeMap<String, String> = used(root)
        .into_iter()
        .filter_map(|path| {
            let name = path.rsplit("::").next()?.to_owned();
            Some((name, path.trim_start_matches("self::").to_owned()))
        })
        .collect();
    let mut needs = Needs::new();
    for (module, text) in modules {
        if module == "lib" || module == "main" {
            continue;
        }
        let own = needs.entry(module.clone()).or_default();
        for path in paths(text, module) {
            let first = path.split("::").next().unwrap_or_default();
            let path = given_on.get(first).unwrap_or(&path);
            let parts: Vec<&str> = path.split("::").collect();
            let found = (1..=parts.len()).rev().map(|n| parts[..n].join("::"));
            let found = found.into_iter().find(|path| modules.contains_key(path));
            own.extend(found.filter(|found| {
                let is_above = module.starts_with(&format!("{found}::"));
                found != module && found != "lib" && !is_above
            }));
        }
    }
    needs
}

/// Returns all paths in the `use` declarations of a text.
fn used(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, _) in text.match_indices("use ") {
        let tree = &text[at + 4..];
        let end = tree.find(';').unwrap_or(tree.len());
        spread(&tree[..end], "", &mut all);
    }
    all
}

/// Returns all paths in a text that lead to items of its own crate, relative to the crate root.
fn paths(text: &str, module: &str) -> Vec<String> {
    let mut all = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            // In a path that begins with `super::super`, only the first `super` starts a path.
            let is_inner = text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
                || text[..at].ends_with("super::");
            if is_inner {
                continue;
            }
            let (mut rest, mut base) = (&text[at..], module);
            if let Some(behind) = rest.strip_prefix("crate::") {
                (rest, base) = (behind, "");
            }
            while let Some(behind) = rest.strip_prefix("super::") {
                (rest, base) = (behind, base.rsplit_once("::").map_or("", |(above, _)| above));
            }
            let base = if base.is_empty() { String::new() } else { format!("{base}::") };
            spread(tree(rest), &base, &mut all);
        }
    }
    all
}

/// Returns the beginning of the text that forms a path, or a tree of paths in braces.
fn tree(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth <= 1 => return &text[..at + usize::from(depth == 1)],
            '}' => depth -= 1,
            _ if depth > 0 || c.is_alphanumeric() || matches!(c, '_' | ':') => {}
            _ => return &text[..at],
        }
    }
    text
}

/// Expands a `use` tree: `a::{b, c::{d}}` becomes `a::b` and `a::c::d`.
fn spread(tree: &str, base: &str, all: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, list)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        let name = name.strip_suffix("::self").unwrap_or(name);
        if name == "self" {
            all.push(base.trim_end_matches("::").to_owned());
        } else if !name.is_empty() {
            all.push(format!("{base}{name}"));
        }
        return;
    };
    let base = format!("{base}{}", head.trim());
    let list = list.strip_suffix('}').unwrap_or(list);
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                spread(&list[begin..at], &base, all);
                begin = at + 1;
            }
            _ => {}
        }
    }
    spread(&list[begin..], &base, all);
}

/// Returns the dependency cycles: sets of modules in which each module depends on all others,
/// directly or indirectly.
fn circles(needs: &Needs) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|module| (module, reach(needs, module))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for module in needs.keys() {
        if circles.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let mutual = reached[module].iter().filter(|other| reached[**other].contains(module));
        let mut circle: Vec<String> = mutual.map(|other| (*other).clone()).collect();
        if circle.is_empty() {
            circle.push(module.clone());
        }
        circles.push(circle);
    }
    circles
}

/// Returns all modules on which a module depends, directly or indirectly.
fn reach<'n>(needs: &'n Needs, from: &String) -> BTreeSet<&'n String> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&String> = needs[from].iter().collect();
    while let Some(module) = next.pop() {
        if found.insert(module) {
            next.extend(&needs[module]);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(files: &[(&str, &str)]) -> (Vec<(String, usize)>, Vec<Violation>) {
        let sources =
            files.iter().map(|(file, text)| (format!("crates/x/src/{file}"), (*text).to_owned()));
        let mut violations = Vec::new();
        let largest = check(&sources.collect(), &mut violations);
        (largest, violations)
    }

    #[test]
    fn three_files_in_a_circle_are_one_too_many() {
        let a = ("a.rs", "use crate::b::{B, self};\n");
        let b = ("b.rs", "use std::x;\nuse crate::{c::{C, d}, other};\n");
        let c = ("c.rs", "// crate::b\nfn f() { super::a::g() }\n");
        let (largest, violations) = checked(&[a, b, c]);
        assert_eq!(largest, [("x".to_owned(), 3)]);
        assert!(violations[0].remedy.ends_with("a, b, c"), "{}", violations[0].remedy);
        let (largest, violations) = checked(&[a, ("b.rs", "use crate::a;"), c]);
        assert_eq!((largest, violations.len()), (vec![("x".to_owned(), 2)], 0));
    }

    #[test]
    fn a_name_that_the_root_gives_on_leads_to_its_file() {
        let root = ("lib.rs", "mod a;\npub use a::{A, deep::Deep};\npub use b::B;");
        let (largest, _) = checked(&[root, ("a.rs", "use crate::B;"), ("b.rs", "use crate::A;")]);
        assert_eq!(largest, [("x".to_owned(), 2)]);
    }

    #[test]
    fn what_needs_a_layer_above_is_named() {
        let file = |path: &str, text: &str| (format!("crates/engine/src/{path}"), text.to_owned());
        let files = [
            file("link.rs", "use crate::admin::O;\nuse crate::api::A;"),
            file("api/a.rs", "use crate::link;"),
            file("api.rs", ""),
            file("admin.rs", ""),
            file("new.rs", ""),
        ];
        let mut violations = Vec::new();
        check(&files.into_iter().collect(), &mut violations);
        let told: Vec<String> = violations.iter().map(Violation::to_string).collect();
        assert_eq!(
            told,
            [
                "crates/engine/src/link.rs:1: layer: needs api, which lies in a layer above",
                "crates/engine/src/new.rs:1: layer: lies in no layer; give it a place in \
                 xtask/src/tidy/circles.rs",
            ]
        );
    }

    #[test]
    fn what_decides_names_nothing_that_waits() {
        let file = |path: &str, text: &str| (format!("crates/{path}"), text.to_owned());
        let files = [
            file("session/src/core.rs", "// transfix_store\nuse std::sync::Arc;"),
            file("session/src/core/a.rs", "use std::sync::{Arc, Mutex};"),
            file("engine/src/link/journal.rs", "use transfix_store::Store;"),
        ];
        let mut violations = Vec::new();
        check(&files.into_iter().collect(), &mut violations);
        let told: Vec<String> = violations.iter().map(Violation::to_string).collect();
        let expected = "names std::sync, and this crate only decides";
        assert_eq!(told, [format!("crates/session/src/core/a.rs:1: decision: {expected}")]);
    }

    #[test]
    fn what_a_file_needs_of_what_it_is_part_of_is_no_circle() {
        let a = ("a.rs", "mod part;\nuse self::part::P;");
        let part = ("a/part.rs", "use super::A;\nuse crate::a::B;\n#[cfg(test)]\nmod tests {}");
        assert_eq!(checked(&[a, part]).0, []);
        let other = ("b.rs", "#[cfg(test)]\nmod tests {\n use crate::a;\n}");
        assert_eq!(checked(&[("a.rs", "use crate::b::B;"), other]).0, []);
    }
}
