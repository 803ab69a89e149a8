//! Rules for a single file: its name, length, functions, header, unsafe code, and paths in its
//! text.

use super::Violation;
use super::code::{code_of, functions, words};

/// Maximum number of code lines in a file, excluding tests.
const CODE_LINES_MAX: usize = 800;
/// Maximum number of code lines in a function.
const FUNCTION_LINES_MAX: usize = 70;
/// Maximum number of characters in a line.
const COLUMNS_MAX: usize = 100;

/// File names that are forbidden because they do not describe the file's duty.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "misc", "manager", "managers", "common"];

/// Path prefixes of files that may contain unsafe code.
const UNSAFE_HERE: &[&str] = &[
    "crates/codec/src/scan",
    "crates/store/src/map",
    "crates/transport/src/sys",
    "crates/testkit/src/alloc.rs",
];

/// The root files of crates that must contain `#![forbid(unsafe_code)]`.
const UNSAFE_FORBIDDEN: &[&str] = &[
    "crates/dictionary/src/lib.rs",
    "crates/session/src/lib.rs",
    "crates/settings/src/lib.rs",
    "crates/quickfix/src/lib.rs",
    "crates/observe/src/lib.rs",
    "crates/text/src/lib.rs",
    "crates/engine/src/lib.rs",
    "crates/gateway/src/lib.rs",
    "crates/admin/src/lib.rs",
    "crates/cli/src/main.rs",
];

/// Words that must not occur in any file, each with the reason.
const FORBIDDEN: &[(&str, &str)] =
    &[(concat!("/wo", "rk/"), "a path of one machine; use one from the root of the project")];

