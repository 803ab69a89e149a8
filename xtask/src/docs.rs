//! `cargo xtask docs`: writes the pages that are generated from tables of the code and from
//! records.

use std::process::Command;

use crate::{Outcome, root};

/// The tests that compare a page with its table. If the variable is set, a test writes the page
/// first.
const PAGES: &[(&str, [&str; 2], &str)] = &[
    ("transfix-codec", ["all", "reasons"], "docs/validation.md"),
    ("transfix-session", ["all", "cases"], "book/src/states.md, resets.md"),
    ("xtask", ["face", ""], "book/src/codes.md, crates/engine/public.txt"),
    ("transfix", ["all", "settings_page"], "book/src/settings.md, what-happened.md"),
    ("transfix", ["all", "switches::may_send"], "book/src/offline.md"),
];

/// Counts the hard sentences of all pages. This step comes last.
const PROSE: (&str, [&str; 2], &str) = ("xtask", ["tidy", ""], "xtask/prose.txt");

/// Writes all pages.
///
/// # Errors
/// If a page's test fails, or cargo does not start.
pub fn run() -> Outcome {
    let mut written = Vec::new();
    for page in PAGES {
        written.push(write(page)?);
    }
    let figures = crate::figures::write()?;
    written.push(write(&PROSE)?);
    Ok(format!("written: {}\n{figures}", written.join(", ")))
}

/// Runs the test of a page so that the test writes the page.
fn write(
    (package, [program, test], page): &(&str, [&str; 2], &'static str),
) -> Result<&'static str, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["test", "--quiet", "--package", package, "--test", program, test])
        .env("TRANSFIX_WRITE_DOCS", "1")
        .current_dir(root())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(page) } else { Err(format!("{page}: its test in {package} fails")) }
}
