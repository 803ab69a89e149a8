//! `cargo xtask docs`: writes the pages and parts of pages that are generated from code tables and
//! from benchmark records.

use std::process::Command;

use crate::{Outcome, root};

/// The generated pages, each with the test that compares the page with its table. If
/// `TRANSFIX_WRITE_DOCS` is set, the test writes the page first.
const PAGES: &[(&str, [&str; 2], &str)] = &[
    ("transfix-codec", ["all", "reasons"], "docs/validation.md"),
    ("transfix-session", ["all", "cases"], "book/src/states.md, resets.md"),
    ("xtask", ["face", ""], "book/src/codes.md, crates/engine/public.txt"),
    ("transfix", ["all", "settings_page"], "book/src/settings.md, what-happened.md"),
    ("transfix", ["all", "switches::may_send"], "book/src/offline.md"),
];

/// The list of sentences that are hard to read. It is written last, because it covers all pages.
const PROSE: (&str, [&str; 2], &str) = ("xtask", ["tidy", ""], "xtask/prose.txt");

/// Writes all generated pages.
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

/// Writes a page by running the page's test in write mode.
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