/// Checks a file against all rules; `file` is its path relative to the project's root.
pub(crate) fn check(file: &str, text: &str, violations: &mut Vec<Violation>) {
    let mut add = |line: usize, rule: &'static str, remedy: String| {
        violations.push(Violation { file: file.to_owned(), line, rule, remedy });
    };
    for (line, content) in (1..).zip(text.lines()) {
        for (_, why) in FORBIDDEN.iter().filter(|(word, _)| content.contains(word)) {
            add(line, "forbidden word", (*why).to_owned());
        }
    }
    if !file.ends_with(".rs") {
        return;
    }
    for part in file.trim_end_matches(".rs").split('/').filter(|part| EMPTY_NAMES.contains(part)) {
        add(1, "file name", format!("'{part}' says nothing; name the file for its duty"));
    }
    if !text.trim_start().starts_with("//!") {
        add(1, "head", "begin the file with //! and its duty in one sentence".to_owned());
    }
    for (line, content) in (1..).zip(text.lines()) {
        let columns = content.chars().count();
        if columns > COLUMNS_MAX {
            add(
                line,
                "width",
                format!("{columns} columns; at most {COLUMNS_MAX} are allowed; wrap the line"),
            );
        }
    }
    let code = code_of(text);
    let lines = code_lines(file, &code);
    if lines > CODE_LINES_MAX {
        add(
            1,
            "file length",
            format!("{lines} code lines, {CODE_LINES_MAX} are allowed; split it"),
        );
    }
    for function in functions(&code).iter().filter(|f| f.code_lines > FUNCTION_LINES_MAX) {
        let (name, lines) = (function.name, function.code_lines);
        let remedy = format!("{name} has {lines} code lines, {FUNCTION_LINES_MAX} are allowed");
        add(function.line, "function length", remedy);
    }
    if !UNSAFE_HERE.iter().any(|start| file.starts_with(start)) {
        for (_, line) in words(&code, "unsafe") {
            add(line, "unsafe", format!("unsafe code stands in {} only", UNSAFE_HERE.join("*, ")));
        }
    }
    for (at, _) in code.match_indices("error::Error for ").filter(|_| file.contains("/src/")) {
        let name = code[at..].split_whitespace().nth(2).unwrap_or_default();
        if !code.contains(&format!("Debug for {name} ")) {
            let line = 1 + code[..at].matches('\n').count();
            add(
                line,
                "error",
                format!("write Debug for {name} as its Display: `main` prints it so"),
            );
        }
    }
    // A crate without code does not need the attribute `#![forbid(unsafe_code)]`.
    if UNSAFE_FORBIDDEN.contains(&file) && lines > 1 && !code.contains(FORBID) {
        add(1, "unsafe", format!("add {FORBID}"));
    }
}

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Returns the number of code lines of a file, excluding tests.
fn code_lines(file: &str, code: &str) -> usize {
    if file.ends_with("/tests.rs") || file.contains("/tests/") {
        return 0;
    }
    let product = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or(code);
    product.lines().filter(|line| !line.trim().is_empty()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the rules that a file violates, with the lines.
    fn broken(file: &str, text: &str) -> Vec<(&'static str, usize)> {
        let mut violations = Vec::new();
        check(file, text, &mut violations);
        violations.iter().map(|violation| (violation.rule, violation.line)).collect()
    }

    const FILE: &str = "crates/codec/src/frame.rs";

    #[test]
    fn a_tidy_file_passes() {
        let text =
            "//! Duty.\n\n/// Doc with unsafe and fn.\npub fn a() {\n    b(\"unsafe {\")\n}\n";
        assert_eq!(broken(FILE, text), []);
        assert_eq!(broken("docs/a.md", "no head, and a very long line. ".repeat(9).as_str()), []);
    }

    #[test]
    fn names_heads_and_widths() {
        assert_eq!(broken("crates/codec/src/util.rs", "//! D.\n"), [("file name", 1)]);
        assert_eq!(broken("crates/common/src/lib.rs", "//! D.\n"), [("file name", 1)]);
        assert_eq!(broken(FILE, "fn a() {}\n"), [("head", 1)]);
        let wide = format!("//! D.\n// {}\n", "ä".repeat(97));
        assert_eq!(broken(FILE, &wide), []);
        assert_eq!(broken(FILE, &format!("{wide}// {}\n", "x".repeat(98))), [("width", 3)]);
    }

    #[test]
    fn lengths() {
        let function =
            |lines: usize| format!("//! D.\nfn a() {{\n{}}}\n", "    b();\n".repeat(lines));
        assert_eq!(broken(FILE, &function(68)), []);
        assert_eq!(broken(FILE, &function(69)), [("function length", 2)]);
        let file =
            |lines: usize| format!("//! D.\n{}", "const A: u8 = 1;\n\n// why\n".repeat(lines));
        assert_eq!(broken(FILE, &file(800)), []);
        assert_eq!(broken(FILE, &file(801)), [("file length", 1)]);
        assert_eq!(broken("crates/codec/src/frame/tests.rs", &file(801)), []);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "use a;\n".repeat(801));
        assert_eq!(broken(FILE, &format!("//! D.\n{tests}")), []);
    }

    #[test]
    fn unsafe_code_and_promises() {
        let text = "//! D.\n\npub fn a() {\n    unsafe { b() }\n}\n";
        assert_eq!(broken(FILE, text), [("unsafe", 4)]);
        assert_eq!(broken("crates/codec/src/scan/avx2.rs", text), []);
        assert_eq!(broken("crates/testkit/src/alloc.rs", text), []);
        let lib = "crates/session/src/lib.rs";
        assert_eq!(broken(lib, "//! D.\n"), []);
        assert_eq!(broken(lib, "//! D.\nmod a;\nmod b;\n"), [("unsafe", 1)]);
        assert_eq!(broken(lib, "//! D.\n// #![forbid(unsafe_code)]\nmod a;\nmod b;\n").len(), 1);
        assert_eq!(broken(lib, "//! D.\n#![forbid(unsafe_code)]\nmod a;\nmod b;\n"), []);
    }

    #[test]
    fn errors_show_their_text_by_debug() {
        let error = "//! D.\nimpl std::error::Error for E {}\n";
        assert_eq!(broken(FILE, error), [("error", 2)]);
        assert_eq!(broken(FILE, &format!("{error}impl fmt::Debug for E {{}}\n")), []);
    }

    #[test]
    fn paths_of_one_machine() {
        let path = concat!("see /wo", "rk/x");
        assert_eq!(broken("README.md", &format!("a\n{path}\n")), [("forbidden word", 2)]);
        assert_eq!(broken(FILE, &format!("//! D.\n// {path}\n")), [("forbidden word", 2)]);
    }

    #[test]
    fn a_violation_says_where_and_what() {
        let mut violations = Vec::new();
        check("crates/codec/src/misc.rs", "//! D.\n", &mut violations);
        let shown = violations[0].to_string();
        assert!(shown.starts_with("crates/codec/src/misc.rs:1: file name: 'misc'"), "{shown}");
    }
}
