//! `cargo xtask docs`: writes the pages that are made from tables of the code, and figures.

use std::process::Command;

use crate::{Outcome, root};

/// The tests that hold a page against its table; with the variable set they write it first.
const PAGES: &[(&str, [&str; 2], &str)] = &[
    ("transfix-codec", ["all", "reasons"], "docs/validation.md"),
    ("transfix-session", ["all", "cases"], "book/src/states.md, resets.md"),
    ("xtask", ["face", ""], "book/src/codes.md, crates/engine/public.txt"),
    ("xtask", ["tidy", ""], "xtask/prose.txt"),
    (
        "transfix",
        ["all", "settings_page"],
        "book/src/settings.md, what-happened.md, docs/settings-shown.md",
    ),
    ("transfix", ["all", "switches::may_send"], "book/src/offline.md"),
];

/// Writes all pages.
///
/// # Errors
/// If a page's test fails, or cargo does not start.
pub fn run() -> Outcome {
    let mut written = Vec::new();
    for (package, [program, test], page) in PAGES {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let status = Command::new(cargo)
            .args(["test", "--quiet", "--package", package, "--test", program, test])
            .env("TRANSFIX_WRITE_DOCS", "1")
            .current_dir(root())
            .status()
            .map_err(|error| format!("cargo: {error}"))?;
        if !status.success() {
            return Err(format!("{page}: its test in {package} fails"));
        }
        written.push(*page);
    }
    let figures = crate::figures::write()?;
    Ok(format!("written: {}\n{figures}", written.join(", ")))
}
